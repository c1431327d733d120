#!/usr/bin/env python3
"""report_tests.py says of each failure what its test said, of each skip its reason, and counts them."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))
import report_tests  # noqa: E402

LONG = ''.join(f'line {number}\n' for number in range(1000))
TESTS = [
    {'name': 'banyan:unit / calm', 'result': 'OK', 'stdout': LONG},
    {'name': 'banyan:unit / racing', 'result': 'FAIL', 'stdout': LONG,
     'stderr': f'====\nWARNING: ThreadSanitizer: data race (pid=7)\n  Write of size 8\n{LONG}'},
    {'name': 'banyan:unit / wrong', 'result': 'FAIL', 'stdout': f'[ RUN      ] A.B\na_test.cc:3: Failure\n1 is not 2\n{LONG}'},
    {'name': 'banyan:unit / late', 'result': 'TIMEOUT', 'stdout': LONG},
    {'name': 'banyan:unit / still', 'result': 'FAIL'},
    {'name': 'banyan:unit / absent', 'result': 'SKIP', 'stderr': 'skipped: no GPU here\n'},
    {'name': 'banyan:unit / partly', 'result': 'OK', 'stdout': 'a.cc:9: Skipped\nno core\n\n[  SKIPPED ] A.C (0 ms)\n'},
]
WANTED = [
    'skipped gcc: absent: no GPU here\nskipped gcc: partly, A.C: no core\nFAILED  ',
    'FAILED  gcc: racing: fail\n    | WARNING: ThreadSanitizer: data race (pid=7)\n    |   Write of size 8\n    | line 0\n',
    'FAILED  gcc: wrong: fail\n    | a_test.cc:3: Failure\n    | 1 is not 2\n    | line 0\n',
    'FAILED  gcc: late: timeout\n    | line 960\n',
    '    | line 999\nFAILED  gcc: still: fail\nFAILED  clang-tidy\n2 passed, 5 failed, 2 skipped\n',
]


def main():
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder)
        (results / 'gcc.json').write_text(''.join(json.dumps(test) + '\n' for test in TESTS), encoding='utf-8')
        (results / 'steps').write_text('failed clang-tidy\n', encoding='utf-8')
        with contextlib.redirect_stdout(io.StringIO()) as said:
            status = report_tests.main(results)
    text = said.getvalue()
    missing = [wanted for wanted in WANTED if wanted not in text]
    for wanted in missing:
        print(f'missing: {wanted!r}')
    if missing:
        print(text)
    return 1 if missing or status != 1 or len(text.splitlines()) > 150 else 0


if __name__ == '__main__':
    sys.exit(main())
