#!/bin/sh
# Installs kafka-python into .cache/compat/kafka-python; quick when that is up to date.
exec sh "$(dirname "$0")/../../pyagent/install.sh" "$0" kafka-python
