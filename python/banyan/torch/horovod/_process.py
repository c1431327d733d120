"""This process' part in the job: who it is, and the thread that works for it."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import socket
import threading
from typing import Any

import banyan
from banyan.torch.horovod._wire import Wire
from banyan.torch.horovod._worker import Worker

# Seconds that the ranks have to end together.
_SECONDS_TO_END = 30.0


class _Process:
    """Which ranks are on this host, too."""

    def __init__(self, comm: banyan.Comm) -> None:
        self.comm = comm
        wire = Wire(comm)
        hosts = wire.gather_objects(socket.gethostname())
        here = [rank for rank, host in enumerate(hosts) if host == hosts[comm.rank]]
        self.rank, self.size = comm.rank, comm.size
        self.local_rank, self.local_size = here.index(comm.rank), len(here)
        first_seen = list(dict.fromkeys(hosts))
        of_hosts = [[rank for rank, host in enumerate(hosts) if host == name] for name in first_seen]
        across = [ranks[self.local_rank] for ranks in of_hosts if len(ranks) > self.local_rank]
        self.cross_rank, self.cross_size = across.index(comm.rank), len(across)
        self.is_homogeneous = len({len(ranks) for ranks in of_hosts}) == 1
        self.worker = Worker(wire)


_lock = threading.Lock()
_process: _Process | None = None


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Meets the other ranks, as banyan.init() does: under torchrun, mpirun, srun, or by BANYAN_RANK and its kin.

    Once is enough, and again does nothing. comm may be a banyan.Comm that this module has from then on.
    """
    global _process
    if process_sets is not None:
        raise banyan.Unsupported('process sets: all ranks are one set here; banyan.Comm.split makes others')
    with _lock:
        if _process is not None:
            return
        if comm is not None and not isinstance(comm, banyan.Comm):
            raise TypeError(f'comm is a {type(comm).__name__}; right is a banyan.Comm, or None')
        _process = _Process(comm if comm is not None else banyan.init())


def shutdown() -> None:
    """Ends this rank's part, once all ranks do. What still waits elsewhere is an error there."""
    global _process
    with _lock:
        process, _process = _process, None
    if process is None:
        return
    if process.worker.end(_SECONDS_TO_END):
        process.comm.close()
    else:
        process.comm.abort()


atexit.register(shutdown)


def process() -> _Process:
    """ValueError: init() was not called."""
    if _process is None:
        raise ValueError('Horovod has not been initialized; use hvd.init().')
    return _process


def is_initialized() -> bool:
    """Whether init() was called, and shutdown() not since."""
    return _process is not None


def rank() -> int:
    """The number of this rank, from 0."""
    return process().rank


def size() -> int:
    """The number of ranks."""
    return process().size


def local_rank() -> int:
    """The number of this rank among those of its host, from 0."""
    return process().local_rank


def local_size() -> int:
    """The number of ranks on this host."""
    return process().local_size


def cross_rank() -> int:
    """The number of this rank among those with its local_rank() on all hosts, from 0."""
    return process().cross_rank


def cross_size() -> int:
    """The number of ranks with its local_rank()."""
    return process().cross_size


def is_homogeneous() -> bool:
    """Whether each host has as many ranks as the others."""
    return process().is_homogeneous
