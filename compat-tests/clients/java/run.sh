#!/bin/sh
# Runs the agent of the Java client; see ../../PROTOCOL.md.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
home=$root/.cache/compat/java
if [ ! -f "$home/installed" ]; then
  echo "the Java client is not installed: run compat-tests/clients/java/install.sh" >&2
  exit 1
fi
exec java -Xms256m -Xmx768m -XX:+UseG1GC \
  -Dorg.slf4j.simpleLogger.logFile=System.err -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
  -cp "$home/classes:$home/libs/*" millrace.compat.Agent "$@"
