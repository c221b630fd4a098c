#!/bin/sh
# Installs node-rdkafka into .cache/compat/node-rdkafka; quick when that is up to date.
exec sh "$(dirname "$0")/../../nodeagent/install.sh" "$0" node-rdkafka 'require("node-rdkafka")' \
  libssl-dev libzstd-dev zlib1g-dev libcurl4-openssl-dev libsasl2-dev
