#!/bin/sh
# Installs @confluentinc/kafka-javascript into .cache/compat/confluent-javascript; quick when that is up to date.
# Else its build downloads the sources of the libraries that it links.
export CKJS_LINKING=dynamic
exec sh "$(dirname "$0")/../../nodeagent/install.sh" "$0" confluent-javascript 'require("@confluentinc/kafka-javascript")' \
  libssl-dev libzstd-dev zlib1g-dev libcurl4-openssl-dev libsasl2-dev
