"""The backend "banyan" of torch.distributed.

    import banyan.torch
    torch.distributed.init_process_group('banyan')

Options of a group are `banyan.torch.Options`, given as `pg_options`. For groups of any backend, `ddp_hook` lets
DistributedDataParallel sum gradients by a codec, and `LocalSGD` averages parameters every k steps.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import dataclasses
import datetime
import re
import sys
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist

from banyan._settings import CompressionLike, Determinism, config_fields

try:
    from banyan.torch import _built
except ImportError as missing:
    raise ImportError(
        f'this banyan was built without torch, and torch {torch.__version__} is there; build it for that one: '
        'pip install --no-build-isolation --force-reinstall --no-deps PATH_OF_BANYAN') from missing


def _minor(version: str) -> str:
    return '.'.join(re.findall(r'\d+', version)[:2])


if _minor(_built.version) != _minor(torch.__version__):
    raise ImportError(
        f'this banyan was built for torch {_built.version}, and torch {torch.__version__} is there, which has another '
        'C++ interface; build banyan for it: '
        'pip install --no-build-isolation --force-reinstall --no-deps PATH_OF_BANYAN')

# A wrong torch must be refused before any of it is loaded.
from banyan.torch._averaging import LocalSGD, average_parameters  # noqa: E402
from banyan.torch._hook import DdpHook, ddp_hook  # noqa: E402
from banyan.torch._torch import ProcessGroupBanyan  # noqa: E402

__all__ = ['DdpHook', 'LocalSGD', 'Options', 'ProcessGroupBanyan', 'average_parameters', 'ddp_hook', 'monitored_barrier']


# How long the end of the program waits for other ranks; groups that are left then are aborted.
_SECONDS_TO_END = 5.0


@dataclasses.dataclass(frozen=True)
class Options:
    """Settings of a group's communicators, the same on all ranks; what is None is as the environment says.

    compress: what sums of float32, float16 and bfloat16 may lose: 'int8', 'topk:0.01', a banyan.Compression.
    transports: as BANYAN_TRANSPORTS. determinism: as for banyan.init. init_timeout: seconds that ranks may take to
    meet; None: the timeout of the group. name: in logs and errors; None: the name of the group.
    """

    compress: CompressionLike = None
    transports: str | None = None
    determinism: Determinism = 'default'
    init_timeout: float | None = None
    name: str | None = None


def _create(group, options: Options | None):
    if options is None:
        options = Options()
    if not isinstance(options, Options):
        raise TypeError(f'pg_options is a {type(options).__name__}; valid: a banyan.torch.Options, or None')
    fields = config_fields(options.name or f'torch-{group.group_id}', options.transports, None, options.init_timeout,
                           options.determinism, options.compress)
    return ProcessGroupBanyan(group.store, group.group_rank, group.group_size, group.timeout, fields)


def _alive() -> Iterator[ProcessGroupBanyan]:
    """Those of groups that nobody has destroyed, in the order in which they were made."""
    for group in list(dist.distributed_c10d._world.pg_map):
        for device in group._device_types:
            backend = group._get_backend(device)
            backend = getattr(backend, 'wrapped_pg', backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL
            if isinstance(backend, ProcessGroupBanyan):
                yield backend
                break  # it is the one of all devices


@atexit.register
def _leave_all() -> None:
    """Another rank may still be taking what this one has sent last; where the program raised, the others hear of it."""
    raised = getattr(sys, 'last_value', None) is not None
    end = time.monotonic() + _SECONDS_TO_END
    for backend in _alive():
        backend.abort() if raised or time.monotonic() > end else backend.shutdown()


def monitored_barrier(group=None, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """As torch.distributed.monitored_barrier, which asks for gloo by name: a barrier that says who did not come.

    Every rank raises, those that come too late when they do, and names the first rank that was missing; with
    wait_all_ranks, all of them. The group goes on. timeout: None: that of the group.
    """
    group = dist.group.WORLD if group is None else group
    group.monitored_barrier(datetime.timedelta(milliseconds=-1) if timeout is None else timeout, wait_all_ranks)


# Parts of torch take a group's device that is not the CPU for the one that tensors are on, whether it is there or not.
dist.Backend.register_backend('banyan', _create, extended_api=True,
                              devices=['cpu', 'cuda'] if torch.backends.cuda.is_built() else ['cpu'])
