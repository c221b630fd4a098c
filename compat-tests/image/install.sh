#!/bin/sh
# Installs what the image's tests imitate an engine with, where apt-get is there; with the word build also what they build the
# image with.
set -eu
missing=""
pairs="busybox:busybox-static nft:nftables ip:iproute2 unshare:util-linux"
[ "${1-}" = build ] && pairs="$pairs buildah:buildah"
for pair in $pairs; do
	command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "the image's tests need these packages:$missing" >&2
	exit 1
fi
apt-get install -y -qq $missing >/dev/null 2>&1 || { apt-get update -qq >/dev/null && apt-get install -y -qq $missing >/dev/null; }
