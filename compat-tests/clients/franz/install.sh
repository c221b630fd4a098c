#!/bin/sh
# Builds the franz-go agent into .cache/compat/franz. Go's own build cache makes a second run quick, and it must run each
# time: the agent is source of this repository.
set -eu
cd "$(dirname "$0")/../../.."
mkdir -p .cache/compat/franz
go build -o .cache/compat/franz/agent ./compat-tests/clients/franz || {
	echo "the franz-go agent could not be built" >&2
	exit 1
}
