#!/bin/sh
# Builds the kcat agent into .cache/compat/kcat and installs the kcat program from the distribution's packages if it is
# not there.
set -eu
cd "$(dirname "$0")/../../.."
if ! command -v kcat >/dev/null; then
	if ! { apt-get install -y -q kcat || { apt-get update -q && apt-get install -y -q kcat; }; } >/dev/null 2>&1; then
		echo "kcat is not installed and apt-get install kcat failed (root and a package mirror are needed)" >&2
		exit 1
	fi
fi
mkdir -p .cache/compat/kcat
go build -o .cache/compat/kcat/agent ./compat-tests/clients/kcat || {
	echo "the kcat agent could not be built" >&2
	exit 1
}
