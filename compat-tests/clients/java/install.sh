#!/bin/sh
# Installs the Java client and compiles its agent into .cache/compat/java; quick when that is up to date.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
home=$root/.cache/compat/java

fail() {
  echo "java client: $*" >&2
  exit 1
}

# What was installed is named by the contents of everything it was made from.
want=$(cat "$here/install.sh" "$here/pom.xml" "$here"/src/millrace/compat/*.java | sha256sum | cut -d' ' -f1)
[ -f "$home/installed" ] && [ "$(cat "$home/installed")" = "$want" ] && exit 0

command -v javac >/dev/null || fail "it needs a JDK (javac), version 17 or newer."
command -v mvn >/dev/null || fail "it needs Maven (mvn)."

mkdir -p "$home"
rm -rf "$home/installed" "$home/libs" "$home/classes"
mkdir "$home/classes"
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$home/libs" >"$home/install.log" 2>&1 ||
  fail "Maven could not fetch the jars named in pom.xml; its log is $home/install.log."
javac --release 17 -Xlint:all,-processing -Werror -d "$home/classes" -cp "$home/libs/*" "$here"/src/millrace/compat/*.java >"$home/install.log" 2>&1 ||
  fail "the agent does not compile (a JDK 17 or newer is needed); javac's log is $home/install.log."
echo "$want" >"$home/installed"
