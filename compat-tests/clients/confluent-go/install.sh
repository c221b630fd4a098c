#!/bin/sh
# Builds the confluent-kafka-go agent into .cache/compat/confluent-go. The client is cgo around the librdkafka that its
# module brings along.
export CGO_ENABLED=1
exec sh "$(dirname "$0")/../../agent/install.sh" "$0" confluent-go
