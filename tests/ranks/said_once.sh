#!/usr/bin/env bash
# A command line that is wrong, under a launcher: one rank says so, and the exit status is 2.
#
# usage: said_once.sh BANYAN_PERF BANYAN_TUNE BANYAN_INFO
# Exit status 77 where a launcher is not installed.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail
perf=$1 tune=$2 info=$3
bad=0

# TEXT COMMAND...: one line of stderr has the text.
once() {
  local text=$1 said status
  shift
  said=$("$@" 2>&1 > /dev/null)
  status=$?
  [ $status = 2 ] && [ "$(grep -cF -- "$text" <<< "$said")" = 1 ] ||
    { echo "$*: exit status $status, and not one line with '$text'"; echo "$said"; bad=1; }
}

for launcher in openmpi mpich; do
  launch=(bash "$(dirname "$0")/launch.sh" "$launcher" 3)
  "${launch[@]}" true || exit $?
  once --wrong "${launch[@]}" "$perf" allreduce --wrong
  once --wrong "${launch[@]}" "$tune" --wrong
  once --wrong "${launch[@]}" "$info" --wrong
  once 'valid:' "${launch[@]}" "$perf" allreduce -T float31
  size=OMPI_COMM_WORLD_SIZE=3
  [ "$launcher" = openmpi ] || size=PMI_SIZE=3
  once "$size" "${launch[@]}" "$perf" allreduce -n 2
  once "$size" "${launch[@]}" "$tune" -n 2
done
once BANYAN_SIZE=2 env BANYAN_RANK=0 BANYAN_SIZE=2 "$perf" allreduce -n 2
once WORLD_SIZE=2 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "$perf" allreduce -n 2
# One rank is no second job.
bash "$(dirname "$0")/launch.sh" openmpi 1 "$perf" allreduce -n 2 -m 4 -i 2 -x 0 > /dev/null ||
  { echo "ranks of one rank's own are refused"; bad=1; }
exit $bad
