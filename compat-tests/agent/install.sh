#!/bin/sh
# Builds the agent of a Go client that has a module of its own, so that nothing of the client can get into the product's
# binaries. Called by the client's own install.sh with that script's path and the client's name. Go's build cache makes a
# second run quick, and it must run each time: the agent is source of this repository.
#
# The versions are those of the client's go.mod, but where the product's own go.mod asks for a newer one, that one counts:
# the build works on copies, so that a change there needs none here.
set -eu
here=$(cd "$(dirname "$1")" && pwd)
client=$2
root=$(cd "$here/../../.." && pwd)
home=$root/.cache/compat/$client

mkdir -p "$home"
cp "$here/go.mod" "$home/go.mod"
cp "$here/go.sum" "$home/go.sum"
cd "$here"
go build -mod=mod -modfile="$home/go.mod" -o "$home/agent" . >"$home/install.log" 2>&1 || {
	echo "the $client agent could not be built; the log is $home/install.log" >&2
	exit 1
}
