#!/bin/sh
# Installs kafka-python in three versions below .cache/compat; quick when that is up to date.
set -eu
shared=$(dirname "$0")/../../pyagent/install.sh
sh "$shared" "$0" kafka-python
sh "$shared" "$0" kafka-python-2.0.2 requirements-2.0.2.txt
sh "$shared" "$0" kafka-python-1.4.7 requirements-1.4.7.txt
