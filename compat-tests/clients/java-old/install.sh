#!/bin/sh
# Installs agents for the versions of Apache Kafka's own client that know message sets only; quick when they are up to date.
# They share the skeleton beside them, but for what has to do with headers, which records did not have then.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
java=$here/../java
skeleton=$java/src/skeleton/millrace/compat
shared=""
for class in Acknowledged Agent Answers GroupMember Library MemberThread Steps; do
  shared="$shared $skeleton/$class.java"
done
member=$java/src/kafka-clients/millrace/compat/KafkaMember.java

# shellcheck disable=SC2086 # file names of this repository have no blanks
{
  sh "$java/variant.sh" 0.10.2.2 "$java/pom.xml" 0.10.2.2 $shared $member "$here/src/old" "$here/src/consumer" "$here/src/since-0.10"
  sh "$java/variant.sh" 0.9.0.1 "$java/pom.xml" 0.9.0.1 $shared $member "$here/src/old" "$here/src/consumer" "$here/src/since-0.9"
  sh "$java/variant.sh" 0.8.2.2 "$here/pom.xml" - $shared "$here/src/old" "$here/src/since-0.8"
}
