#!/bin/sh
# Installs what every client of the compatibility suite needs, under .cache/compat at the repository's root. With names
# (install.sh franz kcat) only those. A second run has nothing to do.
#
# What has to be on the machine already is looked at first, and everything that is missing is named before anything is
# installed; install.sh --check does no more than that. A client names its own needs in the file needs of its folder,
# one word of the list below a line.
set -eu
cd "$(dirname "$0")"
only_check=""
if [ "${1:-}" = --check ]; then
	only_check=yes
	shift
fi
# The comparison with Apache Kafka needs Java and Maven whoever the clients are.
needs=""
[ $# -gt 0 ] || needs="go cc java maven"
[ $# -gt 0 ] || set -- $(for f in clients/*/install.sh; do basename "$(dirname "$f")"; done)
for name in "$@"; do
	if [ ! -f "clients/$name/install.sh" ]; then
		echo "there is no client $name (no clients/$name/install.sh)" >&2
		exit 1
	fi
	[ ! -f "clients/$name/needs" ] || needs="$needs $(cat "clients/$name/needs")"
done

missing=0
miss() {
	echo "$*" >&2
	missing=$((missing + 1))
}
has() { command -v "$1" >/dev/null 2>&1; }

# at_least WANTED FOUND: compares the numbers of two versions, as far as the wanted one goes.
at_least() {
	[ "$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n | head -n 1)" = "$1" ]
}

check() {
	case $1 in
	go)
		want=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' ../go.mod)
		if ! has go; then
			miss "Go $want or newer is missing (go): it builds the broker and the agents in Go."
		elif found=$(go env GOVERSION 2>/dev/null | sed 's/^go//') && ! at_least "$want" "$found"; then
			miss "Go $want or newer is needed (go), this one is ${found:-older}."
		fi
		;;
	cc) has gcc || has cc || miss "A C compiler is missing (gcc): the race detector, librdkafka and addons of clients need it." ;;
	c++) has g++ || has c++ || miss "A C++ compiler is missing (g++): addons of the Node.js clients are built with it." ;;
	make) has make || miss "make is missing: librdkafka and addons of clients are built with it." ;;
	python)
		if ! has python3; then
			miss "Python 3.9 or newer is missing (python3): the Python clients and the tutorials need it."
		elif ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
			miss "Python 3.9 or newer is needed (python3), this one is older."
		elif ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
			miss "Python's venv module is missing (on Debian: apt-get install python3-venv): each Python client gets an environment of its own."
		fi
		;;
	node)
		if ! has node; then
			miss "Node.js 18 or newer is missing (node): the JavaScript clients need it."
		elif ! node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null; then
			miss "Node.js 18 or newer is needed (node), this one is older."
		fi
		has npm || miss "npm is missing: it installs the JavaScript clients."
		;;
	java)
		if ! has java || ! has javac; then
			miss "A JDK of version 17 or newer is missing (java, javac): the Java clients and Apache Kafka, which Millrace is compared with, need it."
		elif ! found=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p') || [ "${found:-0}" -lt 17 ]; then
			miss "A JDK of version 17 or newer is needed (javac), this one is ${found:-unknown}."
		fi
		;;
	maven) has mvn || miss "Maven is missing (mvn): it fetches the Java clients and Apache Kafka." ;;
	cargo)
		if ! has cargo; then
			miss "Rust 1.85 or newer is missing (cargo): it builds the agents in Rust."
		elif found=$(cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p') && ! at_least 1.85 "$found"; then
			miss "Rust 1.85 or newer is needed (cargo), this one is $found."
		fi
		;;
	kcat) has kcat || { has apt-get && [ "$(id -u)" = 0 ]; } || miss "kcat is missing, and only root can have it installed by apt-get." ;;
	*) miss "compat-tests/install.sh does not know what \"$1\" is, which a clients/*/needs names." ;;
	esac
}
for need in $(printf '%s\n' $needs | sort -u); do
	check "$need"
done
if [ $missing -gt 0 ]; then
	echo "Nothing was installed or tested." >&2
	exit 1
fi
if [ -n "$only_check" ]; then
	# Some tests skip where they may not mount; a skip shows only with go test -v.
	if [ "$(uname)" = Linux ] && ! unshare -m true 2>/dev/null; then
		echo "Note: there is no right to mount here. Tests with a full disk (adopt, bad-input) are skipped, and image-test fails: they take root." >&2
	fi
	exit 0
fi

failed=""
for name in "$@"; do
	sh "clients/$name/install.sh" || failed="$failed $name"
done
if [ -n "$failed" ]; then
	echo "these clients could not be installed:$failed" >&2
	exit 1
fi
