"""A communication hook of DistributedDataParallel on the gradient reducer: a codec for each tensor, with what it drops
kept for the next step.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import datetime
import queue
import threading
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import banyan
from banyan._settings import CompressionLike
from banyan.torch import _residuals
from banyan.torch._groups import comm_of

# These figures of a reducer are sums over its steps.
_SUMS = ('steps', 'bytes_raw', 'bytes_sent', 'nonfinite', 'fallbacks', 'codec_seconds', 'wait_seconds')


@dataclasses.dataclass
class _Bucket:
    """One of DDP's on its way."""

    buffer: torch.Tensor
    names: list[str]
    gradients: list[torch.Tensor]
    future: torch.futures.Future
    event: Any  # of CUDA, behind what computes the gradients; None: they are there


def _timeout_of(group: Any, device: torch.device) -> float | None:
    """Seconds that the group's calls may take; None: its backend does not say."""
    try:
        timeout = group._get_backend(device).options._timeout
    except (AttributeError, RuntimeError):
        return None
    return timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else None


def _as_it_lies(gradient: torch.Tensor) -> torch.Tensor:
    """DDP has a gradient in the strides of its parameter, without gaps, the same on all ranks."""
    return gradient if gradient.is_contiguous() else gradient.as_strided((gradient.numel(),), (1,))


class DdpHook:
    """What ddp_hook() returns."""

    def __init__(self, model: DistributedDataParallel, settings: dict[str, Any], codec: CompressionLike,
                 timeout: float | None) -> None:
        if not isinstance(model, DistributedDataParallel):
            raise TypeError(f'model is a {type(model).__name__}; valid: a DistributedDataParallel')
        left_out = set(model.parameters_to_ignore)
        named = {name: parameter for name, parameter in model.module.named_parameters()
                 if parameter.requires_grad and name not in left_out}
        self._names = {parameter: name for name, parameter in named.items()}
        device = next(iter(named.values())).device
        if timeout is None:
            timeout = _timeout_of(model.process_group, device)
        self._comm = comm_of(model.process_group, compress=codec, timeout=timeout, name='ddp_hook')
        try:
            self._reducer = banyan.Reducer(self._comm, named, **settings)
            model.register_comm_hook(self, DdpHook._take)
        except BaseException:
            self._comm.abort()
            raise
        self._lock = threading.Lock()
        self._stats: dict[str, Any] = {}
        self._before = self._reducer.stats()
        self._waited = 0  # tensors of this step
        self._coming: queue.SimpleQueue = queue.SimpleQueue()  # to be ready when their events are
        self._ready: queue.SimpleQueue = queue.SimpleQueue()
        self._threads = [threading.Thread(target=work, name=f'banyan ddp_hook: {work.__name__}', daemon=True)
                         for work in ([self._finish_buckets] + ([self._await_events] if device.type == 'cuda' else []))]
        self._closed = False
        for thread in self._threads:
            thread.start()

    # In a thread of autograd's, which goes on with the backward pass. torch reads annotations here, and as types only.
    def _take(self, bucket):
        if self._closed:
            raise banyan.InvalidUsage('the ddp_hook of this model is closed; wrap the model anew to train on')
        buffer = bucket.buffer()
        on_gpu = buffer.device.type == 'cuda'
        event = torch.cuda.Event() if on_gpu else None
        coming = _Bucket(buffer, [self._names[parameter] for parameter in bucket.parameters()], bucket.gradients(),
                         torch.futures.Future(devices=[buffer.device]) if on_gpu else torch.futures.Future(), event)
        if on_gpu:
            event.record()
            self._coming.put(coming)
        else:
            self._make_ready(coming)
        return coming.future

    def _make_ready(self, bucket: _Bucket) -> None:
        try:
            for name, gradient in zip(bucket.names, bucket.gradients):
                self._reducer.ready(name, _as_it_lies(gradient))
        except banyan.Error as error:
            self._fail(bucket, error)
        else:
            self._ready.put(bucket)

    def _await_events(self) -> None:
        for bucket in iter(self._coming.get, None):
            bucket.event.synchronize()
            self._make_ready(bucket)

    def _finish_buckets(self) -> None:
        for bucket in iter(self._ready.get, None):
            try:
                for name in bucket.names:
                    self._reducer.wait(name)
            except banyan.Error as error:
                self._fail(bucket, error)
                continue
            self._count(len(bucket.names))
            bucket.future.set_result(bucket.buffer)

    def _fail(self, bucket: _Bucket, error: banyan.Error) -> None:
        failed = '' if error.failed_rank is None else f' [failed rank {error.failed_rank}]'
        bucket.future.set_exception(dist.DistBackendError(f'banyan ddp_hook: {error}{failed}'))

    def _count(self, tensors: int) -> None:
        self._waited += tensors
        if self._waited < len(self._names):
            return
        self._waited = 0
        now = self._reducer.stats()
        stats = {name: now[name] - self._before[name] if name in _SUMS else now[name] for name in now}
        stats['step'] = now['steps']
        stats['ratio'] = stats['bytes_sent'] / stats['bytes_raw'] if stats['bytes_raw'] else 1.0
        del stats['steps']
        with self._lock:
            self._before, self._stats = now, stats

    def stats(self) -> dict[str, Any]:
        """Of the last step; empty before there was one.

        step: its number. bytes_raw: of the gradients. bytes_sent: by this rank. ratio: the latter by the former.
        nonfinite: elements that were NaN or infinite. fallbacks: tensors that went over to exact messages for a while.
        error_nmse, residual_norm: of what messages missed, by a sample. codec_seconds, wait_seconds: of this rank.
        """
        with self._lock:
            return dict(self._stats)

    def totals(self, tensor: str | None = None) -> dict[str, Any]:
        """Of all steps so far, of one tensor by name or of all: as banyan.Reducer.stats()."""
        return self._reducer.stats(tensor)

    def state_dict(self) -> dict[str, Any]:
        """What this rank keeps between steps: residuals, momenta, how many steps there were. After a backward pass.

        Each rank saves its own.
        """
        return _residuals.saved(self._reducer, self._comm)

    def load_state_dict(self, state: _residuals.States) -> None:
        """Takes over what was saved, before the first step.

        state: with as many ranks as before, what this rank has saved: the training goes on bit for bit. With another
        number, the list of the states of all former ranks: rank r of P takes those of r, r + P and so on.
        """
        _residuals.load(self._reducer, _residuals.states_of(state, self._comm))

    def close(self) -> None:
        """Ends it, between steps. The model cannot be trained on then. Collective; again: nothing."""
        if self._closed:
            return
        self._closed = True
        self._coming.put(None)
        self._ready.put(None)
        for thread in self._threads:
            thread.join()
        self._reducer.close()
        self._comm.close()


def ddp_hook(model: DistributedDataParallel, codec: CompressionLike = None, feedback: bool = True,
             rules: str | None = None, *, momentum: float = 0.0, clip_norm: float = 0.0, warmup_steps: int = 0,
             bucket_bytes: int = 0, timeout: float | None = None) -> DdpHook:
    """Has the gradients of a model averaged by a banyan.Reducer, in place of DistributedDataParallel's own way.

        model = DistributedDataParallel(model)
        hook = banyan.torch.ddp_hook(model, 'int8')

    Collective over the model's process group, of any backend, before the first backward pass. A model has one hook.
    Tensors have the names that model.module.named_parameters() has. Gradients travel while the backward pass goes on.

    codec: how they travel: 'int8', 'topk:0.01', a banyan.Compression. None: exact, or as BANYAN_COMPRESS says.
    feedback: what messages do not say is kept, and sent with the next step's.
    rules: 'GLOB=CODEC;...' by names. None: tensors of one dimension and those below 4,096 elements are exact.
    momentum, clip_norm, warmup_steps, bucket_bytes: as banyan.Reducer has them. With momentum correction the
        optimizer's own momentum must be off for the tensors with a sparse codec.
    timeout: seconds that a call may take. None: the group's.

    A rank that dies, or never comes, makes backward() raise torch.distributed.DistBackendError with its number.
    """
    settings = {'op': 'avg', 'error_feedback': feedback, 'rules': rules, 'momentum': momentum, 'clip_norm': clip_norm,
                'warmup_steps': warmup_steps, 'bucket_bytes': bucket_bytes}
    return DdpHook(model, settings, codec, timeout)
