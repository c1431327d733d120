"""Calls that outlive the line that makes them: requests and groups."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from banyan import _core

if TYPE_CHECKING:
    from banyan._comm import Comm


class Request:
    """A call that can be started again and again; Comm.request makes it.

    Starts count as calls: all ranks start in the same order. The arrays are in use from start() until test() or wait()
    has said that the call is complete.
    """

    __slots__ = ('_comm', '_core')

    def __init__(self, comm: Comm, core: _core.Request) -> None:
        self._comm = comm
        self._core = core

    def start(self) -> Request:
        """Starts it, and returns at once."""
        self._core.start()
        self._comm._in_flight.add(self)
        return self

    def test(self) -> bool:
        """Makes progress, and says whether it is complete. Raises what it has failed with."""
        done = self._core.test()
        if done:
            self._comm._in_flight.discard(self)
        return done

    def wait(self) -> None:
        """Waits until it is complete. Raises what it has failed with."""
        self._core.wait()
        self._comm._in_flight.discard(self)

    def close(self) -> None:
        """Frees it; one that is under way is waited for. Again: nothing."""
        self._core.close()
        self._comm._in_flight.discard(self)

    def __enter__(self) -> Request:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self.close()


class Group:
    """Calls of this thread that are issued together; Comm.group makes it."""

    __slots__ = ('_core',)

    def __init__(self) -> None:
        self._core = _core.Group()

    def __enter__(self) -> Group:
        self._core.enter()
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self._core.leave(kind is not None)
