#!/usr/bin/env bash
# banyan_tune writes a file that serves, in time; ended early, it leaves none; where it cannot write, it says so at once.
#
# usage: tune.sh BANYAN_TUNE BANYAN_PERF
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
tune=$1 perf=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder" "$folder.out"' EXIT

fail() {
  echo "tune.sh: $*" >&2
  exit 1
}
alone() { [ "$(ls -A "$folder")" = "$1" ] || fail "in the folder: $(ls -A "$folder"), expected '$1'"; }

begin=$SECONDS
BANYAN_TUNE_FILE=/nonexistent BANYAN_ALGO=none "$tune" -n 3 --budget 3s --collectives allreduce,barrier -o "$folder/tune.json" > "$folder.out" ||
  fail "status $?"
((SECONDS - begin <= 9)) || fail "a budget of 3 s took $((SECONDS - begin))"
grep -q 'measured choices changed' "$folder.out" || fail "stdout: $(cat "$folder.out")"
rm "$folder.out"
alone tune.json
BANYAN_TUNE_FILE=$folder/tune.json "$perf" allreduce -n 3 -m 4:64K -i 5 -x 1 -c > /dev/null || fail 'the file does not serve'
BANYAN_DEBUG=error BANYAN_TUNE_FILE=$folder/tune.json "$perf" allreduce -n 2 -m 4 -i 5 -x 1 > /dev/null || fail 'of two ranks it does not serve'
rm "$folder/tune.json"

"$tune" -n 2 --budget 60s -o "$folder/tune.json" > /dev/null 2>&1 &
pid=$!
until [ -n "$(cat "/proc/$pid/task/$pid/children" 2> /dev/null)" ]; do
  kill -0 "$pid" 2> /dev/null || fail 'it ended by itself'
  sleep 0.05
done
begin=$SECONDS
kill -INT "$pid"
wait "$pid" && fail 'an interrupted run ended well'
((SECONDS - begin <= 3)) || fail "ended $((SECONDS - begin)) s after SIGINT"
alone ''

begin=$SECONDS
status=0
text=$("$tune" -n 2 --budget 60s -o "$folder/none/tune.json" 2>&1) || status=$?
[ "$status" = 1 ] || fail "status $status where it cannot write"
grep -q "$folder/none/tune.json" <<< "$text" || fail "what it cannot write is not named: $text"
((SECONDS - begin <= 2)) || fail 'that it cannot write was found late'
