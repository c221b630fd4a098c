#!/bin/sh
# Runs the tutorials against a broker, each program a process as a newcomer would start it, and checks what came of them.
#
#     run.sh [HOST:PORT]
#
# Needs kafka-python (compat-tests/clients/kafka-python/install.sh). Ends with 0 if every tutorial read what it had sent.
set -eu
server=${1:-localhost:9092}
here=$(cd "$(dirname "$0")" && pwd)
python=$here/../../.cache/compat/kafka-python/venv/bin/python
if [ ! -x "$python" ]; then
  echo "kafka-python is not installed: run compat-tests/clients/kafka-python/install.sh" >&2
  exit 1
fi
work=$(mktemp -d)
members=""
trap 'kill $members 2>/dev/null || true; rm -rf "$work"' EXIT
tag=$(date +%s)-$$
program() {
  name=$1
  shift
  timeout 120 "$python" -B "$here/kafka-python/$name.py" "$server" "$@"
}
# Shows what a program said before the run ends for its sake.
failed() {
  echo "$1 failed:" >&2
  cat "$2" >&2
  exit 1
}

echo "one producer, one consumer; the topic comes into being when it is first used"
program produce "orders-$tag" 5000 >"$work/sent" 2>"$work/produce.log" || failed "the producer" "$work/produce.log"
program consume "orders-$tag" "billing-$tag" >"$work/read" 2>"$work/consume.log" || failed "the consumer" "$work/consume.log"
"$python" -B "$here/check.py" "$work/sent" "$work/read"

echo "two members of a group share a topic of four partitions"
program create_topic "shared-$tag" 4 >"$work/topic.log" 2>&1 || failed "creating the topic" "$work/topic.log"
for member in one two; do
  program consume "shared-$tag" "shipping-$tag" >"$work/read-$member" 2>"$work/$member.log" &
  members="$members $!"
done
# A member's last line about partitions says two when the group has settled.
waited=0
until tail -qn 1 "$work/one.log" "$work/two.log" | grep -c '^assigned [0-9] [0-9]$' | grep -qx 2; do
  waited=$((waited + 1))
  [ "$waited" -le 80 ] || failed "sharing the partitions" "$work/one.log"
  sleep 0.1
done
program produce "shared-$tag" 5000 >"$work/sent" 2>"$work/produce.log" || failed "the producer" "$work/produce.log"
for member in $members; do
  wait "$member" || failed "a member" "$work/one.log"
done
members=""
"$python" -B "$here/check.py" "$work/sent" "$work/read-one" "$work/read-two"
