#!/bin/sh
# Runs the agent of kafka-python; see ../../PROTOCOL.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=$here/../../../.cache/compat/kafka-python
if [ ! -f "$home/installed" ]; then
  echo "kafka-python is not installed: run compat-tests/clients/kafka-python/install.sh" >&2
  exit 1
fi
exec "$home/venv/bin/python" -B "$here/agent.py" "$@"
