"""The gradient reducer: tensors of a model become ready one by one, and are summed while others are computed."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any, Union

from banyan import _core
from banyan._comm import Comm
from banyan._settings import CompressionLike, compression_fields


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of the model.

    name: what rules match, and what the calls of the reducer take.
    shape: its dimensions; one for biases and norms.
    dtype: float32, float64, float16 or bfloat16, or an object with such a name.
    id: stable over restarts, since what is kept goes by it. None: made of the name.
    compress: how it travels. None: the rules, then the communicator's setting.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Any = 'float32'
    id: int | None = None
    compress: CompressionLike = None

    @property
    def number(self) -> int:
        """The id, or 63 bits that the name has."""
        if self.id is not None:
            return self.id
        return int.from_bytes(hashlib.blake2b(self.name.encode(), digest_size=8).digest(), 'little') >> 1


Tensors = Union[Iterable[Tensor], Mapping[str, Any]]


def _type_number(dtype: Any) -> int:
    name = getattr(dtype, 'name', None) or str(dtype)  # of numpy; 'torch.float32'
    return _core.type_named(name.rpartition('.')[2])


def _listed(tensors: Tensors) -> list[Tensor]:
    if isinstance(tensors, Mapping):
        return [Tensor(name, tuple(array.shape), array.dtype) for name, array in tensors.items()]
    return list(tensors)


class Reducer:
    """Sums or averages the tensors of a model over the ranks, step by step, with error feedback.

    A step makes every tensor ready once, in any order and from any thread, and waits for them. Gradients are reduced in
    place, and are the reducer's from ready() until a wait for them has returned.

    comm: it outlives the reducer. Collective: the same tensors, in the same order, with the same settings on all ranks;
        the model's first layer comes first.
    tensors: Tensor objects, or a mapping of names to what has a shape and a dtype.
    bucket_bytes: small tensors are fused into buckets of so many bytes. 0: chosen.
    op: 'avg' or 'sum'.
    error_feedback: what compression drops is kept and sent later.
    momentum: of momentum correction, below 1, for tensors whose codec is sparse. 0: none.
    clip_norm: the gradient of a compressed tensor is scaled to a norm of at most clip_norm / sqrt(size). 0: it is not.
    warmup_steps: the density of topk and randk falls to its value over so many steps.
    rules: 'GLOB=CODEC;...': the first that matches a tensor's name decides. None: tensors of one dimension and those
        below 4,096 elements are exact, and the others go as the communicator says.
    """

    __slots__ = ('_comm', '_core', '_ids')

    def __init__(self, comm: Comm, tensors: Tensors, *, bucket_bytes: int = 0, op: str = 'avg',
                 error_feedback: bool = True, momentum: float = 0.0, clip_norm: float = 0.0, warmup_steps: int = 0,
                 rules: str | None = None) -> None:
        listed = _listed(tensors)
        if op not in ('avg', 'sum'):
            raise ValueError(f"op is {op!r}; valid: 'avg', 'sum'")
        self._ids = {tensor.name: tensor.number for tensor in listed}
        if len(self._ids) != len(listed):
            raise ValueError('two tensors have the same name; valid: different names')
        rows = [(tensor.number, tensor.name, math.prod(tensor.shape), len(tensor.shape), _type_number(tensor.dtype),
                 compression_fields(tensor.compress)) for tensor in listed]
        self._comm = comm
        self._core = _core.Reducer(comm._core, rows, (bucket_bytes, 4 if op == 'avg' else 0, error_feedback, momentum,
                                                      clip_norm, warmup_steps, rules))

    def _id(self, tensor: str | int | None) -> int:
        if tensor is None:
            return _core.all_tensors
        if isinstance(tensor, int):
            return tensor
        try:
            return self._ids[tensor]
        except KeyError:
            raise ValueError(f'no tensor {tensor!r} was registered') from None

    def ready(self, tensor: str | int, gradient: Any) -> None:
        """Says that this step's gradient of a tensor, by name or id, is there. Any thread; it does not block."""
        self._core.ready(self._id(tensor), gradient)

    def wait(self, tensor: str | int | None = None) -> None:
        """Waits until a tensor is reduced; None: until the whole step is. Any thread."""
        self._core.wait(self._id(tensor))

    def save(self) -> bytes:
        """What this rank keeps between steps: residuals, momenta, and how many steps there were. Between steps."""
        return self._core.save()

    def load(self, *blobs: bytes) -> None:
        """Takes over what former ranks have saved. Local, before the first step.

        The same number of ranks: each its own. Rank r of P now takes those of the former ranks r, r + P and so on.
        """
        self._core.load(list(blobs))

    def stats(self, tensor: str | int | None = None) -> dict[str, int | float]:
        """What happened so far to a tensor, or to all: steps, bytes_raw, bytes_sent, nonfinite, fallbacks, error_nmse,
        residual_norm, codec_seconds, wait_seconds. Counts and seconds are sums. Any thread."""
        return self._core.stats(self._id(tensor))

    def close(self) -> None:
        """Ends it, between steps; closing the communicator does so, too. Again: nothing."""
        self._core.close()

    def __enter__(self) -> Reducer:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self.close()
