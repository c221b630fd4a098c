#!/bin/sh
# Installs what one Node.js client's package-lock.json pins; quick when that is up to date.
# Called by the client's own install.sh with that script's path, the client's name, JavaScript that loads what was
# installed, and the Debian packages whose headers the client's addon is built with, if it has one.
set -eu
here=$(cd "$(dirname "$1")" && pwd)
client=$2
probe=$3
shift 3
root=$(cd "$here/../../.." && pwd)
home=$root/.cache/compat/$client

fail() {
  echo "$client: $*" >&2
  exit 1
}

command -v node >/dev/null || fail "it needs Node.js, version 18 or newer."
command -v npm >/dev/null || fail "it needs npm."
node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || fail "it needs Node.js, version 18 or newer; this one is older."

# What was installed is named by what it was made from, and by the interpreter that addons were built for.
want=$({ cat "$0" "$here/install.sh" "$here/package.json" "$here/package-lock.json"; node -v; } | sha256sum | cut -d' ' -f1)
[ -f "$home/installed" ] && [ "$(cat "$home/installed")" = "$want" ] && exit 0

mkdir -p "$home"
# Where Debian's packages are the headers come with them; elsewhere the build itself says what it does not find.
if [ $# -gt 0 ] && command -v dpkg >/dev/null; then
  missing=""
  for package in "$@"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
  done
  if [ -n "$missing" ]; then
    [ "$(id -u)" = 0 ] || fail "its addon is built with packages that only root can have installed: apt-get install$missing"
    apt-get install -y --no-install-recommends $missing >"$home/install.log" 2>&1 ||
      { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$home/install.log" 2>&1 ||
      fail "apt-get could not install$missing; its log is $home/install.log."
  fi
fi

# Headers beside the interpreter spare the build of an addon a download.
headers=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")
[ -f "$headers/include/node/node_version.h" ] && export npm_config_nodedir="$headers"

rm -rf "$home/installed" "$home/node_modules"
cp "$here/package.json" "$here/package-lock.json" "$home/"
(cd "$home" && nice -n 10 npm ci --no-audit --no-fund) >"$home/install.log" 2>&1 ||
  fail "npm could not install what package-lock.json names (an addon also needs g++, make and Python); its log is $home/install.log."
# A built addon needs neither objects and archives nor librdkafka's sources and examples: hundreds of megabytes.
find "$home/node_modules" -type d -path '*/deps/librdkafka' ! -path '*/build/*' -prune -exec rm -rf {} +
find "$home/node_modules" -type f \( -name '*.o' -o -name '*.a' \) -delete
# A client that wants a newer interpreter than the machine may have pins one as a package.
rm -f "$home/node"
for brought in "$home"/node_modules/node-*/bin/node; do
  [ ! -x "$brought" ] || ln -s "${brought#"$home"/}" "$home/node"
done
node=node
[ ! -x "$home/node" ] || node=$home/node
(cd "$home" && "$node" -e "$probe") >>"$home/install.log" 2>&1 ||
  fail "its packages were installed but do not load; the log is $home/install.log."
echo "$want" >"$home/installed"
