"""The communication hook for DistributedDataParallel: gradients go through a reducer, by codecs with error feedback."""
# SPDX-License-Identifier: Apache-2.0

import queue
import threading
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import banyan
from banyan._settings import CompressionLike
from banyan.torch._naming import Rules, leave_when_dropped, load_states, reducer_over, saved_state, tensors_of
from banyan.torch._torch import DeviceMark

_COUNTED = ('bytes_raw', 'bytes_sent', 'nonfinite', 'fallbacks', 'codec_seconds', 'wait_seconds')


class _Bucket(NamedTuple):
    future: torch.futures.Future  # that DDP waits for
    names: list[str]  # of the tensors in it
    buffer: torch.Tensor
    gradients: list[torch.Tensor]  # of a GPU, that the reducer gets when the stream is at `place`
    place: Any = None


class _Progress:
    """What the hook and the thread that waits for it both know."""

    def __init__(self, reducer: banyan.Reducer) -> None:
        self.reducer = reducer
        self.error: BaseException | None = None
        self.before = self.after = reducer.stats()

    def fail(self, error: BaseException) -> BaseException:
        """The first error is what counts. Without a traceback it keeps nothing alive."""
        if self.error is None:
            self.error = error.with_traceback(None)
        return self.error

    def hand_on(self, bucket: _Bucket) -> None:
        """Gives the reducer a bucket's gradients when its stream has got to them."""
        if self.error is not None:
            return
        try:
            bucket.place.wait()
            for name, gradient in zip(bucket.names, bucket.gradients):
                self.reducer.ready(name, gradient)
        except Exception as error:
            self.fail(error)

    def outcomes(self, step: list[_Bucket]) -> list[tuple[torch.futures.Future, Any]]:
        """Waits for a step's buckets, and has the memory of each, or an error, for what DDP waits for."""
        found: list[tuple[torch.futures.Future, Any]] = []
        for bucket in step:
            if self.error is None:
                try:
                    for name in bucket.names:
                        self.reducer.wait(name)
                except Exception as error:
                    self.fail(error)
            found.append((bucket.future, bucket.buffer if self.error is None else self.error))
        try:
            self.before, self.after = self.after, self.reducer.stats()
        except banyan.Error as error:
            self.fail(error)
        return found


# A bucket of a GPU, or all buckets of a step, in order; none: the end.
_Queue = 'queue.SimpleQueue[tuple[_Progress, _Bucket | list[_Bucket]] | None]'


def _serve(given_to_thread: _Queue) -> None:
    while (given := given_to_thread.get()) is not None:
        progress, what = given
        outcomes: list[tuple[torch.futures.Future, Any]] = []
        if isinstance(what, _Bucket):
            progress.hand_on(what)
        else:
            outcomes = progress.outcomes(what)
        del given, progress, what  # DDP has the hook until it has the results: a communicator must not end in this thread
        while outcomes:
            future, outcome = outcomes.pop(0)
            future.set_result(outcome)
            del future, outcome


def _value(future: torch.futures.Future) -> torch.Tensor:
    outcome = future.value()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


# The annotations are checked by torch, as values.
def banyan_hook(state: 'DdpHook', bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """What DDP calls once a bucket's gradients are there. Its result is their means over the ranks, which a thread waits
    for from the step's last bucket on: what has all gradients of its own only waits for other ranks."""
    return state._reduce(bucket)


class DdpHook:
    """What ddp_hook() returned: the hook's state, its figures, and its end."""

    def __init__(self, model: DistributedDataParallel, tensors: list[banyan.Tensor], names: dict[torch.Tensor, str],
                 settings: dict[str, Any], config: dict[str, Any]) -> None:
        self._group = model.process_group
        self._names = names
        self._pending: list[_Bucket] = []
        self._seen: set[str] = set()
        self._comm, self._reducer = reducer_over(self._group, tensors, settings, config)
        self._progress = _Progress(self._reducer)
        self._queue: _Queue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._end = weakref.finalize(self, self._queue.put, None)
        self._end.atexit = False  # the interpreter's end does not wait for the thread
        leave_when_dropped(self, self._comm)

    @property
    def error(self) -> BaseException | None:
        """What ended it, such as a banyan.PeerLost with its failed_rank: backward() raises its text as RuntimeError."""
        return self._progress.error

    def _reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        future: torch.futures.Future = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        result = future.then(_value)
        failed = self._progress.error
        if failed is None:
            try:
                self._pending.append(self._send(bucket, buffer, future))
                if bucket.is_last():
                    self._check_whole()
            except Exception as error:
                failed = self._progress.fail(error)
        if failed is not None:
            waiting, self._pending = self._pending, []
            for each in dict.fromkeys([*(each.future for each in waiting), future]):
                each.set_result(failed)
        elif bucket.is_last():
            step, self._pending = self._pending, []
            self._seen.clear()
            self._give_to_thread(step)
        return result

    def _send(self, bucket: dist.GradBucket, buffer: torch.Tensor, future: torch.futures.Future) -> _Bucket:
        if self._comm.closed:
            raise banyan.InvalidUsage('the hook is closed; a model without it is a new DistributedDataParallel')
        if buffer.is_sparse:
            raise TypeError('a gradient is sparse; valid: dense ones, as of nn.Embedding with sparse=False')
        names = [self._names.get(parameter) for parameter in bucket.parameters()]
        if None in names:
            raise ValueError('DDP has a parameter that the model did not have when ddp_hook() was called; right is to '
                             'call it after the last change of the model')
        self._seen.update(names)
        if buffer.is_cuda:
            sent = _Bucket(future, names, buffer, bucket.gradients(), DeviceMark(buffer))
            self._give_to_thread(sent)
            return sent
        for name, gradient in zip(names, bucket.gradients()):
            self._reducer.ready(name, gradient)
        return _Bucket(future, names, buffer, [])

    def _check_whole(self) -> None:
        missing = set(self._names.values()) - self._seen
        if missing:
            raise ValueError(f'DDP has no bucket for {min(missing)!r}; right is to call ddp_hook() after the last change of '
                             'the model')

    def _give_to_thread(self, what: '_Bucket | list[_Bucket]') -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=_serve, args=(self._queue,), daemon=True, name='banyan-ddp-hook')
            self._thread.start()
        self._queue.put((self._progress, what))

    def stats(self) -> dict[str, int | float]:
        """Figures of the last step on this rank, over all tensors.

        step: its number since the hook was made, from 1. bytes_raw: of gradients. bytes_sent: by this rank. ratio: the
        former over the latter. error_nmse: what messages did not say, squared, over what they had to. residual_norm: of
        what is left for the next step. nonfinite: elements. fallbacks: tensors that turned exact for a while.
        codec_seconds, wait_seconds: in codecs, and in which the backward pass had ended and the sums had not.
        """
        before, after = self._progress.before, self._progress.after
        figures: dict[str, int | float] = {name: after[name] - before[name] for name in _COUNTED}
        sent = figures['bytes_sent']
        return {'step': after['steps'], **figures, 'ratio': figures['bytes_raw'] / sent if sent else 1.0,
                'error_nmse': after['error_nmse'], 'residual_norm': after['residual_norm']}

    def totals(self, tensor: str | None = None) -> dict[str, int | float]:
        """Sums since the hook was made, of a tensor by its name, or of all; error_nmse and residual_norm are those of the
        last step. Reducer.stats() says what each is."""
        return self._reducer.stats(tensor)

    def state_dict(self, all_ranks: bool = False) -> dict[str, Any]:
        """What is left for the next step, and momenta. Between steps.

        all_ranks: collective, and has all ranks' on each of them, so that one file will do. Otherwise every rank saves
        its own. It goes with the model's and the optimizer's.
        """
        return saved_state(self._reducer, self._group, all_ranks)

    def load_state_dict(self, *states: Mapping[str, Any]) -> None:
        """Goes on from what state_dict() returned, before the first step. Local; every rank calls it.

        The same number of ranks goes on bit for bit. With another one, rank r of P takes what the former ranks r, r + P
        and so on have left, and their sum is conserved: give it one state of all ranks, or those of these.
        """
        load_states(self._reducer, states, self._group)

    def close(self) -> None:
        """Ends it, between steps. Collective, unless it has failed. Again: nothing. The model cannot be trained on."""
        if self._comm.closed:
            return
        self._end()
        self._reducer.close()
        self._comm.close()


def ddp_hook(model: DistributedDataParallel, codec: CompressionLike = None, feedback: bool = True, rules: Rules = None, *,
             momentum: float = 0.0, clip_norm: float = 0.0, warmup_steps: int = 0, bucket_bytes: int = 0,
             **config: Any) -> DdpHook:
    """Lets a DistributedDataParallel model sum its gradients by a codec, with error feedback. Collective.

    Gradients are means over the ranks of the model's process group, of any backend, and the same bits on all of them.
    Call it once, before the first backward pass.

    codec: of tensors of two dimensions and more with 4,096 elements and more: 'int8', 'topk:0.01', 'off', 'auto', a
        banyan.Compression. None: BANYAN_COMPRESS, and exact without it.
    feedback: what compression drops is kept, and sent with the next step's gradients.
    rules: 'GLOB=CODEC;...', or a mapping of globs to codecs: the first that matches a parameter's name in model.module
        decides, for small ones, too. Globs are those of Python's fnmatch.
    momentum: of momentum correction, for tensors by topk, randk, threshold and sign; the optimizer's own momentum must be
        off for those.
    clip_norm: the gradient of each compressed tensor is scaled to a norm of at most clip_norm / sqrt(ranks). 0: it is not.
    warmup_steps: the density of topk and randk falls to its value over so many steps.
    bucket_bytes: of the reducer's messages; DDP's own buckets only say when gradients are ready. 0: chosen.
    config: settings of the communicator, as banyan.init() has them: timeout, init_timeout, transports, determinism, name.
        Without a timeout it is the group's.
    """
    if not isinstance(model, DistributedDataParallel):
        raise TypeError(f'model is a {type(model).__name__}; right is a torch.nn.parallel.DistributedDataParallel')
    if 'compress' in config:
        raise TypeError('compress is no setting of ddp_hook(); right is codec')
    named = [(name, parameter) for name, parameter in model.module.named_parameters()
             if parameter.requires_grad and name not in model.parameters_to_ignore]
    tensors = tensors_of(named, codec, rules)
    settings = {'bucket_bytes': bucket_bytes, 'error_feedback': feedback, 'momentum': momentum, 'clip_norm': clip_norm,
                'warmup_steps': warmup_steps}
    hook = DdpHook(model, tensors, {parameter: name for name, parameter in named}, settings,
                   {'name': 'ddp-hook', **config})
    try:
        model.register_comm_hook(hook, banyan_hook)
    except BaseException:
        hook.close()
        raise
    return hook
