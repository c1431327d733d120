"""Calls on tensors, by name: they are done once all ranks have asked for them, in whatever order."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import torch

import banyan
from banyan.torch.horovod._compression import Compression, Compressor
from banyan.torch.horovod._entry import Entry, Signature
from banyan.torch.horovod._process import process


class ReduceOp:
    """What tensors become together."""

    def __init__(self, name: str, op: str | None) -> None:
        self.name = name
        self.op = op

    def __repr__(self) -> str:
        return self.name


Average = ReduceOp('Average', 'avg')
Sum = ReduceOp('Sum', 'sum')
Min = ReduceOp('Min', 'min')
Max = ReduceOp('Max', 'max')
Product = ReduceOp('Product', 'prod')
Adasum = ReduceOp('Adasum', None)

_numbers = itertools.count()
_handles: dict[int, tuple[list[Entry], bool]] = {}  # and whether it is of a group
_handles_lock = threading.Lock()
_unnamed: dict[str, itertools.count] = {}


def _named(kind: str, name: str | None) -> str:
    if name is not None:
        return f'{kind}.{name}'
    with _handles_lock:
        return f'{kind}.noname.{next(_unnamed.setdefault(kind, itertools.count(1)))}'


def _begin(*entries: Entry, group: bool = False) -> int:
    worker = process().worker
    for entry in entries:
        if entry.tensor is not None and entry.tensor.device.type == 'cuda':
            entry.ready = torch.cuda.current_stream(entry.tensor.device).record_event()
        worker.add(entry)
    handle = next(_numbers)
    with _handles_lock:
        _handles[handle] = list(entries), group
    return handle


def _check(tensor: Any) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f'this is a {type(tensor).__name__}; right is a torch.Tensor')
    if tensor.is_sparse:
        raise ValueError('the tensor is sparse: sparse_as_dense=True, or tensor.to_dense(), makes it what can be summed')
    return tensor


def _check_op(average: bool | None, op: ReduceOp | None) -> ReduceOp:
    if average is not None and op is not None:
        raise ValueError('The op parameter supersedes average. Please provide only one of them.')
    if op is None:
        op = Average if average is None or average else Sum
    if not isinstance(op, ReduceOp):
        raise ValueError(f'op is {op!r}; valid are hvd.Average, Sum, Min, Max and Product')
    if op.op is None:
        raise banyan.Unsupported('hvd.Adasum is not in this library; hvd.Average is what most use')
    return op


def _check_set(process_set: Any) -> None:
    if process_set is not None and process_set is not global_process_set:
        raise banyan.Unsupported('process sets: all ranks are one set here; banyan.Comm.split makes others')


class _GlobalSet:
    """All ranks."""

    process_set_id = 0


global_process_set = _GlobalSet()


def _sum(tensor: torch.Tensor, out: torch.Tensor, name: str, op: ReduceOp, before: float, after: float,
         compression: type[Compressor]) -> Entry:
    _check(tensor)
    of_floats = op.op in ('avg', 'sum') and tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)
    codec = compression.codec if of_floats else None
    if tensor.dtype != torch.float32 and codec in ('fp16', 'bf16'):
        codec = None  # they are as short as that
    signature = Signature('allreduce', name, tensor.dtype, tuple(tensor.shape), op.op, codec=codec, before=before,
                          after=after)
    return Entry(signature, tensor.detach(), out=out.detach())


def allreduce_async_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
                     op: ReduceOp | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: Any = None, compression: type[Compressor] = Compression.none) -> int:
    """Begins a sum in place. Returns a handle for synchronize() and poll()."""
    _check_set(process_set)
    return _begin(_sum(tensor, tensor, _named('allreduce', name), _check_op(average, op), prescale_factor,
                       postscale_factor, compression))


def allreduce_async(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
                    op: ReduceOp | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: Any = None, compression: type[Compressor] = Compression.none) -> int:
    """Begins a sum into a new tensor, which synchronize() returns."""
    _check_set(process_set)
    return _begin(_sum(tensor, torch.empty_like(tensor), _named('allreduce', name), _check_op(average, op),
                       prescale_factor, postscale_factor, compression))


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: bool | None = None, name: str | None = None,
                             op: ReduceOp | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: Any = None, compression: type[Compressor] = Compression.none) -> int:
    """Begins the sums of several tensors in place, which are one where their types are."""
    _check_set(process_set)
    wanted = _check_op(average, op)
    base = _named('grouped_allreduce', name)
    return _begin(*[_sum(tensor, tensor, f'{base}.{index}', wanted, prescale_factor, postscale_factor, compression)
                    for index, tensor in enumerate(tensors)], group=True)


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> int:
    """Begins the sums of several tensors into new ones."""
    return grouped_allreduce_async_([_check(tensor).detach().clone() for tensor in tensors], *args, **kwargs)


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: Any = None) -> int:
    """Begins to put the tensors of all ranks behind each other, which differ in the first dimension at most."""
    _check_set(process_set)
    tensor = _check(tensor).detach()
    whole = tensor.reshape(1) if tensor.dim() == 0 else tensor
    return _begin(Entry(Signature('allgather', _named('allgather', name), whole.dtype, tuple(whole.shape[1:])), whole))


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: Any = None) -> int:
    """Begins to write the root's tensor to those of all ranks."""
    return _broadcast(tensor, tensor, root_rank, name, process_set)


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: Any = None) -> int:
    """Begins to send the root's tensor, of which synchronize() returns a copy."""
    return _broadcast(tensor, torch.empty_like(tensor), root_rank, name, process_set)


def _broadcast(tensor: torch.Tensor, out: torch.Tensor, root: int, name: str | None, process_set: Any) -> int:
    _check_set(process_set)
    _check(tensor)
    if not 0 <= root < process().size:
        raise ValueError(f'root_rank is {root}; right is one from 0 to {process().size - 1}')
    signature = Signature('broadcast', _named('broadcast', name), tensor.dtype, tuple(tensor.shape), root=root)
    return _begin(Entry(signature, tensor.detach(), out=out.detach()))


def alltoall_async(tensor: torch.Tensor, splits: Any = None, name: str | None = None, process_set: Any = None) -> int:
    """Begins to send each rank so many rows of the tensor; the same number, where no splits say how many."""
    _check_set(process_set)
    tensor = _check(tensor).detach()
    ranks = process().size
    if tensor.dim() == 0:
        raise ValueError('the tensor has no dimension; right is one that can be cut at its first')
    rows = tensor.shape[0]
    counts = [int(count) for count in splits] if splits is not None else [rows // ranks] * ranks
    if len(counts) != ranks or any(count < 0 for count in counts) or sum(counts) != rows:
        raise ValueError(f'splits are {counts} of {rows} rows; right are {ranks} numbers whose sum is {rows}')
    signature = Signature('alltoall', _named('alltoall', name), tensor.dtype, tuple(tensor.shape[1:]))
    entry = Entry(signature, tensor, splits=counts)
    entry.said_splits = splits is not None
    return _begin(entry)


def reducescatter_async(tensor: torch.Tensor, op: ReduceOp = Average, name: str | None = None, process_set: Any = None,
                        prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> int:
    """Begins a sum of which each rank has some rows; the first ones may have one more."""
    _check_set(process_set)
    tensor = _check(tensor).detach()
    if tensor.dim() == 0:
        raise ValueError('the tensor has no dimension; right is one that can be cut at its first')
    signature = Signature('reducescatter', _named('reducescatter', name), tensor.dtype, tuple(tensor.shape),
                          _check_op(None, op).op, before=prescale_factor, after=postscale_factor)
    return _begin(Entry(signature, tensor))


def poll(handle: int) -> bool:
    """Whether synchronize() would return at once."""
    return all(entry.done.is_set() for entry in entries_of(handle)[0])


def entries_of(handle: int) -> tuple[list[Entry], bool]:
    """Those of the handle, and whether it is of a group."""
    with _handles_lock:
        if handle not in _handles:
            raise ValueError(f'{handle!r} is no handle of a call that nobody has synchronized with yet')
        return _handles[handle]


def synchronize(handle: int) -> Any:
    """Waits for a call. Returns its result: a tensor; of a group, a list of them; of an alltoall with splits, the tensor
    and the rows that came from each rank."""
    entries, group = entries_of(handle)
    for entry in entries:
        entry.done.wait()
    with _handles_lock:
        _handles.pop(handle, None)
    for entry in entries:
        if entry.error is not None:
            raise entry.error
    results = [_result(entry) for entry in entries]
    return results if group else results[0]


def _result(entry: Entry) -> Any:
    kind = entry.signature.kind
    if kind == 'allgather':
        return entry.result[0]
    if kind == 'alltoall':
        out, came = entry.result
        return (out, torch.tensor(came, dtype=torch.int32)) if entry.said_splits else out
    return entry.result


def join(device: int = -1) -> int:
    """Says that this rank has no more data. Until all ranks say so, it takes part in their sums with zeros. Returns the
    rank that was the last to say so."""
    return process().worker.join()


def barrier(process_set: Any = None) -> None:
    """Returns once all ranks have called it."""
    _check_set(process_set)
    synchronize(_begin(Entry(Signature('barrier', _named('barrier', None)))))
