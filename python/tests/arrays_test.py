"""What arrays are taken, that nothing is copied, and what is said of those that are not taken."""
# SPDX-License-Identifier: Apache-2.0

import array as plain
import gc
import weakref

import numpy as np
import pytest
from named import Named, Producer

import banyan
from banyan import _core


def place(array, writable=True):
    return _core.describe(array, writable)


@pytest.mark.parametrize('kind', ['int8', 'uint8', 'int32', 'uint32', 'int64', 'uint64', 'float16', 'float32', 'float64'])
def test_arrays_of_numpy_stay_where_they_are(kind):
    array = np.zeros((3, 5), kind)
    assert place(array) == (array.ctypes.data, 15, kind)
    assert place(array[1:])[0] == array.ctypes.data + 5 * array.itemsize
    assert place(array[:, :0])[1] == 0
    assert place(np.array(1, kind))[1] == 1


def test_the_buffer_protocol():
    room = bytearray(16)
    assert place(room)[1:] == (16, 'uint8')
    assert place(memoryview(room)[4:])[0] == place(room)[0] + 4
    assert place(plain.array('d', [1, 2]))[1:] == (2, 'float64')
    assert place(b'abc', writable=False)[1:] == (3, 'uint8')
    with pytest.raises(ValueError, match='array is read-only'):
        place(b'abc')


@pytest.mark.parametrize('name, bytes_each', [('bfloat16', 2), ('float8_e4m3fn', 1), ('float8_e5m2', 1)])
def test_types_that_numpy_has_no_letter_for(name, bytes_each):
    array = Named(name, [1, 2, 3])
    assert place(array) == (array.bits.ctypes.data, 3, name)
    assert array.bits.itemsize == bytes_each


def test_ml_dtypes():
    ml_dtypes = pytest.importorskip('ml_dtypes', reason='no ml_dtypes; pip install ml_dtypes')
    for name in ('bfloat16', 'float8_e4m3fn', 'float8_e5m2'):
        array = np.ones(3, getattr(ml_dtypes, name))
        assert place(array) == (array.ctypes.data, 3, name)


@pytest.mark.parametrize('version', [None, (1, 0), (1, 3)])
def test_dlpack(version, alone):
    memory = np.arange(6, dtype=np.float32).reshape(2, 3)
    producer = Producer(memory, version=version, offset=8)
    assert place(producer) == (memory.ctypes.data, 6, 'float32')
    assert alone.allreduce(producer, out=producer, op=alone.premulsum(2.0)) is producer
    assert memory.ravel().tolist() == [0, 2, 4, 6, 8, 10]
    assert place(Producer(memory, version=version, strides=(3, 1)))[1] == 6


@pytest.mark.parametrize('code, dtype, name', [
    (0, np.int8, 'int8'), (1, np.uint64, 'uint64'), (2, np.float16, 'float16'), (4, np.uint16, 'bfloat16'),
    (10, np.uint8, 'float8_e4m3fn'), (12, np.uint8, 'float8_e5m2')])
def test_codes_of_dlpack(code, dtype, name):
    assert place(Producer(np.zeros(4, dtype), code, version=(1, 1)))[1:] == (4, name)


def test_dlpack_of_torch(alone):
    torch = pytest.importorskip('torch', reason='no torch; tools/install-deps has python3-torch as a peer')
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert place(tensor) == (tensor.data_ptr(), 6, 'float32')
    assert alone.allreduce(tensor, out=tensor, op=alone.premulsum(2.0)) is tensor
    assert tensor.ravel().tolist() == [0, 2, 4, 6, 8, 10]
    assert place(tensor.to(torch.bfloat16))[2] == 'bfloat16'
    with pytest.raises(TypeError, match='out is missing: array is a Tensor'):
        alone.allreduce(tensor)
    with pytest.raises(ValueError, match='not contiguous'):
        alone.allreduce(tensor.t(), out=tensor)
    with pytest.raises((ValueError, RuntimeError, BufferError), match='require'):
        place(torch.ones(3, requires_grad=True))


def test_what_dlpack_may_not_be():
    memory = np.zeros((2, 3), np.float32)
    for producer, error, text in [
            (Producer(memory, version=(1, 0), flags=1), ValueError, 'read-only'),
            (Producer(memory, strides=(1, 2)), ValueError, 'not contiguous'),
            (Producer(memory, device=7), TypeError, "a device of DLPack's kind 7"),
            (Producer(memory, code=5), TypeError, "DLPack's code 5 with 32 bits"),
            (Producer(memory, version=(1, 0), major=2), ValueError, 'exports DLPack 2; known are 0 and 1')]:
        with pytest.raises(error, match=text):
            place(producer)


def test_what_is_no_array(alone):
    floats = np.ones(4, np.float32)
    for call, error, text in [
            (lambda: alone.allreduce([1.0, 2.0], out=floats), TypeError, 'array is a list; valid: an array of numpy'),
            (lambda: alone.allreduce(None, out=floats), ValueError, 'array is None'),
            (lambda: alone.allreduce(floats, out=7), TypeError, 'out is a int'),
            (lambda: alone.allreduce(np.ones(4, bool)), TypeError, 'valid: int8, uint8'),
            (lambda: alone.allreduce(np.ones(4, np.int16)), TypeError, 'array has elements of int16'),
            (lambda: alone.allreduce(np.ones(4, complex)), TypeError, 'elements of'),
            (lambda: alone.allreduce(np.ones(4, '>f4')), TypeError, 'elements of'),
            (lambda: alone.allreduce(floats[::2]), ValueError, 'array is not contiguous.*numpy.ascontiguousarray'),
            (lambda: alone.allreduce(np.asfortranarray(np.ones((2, 2)))), ValueError, 'not contiguous'),
            (lambda: alone.allreduce(floats, out=np.ones(5, np.float32)), ValueError, 'out has 5 elements; right is 4'),
            (lambda: alone.allreduce(floats, out=np.ones(4)), TypeError, 'array has elements of float32, out of float64'),
            (lambda: alone.allreduce(floats, op='mean'), ValueError, "op is 'mean'; valid: 'sum', 'prod'"),
            (lambda: alone.allreduce(floats, timeout=-1), ValueError, 'timeout is -1; valid: seconds above 0'),
            (lambda: alone.allreduce(floats, compress='int9'), ValueError, 'int9'),
            (lambda: alone.allreduce(floats, compress=8), TypeError, 'compress is a int; valid'),
            (lambda: alone.allreduce(floats, algorithm='no'), ValueError, 'no'),
            (lambda: alone.allgatherv(floats, [4, 4]), ValueError, 'recv_counts has 2 entries; right is 1'),
            (lambda: alone.allgatherv(floats, [3], out=floats), ValueError, 'array has 4 elements; right is 3'),
            (lambda: alone.alltoallv(floats, [5], [4]), ValueError, 'array has 4 elements, and the blocks of send_counts end after 5'),
            (lambda: alone.alltoallv(floats, [4], [-1], out=floats), ValueError, 'recv_counts has -1'),
            (lambda: alone.broadcast(floats, root=1), ValueError, 'root'),
            (lambda: alone.request('allsum', floats, floats), ValueError, "collective is 'allsum'; valid: allreduce"),
            (lambda: alone.request('allgatherv', floats, floats), ValueError, 'needs the counts'),
            (lambda: alone.premulsum(np.ones(2)), ValueError, 'scalar has 2 elements; right is 1'),
            (lambda: alone.explain('barrier', stride=1), TypeError, 'unknown options')]:
        with pytest.raises(error, match=text):
            call()
    readonly = floats.copy()
    readonly.flags.writeable = False
    with pytest.raises(ValueError, match='array is read-only, and the call writes to it'):
        alone.allreduce(readonly, out=readonly)
    assert (alone.allreduce(readonly) == floats).all()  # which harmed nothing


def test_settings_are_checked():
    for settings, error, text in [
            ({'determinism': 'maybe'}, ValueError, "determinism is 'maybe'; valid: 'default'"),
            ({'timeout': 0}, ValueError, 'timeout is 0; valid: seconds above 0'),
            ({'init_timeout': float('nan')}, ValueError, 'init_timeout is nan'),
            ({'compress': 'int9'}, banyan.InvalidArgument, 'int9'),
            ({'colour': 1}, TypeError, 'colour')]:
        with pytest.raises(error, match=text):
            banyan.Comm.create(0, 1, banyan.unique_id(), **settings)
    with pytest.raises(ValueError, match='unique_id has 3 bytes; right is .* 128'):
        banyan.Comm.create(0, 1, b'abc')
    with pytest.raises(ValueError, match='at most one bound'):
        banyan.Compression(absolute=1, relative=1)


def test_a_request_keeps_its_arrays(alone):
    class Array(np.ndarray):
        pass

    array = np.ones(4, np.float32).view(Array)
    gone = weakref.ref(array)
    request = alone.request('allreduce', array, array)
    del array
    gc.collect()
    assert gone() is not None
    request.start().wait()
    request.close()
    gc.collect()
    assert gone() is None
    with pytest.raises(banyan.InvalidUsage, match='the request is closed'):
        request.start()
