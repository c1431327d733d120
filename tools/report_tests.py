#!/usr/bin/env python3
"""Adds up what tools/test ran: prints every skip with its reason, failures, and `N passed, N failed, N skipped`.

usage: report_tests.py FOLDER     with NAME.json (Meson's testlog) of each build, and `steps`: "RESULT NAME" lines
A test of GoogleTest counts once; each of its cases that was skipped is listed and counted as a skip besides.
A failure comes with the lines of its output that say why, as far as that can be told.
"""
# SPDX-License-Identifier: Apache-2.0

import json
import pathlib
import re
import sys

PASSED, SKIPPED = {'OK', 'EXPECTEDFAIL'}, {'SKIP'}
# "[  SKIPPED ] Suite.case (0 ms)"; without the time it is the list at the end.
CASE = re.compile(r'^\[  SKIPPED \] (\S+).* \(\d+ ms\)$')
# "banyan:unit / " before the name of a test, "unit - banyan:" with Meson 1.12.
NAME = re.compile(r'^(.* / |\S+ - \w+:)')
# What GTEST_SKIP() << "reason" prints before that.
PLACE = re.compile(r'^\S+:\d+: Skipped$')
# What comes before the lines that say why: a sanitizer's report, a case of GoogleTest or of Python, a signal.
TELLING = re.compile(r'Sanitizer: |runtime error: |: Failure$|^E  |^Traceback |^terminate called')
TOLD = 40  # lines


def skipped_cases(output):
    """(case, reason) of every skipped case in the output of a GoogleTest program."""
    reason, wait = '', False
    for line in output.splitlines():
        if PLACE.match(line):
            reason, wait = '', True
        elif match := CASE.match(line):
            yield match[1], reason or 'no reason given'
            reason, wait = '', False
        elif wait and line.strip():
            reason = f'{reason} {line.strip()}'.strip()


def reason_of(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = [line for line in lines if 'skip' in line.lower()]
    return re.sub(r'^skipped: *', '', (said or lines or ['no reason given'])[-1])


def words_of(test):
    """What a test that failed said of it: from the first telling line on, or its last lines."""
    lines = [line.rstrip() for stream in ('stdout', 'stderr') for line in (test.get(stream) or '').splitlines()]
    first = next((number for number, line in enumerate(lines) if TELLING.search(line)), max(0, len(lines) - TOLD))
    return ''.join(f'\n    | {line}' for line in lines[first : first + TOLD])


def results_of(path):
    """(result, name, reason) of each test in one of Meson's logs, a JSON value a line."""
    for line in path.read_text(encoding='utf-8').splitlines():
        test = json.loads(line)
        name, output = f'{path.stem}: {NAME.sub("", test["name"])}', test.get('stdout') or ''
        cases = [('skipped', f'{name}, {case}', reason) for case, reason in skipped_cases(output)]
        yield from cases
        if test['result'] in SKIPPED:
            if not cases:
                yield 'skipped', name, reason_of(output + '\n' + (test.get('stderr') or ''))
        else:
            passed = test['result'] in PASSED
            yield 'passed' if passed else 'failed', name, '' if passed else f'{test["result"].lower()}{words_of(test)}'


def steps_of(path):
    for line in path.read_text(encoding='utf-8').splitlines():
        result, name = line.split(' ', 1)
        yield result, name, ''


def main(folder):
    results = [result for path in sorted(folder.glob('*.json')) for result in results_of(path)]
    if (folder / 'steps').exists():
        results += steps_of(folder / 'steps')
    for result, name, reason in results:
        if result == 'skipped':
            print(f'skipped {name}: {reason}')
    for result, name, reason in results:
        if result == 'failed':
            print(f'FAILED  {name}' + (f': {reason}' if reason else ''))
    count = {kind: sum(result == kind for result, _, _ in results) for kind in ('passed', 'failed', 'skipped')}
    print(', '.join(f'{number} {kind}' for kind, number in count.items()))
    return 1 if count['failed'] or not count['passed'] else 0


if __name__ == '__main__':
    sys.exit(main(pathlib.Path(sys.argv[1])))
