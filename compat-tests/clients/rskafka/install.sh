#!/bin/sh
# Builds the rskafka agent into .cache/compat/rskafka.
exec sh "$(dirname "$0")/../../rustagent/install.sh" "$0" rskafka
