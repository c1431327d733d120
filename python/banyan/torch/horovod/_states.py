"""States of models and optimizers, and other objects, from one rank to all."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from banyan.torch.horovod import _gradients, _ops
from banyan.torch.horovod._process import process


def broadcast_parameters(params: Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]], root_rank: int,
                         prefix: str | None = None) -> None:
    """Writes the root's tensors to those of all ranks: model.state_dict(), or model.named_parameters()."""
    if isinstance(params, Mapping):
        named = sorted(params.items())
    else:
        named = [each if isinstance(each, tuple) else (None, each) for each in params]
    handles = []
    for number, (name, tensor) in enumerate(named):
        if tensor is None or not isinstance(tensor, torch.Tensor):
            continue
        handles.append(_ops.broadcast_async_(tensor, root_rank, f'{prefix or "parameter"}.{name or number}'))
    for handle in handles:
        _ops.synchronize(handle)


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None, process_set: Any = None) -> Any:
    """Returns the root's object. It is pickled, so ranks trust each other."""
    _ops._check_set(process_set)
    name = name or type(obj).__name__
    is_root = process().rank == root_rank
    said = io.BytesIO()
    if is_root:
        pickle.dump(obj, said)
    count = torch.tensor([said.tell()], dtype=torch.int64)
    _gradients.broadcast_(count, root_rank, f'{name}.length')
    message = torch.frombuffer(bytearray(said.getvalue()), dtype=torch.uint8) if is_root else torch.empty(
        int(count), dtype=torch.uint8)
    _gradients.broadcast_(message, root_rank, f'{name}.object')
    return obj if is_root else pickle.loads(message.numpy().tobytes())


def allgather_object(obj: Any, name: str | None = None, process_set: Any = None) -> list[Any]:
    """Returns the objects of all ranks, by rank. They are pickled, so ranks trust each other."""
    _ops._check_set(process_set)
    name = name or type(obj).__name__
    said = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8)
    lengths = _gradients.allgather(torch.tensor([said.numel()]), f'{name}.lengths')
    whole = _gradients.allgather(said, f'{name}.objects').numpy()
    objects, begin = [], 0
    for length in lengths.tolist():
        objects.append(pickle.loads(whole[begin:begin + length].tobytes()))
        begin += length
    return objects


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None) -> None:
    """Gives all ranks the state of the root's optimizer: its tensors, its numbers, and its groups' settings."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError('cannot broadcast torch.optim.LBFGS state: its history is no list of tensors')
    tensors: list[torch.Tensor] = []

    def without_tensors(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return _Place(len(tensors) - 1, tuple(value.shape), value.dtype)
        if isinstance(value, dict):
            return {key: without_tensors(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(without_tensors(each) for each in value)
        return value

    is_root = process().rank == root_rank
    bare = without_tensors(optimizer.state_dict()) if is_root else None
    bare, places = broadcast_object((bare, [(tuple(each.shape), each.dtype) for each in tensors] if is_root else None),
                                    root_rank, 'optimizer_state')
    if not is_root:
        tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in places]
    broadcast_parameters([(str(index), each) for index, each in enumerate(tensors)], root_rank, 'optimizer_state')

    def with_tensors(value: Any) -> Any:
        if isinstance(value, _Place):
            return tensors[value.index]
        if isinstance(value, dict):
            return {key: with_tensors(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(with_tensors(each) for each in value)
        return value

    if not is_root:
        optimizer.load_state_dict(with_tensors(bare))


class _Place:
    """Stands for a tensor of the list."""

    def __init__(self, index: int, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.index = index
        self.shape = shape
        self.dtype = dtype
