#!/bin/sh
# Builds the Sarama agent into .cache/compat/sarama.
exec sh "$(dirname "$0")/../../agent/install.sh" "$0" sarama
