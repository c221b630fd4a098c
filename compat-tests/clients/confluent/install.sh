#!/usr/bin/env bash
# Installs confluent-kafka into .cache/compat/confluent; quick when that is up to date.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../../pyagent/install.sh" "${BASH_SOURCE[0]}" confluent
