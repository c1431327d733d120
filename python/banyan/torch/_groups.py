"""Communicators of the ranks that a group of torch.distributed has, whatever its backend."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import torch.distributed as dist

import banyan


def comm_of(group: Any, **config: Any) -> banyan.Comm:
    """A new communicator of the group's ranks, in their order. Collective. Settings are those of banyan.init()."""
    size = dist.get_world_size(group)

    def gather(given: bytes) -> list[bytes]:
        found: list[Any] = [None] * size
        dist.all_gather_object(found, given, group=group)
        return found

    return banyan.Comm.over(dist.get_rank(group), size, gather, **config)
