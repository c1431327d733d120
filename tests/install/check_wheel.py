#!/usr/bin/env python3
"""`pip install .` into an empty environment gives a package that runs two ranks, with the library of its wheel.

usage: check_wheel.py SOURCE     by the interpreter to install for; 77 where it lacks a package

It builds the whole library once more, with CC and CXX of the environment, so it is no test of every run.
"""
# SPDX-License-Identifier: Apache-2.0

import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

NEEDED = {'mesonpy': 'python3-mesonpy', 'numpy': 'python3-numpy', 'venv': 'python3-venv', 'pip': 'python3-pip'}
RANK = '''
import numpy, banyan
with banyan.init(timeout=30) as comm:
    x = numpy.arange(1000, dtype=numpy.float32) * (comm.rank + 1)
    comm.allreduce(x, out=x)
    assert (x == 3 * numpy.arange(1000)).all(), x
with open('/proc/self/maps') as maps:
    library = next(line.split()[-1] for line in maps if 'libbanyan.so' in line)
print(banyan.__file__, library)
'''


class Failure(Exception):
    pass


def run(*command, seconds, **options):
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=seconds,
                          **options)
    if done.returncode != 0:
        raise Failure(f'{" ".join(command)}: status {done.returncode}\n{done.stdout[-4000:]}')
    return done.stdout


def run_ranks(python, work, environment):
    """What two ranks print."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{free.getsockname()[1]}'
    ranks = [subprocess.Popen([python, '-c', RANK], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**environment, 'BANYAN_RANK': str(rank), 'BANYAN_SIZE': '2', 'BANYAN_ADDRESS': address})
             for rank in range(2)]
    said = [rank.communicate(timeout=60)[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        raise Failure(f'two ranks: {said}')
    return said


def check(source, work):
    environment = {name: value for name, value in os.environ.items() if name not in ('LD_LIBRARY_PATH', 'PYTHONPATH')}
    run(sys.executable, '-m', 'venv', '--system-site-packages', work / 'venv', seconds=120)
    python = work / 'venv/bin/python'
    run(python, '-m', 'pip', 'install', '--no-build-isolation', '--no-deps', '--no-index', source, seconds=1500, cwd=work,
        env=environment)
    for said in run_ranks(python, work, environment):
        package, library = said.split()
        if not package.startswith(str(work)) or not library.startswith(str(work)):
            raise Failure(f'the package is {package} and the library {library}; both should be below {work}')
    version = run(python, '-m', 'banyan', 'info', '--version', seconds=60, cwd=work, env=environment)
    if 'banyan' not in version:
        raise Failure(f'python -m banyan info --version says {version}')


def main(source):
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        print(f'skipped: {sys.executable} lacks what these have; apt-get install {" ".join(missing)}')
        return 77
    with tempfile.TemporaryDirectory() as work:
        try:
            check(source, pathlib.Path(work).resolve())
        except Failure as failure:
            print(failure)
            return 1
    print('two ranks ran with the library of the wheel')
    return 0


if __name__ == '__main__':
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
