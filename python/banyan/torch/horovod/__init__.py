"""Horovod's surface for PyTorch: `import banyan.torch.horovod as hvd` in place of `import horovod.torch as hvd`.

Calls have names, and are done once all ranks have asked for them, in whatever order. There is no elastic training, no
Adasum, no SyncBatchNorm, and all ranks are one process set.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from banyan.torch.horovod._compression import Compression, Compressor
from banyan.torch.horovod._gradients import (
    allgather, allreduce, allreduce_, alltoall, broadcast, broadcast_, grouped_allreduce, grouped_allreduce_,
    reducescatter)
from banyan.torch.horovod._ops import (
    Adasum, Average, Max, Min, Product, ReduceOp, Sum, allgather_async, allreduce_async, allreduce_async_,
    alltoall_async, barrier, broadcast_async, broadcast_async_, global_process_set, grouped_allreduce_async,
    grouped_allreduce_async_, join, poll, reducescatter_async, synchronize)
from banyan.torch.horovod._optimizer import DistributedOptimizer
from banyan.torch.horovod._process import (
    cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank, local_size, rank, shutdown, size)
from banyan.torch.horovod._states import (
    allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters)



def mpi_threads_supported() -> bool:
    """MPI has no part in this."""
    return False


def mpi_built(verbose: bool = False) -> bool:
    """MPI has no part in this."""
    return False


def gloo_built(verbose: bool = False) -> bool:
    """Gloo has no part in this."""
    return False


def nccl_built(verbose: bool = False) -> int:
    """NCCL has no part in this surface: scripts ask in order to choose Adasum's scaling."""
    return 0


def cuda_built(verbose: bool = False) -> bool:
    """Tensors on GPUs are taken wherever the process has a driver."""
    return True


__all__ = [
    'Adasum', 'Average', 'Compression', 'Compressor', 'DistributedOptimizer', 'Max', 'Min', 'Product', 'ReduceOp', 'Sum',
    'allgather', 'allgather_async', 'allgather_object', 'allreduce', 'allreduce_', 'allreduce_async',
    'allreduce_async_', 'alltoall', 'alltoall_async', 'barrier', 'broadcast', 'broadcast_', 'broadcast_async',
    'broadcast_async_', 'broadcast_object', 'broadcast_optimizer_state', 'broadcast_parameters', 'cross_rank',
    'cross_size', 'cuda_built', 'global_process_set', 'gloo_built', 'grouped_allreduce', 'grouped_allreduce_',
    'grouped_allreduce_async', 'grouped_allreduce_async_', 'init', 'is_homogeneous', 'is_initialized', 'join',
    'local_rank', 'local_size', 'mpi_built', 'mpi_threads_supported', 'nccl_built', 'poll', 'rank', 'reducescatter',
    'reducescatter_async', 'shutdown', 'size', 'synchronize']
