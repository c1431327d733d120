"""What hooks and averaging share: a communicator of a group's ranks, named tensors with their codecs, saved states."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

import numpy as np
import torch
import torch.distributed as dist

import banyan
from banyan._settings import CompressionLike
from banyan.torch._torch import DeviceMark

Rules = Union[str, Mapping[str, CompressionLike], None]

_STATE_VERSION = 1
_SECONDS_TO_LEAVE = 5.0
# What no rule names stays exact where it has one dimension or fewer elements than this, as in a reducer.
_LEAST_ELEMENTS = 4096
_ENCODED = (torch.float32, torch.float16, torch.bfloat16)
_SUMMED = (*_ENCODED, torch.float64)


def place_in(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """This rank's number in a process group, and how many ranks that has."""
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError('this rank is not in the process group; right is a group that has it')
    return rank, dist.get_world_size(group)


def timeout_of(group: dist.ProcessGroup | None) -> float | None:
    """Seconds that the group's calls may take. None: its backend does not say."""
    group = dist.group.WORLD if group is None else group
    for device in group._device_types:
        asked = getattr(getattr(group._get_backend(device), 'options', None), '_timeout', None)
        if isinstance(asked, datetime.timedelta):
            return asked.total_seconds()
    return None


def reducer_over(group: dist.ProcessGroup | None, tensors: Sequence[banyan.Tensor], settings: Mapping[str, Any],
                 config: Mapping[str, Any]) -> tuple[banyan.Comm, banyan.Reducer]:
    """Makes a reducer, and a communicator for it, of a process group's ranks, whatever its backend. Collective.

    A timeout that the settings do not have is the group's.
    """
    def gather(mine: bytes) -> list[bytes]:
        return gathered(mine, group)
    comm = banyan.Comm.over(*place_in(group), gather, **{'timeout': timeout_of(group), **config})
    try:
        return comm, banyan.Reducer(comm, tensors, **settings)
    except BaseException:
        # What is wrong is so on all ranks, as a rule: one that aborted would take the reason from the others.
        with contextlib.suppress(banyan.Error):
            comm.close()
        raise


def leave_when_dropped(owner: Any, comm: banyan.Comm) -> None:
    """Where the owner is not closed, the communicator ends with it, together with the other ranks': they may still wait
    for the last messages. Who has not come in _SECONDS_TO_LEAVE finds it aborted."""
    weakref.finalize(owner, comm._core.end, _SECONDS_TO_LEAVE).atexit = False  # at the end the package does so itself


def gathered(mine: Any, group: dist.ProcessGroup | None) -> list[Any]:
    """The objects of a group's ranks, by rank. Collective."""
    everyone: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, mine, group=group)
    return everyone


def parsed_rules(rules: Rules) -> list[tuple[str, CompressionLike]]:
    """Pairs of a glob and a codec. ValueError: a rule has no '=', or one of its sides is empty."""
    if rules is None:
        return []
    if isinstance(rules, Mapping):
        return list(rules.items())
    if not isinstance(rules, str):
        raise TypeError(f"rules is a {type(rules).__name__}; valid: 'GLOB=CODEC;...', a mapping of globs to codecs, None")
    pairs: list[tuple[str, CompressionLike]] = []
    for rule in filter(None, map(str.strip, rules.split(';'))):
        glob, _, codec = (side.strip() for side in rule.partition('='))
        if not glob or not codec:
            raise ValueError(f"rules has {rule!r}; valid: GLOB=CODEC, such as 'embedding.*=topk:0.01'")
        pairs.append((glob, codec))
    return pairs


def tensors_of(named: Sequence[tuple[str, torch.Tensor]], codec: CompressionLike, rules: Rules) -> list[banyan.Tensor]:
    """What a reducer registers. The codec of the first rule that matches a name counts, then `codec` for large ones."""
    pairs = parsed_rules(rules)

    def codec_of(name: str, tensor: torch.Tensor) -> CompressionLike:
        if tensor.dtype not in _ENCODED:
            return None
        for glob, asked in pairs:
            if fnmatch.fnmatchcase(name, glob):
                return asked
        return codec if tensor.dim() != 1 and tensor.numel() >= _LEAST_ELEMENTS else None

    for name, tensor in named:
        if tensor.dtype not in _SUMMED:
            raise TypeError(f'{name!r} has elements of {tensor.dtype}; valid: {", ".join(map(str, _SUMMED))}')
        if tensor.device.type not in ('cpu', 'cuda'):
            raise TypeError(f'{name!r} is on a device {tensor.device}; valid: the CPU, CUDA')
    return [banyan.Tensor(name, tuple(tensor.shape), tensor.dtype, compress=codec_of(name, tensor))
            for name, tensor in named]


def wait_for_devices(tensors: Iterable[torch.Tensor]) -> None:
    """Waits for what was enqueued for tensors on GPUs: a reducer reads them when it is told of them."""
    for tensor in {tensor.device: tensor for tensor in tensors if tensor.is_cuda}.values():
        DeviceMark(tensor).wait()


def saved_state(reducer: banyan.Reducer, group: dist.ProcessGroup | None, all_ranks: bool) -> dict[str, Any]:
    """What a reducer keeps, of this rank or of all, in types that torch.load(weights_only=True) reads."""
    mine = reducer.save()
    rank, size = place_in(group)
    blobs = dict(enumerate(gathered(mine, group))) if all_ranks else {rank: mine}
    return {'version': _STATE_VERSION, 'size': size,
            'ranks': {each: torch.frombuffer(bytearray(blob), dtype=torch.uint8) for each, blob in blobs.items()}}


def _checked(state: Any) -> dict[str, Any]:
    if not isinstance(state, Mapping) or not {'version', 'size', 'ranks'} <= set(state):
        raise ValueError("a state has no 'version', 'size' and 'ranks'; right is what state_dict() returned")
    if state['version'] != _STATE_VERSION:
        raise ValueError(f'a state has the version {state["version"]}; right is {_STATE_VERSION}')
    size, ranks = state['size'], state['ranks']
    if not isinstance(size, int) or size < 1 or not isinstance(ranks, Mapping):
        raise ValueError(f'a state has the size {size!r}; right is a number of ranks, with a mapping of them')
    for rank, blob in ranks.items():
        if not isinstance(blob, torch.Tensor) or blob.dtype != torch.uint8 or blob.dim() != 1:
            raise ValueError(f'a state has no bytes for rank {rank!r}; right is a tensor of uint8')
    return dict(state)


def load_states(reducer: banyan.Reducer, states: Sequence[Any], group: dist.ProcessGroup | None) -> None:
    """Gives this rank r of P what the former ranks r, r + P and so on have kept. Local."""
    if not states:
        raise ValueError('no state is given; right is one of state_dict(all_ranks=True), or those of single ranks')
    checked = [_checked(state) for state in states]
    sizes = sorted({state['size'] for state in checked})
    if len(sizes) > 1:
        raise ValueError(f'the states are of jobs of {" and ".join(map(str, sizes))} ranks; right are those of one job')
    rank, size = place_in(group)
    blobs = {each: blob for state in checked for each, blob in state['ranks'].items()}
    needed = range(rank, sizes[0], size)
    missing = [each for each in needed if each not in blobs]
    if missing:
        raise ValueError(f'rank {rank} of {size} goes on for the former ranks {list(needed)} of {sizes[0]}, and the '
                         f'states have none of {missing}; right is state_dict(all_ranks=True), or those of all these')
    if needed:
        reducer.load(*(blobs[each].cpu().numpy().astype(np.uint8).tobytes() for each in needed))
