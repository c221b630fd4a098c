#!/bin/sh
# Runs the agent of one Node.js client; see ../PROTOCOL.md. The first word is the client's name, the rest goes to the agent.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
client=$1
shift
home=$root/.cache/compat/$client
if [ ! -f "$home/installed" ]; then
  echo "$client is not installed: run compat-tests/clients/$client/install.sh" >&2
  exit 1
fi
# A client may bring a newer interpreter than the machine has.
node=node
[ ! -x "$home/node" ] || node=$home/node
NODE_PATH=$home/node_modules exec "$node" "$root/compat-tests/clients/$client/agent.js" "$@"
