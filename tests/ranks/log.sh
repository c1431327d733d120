#!/usr/bin/env bash
# The log of a benchmark has the calls that are measured, and none of its own.
#
# usage: log.sh BANYAN_PERF
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
log=$folder/0.log
fail() { cat "$log"; echo "$1"; exit 1; }

# Validated before and after: 2 + 1 + 3 calls of each size.
BANYAN_DEBUG=trace BANYAN_DEBUG_FILE=$folder/%r.log "$1" allreduce -n 3 -m 64:128 -i 3 -x 1 -c
[ "$(grep -c ' begins: allreduce of 16 float32 sum, by ' "$log")" = 6 ] || fail 'those are not 6 calls of 64 bytes'
[ "$(grep -c ' begins: allreduce of 32 float32 sum, by ' "$log")" = 6 ] || fail 'those are not 6 calls of 128 bytes'
[ "$(grep -c ' begins: ' "$log")" = 13 ] || fail 'other calls than those and finalize are there'
[ "$(grep -c ' info plan: ' "$log")" = 3 ] || fail 'other plans than those and that of finalize are there'

# What is measured is there, also where it is what the benchmark calls itself.
BANYAN_DEBUG=plan=info BANYAN_DEBUG_FILE=$folder/%r.log "$1" barrier -n 3 -i 2 -x 0
[ "$(grep -c ' info plan: barrier ' "$log")" = 1 ] || fail 'the barrier that is measured is not there'
