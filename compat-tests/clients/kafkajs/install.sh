#!/bin/sh
# Installs kafkajs and its codecs into .cache/compat/kafkajs; quick when that is up to date.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
home=$root/.cache/compat/kafkajs

fail() {
  echo "kafkajs: $*" >&2
  exit 1
}

command -v node >/dev/null || fail "it needs Node.js, version 18 or newer."
command -v npm >/dev/null || fail "it needs npm."
node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || fail "it needs Node.js, version 18 or newer; this one is older."

# What was installed is named by what it was made from, and by the interpreter that the lz4 addon was built for.
want=$({ cat "$here/install.sh" "$here/package.json" "$here/package-lock.json"; node -v; } | sha256sum | cut -d' ' -f1)
[ -f "$home/installed" ] && [ "$(cat "$home/installed")" = "$want" ] && exit 0

# The lz4 codec is an addon in C++. Headers beside the interpreter spare its build a download.
headers=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")
[ -f "$headers/include/node/node_version.h" ] && export npm_config_nodedir=$headers

mkdir -p "$home"
rm -rf "$home/installed" "$home/node_modules"
cp "$here/package.json" "$here/package-lock.json" "$home/"
(cd "$home" && npm ci --no-audit --no-fund) >"$home/install.log" 2>&1 ||
  fail "npm could not install what package-lock.json names (the lz4 codec also needs g++, make and Python); its log is $home/install.log."
NODE_PATH=$home/node_modules node -e 'require("kafkajs"); require("kafkajs-lz4"); require("kafkajs-snappy"); require("@mongodb-js/zstd")' >>"$home/install.log" 2>&1 ||
  fail "the codecs were installed but do not load; the log is $home/install.log."
echo "$want" >"$home/installed"
