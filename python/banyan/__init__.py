"""Banyan moves gradients between the ranks of a training job.

    import banyan, numpy
    with banyan.init() as comm:                     # under mpirun, srun, torchrun, or by hand
        x = numpy.full(1000, comm.rank, numpy.float32)
        comm.allreduce(x, out=x)                    # in place; the sum, with the same bits on all ranks

Arrays are those of numpy, or anything with the buffer protocol, __array_interface__ or DLPack. They are never copied.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from banyan import _core
from banyan._codecs import Encoded, decode, decode_add, encode, encode_bound, encode_into
from banyan._comm import Comm, init, unique_id
from banyan._errors import (
    Aborted, AccuracyError, Corrupt, CudaError, Error, InternalError, InvalidArgument, InvalidUsage, Mismatch, PeerLost,
    RemoteFailure, SystemFailure, Timeout, Unsupported)
from banyan._reducer import Reducer, Tensor
from banyan._requests import Group, Request
from banyan._settings import Compression

__version__: str = _core.version

__all__ = [
    'Aborted', 'AccuracyError', 'Comm', 'Compression', 'Corrupt', 'CudaError', 'Encoded', 'Error', 'Group',
    'InternalError', 'InvalidArgument', 'InvalidUsage', 'Mismatch', 'PeerLost', 'Reducer', 'RemoteFailure', 'Request',
    'SystemFailure', 'Tensor', 'Timeout', 'Unsupported', 'decode', 'decode_add', 'encode', 'encode_bound',
    'encode_into', 'init', 'unique_id']
