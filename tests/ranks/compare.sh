#!/usr/bin/env bash
# A tiny comparison with every library that was there when this was built: none of them may fail.
#
# usage: compare.sh COMPARE BANYAN_PERF COLLECTIVE
# Exit status 77 where there is nothing to compare with.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$1" --perf "$2" --collective "$3" --sizes 4:64 --rounds 1 --iterations 3:1 --timeout 20 > "$said"
status=$?
cat "$said"
if grep -q "^missing: .*: round " "$said"; then echo "that is not missing but broken"; exit 1; fi
[ "$status" = 0 ] || exit "$status"
sizes='5 sizes'
[ "$3" != barrier ] || sizes='1 size'
grep -q "over $sizes, " "$said" || { echo "those are not $sizes"; exit 1; }
