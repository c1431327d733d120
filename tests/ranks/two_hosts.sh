#!/usr/bin/env bash
# Runs a program as four ranks on two hosts: network namespaces joined by a cable (veth), two ranks in each.
# Inside a host ranks find shared memory, between the hosts only UCX.
#
# usage: two_hosts.sh TEXT PROGRAM [ARGUMENT...]
# Fails also where the program does not print TEXT.
# Exit status 77 where it cannot run.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces need root"; exit 77; }
command -v ip > /dev/null || { echo "skipped: no ip (package iproute2)"; exit 77; }
left=banyan-l$$ right=banyan-r$$ cable=byl$$ end=byr$$
ip netns add "$left" 2> /dev/null || { echo "skipped: this machine has no network namespaces"; exit 77; }
trap 'ip netns del "$left"; ip netns del "$right" 2> /dev/null' EXIT
{
  ip netns add "$right" &&
    ip link add "$cable" type veth peer name "$end" &&
    ip link set "$cable" netns "$left" && ip link set "$end" netns "$right" &&
    ip -n "$left" addr add 192.0.2.1/24 dev "$cable" && ip -n "$right" addr add 192.0.2.2/24 dev "$end" &&
    ip -n "$left" link set lo up && ip -n "$right" link set lo up &&
    ip -n "$left" link set "$cable" up && ip -n "$right" link set "$end" up
} || { echo "skipped: no veth pair can be made here"; exit 77; }

text=$1
shift
secret="of $$ and $RANDOM"
said=$(mktemp)
trap 'ip netns del "$left"; ip netns del "$right" 2> /dev/null; rm -f "$said"' EXIT
ranks=()
for rank in 0 1 2 3; do
  if [ "$rank" -lt 2 ]; then host=$left interface=$cable; else host=$right interface=$end; fi
  BANYAN_RANK=$rank BANYAN_SIZE=4 BANYAN_ADDRESS=192.0.2.1:4711 BANYAN_SECRET="$secret" \
    BANYAN_SOCKET_IFNAME=$interface ip netns exec "$host" "$@" >> "$said" &
  ranks+=($!)
done
failed=0
for rank in "${ranks[@]}"; do wait "$rank" || failed=1; done
cat "$said"
grep -qF -- "$text" "$said" || { echo "it did not print \"$text\""; exit 1; }
exit $failed
