#!/usr/bin/env bash
# Runs a program in a network namespace of its own, where nobody has set loopback up: it must fail soon and say TEXT.
#
# usage: no_loopback.sh TEXT PROGRAM [ARGUMENT...]
# Exit status 77 where it cannot run.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

unshare -n true 2> /dev/null || { echo "skipped: network namespaces need root"; exit 77; }
text=$1
shift
exec bash "$(dirname "$0")/refused.sh" "$text" unshare -n "$@"
