#!/bin/sh
# Installs an agent for each version of Apache Kafka's own client; quick when they are up to date.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# VERSION ERA: the era's folder has the calls as they are since then.
while read -r version era; do
  sh "$here/variant.sh" "$version" "$here/pom.xml" "$version" "$here/src/skeleton" "$here/src/kafka-clients" "$here/src/since-$era"
done <<END
4.4.0 4.0
3.9.2 2.5
2.8.2 2.5
2.0.1 2.0
1.0.2 0.11
0.11.0.3 0.11
END
