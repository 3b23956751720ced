#!/usr/bin/env bash
# Runs the fuzz targets of one package: fuzz.sh FOLDER TIME [FLAG]. The package is compiled once, with
# the flag. With -fuzz=. the inputs are guided by coverage, which instruments all that it imports.
# Says a line for each target, and everything when one fails.
set -euo pipefail
folder=$1 time=$2
program=$(mktemp -d)
trap 'rm -rf "$program"' EXIT
go test -c ${3:-} -o "$program/test" "./$folder"
cd "$folder"
for target in $(grep -ohE '^func Fuzz[A-Za-z0-9_]+' ./*_test.go | cut -d ' ' -f 2); do
	if out=$("$program/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzcachedir "$program/cache" -test.parallel 1 2>&1); then
		echo "ok $folder $target"
		continue
	fi
	# The end of the time may fall into an execution, which is then reported as failed
	# (go.dev/issue/75804); a finding has its input written to a file.
	if grep -q '^    context deadline exceeded$' <<< "$out" && ! grep -q 'Failing input written' <<< "$out"; then
		echo "ok $folder $target, as long as it could"
		continue
	fi
	printf '%s\n' "$out" >&2
	exit 1
done
