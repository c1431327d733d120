"""What ranks do together, once they have agreed on it. A rank that has joined has no entry for a call."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from banyan.torch.horovod._entry import Entry, Signature
from banyan.torch.horovod._wire import Wire, flat


def bytes_of(signatures: list[Signature]) -> int:
    """The bytes of their tensors."""
    return sum(math.prod(each.shape) * (each.dtype.itemsize if each.dtype is not None else 0) for each in signatures)


def run(wire: Wire, signatures: list[Signature], entries: list[Entry | None], joined: set[int]) -> list[Any]:
    """Their results, or errors that are the same on all ranks. Several are sums that may be one."""
    if signatures[0].kind == 'allreduce':
        return _allreduce(wire, signatures, entries)
    return [_RUN[signatures[0].kind](wire, signatures[0], entries[0], joined)]


def _scale(tensor: torch.Tensor, factor: float) -> None:
    if factor != 1:
        tensor.mul_(factor)


def _allreduce(wire: Wire, signatures: list[Signature], entries: list[Entry | None]) -> list[Any]:
    first = signatures[0]
    outs = [torch.zeros(each.shape, dtype=each.dtype) if entry is None else entry.out
            for each, entry in zip(signatures, entries)]
    for out, entry in zip(outs, entries):
        if entry is not None and out is not entry.tensor:
            out.copy_(entry.tensor)
    if len(outs) == 1 and outs[0].is_contiguous():
        whole = flat(outs[0])
    else:
        whole = torch.cat([out.detach().reshape(-1) for out in outs])
    _scale(whole, first.before)
    wire.allreduce(whole, first.op, first.codec)
    _scale(whole, first.after)
    if len(outs) > 1 or not outs[0].is_contiguous():
        begin = 0
        for out in outs:
            out.detach().copy_(whole[begin:begin + out.numel()].view(out.shape))
            begin += out.numel()
    return list(outs)


def _allgather(wire: Wire, signature: Signature, entry: Entry | None, joined: set[int]) -> Any:
    rest = signature.shape
    mine = torch.empty((0, *rest), dtype=signature.dtype) if entry is None else entry.tensor.contiguous()
    rows = [int(count) for count in wire.gather_numbers(np.array([mine.shape[0]], np.int64))[:, 0]]
    out = torch.empty((sum(rows), *rest), dtype=signature.dtype, device=mine.device)
    each = math.prod(rest)
    wire.allgather(flat(mine), [count * each for count in rows], flat(out))
    return out, rows


def _broadcast(wire: Wire, signature: Signature, entry: Entry | None, joined: set[int]) -> Any:
    if signature.root in joined:
        return ValueError(f'{signature}: rank {signature.root} has joined, and has nothing to broadcast')
    if entry is None:
        out = torch.empty(signature.shape, dtype=signature.dtype)
    else:
        out = entry.out
        if out is not entry.tensor:
            out.copy_(entry.tensor)
    whole = out.detach().contiguous()
    wire.broadcast(flat(whole), signature.root)
    if whole.data_ptr() != out.data_ptr():
        out.detach().copy_(whole)
    return out


def _alltoall(wire: Wire, signature: Signature, entry: Entry | None, joined: set[int]) -> Any:
    if joined:
        return ValueError(f'{signature}: there is no alltoall once a rank has joined')
    mine = entry.tensor.contiguous()
    sent = entry.splits
    all_sent = wire.gather_numbers(np.array(sent, np.int64))
    came = [int(count) for count in all_sent[:, wire.rank]]
    out = torch.empty((sum(came), *signature.shape), dtype=signature.dtype, device=mine.device)
    each = math.prod(signature.shape)
    wire.alltoall(flat(mine), [count * each for count in sent], [count * each for count in came], flat(out))
    return out, came


def shares(rows: int, ranks: int) -> list[int]:
    """Rows of each rank, of which the first ranks may have one more."""
    return [rows // ranks + (1 if rank < rows % ranks else 0) for rank in range(ranks)]


def _reducescatter(wire: Wire, signature: Signature, entry: Entry | None, joined: set[int]) -> Any:
    mine = torch.zeros(signature.shape, dtype=signature.dtype) if entry is None else entry.tensor.clone(
        memory_format=torch.contiguous_format)
    rows = shares(signature.shape[0], wire.size)
    each = math.prod(signature.shape[1:])
    out = torch.empty((rows[wire.rank], *signature.shape[1:]), dtype=signature.dtype, device=mine.device)
    _scale(mine, signature.before)
    wire.reduce_scatter(flat(mine), [count * each for count in rows], flat(out), signature.op)
    _scale(out, signature.after)
    return out


def _barrier(wire: Wire, signature: Signature, entry: Entry | None, joined: set[int]) -> Any:
    return None  # that all have said it is all


_RUN = {'allgather': _allgather, 'broadcast': _broadcast, 'alltoall': _alltoall, 'reducescatter': _reducescatter,
        'barrier': _barrier}
