"""Settings of communicators and of calls, as the extension takes them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from typing import Literal, Union

Determinism = Literal['default', 'deterministic', 'invariant']
_DETERMINISM = {'default': 0, 'deterministic': 1, 'invariant': 2}


@dataclasses.dataclass(frozen=True)
class Compression:
    """How sums of float32, float16 and bfloat16 may travel, and what they may lose.

    codec: as BANYAN_COMPRESS has it, such as 'int8', 'topk:0.01' or 'inter=int8,intra=off'. None: exact, or within a
        bound by whatever codec keeps it.
    absolute, relative: a bound on the error of every element, end to end, against the exact sum; the latter by the
        largest magnitude of the sum. At most one of them.
    min_bytes: shorter vectors stay exact. 0: 4 KiB.
    seed: of stochastic rounding and random choice.
    """

    codec: str | None = None
    absolute: float | None = None
    relative: float | None = None
    min_bytes: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.absolute is not None and self.relative is not None:
            raise ValueError(f'absolute is {self.absolute} and relative is {self.relative}; valid: at most one bound')

    def _fields(self) -> tuple[int, float, str | None, int, int]:
        if self.absolute is not None:
            return (2, self.absolute, self.codec, self.min_bytes, self.seed)
        if self.relative is not None:
            return (3, self.relative, self.codec, self.min_bytes, self.seed)
        return (0 if self.codec is None else 1, 0.0, self.codec, self.min_bytes, self.seed)


CompressionLike = Union[str, Compression, None]


def compression_fields(given: CompressionLike):
    """A codec by its name, 'off' for exact, a Compression, or None: what the communicator or the environment says."""
    if given is None:
        return None
    if isinstance(given, str):
        return Compression(None if given == 'off' else given)._fields()
    if isinstance(given, Compression):
        return given._fields()
    raise TypeError(f'compress is a {type(given).__name__}; valid: the name of a codec, a banyan.Compression, None')


def seconds(given: float | None, name: str) -> float:
    """None becomes 0, which stands for the default."""
    if given is None:
        return 0.0
    if not given > 0:
        raise ValueError(f'{name} is {given}; valid: seconds above 0, math.inf for no deadline, None for the default')
    return float(given)


def config_fields(name: str | None = None, transports: str | None = None, timeout: float | None = None,
                  init_timeout: float | None = None, determinism: Determinism = 'default',
                  compress: CompressionLike = None):
    """Settings of a communicator; the same on all ranks.

    name: it appears in logs and errors. None: the communicator's number.
    transports: as BANYAN_TRANSPORTS, such as 'shm,ucx'. None: the environment, then automatic.
    timeout: seconds that each operation may take. None: BANYAN_TIMEOUT, then 30.
    init_timeout: seconds that the ranks may take to meet. None: BANYAN_INIT_TIMEOUT, then 60.
    determinism: 'deterministic' (the default): the same bits, run after run. 'invariant': sums of floats have the same
        bits also for any placement, algorithm and cut into calls.
    compress: the most that calls may lose, and what those do that have no setting of their own.
    """
    if determinism not in _DETERMINISM:
        raise ValueError(f"determinism is {determinism!r}; valid: {', '.join(map(repr, _DETERMINISM))}")
    return (name, transports, seconds(timeout, 'timeout'), seconds(init_timeout, 'init_timeout'),
            _DETERMINISM[determinism], compression_fields(compress))


def call_options(timeout: float | None, compress: CompressionLike, algorithm: str | None, stream: int | None):
    """None where a call has no option of its own: such calls take the short way."""
    if timeout is None and compress is None and algorithm is None and stream is None:
        return None
    return (seconds(timeout, 'timeout'), compression_fields(compress), algorithm, stream)
