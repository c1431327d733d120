"""What a failed call raises: a class for each result of the C interface.

A wrong argument or a call at the wrong moment is local and harms nothing. The others fail the communicator: every later
call on it raises the same, and what is left to do is to close it.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations


class Error(RuntimeError):
    """A call has failed; the text says what went wrong, with the values involved and the remedy."""

    result: str = 'INTERNAL'
    """The name of the result, such as 'PEER_LOST'."""

    failed_rank: int | None = None
    """The rank that made the communicator fail, numbered in it. None: nobody, or nobody can be named."""


class CudaError(Error):
    """The CUDA driver or runtime refused."""

    result = 'CUDA'


class SystemFailure(Error):
    """The operating system refused."""

    result = 'SYSTEM'


class InternalError(Error):
    """This is a bug in the library."""

    result = 'INTERNAL'


class InvalidArgument(Error, ValueError):
    """The call is wrong; the text says which argument and why."""

    result = 'INVALID_ARGUMENT'


class InvalidUsage(Error):
    """It is a right call at the wrong moment."""

    result = 'INVALID_USAGE'


class RemoteFailure(Error):
    """The caller's exchange function failed."""

    result = 'REMOTE'


class Timeout(Error, TimeoutError):
    """The deadline passed; the text names who was waited for."""

    result = 'TIMEOUT'


class Unsupported(Error, NotImplementedError):
    """This build or machine cannot; the text says what is missing."""

    result = 'UNSUPPORTED'


class Mismatch(Error):
    """Ranks disagree about a call or a setting; the text has the field and two ranks."""

    result = 'MISMATCH'


class Aborted(Error):
    """This rank gave up: abort() was called, or Ctrl-C pressed."""

    result = 'ABORTED'


class PeerLost(Error):
    """A rank died or aborted; failed_rank names it."""

    result = 'PEER_LOST'


class AccuracyError(Error):
    """A compressed result would break its bound."""

    result = 'ACCURACY'


class Corrupt(Error):
    """Bytes from a peer, a message or a checkpoint make no sense."""

    result = 'CORRUPT'


# By the numbers of banyan_result_t.
_CLASSES = {
    1: CudaError, 2: SystemFailure, 3: InternalError, 4: InvalidArgument, 5: InvalidUsage, 6: RemoteFailure, 8: Timeout,
    32: Unsupported, 33: Mismatch, 34: Aborted, 35: PeerLost, 36: AccuracyError, 37: Corrupt,
}


def error_of(result: int, text: str, failed_rank: int) -> Error:
    """The exception of a result; the extension raises it. A failed_rank of -1 stands for nobody."""
    error = _CLASSES.get(result, InternalError)(text)
    error.failed_rank = failed_rank if failed_rank >= 0 else None
    return error
