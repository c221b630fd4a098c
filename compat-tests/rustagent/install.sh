#!/bin/sh
# Builds one agent in Rust into .cache/compat/<name>. Called by the client's own install.sh with that script's path and the
# client's name. Cargo's target folder, which the Rust agents share, makes a second run quick, and it must run each time:
# the agent is source of this repository. Versions are those of the client's Cargo.lock.
set -eu
here=$(cd "$(dirname "$1")" && pwd)
client=$2
root=$(cd "$here/../../.." && pwd)
home=$root/.cache/compat/$client

mkdir -p "$home"
cd "$here"
export CARGO_TARGET_DIR="$root/.cache/compat/rust/target"
[ -f "$home/agent" ] || echo "building the $client agent; the first time takes some minutes"
cargo build --locked --release >"$home/install.log" 2>&1 || {
	echo "the $client agent could not be built; cargo's log is $home/install.log" >&2
	exit 1
}
cp "$CARGO_TARGET_DIR/release/$client-agent" "$home/agent.new"
mv "$home/agent.new" "$home/agent"
