"""Averages of parameters: ranks that train by themselves for some steps, and then agree.

Sources: SparkNet (Moritz et al. 2016) and DeepSpark (Kim et al. 2016) average after a number of steps; Stich 2019, "Local
SGD converges fast and communicates little"; Lin et al. 2020, "Don't use large mini-batches, use local SGD", section 3:
averages of every step first, and of every few afterwards.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

import banyan
from banyan._settings import CompressionLike
from banyan.torch import _residuals
from banyan.torch._groups import comm_of

# So many bytes of short tensors go by one call.
_FUSED_BYTES = 16 << 20


def _fused(tensors: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Lists of one type and device each, of _FUSED_BYTES unless one tensor has more."""
    lists: list[list[torch.Tensor]] = []
    filling: dict[Any, tuple[list[torch.Tensor], int]] = {}
    for tensor in tensors:
        kind = (tensor.dtype, tensor.device)
        bytes_of = tensor.numel() * tensor.element_size()
        others, filled = filling.get(kind, ([], _FUSED_BYTES + 1))
        if filled + bytes_of > _FUSED_BYTES:
            others, filled = [], 0
            lists.append(others)
        others.append(tensor)
        filling[kind] = (others, filled + bytes_of)
    return lists


@torch.no_grad()
def _all_flat(tensors: list[torch.Tensor], call: Callable[[torch.Tensor], Any]) -> None:
    """Changes tensors of any shapes by few calls on flat ones."""
    for together in _fused(tensors):
        if len(together) == 1 and together[0].is_contiguous():
            call(together[0])
            continue
        flat = torch.cat([tensor.reshape(-1) for tensor in together])
        call(flat)
        for tensor, part in zip(together, flat.split([tensor.numel() for tensor in together])):
            tensor.copy_(part.view(tensor.shape))


def average_parameters(parameters: Iterable[torch.Tensor], group: Any = None) -> None:
    """Replaces each tensor by its average over the group's ranks, which all of them have bit for bit. Collective.

    parameters: floating-point tensors of any shapes, the same on all ranks, as model.parameters() has them. Short ones
    share calls. group: of torch.distributed; None: that of all ranks.
    """
    tensors = [parameter.detach() for parameter in parameters]
    for tensor in tensors:
        if not tensor.is_floating_point():
            raise TypeError(f'a tensor of {tensor.dtype} has no average; valid: floating-point types')
    _all_flat(tensors, lambda flat: dist.all_reduce(flat, dist.ReduceOp.AVG, group=group))


class _Differences:
    """What parameters have become since all ranks had the same ones, averaged by a codec with error feedback."""

    def __init__(self, parameters: list[torch.Tensor], group: Any, codec: CompressionLike) -> None:
        self.common = [parameter.detach().clone(memory_format=torch.contiguous_format) for parameter in parameters]
        self._comm = comm_of(group, compress=codec)
        self._reducer = banyan.Reducer(self._comm, [banyan.Tensor(str(index), tuple(tensor.shape), tensor.dtype)
                                                    for index, tensor in enumerate(self.common)])

    def average(self, parameters: list[torch.Tensor]) -> None:
        changes = [(parameter.detach() - common).contiguous() for parameter, common in zip(parameters, self.common)]
        for index in reversed(range(len(changes))):  # the last registered is in the first bucket
            self._reducer.ready(str(index), changes[index])
        self._reducer.wait()
        for parameter, common, change in zip(parameters, self.common, changes):
            parameter.copy_(common.add_(change))

    def save(self) -> dict[str, Any]:
        return {'common': [common.clone() for common in self.common], **_residuals.saved(self._reducer, self._comm)}

    def load(self, given: _residuals.States) -> None:
        states = _residuals.states_of(given, self._comm)
        common = (given if isinstance(given, Mapping) else given[0])['common']
        if len(common) != len(self.common):
            raise ValueError(f'the state has {len(common)} tensors, and there are {len(self.common)}')
        for mine, saved in zip(self.common, common):
            mine.copy_(saved)
        _residuals.load(self._reducer, states)

    def close(self) -> None:
        self._reducer.close()
        self._comm.close()


class LocalSGD(torch.optim.Optimizer):
    """An optimizer that steps by itself on each rank, and averages the parameters over the ranks every few steps.

        optimizer = banyan.torch.LocalSGD(torch.optim.SGD(model.parameters(), 0.1), every=8)

    The model is not wrapped in DistributedDataParallel. Its parameters become those of the group's first rank here, so
    that all begin alike; after each average they are the same on all ranks, bit for bit.

    optimizer: whose step() is taken; schedulers and gradient scalers may be given either of the two.
    every: steps from one average to the next.
    group: of torch.distributed; None: that of all ranks. All of them make this, and step equally often.
    warmup_steps: so many first steps are each followed by an average (post-local SGD).
    codec: how the differences from the last common parameters travel: 'int8', 'topk:0.01', a banyan.Compression. What
        their messages do not say is kept and sent with the next ones (error feedback). None: exact averages.
    average_state: the floating-point tensors of the optimizer's state that are shaped as their parameters, such as
        momenta, are averaged, too, exactly.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, every: int, *, group: Any = None, warmup_steps: int = 0,
                 codec: CompressionLike = None, average_state: bool = False) -> None:
        # The base class is for isinstance(): all that it would set up, the optimizer has.
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f'optimizer is a {type(optimizer).__name__}; valid: a torch.optim.Optimizer')
        if every < 1 or warmup_steps < 0:
            raise ValueError(f'every is {every} and warmup_steps is {warmup_steps}; valid: from 1, and from 0')
        self.optimizer = optimizer
        self.every = every
        self.warmup_steps = warmup_steps
        self.steps = 0
        self._group = group
        self._average_state = average_state
        self._begin_alike(self._parameters())
        self._differences = None if codec is None else _Differences(self._parameters(), group, codec)
        self._hook = optimizer.register_step_post_hook(lambda *_: self._stepped())

    def _parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self.optimizer.param_groups for parameter in group['params']]

    def __getattr__(self, name: str) -> Any:
        if 'optimizer' not in self.__dict__:
            raise AttributeError(name)  # of what is not made yet
        return getattr(self.optimizer, name)  # such as what hooks of steps are kept in

    def _begin_alike(self, parameters: list[torch.Tensor]) -> None:
        _all_flat([parameter.detach() for parameter in parameters],
                  lambda flat: dist.broadcast(flat, group=self._group, group_src=0))

    def _stepped(self) -> None:
        self.steps += 1
        if self.steps <= self.warmup_steps or (self.steps - self.warmup_steps) % self.every == 0:
            self.average()

    @torch.no_grad()
    def average(self) -> None:
        """Averages now, whatever the step: for the end of the training, before an evaluation. Collective."""
        if self._differences is not None:
            self._differences.average(self._parameters())
        else:
            average_parameters(self._parameters(), self._group)
        if self._average_state:
            average_parameters([value for parameter in self._parameters() for value in self._state_of(parameter)],
                               self._group)

    def _state_of(self, parameter: torch.Tensor) -> list[torch.Tensor]:
        state = self.optimizer.state.get(parameter, {})
        return [state[name] for name in sorted(state) if isinstance(state[name], torch.Tensor) and
                state[name].is_floating_point() and state[name].shape == parameter.shape and state[name].dim() > 0]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """The optimizer's step, and an average where it is time for one."""
        return self.optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Only without a codec: that was made for the parameters that there were."""
        if self._differences is not None:
            raise ValueError('parameters cannot be added where a codec is used; give them all to the optimizer before')
        before = len(self._parameters())
        self.optimizer.add_param_group(param_group)
        self._begin_alike(self._parameters()[before:])

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        return self.optimizer.defaults

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, the number of steps, and what this rank's codec has kept.

        Each rank saves its own, after an average, when all ranks have the same parameters.
        """
        state = {'optimizer': self.optimizer.state_dict(), 'steps': self.steps}
        if self._differences is not None:
            state['differences'] = self._differences.save()
        return state

    def load_state_dict(self, state_dict: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
        """Takes over what state_dict() gave, before the first step. The model's parameters are loaded by themselves.

        state_dict: with as many ranks as before, what this rank has saved. With another number, the list of those of all
        former ranks: rank r of P takes over what the codec of r, r + P and so on has kept.
        """
        states = [state_dict] if isinstance(state_dict, Mapping) else list(state_dict)
        first = states[min(dist.get_rank(self._group), len(states) - 1)]
        has, wants = 'differences' in first, self._differences is not None
        if has != wants:
            raise ValueError(f'the state is of a LocalSGD {"with" if has else "without"} a codec, and this one is '
                             f'{"with" if wants else "without"} one')
        self.optimizer.load_state_dict(first['optimizer'])
        self.steps = first['steps']
        if self._differences is not None:
            kept = [state['differences'] for state in states]
            self._differences.load(kept[0] if isinstance(state_dict, Mapping) else kept)

    def close(self) -> None:
        """Averages no more, and ends what the codec has. Collective where there is a codec."""
        self._hook.remove()
        if self._differences is not None:
            self._differences.close()
            self._differences = None

    def __repr__(self) -> str:
        return f'LocalSGD({self.optimizer!r}, every={self.every}, warmup_steps={self.warmup_steps})'
