#!/bin/sh
# Builds the kafka-go agent into .cache/compat/kafka-go.
exec sh "$(dirname "$0")/../../agent/install.sh" "$0" kafka-go
