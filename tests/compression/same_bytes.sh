#!/usr/bin/env bash
# An ARM processor, which is emulated, makes the same bytes as this one, by NEON and without.
# usage: same_bytes.sh ROOT PROGRAM [FLAG...]    PROGRAM: same_bytes for this processor; FLAG: as kernels are compiled
# Exit status 77 where there is no compiler for it, or no emulator.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$1 program=$2
shift 2
while read -r command package; do
  command -v "$command" > /dev/null || { echo "skipped: no $command; apt-get install $package"; exit 77; }
done <<< 'aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
qemu-aarch64 qemu-user'

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
sources=(compression/{available_aarch64,crc32c,kernels,kernels_baseline,kernels_neon}.cc
  tests/support/{codec_values,kernels_reference,sparse_reference}.cc tests/compression/same_bytes.cc)
(cd "$root" && aarch64-linux-gnu-g++ -std=c++20 -O3 "$@" -I. -Iinclude -static "${sources[@]}" -o "$folder/same_bytes")
read -r here bytes < <("$program")
read -r there theirs < <(qemu-aarch64 "$folder/same_bytes")
echo "$here: $bytes, $there: $theirs"
[ "$there" = neon ] && [ "$bytes" = "$theirs" ]
