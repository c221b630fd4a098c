#!/bin/sh
# Runs the agent of kafkajs; see ../../PROTOCOL.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=$here/../../../.cache/compat/kafkajs
if [ ! -f "$home/installed" ]; then
  echo "kafkajs is not installed: run compat-tests/clients/kafkajs/install.sh" >&2
  exit 1
fi
NODE_PATH=$home/node_modules exec node "$here/agent.js" "$@"
