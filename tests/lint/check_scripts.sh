#!/usr/bin/env bash
# Every script of the repository parses, and those that are commands may be run.
# usage: check_scripts.sh ROOT
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$1"
bad=0
for script in tools/* .ci/run tests/*/*.sh tests/*/*.py; do
  [ -f "$script" ] || continue
  case "$(head -n 1 "$script")" in
    '#!'*bash) bash -n "$script" || bad=1 ;;
    '#!'*python3) python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$script" || bad=1 ;;
    *) continue ;;
  esac
  [ -x "$script" ] || { echo "$script has no run bit"; bad=1; }
done
exit "$bad"
