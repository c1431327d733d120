"""How gradients travel: as they are, as 16-bit floats, or by a codec of the library."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import torch

import banyan


class Compressor:
    """What Horovod's compressors are. codec: by which sums of float32 travel instead; None: by none."""

    codec: str | None = None

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns what is summed, and what decompress() needs."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns what the sum stands for."""
        return tensor


class NoneCompressor(Compressor):
    """Tensors travel as they are."""


class FP16Compressor(Compressor):
    """Floats travel as float16. Those of float32 are summed in float32; compress() is for the caller's own use."""

    codec = 'fp16'

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        if not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.to(torch.float16), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


def codec(name: str) -> type[Compressor]:
    """A compressor by that codec, as BANYAN_COMPRESS names it. ValueError: there is none of that name, or it leaves out
    so much that somebody must keep the rest: banyan.torch.ddp_hook does that."""
    banyan.encode_bound(name, 1)  # names the word that is wrong
    if name.split(':')[0] in ('threshold', 'topk', 'randk', 'sign', 'onebit'):
        raise ValueError(f'{name}: what it leaves out must be kept for the next step, and this optimizer does not; '
                         'banyan.torch.ddp_hook does')
    return type(f'Codec_{name}', (Compressor,), {'codec': name, '__doc__': f'Floats travel by the codec {name}.'})


class Compression:
    """The compressors by name."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = codec('bf16')
    int8 = codec('int8')
    int4 = codec('int4')
    dyn8 = codec('dyn8')
    fp8 = codec('fp8')
    codec = staticmethod(codec)
