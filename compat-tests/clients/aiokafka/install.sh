#!/bin/sh
# Installs aiokafka into .cache/compat/aiokafka; quick when that is up to date.
exec sh "$(dirname "$0")/../../pyagent/install.sh" "$0" aiokafka
