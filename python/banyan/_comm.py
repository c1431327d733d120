"""Communicators: how they are made and ended, and the collectives on them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from banyan import _core
from banyan._requests import Group, Request
from banyan._settings import call_options, config_fields

_ALLREDUCE, _REDUCE, _BROADCAST, _ALLGATHER, _ALLGATHERV, _REDUCE_SCATTER, _REDUCE_SCATTERV = range(7)
_ALLTOALL, _ALLTOALLV, _GATHER, _SCATTER, _BARRIER, _SEND, _RECV = range(7, 14)
_COLLECTIVES = {
    'allreduce': _ALLREDUCE, 'reduce': _REDUCE, 'broadcast': _BROADCAST, 'allgather': _ALLGATHER,
    'allgatherv': _ALLGATHERV, 'reduce_scatter': _REDUCE_SCATTER, 'reduce_scatterv': _REDUCE_SCATTERV,
    'alltoall': _ALLTOALL, 'alltoallv': _ALLTOALLV, 'gather': _GATHER, 'scatter': _SCATTER, 'barrier': _BARRIER,
    'send': _SEND, 'recv': _RECV,
}
_OPS: dict[Any, int] = {'sum': 0, 'prod': 1, 'max': 2, 'min': 3, 'avg': 4}

# Seconds that communicators have, which the program has left open, to end in good order with the interpreter.
_SECONDS_TO_END = 5.0
_open: weakref.WeakSet[Comm] = weakref.WeakSet()

Op = Union[str, '_core.PremulSum']
Counts = Sequence[int]


def _op(op: Op) -> int:
    number = _OPS.get(op) if type(op) is str else getattr(op, 'number', None)
    if number is None:
        raise ValueError(f"op is {op!r}; valid: {', '.join(map(repr, _OPS))}, or what Comm.premulsum returned")
    return number


def _like(array: Any, shape: Callable[[tuple[int, ...]], tuple[int, ...]]) -> np.ndarray:
    """A new array for the result, where the input is numpy's."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f'out is missing: array is a {type(array).__name__}, and new arrays are made of those of numpy '
                        'only; out=array works in place where the call can')
    return np.empty(shape(array.shape), array.dtype)


def _share(array: Any, ranks: int) -> np.ndarray:
    """A new array for one rank's share of the first dimension, or of the elements where that one cannot be divided."""
    def shape(whole: tuple[int, ...]) -> tuple[int, ...]:
        if whole and whole[0] % ranks == 0:
            return (whole[0] // ranks, *whole[1:])
        raise ValueError(f'array has the shape {whole}; right is a first dimension that the {ranks} ranks divide')
    return _like(array, shape)


class Comm:
    """A communicator: the same ordered set of ranks, as each of them sees it.

    All ranks make the same calls in the same order, with the same counts, types, operations and roots. Arrays are those
    of numpy, or anything with the buffer protocol, __array_interface__ or DLPack; contiguous, and never copied. out may
    be array itself where a call works in place. One thread at a time uses a communicator; abort() is for any thread.

    Options that calls take, by name:
        timeout: seconds for this call. None: the communicator's.
        compress: a codec by its name, 'off', or a Compression. None: the communicator's.
        algorithm: as BANYAN_ALGO has it, the same on all ranks. None: chosen.
        stream: the address of a CUDA stream, in whose order the call is. None: what was enqueued for the arrays has
            ended.

    As a context manager it ends in good order, and aborts where the block raises. One that the program leaves open is
    ended with the interpreter: in good order, if that takes no more than 5 s and the program did not raise.
    """

    __slots__ = ('_core', '_in_flight', '__weakref__')

    def __init__(self, core: _core.Communicator) -> None:
        self._core = core
        self._in_flight: set[Request] = set()
        _open.add(self)

    @classmethod
    def create(cls, rank: int, size: int, unique_id: bytes, **config: Any) -> Comm:
        """Meets the other ranks. unique_id is what unique_id() of one of them returned. Settings are as in init()."""
        return cls(_core.meet_by_id(rank, size, unique_id, config_fields(**config)))

    @classmethod
    def over(cls, rank: int, size: int, allgather: Callable[[bytes], Sequence[bytes]], **config: Any) -> Comm:
        """Meets the other ranks by a function of the caller's, which returns what all ranks gave it, in their order.

        It must reach members only: keys travel over it. Another thread may call it. Settings are those of init().
        """
        return cls(_core.meet_by_exchange(rank, size, allgather, config_fields(**config)))

    def split(self, color: int | None, key: int = 0, **config: Any) -> Comm | None:
        """Makes a communicator of the ranks that give the same color, in the order of their keys. Collective.

        A rank that gives None joins none, and gets None. Settings are those of init(), and not the parent's.
        """
        child = self._core.split(-1 if color is None else color, key, config_fields(**config))
        return None if child is None else Comm(child)

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return self._core.rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._core.size

    @property
    def closed(self) -> bool:
        """Whether it has ended: then every call is InvalidUsage."""
        return self._core.closed

    @property
    def failed_rank(self) -> int | None:
        """The rank that made it fail. None: it has not failed, or nobody can be named."""
        failed = self._core.failed_rank
        return None if failed < 0 else failed

    @property
    def handle(self) -> int:
        """The banyan_comm_t of the C interface, as a number, for extensions. It stays this object's."""
        return self._core.address

    def abort(self) -> None:
        """Gives up: calls under way here raise Aborted, those of other ranks PeerLost. Local; any thread."""
        self._core.abort()

    def close(self) -> None:
        """Ends in good order and frees: collective, unless the communicator has failed. Again: nothing."""
        self._core.close()
        self._in_flight.clear()

    finalize = close

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._core.end(0.0)

    def __repr__(self) -> str:
        return '<banyan.Comm, closed>' if self.closed else f'<banyan.Comm, rank {self.rank} of {self.size}>'

    def __reduce__(self) -> Any:
        raise TypeError('a Comm belongs to its process and cannot be pickled: make one in the other process')

    def _run(self, collective: int, array: Any, out: Any, op: int, root: int, lists: Any, options: Any) -> None:
        if lists is None and options is None:
            self._core.run(collective, array, out, op, root)
        else:
            self._core.run_with(collective, array, out, op, root, lists, options)

    def allreduce(self, array: Any, out: Any = None, op: Op = 'sum', *, timeout: float | None = None,
                  compress: Any = None, algorithm: str | None = None, stream: int | None = None) -> Any:
        """out[i] = op over all ranks of array[i], on every rank. Both have the same number of elements.

        Returns out. None: a new array like array; array itself: in place.
        """
        if out is None:
            out = _like(array, tuple)
        self._run(_ALLREDUCE, array, out, _op(op), 0, None, call_options(timeout, compress, algorithm, stream))
        return out

    def reduce(self, array: Any, out: Any = None, op: Op = 'sum', root: int = 0, *, timeout: float | None = None,
               compress: Any = None, algorithm: str | None = None, stream: int | None = None) -> Any:
        """As allreduce, but only root's out is written; the others get None, and need none."""
        if self._core.rank == root and out is None:
            out = _like(array, tuple)
        self._run(_REDUCE, array, out, _op(op), root, None, call_options(timeout, compress, algorithm, stream))
        return out if self._core.rank == root else None

    def broadcast(self, array: Any, root: int = 0, *, timeout: float | None = None, algorithm: str | None = None,
                  stream: int | None = None) -> Any:
        """Copies root's array to the array of every rank. Returns array."""
        self._run(_BROADCAST, array, array, 0, root, None, call_options(timeout, None, algorithm, stream))
        return array

    def allgather(self, array: Any, out: Any = None, *, timeout: float | None = None, algorithm: str | None = None,
                  stream: int | None = None) -> Any:
        """Every rank's array, in the order of ranks. out has size times its elements; None: (size, *array.shape)."""
        if out is None:
            out = _like(array, lambda shape: (self._core.size, *shape))
        self._run(_ALLGATHER, array, out, 0, 0, None, call_options(timeout, None, algorithm, stream))
        return out

    def allgatherv(self, array: Any, counts: Counts, out: Any = None, displacements: Counts | None = None, *,
                   timeout: float | None = None, algorithm: str | None = None, stream: int | None = None) -> Any:
        """As allgather, with counts[r] elements of rank r, at displacements[r] of out, or packed in rank order.

        The lists are in elements and the same on all ranks. Gaps in out keep what they have, so displacements need an
        out.
        """
        if out is None:
            if displacements is not None:
                raise TypeError('out is missing: with displacements a new array would have gaps without values')
            out = _like(array, lambda shape: (sum(counts),))
        self._run(_ALLGATHERV, array, out, 0, 0, (None, None, counts, displacements),
                  call_options(timeout, None, algorithm, stream))
        return out

    def reduce_scatter(self, array: Any, out: Any = None, op: Op = 'sum', *, timeout: float | None = None,
                       compress: Any = None, algorithm: str | None = None, stream: int | None = None) -> Any:
        """Reduces size blocks of array; block r goes to rank r's out, of a size-th of array's elements.

        out None: (array.shape[0] // size, *array.shape[1:]).
        """
        if out is None:
            out = _share(array, self._core.size)
        self._run(_REDUCE_SCATTER, array, out, _op(op), 0, None, call_options(timeout, compress, algorithm, stream))
        return out

    def reduce_scatterv(self, array: Any, counts: Counts, out: Any = None, op: Op = 'sum', *,
                        timeout: float | None = None, compress: Any = None, algorithm: str | None = None,
                        stream: int | None = None) -> Any:
        """As reduce_scatter, with counts[r] elements for rank r, packed in array. The same list on all ranks."""
        if out is None:
            out = _like(array, lambda shape: (counts[self._core.rank],))
        self._run(_REDUCE_SCATTERV, array, out, _op(op), 0, (None, None, counts, None),
                  call_options(timeout, compress, algorithm, stream))
        return out

    def alltoall(self, array: Any, out: Any = None, *, timeout: float | None = None, algorithm: str | None = None,
                 stream: int | None = None) -> Any:
        """Block r of array goes to rank r, where it becomes block `rank` of out. Both have size equal blocks."""
        if out is None:
            out = _like(array, tuple)
        self._run(_ALLTOALL, array, out, 0, 0, None, call_options(timeout, None, algorithm, stream))
        return out

    def alltoallv(self, array: Any, send_counts: Counts, recv_counts: Counts, out: Any = None,
                  send_displacements: Counts | None = None, recv_displacements: Counts | None = None, *,
                  timeout: float | None = None, algorithm: str | None = None, stream: int | None = None) -> Any:
        """As alltoall, with counts and places in elements, a list of size each; without places blocks are packed.

        Rank a's send_counts[b] is rank b's recv_counts[a]. Never in place.
        """
        if out is None:
            if recv_displacements is not None:
                raise TypeError('out is missing: with recv_displacements a new array would have gaps without values')
            out = _like(array, lambda shape: (sum(recv_counts),))
        self._run(_ALLTOALLV, array, out, 0, 0, (send_counts, send_displacements, recv_counts, recv_displacements),
                  call_options(timeout, None, algorithm, stream))
        return out

    def gather(self, array: Any, out: Any = None, root: int = 0, *, timeout: float | None = None,
               algorithm: str | None = None, stream: int | None = None) -> Any:
        """As allgather, but only root's out is written; the others get None, and need none."""
        if self._core.rank == root and out is None:
            out = _like(array, lambda shape: (self._core.size, *shape))
        self._run(_GATHER, array, out, 0, root, None, call_options(timeout, None, algorithm, stream))
        return out if self._core.rank == root else None

    def scatter(self, array: Any, out: Any = None, root: int = 0, *, timeout: float | None = None,
                algorithm: str | None = None, stream: int | None = None) -> Any:
        """Block r of root's array goes to rank r's out, of a size-th of its elements. Others may give None as array.

        out may be missing at root only: (array.shape[0] // size, *array.shape[1:]).
        """
        if out is None:
            if self._core.rank != root:
                raise TypeError('out is missing: only root knows how many elements there are')
            out = _share(array, self._core.size)
        self._run(_SCATTER, array, out, 0, root, None, call_options(timeout, None, algorithm, stream))
        return out

    def barrier(self, *, timeout: float | None = None) -> None:
        """Returns when all ranks have called it."""
        self._run(_BARRIER, None, None, 0, 0, None, call_options(timeout, None, None, None))

    def send(self, array: Any, peer: int, *, timeout: float | None = None, stream: int | None = None) -> None:
        """Sends to one rank, which receives as many elements of the type; returns when it has accepted them.

        The n-th send to a rank meets its n-th receive from here. To oneself: inside a group only.
        """
        self._run(_SEND, array, None, 0, peer, None, call_options(timeout, None, None, stream))

    def recv(self, array: Any, peer: int, *, timeout: float | None = None, stream: int | None = None) -> Any:
        """Receives into array from one rank; see send. Returns array."""
        self._run(_RECV, None, array, 0, peer, None, call_options(timeout, None, None, stream))
        return array

    def group(self) -> Group:
        """A context in which this thread's calls, also on other communicators, are issued together at its end.

        Results are there when the block has ended. A block that raises moves nothing.
        """
        return Group()

    def premulsum(self, scalar: Any, dtype: Any = np.float32) -> _core.PremulSum:
        """The operation that sums scalar * x, for arrays of that type on this communicator; ranks' scalars may differ.

        scalar: a number, or an array of one element whose own type counts.
        """
        if isinstance(scalar, (int, float)):
            scalar = np.asarray([scalar], dtype)
        return _core.PremulSum(self._core, scalar)

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        """A new array, without values, in memory that the ranks of this host read and write in place.

        Any other memory works, with a copy more. It stays until the last array of it has gone.
        """
        wanted = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        memory = _core.Memory(self._core, max(1, count * wanted.itemsize))
        return np.frombuffer(memory, wanted, count).reshape(shape)

    def request(self, collective: str, array: Any = None, out: Any = None, op: Op = 'sum', root: int = 0, *,
                send_counts: Counts | None = None, send_displacements: Counts | None = None,
                recv_counts: Counts | None = None, recv_displacements: Counts | None = None,
                timeout: float | None = None, compress: Any = None, algorithm: str | None = None,
                stream: int | None = None) -> Request:
        """A call as a value, which is started again and again. Nothing moves yet.

        collective: the name of a method, such as 'allreduce'. root is the peer of 'send' and 'recv'. For 'broadcast'
        array is both, and for 'recv' it is written. The counts of 'allgatherv' and 'reduce_scatterv' are recv_counts.
        The arrays live as long as the request.
        """
        said = self._said(collective, array, out, op, root,
                          (send_counts, send_displacements, recv_counts, recv_displacements),
                          (timeout, compress, algorithm, stream))
        return Request(self, _core.Request(self._core, *said))

    def explain(self, collective: str, array: Any = None, out: Any = None, op: Op = 'sum', root: int = 0,
                **options: Any) -> str:
        """What would be done for a call: each candidate with its predicted and measured time. As request(). Local."""
        lists = tuple(options.pop(name, None) for name in (
            'send_counts', 'send_displacements', 'recv_counts', 'recv_displacements'))
        values = tuple(options.pop(name, None) for name in ('timeout', 'compress', 'algorithm', 'stream'))
        if options:
            raise TypeError(f'unknown options {sorted(options)}; valid are those of request()')
        return self._core.explain(*self._said(collective, array, out, op, root, lists, values))

    @staticmethod
    def _said(collective: str, array: Any, out: Any, op: Op, root: int, lists: tuple, options: tuple) -> tuple:
        number = _COLLECTIVES.get(collective)
        if number is None:
            raise ValueError(f"collective is {collective!r}; valid: {', '.join(_COLLECTIVES)}")
        if number == _BROADCAST:
            out = array
        elif number == _RECV:
            array, out = None, array if out is None else out
        return (number, array, out, _op(op), root, None if lists == (None,) * 4 else lists, call_options(*options))


def init(**config: Any) -> Comm:
    """Meets the other ranks as the launcher says: torchrun, mpirun, mpiexec, srun, or BANYAN_RANK, BANYAN_SIZE and
    BANYAN_ADDRESS. Collective; may be called again, by all ranks each time.

    Settings, the same on all ranks: name, transports, timeout, init_timeout, determinism, compress.
    """
    return Comm(_core.meet_by_launcher(config_fields(**config)))


init.__doc__ = f'{init.__doc__}\n{config_fields.__doc__}'


def unique_id() -> bytes:
    """Opens a rendezvous in this process. What is returned, 128 bytes, is for Comm.create of every rank.

    Whoever has it can join. It serves one meeting, and this process must live until then.
    """
    return _core.unique_id()


@atexit.register
def _end_all() -> None:
    raised = getattr(sys, 'last_value', None) is not None
    for comm in list(_open):
        comm._core.end(0.0 if raised else _SECONDS_TO_END)
