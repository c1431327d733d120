#!/usr/bin/env bash
# banyan_perf whose reader goes away: one line says so, and the exit status is 1.
#
# usage: closed_reader.sh BANYAN_PERF
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

said=$(mktemp)
trap 'rm -f "$said"' EXIT
exec 3> >(exit 0)
wait $!  # from here on the pipe has no reader
"$1" allreduce -n 2 -m 4:64K -i 2 -x 0 2> "$said" >&3
status=$?
cat "$said"
[ "$status" = 1 ] || { echo "the exit status is $status instead of 1"; exit 1; }
[ "$(wc -l < "$said")" = 1 ] || { echo "that is not one line"; exit 1; }
grep -q '^banyan_perf: .*cannot write to stdout: Broken pipe$' "$said" || { echo "that says not why"; exit 1; }
