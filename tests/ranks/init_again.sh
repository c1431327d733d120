#!/usr/bin/env bash
# Three ranks under a launcher, the last one late: the others' second init says why it cannot be,
# and the launcher ends the job as one that failed, with no failure of its own.
#
# usage: init_again.sh openmpi|mpich PROGRAM      (init_again.c)
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail
export BANYAN_INIT_TIMEOUT=2s
said=$(bash "$(dirname "$0")/launch.sh" "$1" 3 "$2" 10 2>&1)
status=$?
[ $status = 77 ] && { echo "$said"; exit 77; }
# Whoever is first to end takes the others along; the status is its own or theirs.
if [ $status = 0 ] || [ $status -ge 124 ] || ! grep -q 'rank [01]: at once' <<< "$said" || grep -qE 'rank . *: [0-9]|error|assert' <<< "$said"; then
  echo "exit status $status"
  echo "$said"
  exit 1
fi
