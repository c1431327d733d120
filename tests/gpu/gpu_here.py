#!/usr/bin/env python3
"""Says in one sentence which GPUs the tests of tools/test --gpu would have, or why they have none: then it exits with 77."""
# SPDX-License-Identifier: Apache-2.0

import ctypes
import sys


def driver():
    try:
        return ctypes.CDLL('libcuda.so.1')
    except OSError:
        return None


def why_none():
    """Why there is no GPU; empty: there is one. Initialises the driver in this process."""
    cuda = driver()
    if cuda is None:
        return 'there is no libcuda.so.1'
    if said := cuda.cuInit(0):
        return f'cuInit says {said}' + (', which is CUDA_ERROR_NO_DEVICE' if said == 100 else '')
    count = ctypes.c_int(0)
    if said := cuda.cuDeviceGetCount(ctypes.byref(count)):
        return f'cuDeviceGetCount says {said}'
    return '' if count.value > 0 else 'the driver counts no device'


def names():
    """The name of each device. After why_none() has found some."""
    cuda, count, device = driver(), ctypes.c_int(0), ctypes.c_int(0)
    cuda.cuDeviceGetCount(ctypes.byref(count))
    text = ctypes.create_string_buffer(256)
    for ordinal in range(count.value):
        if cuda.cuDeviceGet(ctypes.byref(device), ordinal) == 0 and cuda.cuDeviceGetName(text, len(text), device) == 0:
            yield text.value.decode(errors='replace')


def main():
    if why := why_none():
        print(f'no GPU: {why}')
        return 77
    print('GPU: ' + ', '.join(names()))
    return 0


if __name__ == '__main__':
    sys.exit(main())
