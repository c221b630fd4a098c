#!/bin/sh
# Runs the agent of confluent-kafka; see ../../PROTOCOL.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=$here/../../../.cache/compat/confluent
if [ ! -f "$home/installed" ]; then
  echo "confluent-kafka is not installed: run compat-tests/clients/confluent/install.sh" >&2
  exit 1
fi
exec "$home/venv/bin/python" -B "$here/agent.py" "$@"
