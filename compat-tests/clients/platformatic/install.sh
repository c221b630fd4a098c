#!/bin/sh
# Installs @platformatic/kafka, and the Node.js that it wants, into .cache/compat/platformatic; quick when that is up to date.
exec sh "$(dirname "$0")/../../nodeagent/install.sh" "$0" platformatic '
  if (!require("@platformatic/kafka").compressionsAlgorithms.zstd.available) throw new Error("this Node.js has no zstd")'
