#!/usr/bin/env python3
"""What a call takes in Python above the same call in C: an allreduce of one float32, on one rank and on two.

usage: PYTHONPATH=BUILD/python bench/python_overhead.py [ROUNDS]

Rounds of the ways take turns: the method, the same in place on a tensor of torch where there is one, and the C function
called by ctypes, less what ctypes takes for a function that does nothing. Medians and least times, in microseconds.
"""
# SPDX-License-Identifier: Apache-2.0

import ctypes
import statistics
import subprocess
import sys
import time

import numpy as np

import banyan

CALLS = 5000
RANK = """
import sys
sys.path[:0] = [sys.argv[1]]
import banyan, python_overhead
with banyan.Comm.create(1, 2, bytes.fromhex(sys.argv[2])) as comm:
    python_overhead.measure(comm, int(sys.argv[3]))
"""


def library():
    with open('/proc/self/maps', encoding='utf-8') as maps:
        return ctypes.CDLL(next(line.split()[-1] for line in maps if 'libbanyan.so' in line))


def ways_of(comm):
    """{name: function without arguments}"""
    array = np.ones(1, np.float32)
    kinds = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    allreduce = library().banyan_allreduce
    allreduce.argtypes = kinds
    nothing = library().banyan_version  # which ignores what it gets
    nothing.argtypes = kinds
    said = (array.ctypes.data, array.ctypes.data, 1, 7, 2, comm.handle)
    ways = {'C by ctypes': lambda: allreduce(*said), 'ctypes alone': lambda: nothing(*said),
            'numpy': lambda: comm.allreduce(array, out=array, op='max')}
    try:
        import torch
    except ImportError:
        return ways
    tensor = torch.ones(1)
    return {**ways, 'torch, by DLPack': lambda: comm.allreduce(tensor, out=tensor, op='max')}


def measure(comm, rounds):
    """{name: microseconds a call, one for each round}"""
    ways = ways_of(comm)
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, call in ways.items():
            comm.barrier()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    return times


def report(ranks, times):
    plain = {name: (statistics.median(all_of), min(all_of)) for name, all_of in times.items()}
    in_c = [plain['C by ctypes'][i] - plain['ctypes alone'][i] for i in range(2)]
    print(f'{ranks} ranks: the C call takes {in_c[0]:.2f} us, at least {in_c[1]:.2f}')
    for name in times:
        if name.startswith(('numpy', 'torch')):
            print(f'  {name}: {plain[name][0] - in_c[0]:.2f} us above it, at least {plain[name][1] - in_c[1]:.2f}')


def main(rounds):
    with banyan.Comm.create(0, 1, banyan.unique_id()) as comm:
        report(1, measure(comm, rounds))
    unique = banyan.unique_id()
    with subprocess.Popen([sys.executable, '-c', RANK, sys.path[0], unique.hex(), str(rounds)]) as other:
        with banyan.Comm.create(0, 2, unique) as comm:
            report(2, measure(comm, rounds))
    return other.returncode


if __name__ == '__main__':
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 15))
