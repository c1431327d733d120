"""A call of this rank that waits for the other ranks, and what must be the same on all of them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import hashlib
import threading
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Signature:
    """What ranks compare: a call of one name has one signature.

    shape is that of the whole tensor, or without its first dimension where ranks may differ in that.
    """

    kind: str  # 'allreduce', 'allgather', 'broadcast', 'alltoall', 'reducescatter', 'barrier'
    name: str
    dtype: torch.dtype | None = None
    shape: tuple[int, ...] = ()
    op: str = 'sum'
    root: int = -1
    codec: str | None = None
    before: float = 1.0  # factors
    after: float = 1.0

    @property
    def digest(self) -> int:
        """A number of 63 bits for comparison."""
        said = hashlib.blake2b(repr(self).encode(), digest_size=8).digest()
        return int.from_bytes(said, 'little') >> 1

    def may_join(self, other: Signature) -> bool:
        """Whether sums of both may be one sum."""
        return (self.kind == other.kind == 'allreduce' and self.dtype == other.dtype and self.op == other.op
                and self.codec == other.codec and self.before == other.before and self.after == other.after)

    def __str__(self) -> str:
        words = [self.kind, repr(self.name)]
        if self.dtype is not None:
            words.append(f'{self.dtype} {list(self.shape)}')
        if self.root >= 0:
            words.append(f'of rank {self.root}')
        return ' '.join(words)


class Entry:
    """A call on its way. Its thread waits for done, and takes result or error."""

    def __init__(self, signature: Signature, tensor: torch.Tensor | None = None, *, splits: list[int] | None = None,
                 out: torch.Tensor | None = None) -> None:
        self.signature = signature
        self.tensor = tensor
        self.splits = splits
        self.out = out
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.said_splits = False  # the caller has given them
        self.ready: Any = None  # of a CUDA stream: the input is there

    def finish(self, result: Any) -> None:
        """Its thread may have it."""
        self.result = result
        self.done.set()

    def fail(self, error: BaseException) -> None:
        """Its thread raises that."""
        self.error = error
        self.done.set()
