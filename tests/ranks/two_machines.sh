#!/usr/bin/env bash
# Runs a program under MPICH as two ranks on two hosts that are as virtual machines of a desktop are: eth0 has the default route,
# and on both the same address (10.0.2.15); only eth1 joins them. Rank 0 cannot know which of its addresses the other one reaches.
#
# usage: two_machines.sh PROGRAM [ARGUMENT...]
# Exit status 77 where it cannot run.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces need root"; exit 77; }
command -v ip > /dev/null || { echo "skipped: no ip (package iproute2)"; exit 77; }
command -v mpiexec.mpich > /dev/null || { echo "skipped: no mpiexec.mpich (package mpich)"; exit 77; }
host=banyan-vm$$-
ip netns add "${host}0" 2> /dev/null || { echo "skipped: this machine has no network namespaces"; exit 77; }
trap 'ip netns del "${host}0"; ip netns del "${host}1" 2> /dev/null' EXIT
ip netns add "${host}1" && ip -n "${host}0" link add eth1 type veth peer name eth1 netns "${host}1" ||
  { echo "skipped: no veth pair can be made here"; exit 77; }
for number in 0 1; do
  here=(ip -n "$host$number")
  {
    "${here[@]}" link set lo up && "${here[@]}" link add eth0 type veth peer name nat &&
      "${here[@]}" address add 10.0.2.15/24 dev eth0 && "${here[@]}" link set nat up && "${here[@]}" link set eth0 up &&
      "${here[@]}" route add default via 10.0.2.2 &&
      "${here[@]}" address add "192.168.56.1$number/24" dev eth1 && "${here[@]}" link set eth1 up
  } || exit 1
done
# The kernel says that they are up a moment later.
for _ in $(seq 50); do
  ! ip netns exec "${host}0" grep -qs down /sys/class/net/eth1/operstate &&
    ! ip netns exec "${host}1" grep -qs down /sys/class/net/eth1/operstate && break
  sleep 0.1
done
# The launcher starts both on one host, and says so.
host=$host BANYAN_INIT_TIMEOUT=20s timeout 50 \
  mpiexec.mpich -n 2 bash -c 'exec ip netns exec "$host$PMI_RANK" env MPI_LOCALNRANKS=1 "$@"' rank "$@"
