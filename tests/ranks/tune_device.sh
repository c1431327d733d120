#!/usr/bin/env bash
# banyan_tune -d cuda tries NCCL inside hosts where that can be had, says so where it cannot, and writes a file that serves.
#
# usage: tune_device.sh BANYAN_TUNE BANYAN_PERF NCCL
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
tune=$1 perf=$2 nccl=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "tune_device.sh: $*" >&2
  exit 1
}
measure() { "$tune" -n 2 --budget "$1" -d cuda --collectives allreduce -o "$folder/tune.json" > "$folder/out" 2> "$folder/log"; }

by_nccl() { grep -q 'NCCL moves what ranks of this host give each other' "$folder/log"; }

# A machine that is busy comes less far in the same time.
for budget in 5s 15s 45s; do
  BANYAN_DEBUG=info BANYAN_NCCL_LIBRARY=$nccl measure "$budget" || fail "status $?: $(cat "$folder/log")"
  if by_nccl; then break; fi
done
by_nccl || fail "no call went by NCCL: $(cat "$folder/out")"
! grep -q 'did not go by it' "$folder/out" || fail "it says otherwise: $(cat "$folder/out")"
BANYAN_TUNE_FILE=$folder/tune.json "$perf" allreduce -n 2 -d cuda -m 4:64K -i 5 -x 1 -c > /dev/null || fail 'the file does not serve'

BANYAN_NCCL_LIBRARY=/nonexistent measure 9s || fail "status $?: $(cat "$folder/log")"
grep -q 'ask for NCCL did not go by it' "$folder/out" || fail "nothing is said of NCCL: $(cat "$folder/out")"
! grep -q nccl "$folder/tune.json" || fail "a rule names it: $(cat "$folder/tune.json")"
