#!/bin/sh
# Runs the agent of kafka-python; see ../../PROTOCOL.md. With `--old VERSION` before everything else, the one of a version
# before 3.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
name=kafka-python
agent=agent.py
if [ "${1:-}" = --old ]; then
  name=kafka-python-$2
  agent=old_agent.py
  shift 2
fi
home=$here/../../../.cache/compat/$name
if [ ! -f "$home/installed" ]; then
  echo "$name is not installed: run compat-tests/clients/kafka-python/install.sh" >&2
  exit 1
fi
exec "$home/venv/bin/python" -B "$here/$agent" "$@"
