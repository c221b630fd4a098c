#!/usr/bin/env bash
# Installs kafka-python into .cache/compat/kafka-python; quick when that is up to date.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../../pyagent/install.sh" "${BASH_SOURCE[0]}" kafka-python
