#!/usr/bin/env bash
# Every script of the repository parses, and those that are commands may be run.
# usage: check_scripts.sh ROOT
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$1"
python() { python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$1"; }

if git rev-parse --git-dir > /dev/null 2>&1; then files=$(git ls-files); else files=$(find . -type f -not -path './.git/*'); fi
bad=0 scripts=0
while IFS= read -r file; do
  [ -f "$file" ] || continue
  read -r first < "$file" 2> /dev/null || true
  case "$first" in
    '#!'*bash) bash -n "$file" || bad=1 ;;
    '#!'*/sh) sh -n "$file" || bad=1 ;;
    '#!'*python3) python "$file" || bad=1 ;;
    '#!'*) echo "$file: unknown interpreter: $first"; bad=1 ;;
    *)
      case "$file" in
        *.py) python "$file" || bad=1 ;;
        *.sh) echo "$file has no first line with an interpreter"; bad=1 ;;
      esac
      continue
      ;;
  esac
  scripts=$((scripts + 1))
  [ -x "$file" ] || { echo "$file has no run bit"; bad=1; }
done <<< "$files"
echo "$scripts scripts"
[ "$scripts" -ge 10 ] || { echo "there should be more: is this the repository?"; bad=1; }
exit "$bad"
