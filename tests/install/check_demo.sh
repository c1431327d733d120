#!/usr/bin/env bash
# What tools/demo builds can be built: every file of it has a rule.
# usage: check_demo.sh ROOT
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
meson setup "$build" "$1" --native-file "$1/tools/demo.ini" > "$build/log" 2>&1 || { tail -n 30 "$build/log"; exit 1; }
ninja -C "$build" -n bench/banyan_perf examples/train_mnist | tail -n 3
