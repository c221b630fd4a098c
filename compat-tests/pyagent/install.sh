#!/bin/sh
# Installs the pinned requirements of one Python client into a virtual environment; quick when that is up to date.
# Called by the client's own install.sh with that script's path, the client's name and, where a folder has several, the
# name of the requirements file.
set -eu
here=$(cd "$(dirname "$1")" && pwd)
client=$2
requirements=$here/${3:-requirements.txt}
root=$(cd "$here/../../.." && pwd)
home=$root/.cache/compat/$client

fail() {
  echo "$client: $*" >&2
  exit 1
}

# What was installed is named by what it was made from; the interpreter counts, as a new one leaves the old folder dead.
want=$(cat "$0" "$requirements" | sha256sum | cut -d' ' -f1)
[ -f "$home/installed" ] && [ "$(cat "$home/installed")" = "$want" ] && [ -x "$home/venv/bin/python" ] && exit 0

command -v python3 >/dev/null || fail "it needs python3, version 3.9 or newer."
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || fail "it needs python3, version 3.9 or newer; this one is older."
mkdir -p "$home"
rm -rf "$home/installed" "$home/venv"
python3 -m venv "$home/venv" >"$home/install.log" 2>&1 ||
  fail "python3 cannot make a virtual environment (is its venv module installed?); the log is $home/install.log."
"$home/venv/bin/python" -m pip install --disable-pip-version-check --no-input --only-binary :all: -r "$requirements" >"$home/install.log" 2>&1 ||
  fail "pip could not install what ${requirements##*/} names; its log is $home/install.log."
echo "$want" >"$home/installed"
