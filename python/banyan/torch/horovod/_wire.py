"""What the thread of _worker.py says to those of other ranks: arrays, and objects as bytes."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import torch

from banyan import Comm

# Other ranks may begin a call whenever they like.
_FOR_EVER = float('inf')


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """A view of a contiguous tensor that a communicator takes."""
    whole = tensor.detach().reshape(-1)
    return whole.view(torch.uint8) if whole.dtype == torch.bool else whole


class Wire:
    """A communicator that one thread uses. Tensors are flat()."""

    def __init__(self, comm: Comm) -> None:
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size

    def gather_numbers(self, mine: np.ndarray) -> np.ndarray:
        """The int64 of all ranks, a row each. Waits for all of them without end."""
        out = np.empty((self.size, *mine.shape), np.int64)
        return self.comm.allgather(mine, out, timeout=_FOR_EVER)

    def gather_objects(self, mine: Any) -> list[Any]:
        """The objects of all ranks, by rank. They are pickled, so ranks trust each other."""
        said = np.frombuffer(pickle.dumps(mine), np.uint8)
        sizes = self.gather_numbers(np.array([said.size], np.int64))[:, 0]
        out = np.empty(int(sizes.sum()), np.uint8)
        self.comm.allgatherv(said, [int(size) for size in sizes], out)
        ends = np.cumsum(sizes)
        return [pickle.loads(out[end - size:end].tobytes()) for size, end in zip(sizes, ends)]

    def allreduce(self, tensor: torch.Tensor, op: str, codec: str | None) -> None:
        """Sums in place."""
        if tensor.numel() > 0:
            self.comm.allreduce(tensor, tensor, op, compress=codec)

    def allgather(self, tensor: torch.Tensor, counts: list[int], out: torch.Tensor) -> None:
        """Gathers as many elements of each rank."""
        self.comm.allgatherv(tensor, counts, out)

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        """The root's, in place."""
        if tensor.numel() > 0:
            self.comm.broadcast(tensor, root)

    def alltoall(self, tensor: torch.Tensor, sent: list[int], came: list[int], out: torch.Tensor) -> None:
        """Exchanges as many elements with each rank."""
        self.comm.alltoallv(tensor, sent, came, out)

    def reduce_scatter(self, tensor: torch.Tensor, counts: list[int], out: torch.Tensor, op: str) -> None:
        """This rank's share of the sum."""
        self.comm.reduce_scatterv(tensor, counts, out, op)
