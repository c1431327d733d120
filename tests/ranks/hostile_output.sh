#!/usr/bin/env bash
# banyan_perf whose stdout is closed, and one of two ranks whose file cannot be written.
#
# usage: hostile_output.sh BANYAN_PERF
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wrong() { cat "$folder"/*; echo "$1"; exit 1; }

"$1" allreduce -n 2 -m 4 -i 2 -x 0 --csv "$folder/csv" 2> "$folder/said" >&-
[ $? = 1 ] || wrong "stdout is closed, and the exit status is not 1"
grep -q 'cannot write to stdout' "$folder/said" || wrong "it says not why"
! grep -q '^#' "$folder/csv" 2> /dev/null || wrong "the table is in the CSV file"

# The other one ends with it, long before the time limit.
export BANYAN_SIZE=2 BANYAN_ADDRESS=127.0.0.1:$((20000 + $$ % 10000)) BANYAN_INIT_TIMEOUT=50s
BANYAN_RANK=0 timeout 30 "$1" allreduce -m 4 -i 2 -x 0 --csv "$folder/none/csv" > "$folder/first" 2>&1 &
BANYAN_RANK=1 timeout 30 "$1" allreduce -m 4 -i 2 -x 0 > "$folder/second" 2>&1
second=$?
wait $!
[ $? = 1 ] && [ $second = 1 ] || wrong "the exit statuses are not 1"
grep -q 'none/csv' "$folder/first" || wrong "the first does not name the file"
