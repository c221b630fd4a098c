#!/bin/sh
# Installs kafkajs and its codecs into .cache/compat/kafkajs; quick when that is up to date.
exec sh "$(dirname "$0")/../../nodeagent/install.sh" "$0" kafkajs '
  require("kafkajs"); require("kafkajs-lz4"); require("kafkajs-snappy"); require("@mongodb-js/zstd")'
