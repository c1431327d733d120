"""Codecs by themselves: the bytes are those that the C function writes."""
# SPDX-License-Identifier: Apache-2.0

import ctypes

import numpy as np
import pytest

import banyan


class How(ctypes.Structure):
    _fields_ = [('size', ctypes.c_size_t), ('codec', ctypes.c_char_p), ('seed', ctypes.c_uint64),
                ('step', ctypes.c_uint64), ('residual', ctypes.c_void_p), ('nonfinite', ctypes.c_uint64),
                ('kept', ctypes.c_uint64)]


def library():
    with open('/proc/self/maps', encoding='utf-8') as maps:
        return ctypes.CDLL(next(line.split()[-1] for line in maps if 'libbanyan.so' in line))


def encode_in_c(codec, array, seed, step):
    how = How(ctypes.sizeof(How), codec.encode(), seed, step)
    room = ctypes.create_string_buffer(1 << 20)
    length = ctypes.c_size_t(len(room))
    assert library().banyan_encode(ctypes.byref(how), ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.size), 7,
                                   room, ctypes.byref(length)) == 0
    return room.raw[:length.value]


VALUES = np.random.default_rng(1).standard_normal(5003).astype(np.float32)


@pytest.mark.parametrize('codec', ['int8', 'int4+sr', 'dyn8', 'bf16', 'fp16', 'e4m3', 'onebit', 'threshold:1',
                                   'topk:0.01', 'randk:0.1'])
def test_bytes_are_those_of_c(codec):
    message = banyan.encode(codec, VALUES, seed=3, step=4)
    assert message == encode_in_c(codec, VALUES, 3, 4)
    assert len(message) <= banyan.encode_bound(codec, VALUES.size)
    room = np.empty(banyan.encode_bound(codec, VALUES.size), np.uint8)
    did = banyan.encode_into(codec, VALUES, room, seed=3, step=4)
    assert bytes(room[:did.bytes]) == message and did.nonfinite == 0 and 0 < did.kept <= VALUES.size


def test_what_a_message_leaves():
    residual = np.zeros_like(VALUES)
    message = banyan.encode('int8', VALUES, residual=residual)
    decoded = banyan.decode(message, np.empty_like(VALUES))
    np.testing.assert_allclose(decoded + residual, VALUES, rtol=1e-6, atol=1e-6)
    assert 0 < np.abs(residual).max() < 0.05
    total = VALUES.copy()
    assert banyan.decode_add(message, total) is total
    np.testing.assert_allclose(total, VALUES + decoded, rtol=1e-6)
    half = banyan.decode(bytearray(message), np.empty(VALUES.size, np.float16))
    np.testing.assert_array_equal(half, decoded.astype(np.float16))


def test_wrong_messages_and_codecs():
    message = banyan.encode('int8', VALUES)
    out = np.empty_like(VALUES)
    with pytest.raises(banyan.Corrupt) as error:
        banyan.decode(message[:-1], out)
    assert error.value.result == 'CORRUPT' and error.value.failed_rank is None
    with pytest.raises(banyan.Corrupt):
        banyan.decode(message, out[:-1])
    with pytest.raises(banyan.InvalidArgument, match='int9'):
        banyan.encode('int9', VALUES)
    with pytest.raises(ValueError, match='residual is to have float32'):
        banyan.encode('int8', VALUES, residual=np.zeros(3, np.float32))
    with pytest.raises(banyan.InvalidArgument):
        banyan.encode_into('int8', VALUES, bytearray(10))
    assert banyan.decode(banyan.encode('int8', VALUES[:0]), out[:0]).size == 0
