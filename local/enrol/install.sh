#!/bin/sh
# Makes this computer a host of the Capstan plane at @URL@: installs capstan-agent @VERSION@ and enrolls with it.
# The script reads the credential from standard input, and passes its arguments to "capstan-agent enroll".
# The caller must verify the SHA-256 of this script before running it. Then the checksums below can be trusted.
url='@URL@'
hash='@HASH@'
amd64='@AMD64@'
arm64='@ARM64@'

fail() { echo "capstan: $*" >&2; exit 1; }

fetch() {
	# Don't verify the server's certificate: the checksum proves that the download is the right agent.
	if command -v curl >/dev/null 2>&1; then
		curl -fsSk --retry 5 --connect-timeout 20 --max-time 600 -o "$2" "$1" </dev/null
	else
		wget -q --no-check-certificate -T 60 -O "$2" "$1" </dev/null
	fi
}

main() {
	set -eu
	[ "$(id -u)" = 0 ] || fail "run this as root"
	case "$(uname -s)/$(uname -m)" in
	Linux/x86_64 | Linux/amd64) arch=amd64 sum=$amd64 ;;
	Linux/aarch64 | Linux/arm64) arch=arm64 sum=$arm64 ;;
	*) fail "hosts are Linux on amd64 or arm64, this is $(uname -s) on $(uname -m)" ;;
	esac
	[ -n "$sum" ] || fail "the plane has no agent for $arch: put capstan-agent-linux-$arch next to the plane's binaries"
	dir=/opt/capstan/bin
	(umask 022 && mkdir -p "$dir")
	if ! echo "$sum  $dir/capstan-agent" | sha256sum -c >/dev/null 2>&1; then
		echo "Fetching the agent for $arch" >&2
		new=$(mktemp "$dir/.capstan-agent.XXXXXX")
		trap 'rm -f "$new"' EXIT
		fetch "$url/v1/agent/linux/$arch" "$new" || fail "the agent could not be fetched from $url"
		echo "$sum  $new" | sha256sum -c >/dev/null 2>&1 || fail "what $url sent is not the agent: nothing was installed"
		chmod 0755 "$new"
		mv -f "$new" "$dir/capstan-agent"
		trap - EXIT
	fi
	exec "$dir/capstan-agent" enroll --server "$url" --ca-hash "$hash" --token-file - "$@"
}

main "$@"
