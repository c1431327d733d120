#!/usr/bin/env bash
# Launchers inside launchers and variables that are left over: all ranks in one job, or an error
# that names both. Never several jobs of one rank.
#
# usage: two_launchers.sh PROGRAM      (examples/allreduce.c)
# Exit status 77 where a launcher is not installed.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail
program=$1
for launcher in mpirun.openmpi mpiexec.mpich; do
  command -v "$launcher" > /dev/null || { echo "skipped: no $launcher; apt-get install openmpi-bin mpich"; exit 77; }
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 BANYAN_INIT_TIMEOUT=20s
open_mpi=(mpirun.openmpi --oversubscribe)
pod_of_one=(RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500)
pod_of_two=(RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500)
slurm=(SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NUM_NODES=1)
bad=0

# SIZE WHAT COMMAND...: so many ranks have the sum of so many.
joins() {
  local size=$1 what=$2 said
  shift 2
  said=$("$@" 2>&1) && [ "$(grep -c "^sum $size: ok" <<< "$said")" = "$size" ] ||
    { echo "$what: not one job of $size"; echo "$said"; bad=1; }
}

# 'A VARIABLE' 'ANOTHER ONE' WHAT COMMAND...: it fails, says both, and no rank has a sum.
refuses() {
  local one=$1 other=$2 what=$3 said
  shift 3
  if said=$("$@" 2>&1) || grep -q ': ok' <<< "$said" || ! grep -qF "$one" <<< "$said" || ! grep -qF "$other" <<< "$said"; then
    echo "$what: not an error of $one against $other"
    echo "$said"
    bad=1
  fi
}

# Two ranks as a torchrun of that group would start them, each task its own group.
agent=$(mktemp)
trap 'rm -f "$agent"' EXIT
cat > "$agent" << 'END'
#!/bin/sh
group=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
export WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=$group GROUP_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1
RANK=$((2 * group)) LOCAL_RANK=0 "$1" & first=$!
RANK=$((2 * group + 1)) LOCAL_RANK=1 "$1" && wait $first
END
chmod +x "$agent"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# Three tasks of a step, by their variables.
tasks() {
  local pids=() status=0
  for rank in 0 1 2; do
    env "${slurm[@]}" SLURM_PROCID=$rank "$@" & pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return $status
}

joins 4 'a pod of one, mpirun' env "${pod_of_one[@]}" "${open_mpi[@]}" -n 4 "$program"
joins 4 'a pod of one, mpiexec' env "${pod_of_one[@]}" mpiexec.mpich -n 4 "$program"
joins 3 'a pod of one, a step' tasks env "${pod_of_one[@]}" "$program"
joins 3 'mpiexec in mpirun of one' "${open_mpi[@]}" -n 1 mpiexec.mpich -n 3 "$program"
joins 3 'mpirun in a step of two' env "${slurm[@]}" SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 "${open_mpi[@]}" -n 3 "$program"
joins 3 'mpiexec in a step of two' env "${slurm[@]}" SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 mpiexec.mpich -launcher fork -rmk user -n 3 "$program"
joins 4 'torchrun in mpirun' env MASTER_PORT="$port" "${open_mpi[@]}" -n 2 "$agent" "$program"
joins 4 'torchrun in mpiexec' env MASTER_PORT="$port" mpiexec.mpich -n 2 "$agent" "$program"
refuses WORLD_SIZE=2 OMPI_COMM_WORLD_SIZE=4 'a pod of two, mpirun' env "${pod_of_two[@]}" "${open_mpi[@]}" -n 4 "$program"
refuses WORLD_SIZE=2 PMI_SIZE=4 'a pod of two, mpiexec' env "${pod_of_two[@]}" mpiexec.mpich -n 4 "$program"
refuses WORLD_SIZE=2 SLURM_STEP_NUM_TASKS=3 'a pod of two, a step' tasks env "${pod_of_two[@]}" "$program"
refuses BANYAN_SIZE=1 OMPI_COMM_WORLD_SIZE=2 'one by hand, mpirun' env BANYAN_RANK=0 BANYAN_SIZE=1 "${open_mpi[@]}" -n 2 "$program"
refuses OMPI_COMM_WORLD_SIZE=2 PMI_SIZE=3 'mpiexec in mpirun' "${open_mpi[@]}" -n 2 mpiexec.mpich -n 3 "$program"
refuses OMPI_COMM_WORLD_SIZE=2 PMI_SIZE=2 'as many by mpiexec in mpirun' "${open_mpi[@]}" -n 2 mpiexec.mpich -n 2 "$program"
refuses OMPI_COMM_WORLD_SIZE=3 PMI_SIZE=2 'mpirun in mpiexec' mpiexec.mpich -n 2 "${open_mpi[@]}" -n 3 "$program"
exit $bad
