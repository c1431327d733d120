#!/usr/bin/env bash
# A program whose reader goes away. One whose table is lost says so in a line, and the exit status is 1. With --silent, of
# one that people read as far as they like: it says nothing, and the exit status is 0.
#
# usage: closed_reader.sh [--silent] PROGRAM [ARGUMENT...]
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

right=1
[ "$1" != --silent ] || { right=0; shift; }
said=$(mktemp)
trap 'rm -f "$said"' EXIT
exec 3> >(exit 0)
wait $!  # from here on the pipe has no reader
"$@" 2> "$said" >&3
status=$?
cat "$said"
[ "$status" = "$right" ] || { echo "the exit status is $status instead of $right"; exit 1; }
[ "$(wc -l < "$said")" = "$right" ] || { echo "that is not $right lines"; exit 1; }
[ "$right" = 1 ] || exit 0
grep -q "^${1##*/}: .*cannot write to stdout: Broken pipe$" "$said" || { echo "that says not why"; exit 1; }
