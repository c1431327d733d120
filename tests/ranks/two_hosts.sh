#!/usr/bin/env bash
# Runs a program as four ranks on two hosts: network namespaces joined by a cable (veth), two ranks in each.
# Inside a host ranks find shared memory, between the hosts only UCX.
#
# usage: two_hosts.sh [--freeze RANK | --named] TEXT PROGRAM [ARGUMENT...]
# Fails also where the program does not print TEXT. With --freeze that rank is stopped once a line of its table is there, and the
# others must fail, soon. With --named the variables are torchrun's, and the first host maps its own name to loopback, as Debian
# does.
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

frozen='' named=''
case "$1" in
  --freeze)
    frozen=$2
    export BANYAN_TIMEOUT=5s
    shift 2
    ;;
  --named)
    named=1
    export BANYAN_INIT_TIMEOUT=20s
    shift
    ;;
esac
text=$1
shift
secret="of $$ and $RANDOM"
folder=$(mktemp -d)
said=$folder/said
trap 'ip netns del "$left"; ip netns del "$right" 2> /dev/null; rm -rf "$folder"' EXIT
echo 127.0.1.1 first.test > "$folder/$left"
echo 192.0.2.1 first.test > "$folder/$right"
ranks=()
for rank in 0 1 2 3; do
  if [ "$rank" -lt 2 ]; then host=$left interface=$cable; else host=$right interface=$end; fi
  if [ -n "$named" ]; then
    # A namespace of ip has mounts of its own.
    RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=first.test MASTER_PORT=4711 \
      BANYAN_SECRET="$secret" ip netns exec "$host" \
      sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$folder/$host" "$@" >> "$said" 2>&1 &
  else
    BANYAN_RANK=$rank BANYAN_SIZE=4 BANYAN_ADDRESS=192.0.2.1:4711 BANYAN_SECRET="$secret" \
      BANYAN_SOCKET_IFNAME=$interface ip netns exec "$host" "$@" >> "$said" 2>&1 &
  fi
  ranks+=($!)
done
# So many seconds at most.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}
has_row() { grep -q '^[0-9]' "$said"; }
others_ended() { [ "$(jobs -rp | grep -cv "^$stopped\$")" = 0 ]; }

failed=0
if [ -n "$frozen" ]; then
  stopped=${ranks[$frozen]}
  until_true 25 has_row || failed=1
  kill -STOP "$stopped"
  until_true 25 others_ended || { echo "the others go on without rank $frozen"; failed=1; }
  kill -KILL "${ranks[@]}" 2> /dev/null
  for rank in "${ranks[@]}"; do ! wait "$rank" || { echo "a rank ended well"; failed=1; }; done
else
  for rank in "${ranks[@]}"; do wait "$rank" || failed=1; done
fi
cat "$said"
grep -qF -- "$text" "$said" || { echo "it did not print \"$text\""; exit 1; }
exit $failed
