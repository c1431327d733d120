"""Codecs by themselves, for those who move bytes their own way. The calls are local, and any thread may make them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any, NamedTuple

from banyan import _core


class Encoded(NamedTuple):
    """What encode_into did."""

    bytes: int
    """The length of the message."""
    nonfinite: int
    """Elements that are NaN or infinite, or become infinite by rounding."""
    kept: int
    """Elements whose values are carried; all of them for dense codecs."""


def encode_bound(codec: str, count: int, dtype: str = 'float32') -> int:
    """The length in bytes of the longest message of count elements that there can be."""
    return _core.encode_bound(codec, count, _core.type_named(str(dtype)))


def encode(codec: str, array: Any, *, seed: int = 0, step: int = 0, residual: Any = None) -> bytes:
    """The message that says the values of array, of float32, float16 or bfloat16, by a codec such as 'int8'.

    seed, step: of stochastic rounding and randk: the same pair, the same bits.
    residual: an array of float32, as long as array, or None. It is added to the values; afterwards it has what the
        message does not carry of that sum.
    """
    return _core.encode(codec, array, seed, step, residual)


def encode_into(codec: str, array: Any, message: Any, *, seed: int = 0, step: int = 0, residual: Any = None) -> Encoded:
    """As encode, into memory of the caller's, which has at least encode_bound() bytes."""
    return Encoded(*_core.encode_into(codec, array, message, seed, step, residual))


def decode(message: Any, out: Any) -> Any:
    """Reads a message into out, which has as many elements as were encoded, of any of the types. Returns out.

    message is bytes, or an array, of anybody: nothing in it is believed.
    """
    _core.decode(message, out, False)
    return out


def decode_add(message: Any, out: Any) -> Any:
    """As decode, but added to out, in fp32 (float64: in fp64), and rounded once."""
    _core.decode(message, out, True)
    return out
