#!/bin/sh
# Builds the rdkafka agent into .cache/compat/rdkafka.
exec sh "$(dirname "$0")/../../rustagent/install.sh" "$0" rdkafka
