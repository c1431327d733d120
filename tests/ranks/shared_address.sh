#!/usr/bin/env bash
# Changes the network of an emulated host, as tools/netlab has made it, and becomes a rank in it: for tools/netlab to run.
#
# usage: shared_address.sh KIND... -- PROGRAM [ARGUMENT...]
#   bridge:NAME    a bridge that is up, with an address that every host's has; only:N: of hosts 0 to N - 1 alone
#   own:NAME       one with an address that no other host has, and that leads here from none
#   usb            an interface with a link-local address only
#   v6             no address of IPv4 on eth0, one of IPv6 instead, where the ranks meet
#   free           BANYAN_SOCKET_IFNAME is not set; by:NAME: it is that
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

number=$(hostname)
number=${number#host}
add_bridge() {  # NAME ADDRESS
  ip link add "$1" type bridge
  ip address add "$2" dev "$1"
  ip link add "$1-in" type veth peer name "$1-out"
  ip link set "$1-in" master "$1"
  ip link set "$1-in" up
  ip link set "$1-out" up
  ip link set "$1" up
}
most=$((number + 1))
while [ "$1" != -- ]; do
  case "$1" in
    only:*) most=${1#*:} ;;
    bridge:*) [ "$number" -ge "$most" ] || add_bridge "${1#*:}" 172.17.0.1/16 ;;
    own:*) add_bridge "${1#*:}" "172.$((18 + number)).0.1/16" ;;
    usb)
      ip link add usb0 type veth peer name usb1
      ip address add 169.254.3.1/16 dev usb0
      ip link set usb0 up
      ip link set usb1 up
      ;;
    v6)
      ip address flush dev eth0
      ip -6 address add "fd77::$((number + 1))/64" dev eth0 nodad
      export BANYAN_ADDRESS='[fd77::1]:4711'
      ;;
    by:*) export BANYAN_SOCKET_IFNAME=${1#*:} ;;
    free) unset BANYAN_SOCKET_IFNAME ;;
    *)
      echo "shared_address.sh: $1?" >&2
      exit 2
      ;;
  esac
  shift
done
shift
# The kernel says that a bridge is up a moment after its first port.
for _ in $(seq 50); do
  ! grep -qs down /sys/class/net/*/operstate && break
  sleep 0.1
done
exec "$@"
