"""Runs Banyan's programs, which came with the package.

usage: python -m banyan info|perf|tune|doctor [ARGUMENT...]
  info     what is on this machine, and what would be done (banyan_info)
  perf     measures collectives (banyan_perf)
  tune     measures for later runs (banyan_tune)
  doctor   what is wrong with this machine (banyan_info --doctor)
  ARGUMENT as for the program; --help has them
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys

_PROGRAMS = {'info': ['banyan_info'], 'perf': ['banyan_perf'], 'tune': ['banyan_tune'],
             'doctor': ['banyan_info', '--doctor']}


def _places(program: str):
    """Where it may be: where pip has put it, and beside the package in a build tree."""
    try:
        for file in importlib.metadata.files('banyan') or []:
            if file.name == program:
                yield pathlib.Path(file.locate()).resolve()
    except importlib.metadata.PackageNotFoundError:
        pass
    yield pathlib.Path(__file__).resolve().parents[2] / 'bench' / program


def main(arguments: list[str]) -> int:
    """Becomes the program. Returns 2, and says why, where there is none."""
    if arguments[:1] in (['--help'], ['-h']):
        print(__doc__.strip())
        return 0
    if not arguments or arguments[0] not in _PROGRAMS:
        asked = arguments[0] if arguments else 'nothing'
        print(f'banyan: {asked} is none of its programs; valid: {", ".join(_PROGRAMS)}', file=sys.stderr)
        return 2
    program, *first = _PROGRAMS[arguments[0]]
    for place in _places(program):
        if os.access(place, os.X_OK):
            os.execv(place, [str(place), *first, *arguments[1:]])
    print(f'banyan: this package was built without {program}: build it again where CLI11 and nlohmann-json are '
          '(tools/install-deps)', file=sys.stderr)
    return 2


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
