#!/usr/bin/env python3
"""Runs files of pytest for Meson, and shows skipped cases as GoogleTest does, which is how tools/test finds them.

usage: run_tests.py FILE...     77 where a package is missing
"""
# SPDX-License-Identifier: Apache-2.0

import importlib.util
import sys

NEEDED = {'numpy': 'python3-numpy', 'pytest': 'python3-pytest'}


class Skips:
    """Each skipped case with its reason."""

    @staticmethod
    def pytest_runtest_logreport(report):
        if report.skipped and isinstance(report.longrepr, tuple):
            path, line, reason = report.longrepr
            name = report.nodeid.rpartition('/')[2].replace('::', '.')
            print(f'\n{path}:{line}: Skipped\n{reason.removeprefix("Skipped: ")}\n[  SKIPPED ] {name} (0 ms)')


def main(files):
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        print(f'skipped: {sys.executable} has no {" and no ".join(missing)}; apt-get install {" ".join(missing)}, '
              'or pip install numpy pytest')
        return 77
    import pytest
    status = int(pytest.main(['-q', '-p', 'no:cacheprovider', *files], plugins=[Skips()]))
    return 77 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status  # the files say why


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
