#!/bin/sh
# Installs what every client of the compatibility suite needs, under .cache/compat at the repository's root. With names
# (install.sh franz kcat) only those. A second run has nothing to do.
set -eu
cd "$(dirname "$0")"
if [ $# -eq 0 ]; then
	set -- $(for f in clients/*/install.sh; do basename "$(dirname "$f")"; done)
fi
failed=""
for name in "$@"; do
	if [ ! -f "clients/$name/install.sh" ]; then
		echo "there is no client $name (no clients/$name/install.sh)" >&2
		exit 1
	fi
	sh "clients/$name/install.sh" || failed="$failed $name"
done
if [ -n "$failed" ]; then
	echo "these clients could not be installed:$failed" >&2
	exit 1
fi
