#!/usr/bin/env python3
"""What others make of a sample of all floats has the hashes of sweep_test.cc: numpy's float16 and ml_dtypes' formats.

It exits with 77 where numpy is not there, and leaves out what ml_dtypes would have.
"""
# SPDX-License-Identifier: Apache-2.0

import hashlib
import pathlib
import re
import sys
import unittest

try:
    import numpy
except ImportError:
    numpy = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

SWEEP = pathlib.Path(__file__).with_name('sweep_test.cc').read_text(encoding='utf-8')
BLOCK, SUPERBLOCK, TOGETHER = 256, 4096, 16
STRIDE = int(re.search(r'kSample = (\d+)', SWEEP)[1])


def wanted(name):
    return re.search(rf'\{{"{name}", [^}}]*?"([0-9a-f]{{64}})"', SWEEP)[1]


def batches(first, largest):
    """Superblocks of float32 as the sweep makes them: a block begins with `first`, what is too large is a zero."""
    start = 0
    while start < 1 << 32:
        patterns = start + STRIDE * numpy.arange(TOGETHER * SUPERBLOCK // BLOCK * (BLOCK - 1), dtype=numpy.int64)
        start = int(patterns[-1]) + STRIDE
        values = numpy.where(patterns < 1 << 32, patterns, 0).astype(numpy.uint32).view(numpy.float32)
        if largest is not None:
            values = numpy.where(numpy.abs(values) <= largest, values, numpy.float32(0))
        blocks = numpy.full((TOGETHER * SUPERBLOCK // BLOCK, BLOCK), first, numpy.float32)
        blocks[:, 1:] = values.reshape(-1, BLOCK - 1)
        yield blocks.reshape(-1)


def hash_of_cast(kind, nan):
    digest = hashlib.sha256()
    for values in batches(1, None):
        with numpy.errstate(all='ignore'):
            bits = values.astype(kind).view(numpy.uint16)
        digest.update(numpy.where(numpy.isnan(values), numpy.uint16(nan), bits).astype('<u2').tobytes())
    return digest.hexdigest()


def hash_of_scaled(kind, top):
    digest = hashlib.sha256()
    scale = numpy.float32(top) * (numpy.float32(1) / numpy.float32(top))
    scales = numpy.full((TOGETHER, SUPERBLOCK // BLOCK), scale, '<f4').view(numpy.uint8)
    for values in batches(top, top):
        codes = values.astype(kind).view(numpy.uint8).reshape(TOGETHER, SUPERBLOCK)
        digest.update(numpy.concatenate([scales, codes], axis=1).tobytes())
    return digest.hexdigest()


class OutsideReference(unittest.TestCase):
    def test_fp16(self):
        self.assertEqual(hash_of_cast(numpy.float16, 0x7e00), wanted('fp16'))

    @unittest.skipIf(ml_dtypes is None, 'there is no ml_dtypes')
    def test_bf16(self):
        self.assertEqual(hash_of_cast(ml_dtypes.bfloat16, 0x7fc0), wanted('bf16'))

    @unittest.skipIf(ml_dtypes is None, 'there is no ml_dtypes')
    def test_e4m3(self):
        self.assertEqual(hash_of_scaled(ml_dtypes.float8_e4m3fn, 448), wanted('e4m3'))

    @unittest.skipIf(ml_dtypes is None, 'there is no ml_dtypes')
    def test_e5m2(self):
        self.assertEqual(hash_of_scaled(ml_dtypes.float8_e5m2, 57344), wanted('e5m2'))


if __name__ == '__main__':
    if numpy is None:
        print('there is no numpy, whose casts would be compared')
        sys.exit(77)
    unittest.main()
