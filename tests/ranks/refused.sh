#!/usr/bin/env bash
# Runs a program that must fail soon and say TEXT, without a word of UCX's own.
#
# usage: refused.sh TEXT PROGRAM [ARGUMENT...]
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

text=$1
shift
begin=$SECONDS
said=$(BANYAN_INIT_TIMEOUT=40s timeout 50 "$@" 2>&1)
status=$?
echo "$said"
[ "$status" != 77 ] || exit 77
[ "$status" != 0 ] || { echo "it ended well"; exit 1; }
[ $((SECONDS - begin)) -lt 20 ] || { echo "it waited"; exit 1; }
! grep -q "UCX  \\(ERROR\\|WARN\\)" <<< "$said" || { echo "UCX spoke to the user"; exit 1; }
grep -qF -- "$text" <<< "$said" || { echo "it did not say \"$text\""; exit 1; }
