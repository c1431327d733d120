#!/usr/bin/env python3
"""`pip install .` into an empty environment gives a package that runs two ranks, with the library of its wheel; and with
the torch of the interpreter, where that has one from 2.13 on, two ranks of its backend.

usage: check_wheel.py SOURCE     by the interpreter to install for; 77 where it lacks a package

It builds the whole library once more, with CC and CXX of the environment, so it is no test of every run.
"""
# SPDX-License-Identifier: Apache-2.0

import importlib.metadata
import importlib.util
import os
import pathlib
import re
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
BACKEND_RANK = '''
import torch, banyan.torch, torch.distributed as dist
dist.init_process_group('banyan')
x = torch.full((1000,), dist.get_rank() + 1.0)
dist.all_reduce(x)
assert (x == 3).all(), x
dist.destroy_process_group()
print(banyan.torch.__file__, banyan.torch._torch.__file__)
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


def run_ranks(text, python, work, environment):
    """What two ranks of the text print."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = str(free.getsockname()[1])
    launched = {'WORLD_SIZE': '2', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port}
    ranks = [subprocess.Popen([python, '-c', text], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**environment, **launched, 'RANK': str(rank)}) for rank in range(2)]
    said = [rank.communicate(timeout=60)[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        raise Failure(f'two ranks: {said}')
    return said


def folder_of_torch():
    """Where this interpreter has a torch that the backend is built for; None: nowhere."""
    try:
        version = importlib.metadata.version('torch')
    except importlib.metadata.PackageNotFoundError:
        return None
    is_new = tuple(map(int, re.findall(r'\d+', version)[:2])) >= (2, 13)
    return pathlib.Path(importlib.util.find_spec('torch').origin).parents[1] if is_new else None


def check(source, work):
    environment = {name: value for name, value in os.environ.items() if name not in ('LD_LIBRARY_PATH', 'PYTHONPATH')}
    run(sys.executable, '-m', 'venv', '--system-site-packages', work / 'venv', seconds=120)
    python = work / 'venv/bin/python'
    torch = folder_of_torch()
    if torch is not None:
        site = run(python, '-c', 'import sysconfig; print(sysconfig.get_path("purelib"))', seconds=60).strip()
        (pathlib.Path(site) / 'torch_of_the_caller.pth').write_text(f'{torch}\n', encoding='utf-8')
    run(python, '-m', 'pip', 'install', '--no-build-isolation', '--no-deps', '--no-index', source, seconds=1500, cwd=work,
        env=environment)
    for text in [RANK] if torch is None else [RANK, BACKEND_RANK]:
        for said in run_ranks(text, python, work, environment):
            package, library = said.split()[-2:]
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
    print(f'two ranks ran with the library of the wheel, {"without torch" if folder_of_torch() is None else "also by torch"}')
    return 0


if __name__ == '__main__':
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
