#!/bin/sh
# run.sh NAME ARGS...: runs one agent of the Java world, as variant.sh has installed it; see ../../PROTOCOL.md.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
home=$root/.cache/compat/java/$1
if [ ! -f "$home/installed" ]; then
  echo "the Java client $1 is not installed: run compat-tests/install.sh" >&2
  exit 1
fi
shift
# The first compiler only: most of an agent's life is its start.
exec java -Xms64m -Xmx768m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto \
  -Dorg.slf4j.simpleLogger.logFile=System.err -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
  -cp "$home/classes:$home/libs/*" millrace.compat.Main "$@"
