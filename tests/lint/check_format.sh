#!/usr/bin/env bash
# Every tracked C and C++ file is as clang-format 14 would write it.
# usage: check_format.sh ROOT     exit status 77 without clang-format-14 or git checkout
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$1"
command -v clang-format-14 > /dev/null || { echo "skipped: no clang-format-14; apt-get install clang-format-14"; exit 77; }
git rev-parse --git-dir > /dev/null 2>&1 || { echo "skipped: not a git checkout"; exit 77; }
git ls-files -z '*.c' '*.h' '*.cc' '*.inc' | xargs -0 clang-format-14 --dry-run --Werror
