"""Calls that wait for their result, through which gradients flow back."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from banyan.torch.horovod import _ops
from banyan.torch.horovod._compression import Compression, Compressor
from banyan.torch.horovod._ops import ReduceOp, Sum
from banyan.torch.horovod._process import process


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
        ctx.options = {**options, 'name': None}
        return _ops.synchronize(_ops.allreduce_async(tensor, **options))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _ops.synchronize(_ops.allreduce_async(grad.contiguous(), **ctx.options)), None


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None) -> torch.Tensor:
        handle = _ops.allgather_async(tensor, name)
        entry = _ops.entries_of(handle)[0][0]
        out = _ops.synchronize(handle)
        ctx.rows = entry.result[1]
        ctx.shape = tensor.shape
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        total = _ops.synchronize(_ops.allreduce_async(grad.contiguous(), op=Sum))
        return total.split(ctx.rows)[process().rank].reshape(ctx.shape), None


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root: int, name: str | None) -> torch.Tensor:
        ctx.root = root
        return _ops.synchronize(_ops.broadcast_async(tensor, root, name))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        total = _ops.synchronize(_ops.allreduce_async(grad.contiguous(), op=Sum))
        return total if process().rank == ctx.root else torch.zeros_like(total), None, None


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: str | None) -> tuple[torch.Tensor, torch.Tensor]:
        counts = [tensor.shape[0] // process().size] * process().size if splits is None else splits
        out, came = _ops.synchronize(_ops.alltoall_async(tensor, counts, name))
        ctx.came = came
        ctx.mark_non_differentiable(came)
        return out, came

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, *_: Any) -> tuple[torch.Tensor, None, None]:
        back, _came = _ops.synchronize(_ops.alltoall_async(grad.contiguous(), ctx.came))
        return back, None, None


def allreduce(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
              compression: type[Compressor] = Compression.none, op: ReduceOp | None = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: Any = None) -> torch.Tensor:
    """Returns the sum, average, ... of the tensors of all ranks; the same shape and type on each of them."""
    return _Allreduce.apply(tensor, {
        'average': average, 'name': name, 'op': op, 'prescale_factor': prescale_factor,
        'postscale_factor': postscale_factor, 'process_set': process_set, 'compression': compression})


def allreduce_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: ReduceOp | None = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: Any = None) -> torch.Tensor:
    """The same in place. No gradient flows back."""
    return _ops.synchronize(_ops.allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor,
                                                  process_set))


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: bool | None = None, name: str | None = None,
                      compression: type[Compressor] = Compression.none, op: ReduceOp | None = None,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: Any = None) -> list[torch.Tensor]:
    """Returns the sums of several tensors."""
    return _ops.synchronize(_ops.grouped_allreduce_async(tensors, average, name, op, prescale_factor, postscale_factor,
                                                         process_set, compression))


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: bool | None = None, name: str | None = None,
                       op: ReduceOp | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: Any = None) -> list[torch.Tensor]:
    """The same in place."""
    return _ops.synchronize(_ops.grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor,
                                                          process_set))


def allgather(tensor: torch.Tensor, name: str | None = None, process_set: Any = None) -> torch.Tensor:
    """Returns the tensors of all ranks behind each other. They may differ in the first dimension."""
    _ops._check_set(process_set)
    return _Allgather.apply(tensor, name)


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: Any = None) -> torch.Tensor:
    """Returns the root's tensor."""
    _ops._check_set(process_set)
    return _Broadcast.apply(tensor, root_rank, name)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: Any = None) -> torch.Tensor:
    """Writes the root's tensor to those of all ranks."""
    return _ops.synchronize(_ops.broadcast_async_(tensor, root_rank, name, process_set))


def alltoall(tensor: torch.Tensor, splits: Any = None, name: str | None = None, process_set: Any = None) -> Any:
    """Sends each rank some rows of the tensor. Returns those that came, and with splits how many came from each."""
    _ops._check_set(process_set)
    out, came = _Alltoall.apply(tensor, splits, name)
    return out if splits is None else (out, came)


def reducescatter(tensor: torch.Tensor, op: ReduceOp = _ops.Average, name: str | None = None,
                  compression: type[Compressor] = Compression.none, process_set: Any = None,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> torch.Tensor:
    """Returns this rank's rows of the sum. No gradient flows back, and it travels as it is."""
    return _ops.synchronize(_ops.reducescatter_async(tensor, op, name, process_set, prescale_factor, postscale_factor))
