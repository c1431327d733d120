"""The thread that makes calls on tensors once all ranks have asked for them, as Horovod's does.

In each round a rank says which calls wait there, up to some number, in order. What all of them say first, in the same
order, is done; sums that fit together are one. Where orders differ ranks tell each other the names of all that waits,
and what waits everywhere is done. A rank that has joined says so, and takes part in sums with zeros.
Source: Sergeev and Del Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018, section 3.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import collections
import contextlib
import logging
import os
import threading
import time

import numpy as np
import torch

from banyan.torch.horovod import _calls
from banyan.torch.horovod._entry import Entry, Signature
from banyan.torch.horovod._wire import Wire

_log = logging.getLogger('banyan.torch.horovod')

_WAITS, _JOINED, _LEAVES = range(3)
_MOST_SAID = 64


class ShutDown(RuntimeError):
    """This rank or another one has ended its part."""


def _number(name: str, default: float) -> float:
    """A number from the environment."""
    given = os.environ.get(name)
    try:
        return default if given is None else float(given)
    except ValueError:
        raise ValueError(f'{name}={given}: right is a number, such as {default:g}') from None


class Worker:
    """Has its own communicator. Any thread may give it calls."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._fusion_bytes = int(_number('HOROVOD_FUSION_THRESHOLD', 64 << 20))
        self._stall_seconds = _number('HOROVOD_STALL_CHECK_TIME_SECONDS', 60)
        self._changed = threading.Condition()
        self._waiting: collections.OrderedDict[str, Entry] = collections.OrderedDict()
        self._join: Entry | None = None
        self._leaving = False
        self._failure: BaseException | None = None
        self._joined: set[int] = set()
        self._since: float | None = None  # it waits for other ranks
        self._thread = threading.Thread(target=self._serve, name='banyan.torch.horovod', daemon=True)
        self._thread.start()
        self._watch = threading.Thread(target=self._look_for_stalls, name='banyan.torch.horovod stalls', daemon=True)
        if self._stall_seconds > 0:
            self._watch.start()

    def add(self, entry: Entry) -> None:
        """Gives it a call. ValueError: one of that name waits already."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if self._leaving:
                raise ShutDown('it has been shut down: call init() again first')
            name = entry.signature.name
            if name in self._waiting:
                raise ValueError(f'a call named {name!r} waits already: synchronize() with it first, or give another name')
            self._waiting[name] = entry
            self._changed.notify_all()

    def join(self) -> int:
        """Takes part in the sums of others, with zeros, until all ranks have joined. Returns who was the last."""
        entry = Entry(Signature('join', 'join'))
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self._join = entry
            self._changed.notify_all()
        entry.done.wait()
        if entry.error is not None:
            raise entry.error
        return entry.result

    def end(self, seconds: float) -> bool:
        """Waits until all ranks end, so long at most. False: some have not."""
        with self._changed:
            self._leaving = True
            self._changed.notify_all()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        try:
            while self._round():
                pass
        except BaseException as error:  # whatever it is, who waits must hear of it
            self._fail(error)
        else:
            self._fail(ShutDown('it has been shut down, by this rank or another one'))

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = error
            failed = [*self._waiting.values(), *([] if self._join is None else [self._join])]
            self._waiting.clear()
            self._join = None
        for entry in failed:
            entry.fail(error)

    def _said(self) -> tuple[np.ndarray, list[Entry]]:
        """Waits until there is something to say. Returns it, and of which calls it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._join is not None or self._leaving)
            first = list(self._waiting.values())[:_MOST_SAID]
            # What waits goes before joining and leaving.
            state = _WAITS if first else _JOINED if self._join is not None else _LEAVES
        said = np.zeros(1 + _MOST_SAID, np.int64)
        said[0] = state
        for index, entry in enumerate(first):
            said[1 + index] = entry.signature.digest
        return said, first

    def _round(self) -> bool:
        said, first = self._said()
        self._since = time.monotonic()
        all_said = self._wire.gather_numbers(said)
        self._since = None
        states = all_said[:, 0]
        if (states == _LEAVES).any():
            return False
        new = {int(rank) for rank in np.flatnonzero(states == _JOINED)} - self._joined
        self._joined |= new
        active = np.flatnonzero(states == _WAITS)
        if active.size == 0:
            self._all_joined(max(new))
            return True
        rows = all_said[active, 1:]
        same = (rows == rows[0]).all(axis=0) & (rows[0] != 0)
        common = int(np.argmin(same)) if not same.all() else _MOST_SAID
        if common == 0:
            self._in_no_order()
        elif self._joined:
            here = self._wire.gather_objects([entry.signature for entry in first[:common]])
            self._do(here[int(active[0])])
        else:
            self._do([entry.signature for entry in first[:common]])
        return True

    def _all_joined(self, last: int) -> None:
        self._joined.clear()
        with self._changed:
            entry, self._join = self._join, None
        if entry is not None:
            entry.finish(last)

    def _in_no_order(self) -> None:
        """Does what waits on all ranks, in the order of the first of them, whatever is before it on others."""
        with self._changed:
            mine = [entry.signature for entry in self._waiting.values()]
        of_ranks = self._wire.gather_objects(mine if mine else None)
        active = [(rank, {each.name: each for each in said}) for rank, said in enumerate(of_ranks) if said is not None]
        everywhere = [name for name in active[0][1] if all(name in said for _, said in active)]
        agreed = []
        for name in everywhere:
            said = [(rank, calls[name]) for rank, calls in active]
            rank, other = next(((rank, each) for rank, each in said if each != said[0][1]), said[0])
            if other == said[0][1]:
                agreed.append(other)
                continue
            entry = self._take(name)
            if entry is not None:
                entry.fail(ValueError(f'ranks differ in {name!r}: rank {said[0][0]} has {said[0][1]}, and rank {rank} has '
                                      f'{other}'))
        if not everywhere:
            time.sleep(0.001)  # somebody waits for what others have not asked for yet
        self._do(agreed)

    def _take(self, name: str) -> Entry | None:
        """None: this rank has joined, and has no such call."""
        with self._changed:
            return self._waiting.pop(name, None)

    def _do(self, signatures: list[Signature]) -> None:
        index = 0
        while index < len(signatures):
            together = [signatures[index]]
            while (index + len(together) < len(signatures)
                   and _calls.bytes_of(together) + _calls.bytes_of([signatures[index + len(together)]])
                   <= self._fusion_bytes
                   and together[0].may_join(signatures[index + len(together)])):
                together.append(signatures[index + len(together)])
            self._make(together)
            index += len(together)

    def _make(self, signatures: list[Signature]) -> None:
        """One call of all ranks. What a rank alone finds wrong ends with the communicator, for all."""
        entries = [self._take(each.name) for each in signatures]
        device = next((entry.tensor.device for entry in entries if entry is not None and entry.tensor is not None), None)
        with contextlib.ExitStack() as stack:
            if device is not None and device.type == 'cuda':
                stream = torch.cuda.Stream(device)
                for entry in entries:
                    if entry is not None and entry.ready is not None:
                        stream.wait_event(entry.ready)
                stack.enter_context(torch.cuda.stream(stream))
                stream.synchronize()
            results = _calls.run(self._wire, signatures, entries, self._joined)
            if device is not None and device.type == 'cuda':
                torch.cuda.current_stream(device).synchronize()
        for entry, result in zip(entries, results):
            if entry is None:
                continue
            if isinstance(result, BaseException):
                entry.fail(result)
            else:
                entry.finish(result)

    def _look_for_stalls(self) -> None:
        told = None
        while self._failure is None:
            time.sleep(min(self._stall_seconds, 10) / 2)
            since = self._since
            if since is None or since == told or time.monotonic() - since < self._stall_seconds:
                continue
            told = since
            with self._changed:
                names = ', '.join(repr(name) for name in list(self._waiting)[:5])
            _log.warning('rank %d waits for other ranks since %.0f s: with %s. Has each of them made these calls?',
                         self._wire.rank, time.monotonic() - since, names or 'join()')
