#!/usr/bin/env bash
# banyan_info, which reads a machine from a file, a pipe whose writer takes its time, and the standard input.
#
# usage: piped_machine.sh BANYAN_INFO
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wrong() { echo "$1"; exit 1; }
machine='SwitchName=s1 Nodes=n[1-2]
SwitchName=s2 Nodes=n[3-4]'
slowly() { echo "${machine%%$'\n'*}"; sleep 0.2; echo "${machine#*$'\n'}"; }
show() { timeout 30 "$info" --topo --json --from "$1"; }
info=$1

echo "$machine" > "$folder/machine"
show "$folder/machine" > "$folder/right" || wrong 'it does not read the file'
mkfifo "$folder/fifo"
slowly > "$folder/fifo" &
show "$folder/fifo" | cmp - "$folder/right" || wrong 'it does not read a named pipe'
slowly | show - | cmp - "$folder/right" || wrong 'it does not read - from a pipe'
slowly | show /dev/stdin | cmp - "$folder/right" || wrong 'it does not read /dev/stdin from a pipe'
show - < "$folder/machine" | cmp - "$folder/right" || wrong 'it does not read - from a file'
show <(slowly) | cmp - "$folder/right" || wrong "it does not read the shell's pipe"
echo nonsense | show - 2> "$folder/said" && wrong 'it takes nonsense'
grep -q '^banyan_info: standard input: line 1: ' "$folder/said" || wrong "it says $(cat "$folder/said")"
show - <&- 2> "$folder/said" && wrong 'it reads what is closed'
[ "$(wc -l < "$folder/said")" = 1 ] || wrong "it says $(cat "$folder/said")"
