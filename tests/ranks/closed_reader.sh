#!/usr/bin/env bash
# A program whose reader goes away: one line says so, and the exit status is 1.
#
# usage: closed_reader.sh PROGRAM [ARGUMENT...]
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

said=$(mktemp)
trap 'rm -f "$said"' EXIT
exec 3> >(exit 0)
wait $!  # from here on the pipe has no reader
"$@" 2> "$said" >&3
status=$?
cat "$said"
[ "$status" = 1 ] || { echo "the exit status is $status instead of 1"; exit 1; }
[ "$(wc -l < "$said")" = 1 ] || { echo "that is not one line"; exit 1; }
grep -q "^${1##*/}: .*cannot write to stdout: Broken pipe$" "$said" || { echo "that says not why"; exit 1; }
