#!/bin/sh
# Installs this agent beside those of Apache Kafka's own client, whose skeleton it shares; quick when it is up to date.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec sh "$here/../java/variant.sh" reactor "$here/pom.xml" - "$here/../java/src/skeleton" "$here/src"
