"""Arrays of types that numpy has no letter for, as ml_dtypes shows them, and a producer of DLPack."""
# SPDX-License-Identifier: Apache-2.0

import ctypes
import types

import numpy as np


class Named:
    """An array of 'bfloat16', 'float8_e4m3fn' or 'float8_e5m2' over numpy's unsigned integers."""

    def __init__(self, name, values):
        self.dtype = types.SimpleNamespace(name=name)
        self.bits = to_bits(name, np.asarray(values, np.float32))

    @property
    def __array_interface__(self):
        shown = dict(self.bits.__array_interface__)
        kind = 'f' if self.dtype.name == 'float8_e5m2' else 'V'  # as ml_dtypes has it
        shown['typestr'] = f'<{kind}{self.bits.itemsize}'
        shown.pop('descr', None)
        return shown

    def values(self):
        return to_values(self.dtype.name, self.bits)


def to_bits(name, values):
    """Of values that the type has exactly."""
    if name == 'bfloat16':
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    if name == 'float8_e5m2':
        return (values.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8)
    table = to_values(name, np.arange(127, dtype=np.uint8))
    return np.array([int(np.argmin(np.abs(table - abs(v)))) + (128 if v < 0 else 0) for v in values.ravel()],
                    np.uint8).reshape(values.shape)


def to_values(name, bits):
    if name == 'bfloat16':
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if name == 'float8_e5m2':
        return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    sign, exponent, fraction = bits >> 7, (bits >> 3) & 15, bits & 7
    magnitude = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0**(exponent.astype(int) - 7))
    return np.where(sign == 1, -magnitude, magnitude)


class DlType(ctypes.Structure):
    _fields_ = [('code', ctypes.c_uint8), ('bits', ctypes.c_uint8), ('lanes', ctypes.c_uint16)]


class DlTensor(ctypes.Structure):
    _fields_ = [('data', ctypes.c_void_p), ('device_type', ctypes.c_int32), ('device_id', ctypes.c_int32),
                ('ndim', ctypes.c_int32), ('dtype', DlType), ('shape', ctypes.c_void_p),
                ('strides', ctypes.c_void_p), ('byte_offset', ctypes.c_uint64)]


class Old(ctypes.Structure):
    _fields_ = [('tensor', DlTensor), ('context', ctypes.c_void_p), ('deleter', ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [('major', ctypes.c_uint32), ('minor', ctypes.c_uint32), ('context', ctypes.c_void_p),
                ('deleter', ctypes.c_void_p), ('flags', ctypes.c_uint64), ('tensor', DlTensor)]


capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype = ctypes.py_object
capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Producer:
    """Exports memory of numpy by DLPack only, in the old layout or the versioned one."""

    def __init__(self, array, code=2, *, version=None, flags=0, device=1, offset=0, strides=None, major=None):
        self.array, self.version, self.device = array, version, device
        self.exports = 0
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = None if strides is None else (ctypes.c_int64 * array.ndim)(*strides)
        tensor = DlTensor(array.ctypes.data - offset, device, 0, array.ndim, DlType(code, array.itemsize * 8, 1),
                          ctypes.addressof(self.shape), self.strides and ctypes.addressof(self.strides), offset)
        if version is None:
            self.managed, self.name = Old(tensor, None, None), b'dltensor'
        else:
            self.managed = Versioned(major or version[0], version[1], None, None, flags, tensor)
            self.name = b'dltensor_versioned'

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, **options):
        if self.version is None and 'max_version' in options:
            raise TypeError('an unexpected keyword argument max_version')
        self.exports += 1
        return capsule_new(ctypes.addressof(self.managed), self.name, None)
