#!/bin/sh
# Installs confluent-kafka into .cache/compat/confluent; quick when that is up to date.
exec sh "$(dirname "$0")/../../pyagent/install.sh" "$0" confluent
