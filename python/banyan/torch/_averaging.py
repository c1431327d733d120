"""Local SGD: ranks train by themselves for some steps, and then average their parameters."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from banyan._settings import CompressionLike
from banyan.torch._naming import (Rules, leave_when_dropped, load_states, place_in, reducer_over, saved_state,
                                  tensors_of, wait_for_devices)

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def _wide(tensor: torch.Tensor) -> torch.dtype:
    """The type in which a tensor is averaged: sums of 16 bits would lose what the ranks differ by."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _together(tensors: Iterable[torch.Tensor], work: Callable[[torch.Tensor], None]) -> None:
    """Lets `work` change tensors as one vector for each device and type."""
    vectors: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in _FLOATS or tensor.is_sparse:
            what = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise TypeError(f'parameter {index} is of {what}; valid: dense tensors of {", ".join(map(str, _FLOATS))}')
        vectors.setdefault((tensor.device, _wide(tensor)), []).append(tensor.detach())
    for (_, dtype), members in vectors.items():
        flat = torch.cat([member.reshape(-1).to(dtype) for member in members])
        work(flat)
        for member, values in zip(members, flat.split([member.numel() for member in members])):
            member.copy_(values.view(member.shape))


def average_parameters(parameters: Iterable[torch.Tensor], group: dist.ProcessGroup | None = None) -> None:
    """Replaces tensors by their means over the ranks of a group, the same bits on all of them. Collective.

    They travel as one vector of float32, and one of float64. A group of Banyan's with a codec rounds the values
    themselves; LocalSGD has codecs for differences.
    """
    _, size = place_in(group)

    def average(flat: torch.Tensor) -> None:
        dist.all_reduce(flat, group=group)
        flat /= size
    _together(parameters, average)


class _Differences:
    """Averages by a codec how far the ranks have gone from the last parameters that they had in common."""

    def __init__(self, named: Sequence[tuple[str, torch.Tensor]], group: dist.ProcessGroup | None, codec: CompressionLike,
                 feedback: bool, rules: Rules, config: dict[str, Any]) -> None:
        self._group = group
        self._parameters = [(name, parameter.detach()) for name, parameter in named]
        self._common = {name: parameter.to(_wide(parameter), copy=True, memory_format=torch.contiguous_format)
                        for name, parameter in self._parameters}
        self._change = {name: torch.empty_like(common) for name, common in self._common.items()}
        tensors = tensors_of(list(self._common.items()), codec, rules)
        self._comm, self._reducer = reducer_over(group, tensors, {'error_feedback': feedback},
                                                 {'name': 'local-sgd', **config})
        leave_when_dropped(self, self._comm)

    def average(self) -> None:
        for name, parameter in self._parameters:
            torch.sub(parameter, self._common[name], out=self._change[name])
        wait_for_devices(self._change.values())
        for name, _ in reversed(self._parameters):
            self._reducer.ready(name, self._change[name])
        self._reducer.wait()
        for name, parameter in self._parameters:
            parameter.copy_(self._common[name].add_(self._change[name]))

    def stats(self) -> dict[str, int | float]:
        return self._reducer.stats()

    def state_dict(self, all_ranks: bool) -> dict[str, Any]:
        return {'common': {name: common.clone() for name, common in self._common.items()},
                'left': saved_state(self._reducer, self._group, all_ranks)}

    def load_state_dict(self, states: Sequence[Any]) -> None:
        for state in states:
            if not isinstance(state, Mapping) or not {'common', 'left'} <= set(state) or not all(
                    isinstance(common, torch.Tensor) for common in dict(state['common']).values()):
                raise ValueError("the state has no tensors as 'common', or no 'left'; right is what state_dict() returned")
            shapes = {name: tuple(common.shape) for name, common in state['common'].items()}
            right = {name: tuple(common.shape) for name, common in self._common.items()}
            if shapes != right:
                raise ValueError(f'the state is of parameters {shapes}; right is {right}')
        load_states(self._reducer, [state['left'] for state in states], self._group)
        for name, common in self._common.items():
            common.copy_(states[0]['common'][name])

    def close(self) -> None:
        if not self._comm.closed:
            self._reducer.close()
            self._comm.close()


def _named(optimizer: torch.optim.Optimizer,
           named: Iterable[tuple[str, torch.Tensor]] | None) -> list[tuple[str, torch.Tensor]]:
    own = [parameter for group in optimizer.param_groups for parameter in group['params']]
    if named is None:
        return [(str(index), parameter) for index, parameter in enumerate(own)]
    names = {parameter: name for name, parameter in named}
    missing = sum(parameter not in names for parameter in own)
    if missing:
        raise ValueError(f'named_parameters has no name for {missing} of the {len(own)} parameters of the optimizer; right '
                         'is model.named_parameters()')
    return [(names[parameter], parameter) for parameter in own]


class LocalSGD(torch.optim.Optimizer):
    """An optimizer whose steps are local, and after whose every k-th step the ranks average their parameters.

    Ranks talk k times less often than by gradients, and have the same parameters, bit for bit, after each averaging
    (SparkNet, Moritz et al. 2016; DeepSpark, Kim et al. 2016; Local SGD, Stich 2019). All ranks make the same number of
    steps. Making it is collective, and gives all ranks the parameters of the group's first one. The model is used as it
    is, not in a DistributedDataParallel.

    With a codec, what is averaged are differences from the last common parameters: its error is one of the step that the
    ranks have made, not of the parameters, and what it drops is added to the next difference.

    optimizer: any of torch's; its schedulers work with this one as with that.
    every: steps from one averaging to the next.
    group: the ranks. None: all.
    warmup_steps: so many first steps are averaged each (post-local SGD, Lin et al. 2020).
    codec, rules: as for ddp_hook(). Names that rules match are those of named_parameters, or '0', '1', ... in the order
        of the optimizer.
    feedback: what the codec drops is kept.
    average_momentum: the optimizer's state is averaged, too, exactly: all of it that has a parameter's shape. Then the
        same parameters have gradients on all ranks.
    config: settings of the communicator for a codec, as banyan.init() has them.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, every: int, group: dist.ProcessGroup | None = None, *,
                 warmup_steps: int = 0, codec: CompressionLike = None, feedback: bool = True, rules: Rules = None,
                 named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None, average_momentum: bool = False,
                 **config: Any) -> None:
        # The base's own __init__ is for optimizers with parameters of their own.
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f'optimizer is a {type(optimizer).__name__}; right is a torch.optim.Optimizer')
        if not isinstance(every, int) or every < 1:
            raise ValueError(f'every is {every!r}; valid: a whole number of steps from 1')
        if not isinstance(warmup_steps, int) or warmup_steps < 0:
            raise ValueError(f'warmup_steps is {warmup_steps!r}; valid: a whole number of steps from 0')
        place_in(group)
        self.optimizer, self.every, self.warmup_steps = optimizer, every, warmup_steps
        self.steps = 0
        self._group, self._average_momentum = group, average_momentum
        self._differences: _Differences | None = None
        named = _named(optimizer, named_parameters)
        with torch.no_grad():
            _together((parameter for _, parameter in named),
                      lambda flat: dist.broadcast(flat, group=group, group_src=0))
            if codec not in (None, 'off') or rules is not None:
                self._differences = _Differences(named, group, codec, feedback, rules, config)
            elif config:
                raise TypeError(f'{min(config)} is for a communicator of a codec, and there is none; right is codec')

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The optimizer's."""
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The optimizer's."""
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The optimizer's."""
        return self.optimizer.defaults

    def __repr__(self) -> str:
        return f'LocalSGD({self.optimizer!r}, every={self.every}, warmup_steps={self.warmup_steps})'

    def __getattr__(self, name: str) -> Any:
        if name == 'optimizer':  # while it is copied, nothing is there
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """A local step, and the averaging where it is due; then it is collective."""
        loss = self.optimizer.step(closure) if closure is not None else self.optimizer.step()
        self.steps += 1
        if self.steps <= self.warmup_steps or (self.steps - self.warmup_steps) % self.every == 0:
            self.average()
        return loss

    @torch.no_grad()
    def average(self) -> None:
        """Averages now: after the last step, say, where its number is no multiple of `every`. Collective."""
        if self._differences is not None:
            self._differences.average()
        else:
            average_parameters((each for group in self.param_groups for each in group['params']), self._group)
        if self._average_momentum:
            average_parameters((value for group in self.param_groups for each in group['params']
                                for _, value in sorted(self.state.get(each, {}).items())
                                if isinstance(value, torch.Tensor) and value.shape == each.shape), self._group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The optimizer's."""
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """The optimizer's. The ranks give the same values: these are averaged only. ValueError: there is a codec."""
        if self._differences is not None:
            raise ValueError('parameters cannot be added where differences go by a codec; right is to add them to the '
                             'optimizer before LocalSGD() is made of it')
        self.optimizer.add_param_group(param_group)

    def register_step_pre_hook(self, hook: Any) -> Any:
        """The optimizer's."""
        return self.optimizer.register_step_pre_hook(hook)

    def register_step_post_hook(self, hook: Any) -> Any:
        """The optimizer's: it runs before the averaging."""
        return self.optimizer.register_step_post_hook(hook)

    def stats(self) -> dict[str, int | float]:
        """What Reducer.stats() says of the differences. ValueError: there is no codec."""
        if self._differences is None:
            raise ValueError('there are no figures without a codec')
        return self._differences.stats()

    def state_dict(self, all_ranks: bool = False) -> dict[str, Any]:  # type: ignore[override]
        """The optimizer's, with the number of steps, and with a codec the common parameters and what is left of each.

        Between averagings the ranks' parameters and momenta differ, so each rank saves its own. all_ranks: collective,
        and has what is left on all ranks, as DdpHook.state_dict() does.
        """
        differences = None if self._differences is None else self._differences.state_dict(all_ranks)
        return {**self.optimizer.state_dict(), 'local_sgd': {'steps': self.steps, 'differences': differences}}

    def load_state_dict(self, state_dict: Mapping[str, Any], *others: Mapping[str, Any]) -> None:  # type: ignore[override]
        """Goes on from a state, before the first step. others: those of other former ranks, of which what is left is
        taken over where their number was another one, as by DdpHook.load_state_dict()."""
        states = [dict(state_dict), *map(dict, others)]
        own = [state.pop('local_sgd', None) for state in states]
        if any(not isinstance(each, Mapping) or not {'steps', 'differences'} <= set(each) for each in own):
            raise ValueError("the state has no 'local_sgd'; right is what LocalSGD.state_dict() returned")
        if not isinstance(own[0]['steps'], int) or own[0]['steps'] < 0:
            raise ValueError(f'the state has {own[0]["steps"]!r} steps; right is a whole number from 0')
        has = [each['differences'] is not None for each in own]
        if any(each != (self._differences is not None) for each in has):
            raise ValueError(f'the state was saved {"with" if has[0] else "without"} a codec; right is the same now')
        if self._differences is not None:
            self._differences.load_state_dict([each['differences'] for each in own])
        self.optimizer.load_state_dict(states[0])
        self.steps = own[0]['steps']

    def close(self) -> None:
        """Ends what a codec needs. Collective. Again: nothing."""
        if self._differences is not None:
            self._differences.close()
