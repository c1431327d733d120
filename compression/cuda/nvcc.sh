#!/bin/sh
# Runs nvcc, and keeps in a file what ptxas says of each kernel: registers, stack, spills, shared memory.
#
# usage: nvcc.sh REPORT NVCC ARGUMENT...
# SPDX-License-Identifier: Apache-2.0
report=$1
shift
if "$@" -Xptxas -v 2> "$report"; then
  grep -v '^ptxas info\|^    [0-9]* bytes stack frame' "$report" >&2
  exit 0
fi
status=$?
cat "$report" >&2
exit $status
