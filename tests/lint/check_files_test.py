#!/usr/bin/env python3
"""check_files.py finds what it is there to find: each wrong file here must be refused for its reason, and no right one."""
# SPDX-License-Identifier: Apache-2.0

import pathlib
import sys

import check_files

LICENCE = {'.cc': '// SPDX-License-Identifier: Apache-2.0\n', '.py': '# SPDX-License-Identifier: Apache-2.0\n'}
OF = 'a comment that begins with "Of"'
WRONG = [
    ('the wall is 500', 'a.cc', 'int a;\n' * 500),
    ('ends in no or in several line ends', 'a.cc', 'int a;'),
    ('ends in no or in several line ends', 'a.cc', 'int a;\n\n'),
    ('a.cc:3: tab, carriage return or trailing space', 'a.cc', '\tint a;\n'),
    ('a.cc:3: tab, carriage return or trailing space', 'a.cc', 'int a; \n'),
    ('a.py:3: a loose end', 'a.py', '# TO' 'DO\n'),
    ('src/a.cc:3: ::open not in a Descriptor', 'src/a.cc', 'int a = ::open(name, 0);\n'),
    (f'a.cc:3: {OF}', 'a.cc', '// Of a rank.\nint a;\n'),
    (f'a.cc:3: {OF}', 'a.cc', '  //Of a rank.\n'),
    (f'a.cc:3: {OF}', 'a.cc', 'int a;  // Of a rank.\n'),
    (f'a.cc:3: {OF}', 'a.cc', '/* Of a rank. */\n'),
    (f'a.cc:5: {OF}', 'a.cc', '// A rank.\n//\n// Of it.\n'),
    (f'a.cc:4: {OF}', 'a.cc', 'int a;  // a rank\n// Of it.\n'),
    (f'a.py:3: {OF}', 'a.py', '# Of a rank.\n'),
    ('a.cc:4: a test of the name sums_up; right is SumsUp', 'a.cc', '// Tests.\nTEST(Sum, sums_up) {}\n'),
    ('a.cc:3: a banner', 'a.cc', '// ---- Memory ----\n'),
]
RIGHT = [
    ('a.cc', '// The last one\n// Of the list.\nint a;  // of a rank\n'),
    ('a.cc', '// Offers.\nconst char* a = "Of";\n'),
    ('a.py', "a = '// Of a rank.'\n"),
    ('src/a.cc', 'Descriptor a(::open(name, 0));\n'),
]


def complaints(name, text):
    path = pathlib.Path(name)
    text = LICENCE.get(path.suffix, LICENCE['.cc']) + '\n' + text
    checks = (check_files.check, check_files.check_comments, check_files.check_descriptors, check_files.check_test_names)
    return '\n'.join(line for check in checks for line in check(path, text))


def main():
    bad = 0
    for reason, name, text in WRONG + [('', *right) for right in RIGHT]:
        output = complaints(name, text)
        if reason not in output or bool(reason) != bool(output):
            print(f'expected {reason or "no complaint"}, got: {output or "none"}')
            bad += 1
    if 'no line' not in '\n'.join(check_files.check(pathlib.Path('a.cc'), 'int a;\n')):
        print('a file without a licence passes')
        bad += 1
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
