#!/bin/sh
# Runs the agent of aiokafka; see ../../PROTOCOL.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=$here/../../../.cache/compat/aiokafka
if [ ! -f "$home/installed" ]; then
  echo "aiokafka is not installed: run compat-tests/clients/aiokafka/install.sh" >&2
  exit 1
fi
exec "$home/venv/bin/python" -B "$here/agent.py" "$@"
