#!/usr/bin/env python3
"""Holds the table of registers in docs/gpu.md against what ptxas said when this build compiled the kernels.

usage: registers_test.py REPORT GPU.MD NVCC

Every kernel is there for every architecture, and belongs to one row of the table, which says from how many registers to
how many its kernels have. Which kernels spill stands in SPILLING, and which have shared memory in SHARED. Exit status
77 where the table is of another nvcc.
"""
# SPDX-License-Identifier: Apache-2.0

import collections
import pathlib
import re
import subprocess
import sys

TABLE_OF = '13.0'  # the nvcc
ARCHITECTURES = {'sm_80': '8.0', 'sm_90': '9.0', 'sm_100': '10.0'}
CODECS = '(int8|int4|dyn8|e4m3|e5m2)'
INTEGERS = 'u?int(8|32|64)'
# The first that matches; as the table names them.
ROWS = (
    ('`onebit`', 'onebit_begin|[a-z_]*_onebit_.*'),
    ('codecs: encode', rf'encode_{CODECS}_(float32|float16|bfloat16)'),
    ('codecs: decode and add', rf'decode_add_{CODECS}_(float32|float16|bfloat16)'),
    ('codecs: decode', rf'decode_{CODECS}_(float32|float16|bfloat16)'),
    ('`decode_reduce`', 'decode_reduce_.*'),
    ('`decode` of 16- and 8-bit floats', 'decode_.*'),
    ('codecs: fold', rf'fold_{CODECS}_float32'),
    ('`fold`, integers', f'fold_[a-z]*_{INTEGERS}'),
    ('`fold`, float32 and float64', 'fold_[a-z]*_float(32|64)'),
    ('`fold`, float16 and bfloat16', 'fold_[a-z]*_b?float16'),
    ('`fold`, 8-bit floats', 'fold_[a-z]*_float8_.*'),
    ('`reduce`, integers', f'reduce_[a-z]*_{INTEGERS}'),
    ('`reduce`, float32 and float64', 'reduce_[a-z]*_float(32|64)'),
    ('`reduce`, float16 and bfloat16', 'reduce_[a-z]*_b?float16'),
    ('`reduce`, 8-bit floats', 'reduce_[a-z]*_float8_.*'),
    ('multiplying (`decode` and `encode`)', 'scale_.*'),
    ('dividing (`encode`)', 'divide_.*'),
    ('sparse codecs', 'sparse_.*'),
    ('`sign` and `randk`', '(sign|randk)_.*'),
    ('choices of `randk`', 'choice_.*'),
    ('`topk`', 'topk_.*'),
    ('what casts leave', 'leave_.*'),
    ('gradients: contribute', 'contribute_.*'),
    ('gradients: look and forget', 'look_at_.*|forget_sent'),
)
SPILLING = {
    ('reduce_max_uint8', '10.0'), ('reduce_min_uint8', '10.0'),
    ('decode_add_e4m3_bfloat16', '9.0'), ('decode_add_e5m2_bfloat16', '9.0'),
}

SHARED = {'topk_histogram': 8192, 'choice_cut': 12312, 'choice_fill': 536, 'forget_sent': 6144}  # bytes of a block
SHARED |= {f'contribute_{name}': 6144 for name in ('float32', 'float16', 'bfloat16')}
SHARED |= {f'look_at_{name}': 6144 for name in ('float64', 'float32', 'float16', 'bfloat16')}

Kernel = collections.namedtuple('Kernel', 'name architecture registers spilled shared')


def kernels_in(report):
    """What ptxas said."""
    blocks = re.split(r'^ptxas info +: Compiling entry function ', report, flags=re.MULTILINE)[1:]
    for block in blocks:
        name, sm = re.match(r"'(\w+)' for '(sm_\d+)'", block).groups()
        shared = re.search(r'(\d+) bytes smem', block)
        yield Kernel(name, ARCHITECTURES[sm], int(re.search(r'Used (\d+) registers', block)[1]),
                     int(re.search(r'(\d+) bytes spill stores', block)[1]), int(shared[1]) if shared else 0)


def row_of(name):
    return next((row for row, pattern in ROWS if re.fullmatch(pattern, name)), None)


def written(counts):
    low, high = min(counts), max(counts)
    return str(low) if low == high else f'{low} to {high}'


def faults_of(kernels, page):
    """Yields a sentence for each that there is."""
    names = {of: {kernel.name for kernel in kernels if kernel.architecture == of} for of in ARCHITECTURES.values()}
    for of, there in names.items():
        for name in sorted(set().union(*names.values()) - there):
            yield f'{name} is not there for {of}'
    registers = collections.defaultdict(lambda: collections.defaultdict(list))
    for kernel in kernels:
        row = row_of(kernel.name)
        registers[row][kernel.architecture].append(kernel.registers)
        if row is None:
            yield f'{kernel.name} belongs to no row'
        if kernel.shared != SHARED.get(kernel.name, 0):
            yield f'{kernel.name} for {kernel.architecture} has {kernel.shared} bytes of shared memory'
    spilling = {(kernel.name, kernel.architecture) for kernel in kernels if kernel.spilled}
    if spilling != SPILLING:
        yield f'these spill, or no more: {sorted(spilling ^ SPILLING)}'
    for row, _ in ROWS:
        line = '| ' + ' | '.join([row] + [written(registers[row][of]) for of in ARCHITECTURES.values()]) + ' |'
        if line not in page:
            yield f'the table has no line "{line}"'


def main():
    report, page, nvcc = sys.argv[1:]
    release = re.search(r'release ([\d.]+)', subprocess.run([nvcc, '--version'], stdout=subprocess.PIPE, text=True,
                                                            check=True).stdout)[1]
    if release != TABLE_OF:
        print(f'the table is of nvcc {TABLE_OF}, and this is {release}')
        sys.exit(77)
    kernels = list(kernels_in(pathlib.Path(report).read_text()))
    faults = list(faults_of(kernels, pathlib.Path(page).read_text().splitlines()))
    print(f'{len(kernels)} kernels, each architecture counted')
    for fault in faults:
        print(fault)
    sys.exit(1 if faults or not kernels else 0)


main()
