#!/bin/sh
# variant.sh NAME POM VERSION SOURCES...: installs one agent of the Java world into .cache/compat/java/NAME: the jars that
# POM names (with kafka.version VERSION, or - for the one it pins), and the classes below the SOURCES folders. Quick when
# that is up to date.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
name=$1 pom=$2 version=$3
shift 3
home=$root/.cache/compat/java/$name

fail() {
  echo "java client $name: $*" >&2
  exit 1
}

# What was installed is named by the contents of everything it was made from.
sources=$(find "$@" -name '*.java' | LC_ALL=C sort)
# shellcheck disable=SC2086 # file names of this repository have no blanks
want=$(echo "$version" | cat - "$here/variant.sh" "$pom" $sources | sha256sum | cut -d' ' -f1)
[ -f "$home/installed" ] && [ "$(cat "$home/installed")" = "$want" ] && exit 0

command -v javac >/dev/null || fail "it needs a JDK (javac), version 17 or newer."
command -v mvn >/dev/null || fail "it needs Maven (mvn)."
if [ "$version" = - ]; then version=; else version=-Dkafka.version=$version; fi

mkdir -p "$home"
rm -rf "$home/installed" "$home/libs" "$home/classes"
mkdir "$home/classes"
# Maven writes nothing beside the pom, but what it does write goes by the pom's folder: give each agent its own.
cp "$pom" "$home/pom.xml"
# shellcheck disable=SC2086
mvn -q -B -f "$home/pom.xml" $version dependency:copy-dependencies -DoutputDirectory="$home/libs" >"$home/install.log" 2>&1 ||
  fail "Maven could not fetch the jars that $pom names; its log is $home/install.log."
# Annotations that the jars refer to but do not bring (classfile) are none of the agent's.
# shellcheck disable=SC2086
javac --release 17 -Xlint:all,-processing,-classfile -Werror -d "$home/classes" -cp "$home/libs/*" $sources >"$home/install.log" 2>&1 ||
  fail "the agent does not compile (a JDK 17 or newer is needed); javac's log is $home/install.log."
echo "$want" >"$home/installed"
