#!/usr/bin/env bash
# Runs a program as N ranks under a launcher, or with a launcher's variables set by hand.
#
# usage: launch.sh openmpi|mpich|torchrun|own N PROGRAM [ARGUMENT...]
# Exit status 0 if all ranks ended with 0; 77 where the launcher is not installed.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
launcher=$1 count=$2
shift 2

need() {
  command -v "$1" > /dev/null || { echo "skipped: no $1; apt-get install $2"; exit 77; }
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# N processes with variables of their own: `variables` prints those of one rank.
by_hand() {
  local status=0 pids=()
  for ((rank = 0; rank < count; rank++)); do
    # shellcheck disable=SC2046
    env $(variables "$rank") "$@" &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return "$status"
}

case "$launcher" in
  openmpi)
    need mpirun.openmpi openmpi-bin
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    exec mpirun.openmpi --oversubscribe -n "$count" "$@"
    ;;
  mpich)
    need mpiexec.mpich mpich
    exec mpiexec.mpich -n "$count" "$@"
    ;;
  torchrun)
    port=$(free_port)
    variables() {
      echo "RANK=$1 WORLD_SIZE=$count LOCAL_RANK=$1 LOCAL_WORLD_SIZE=$count MASTER_ADDR=127.0.0.1" \
        "MASTER_PORT=$port TORCHELASTIC_RUN_ID=test"
    }
    by_hand "$@"
    ;;
  own)
    port=$(free_port)
    variables() { echo "BANYAN_RANK=$1 BANYAN_SIZE=$count BANYAN_ADDRESS=127.0.0.1:$port"; }
    by_hand "$@"
    ;;
  *)
    echo "launch.sh: unknown launcher $launcher" >&2
    exit 2
    ;;
esac
