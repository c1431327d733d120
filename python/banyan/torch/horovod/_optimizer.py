"""An optimizer whose step goes by the gradients of all ranks."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from banyan.torch.horovod import _ops
from banyan.torch.horovod._compression import Compression, Compressor
from banyan.torch.horovod._ops import Average, ReduceOp
from banyan.torch.horovod._process import process

Group = list[torch.nn.Parameter]


def _names(optimizer: torch.optim.Optimizer, named: Iterable[tuple[str, torch.nn.Parameter]] | None) -> dict[Any, str]:
    """By parameter. ValueError: names are given twice, or one of a parameter is missing."""
    own = [parameter for group in optimizer.param_groups for parameter in group['params']]
    if named is None:
        return {parameter: f'allreduce.noname.{index}' for index, parameter in enumerate(own)}
    pairs = list(named)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError('named_parameters should be a sequence of tuples (name, parameter), usually produced by '
                         'model.named_parameters().')
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f'Parameter names in named_parameters must be unique. Found duplicates: {", ".join(twice)}')
    known = {parameter: name for name, parameter in pairs}
    missing = sum(parameter not in known for parameter in own)
    if missing:
        raise ValueError(f'named_parameters was specified, but one or more model parameters were not named: {missing} of '
                         f'{len(own)}. Python object ids help to find them.')
    return {parameter: known[parameter] for parameter in own}


def _groups(parameters: list[torch.nn.Parameter], groups: Any, num_groups: int) -> list[Group]:
    """Those whose gradients are summed together, once all of them are there. Others are by themselves."""
    if groups is not None and num_groups:
        raise ValueError('groups and num_groups are both given; right is one of them')
    if groups is None and not num_groups:
        return [[parameter] for parameter in parameters]
    if groups is None or isinstance(groups, int):
        count = max(1, min(num_groups or groups, len(parameters)))
        cuts = [len(parameters) * index // count for index in range(count + 1)]
        return [parameters[begin:end] for begin, end in zip(cuts, cuts[1:])]
    listed = [list(group) for group in groups]
    members = [parameter for group in listed for parameter in group]
    if len({id(each) for each in members}) != len(members):
        raise ValueError('a parameter appears in groups twice; right is once at most')
    own = {id(parameter) for parameter in parameters}
    if any(id(each) not in own for each in members):
        raise ValueError('groups has a parameter that the optimizer has not')
    grouped = {id(each) for each in members}
    return listed + [[parameter] for parameter in parameters if id(parameter) not in grouped]


class _DistributedOptimizer(torch.optim.Optimizer):
    """What DistributedOptimizer() adds to the class of an optimizer. Its state is that optimizer's."""

    def _banyan_begin(self, named: Any, compression: type[Compressor], passes: int, op: ReduceOp, predivide: float,
                      groups: Any, num_groups: int, sparse_as_dense: bool) -> None:
        names = _names(self, named)
        wanted = [parameter for parameter in names if parameter.requires_grad]
        self._banyan_compression = compression
        self._banyan_sparse_as_dense = sparse_as_dense
        self._banyan_passes = passes
        self._banyan_names = names
        self._banyan_op = op
        self._banyan_factors = (1.0, 1.0)
        if predivide != 1.0:
            self._banyan_op = _ops.Sum
            self._banyan_factors = (1.0 / predivide, predivide / process().size)
        self._banyan_groups = _groups(wanted, groups, num_groups)
        self._banyan_group_of = {id(each): index for index, group in enumerate(self._banyan_groups) for each in group}
        self._banyan_left = {id(parameter): passes for parameter in wanted}
        self._banyan_handles: dict[int, int] = {}  # by group
        self._banyan_synchronized = False
        self._banyan_should_synchronize = True
        self._banyan_hooks = [parameter.register_post_accumulate_grad_hook(self._banyan_ready) for parameter in wanted]

    def _banyan_ready(self, parameter: torch.Tensor) -> None:
        if process().size == 1:
            return
        left = self._banyan_left[id(parameter)]
        index = self._banyan_group_of[id(parameter)]
        if index in self._banyan_handles or left <= 0:
            raise AssertionError('Gradients were computed more than backward_passes_per_step times before call to '
                                 'step(). Increase backward_passes_per_step to accumulate gradients locally.')
        self._banyan_left[id(parameter)] = left - 1
        group = self._banyan_groups[index]
        if all(self._banyan_left[id(each)] == 0 for each in group):
            self._banyan_send(index)

    def _banyan_send(self, index: int) -> None:
        group = self._banyan_groups[index]
        for parameter in group:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if parameter.grad.is_sparse:
                if not self._banyan_sparse_as_dense:
                    raise ValueError(f'the gradient of {self._banyan_names[parameter]!r} is sparse; right is '
                                     'sparse_as_dense=True')
                parameter.grad = parameter.grad.to_dense()
        before, after = self._banyan_factors
        self._banyan_handles[index] = _ops.grouped_allreduce_async_(
            [parameter.grad for parameter in group], op=self._banyan_op, prescale_factor=before, postscale_factor=after,
            name='+'.join(self._banyan_names[parameter] for parameter in group[:3]) + f'.{index}',
            compression=self._banyan_compression)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Gradients are summed after so many backward passes from now on."""
        self._banyan_passes = passes
        for key in self._banyan_left:
            self._banyan_left[key] = passes

    def synchronize(self) -> None:
        """Waits until all gradients are those of all ranks. Of parameters that had none, zeros are summed."""
        if process().size > 1:
            for index in range(len(self._banyan_groups)):
                if index not in self._banyan_handles:
                    self._banyan_send(index)
            for handle in self._banyan_handles.values():
                _ops.synchronize(handle)
        self._banyan_handles.clear()
        for key in self._banyan_left:
            self._banyan_left[key] = self._banyan_passes
        self._banyan_synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """step() inside does not synchronize: the caller has, as before clipping gradients."""
        self._banyan_should_synchronize = False
        try:
            yield
        finally:
            self._banyan_should_synchronize = True

    def step(self, closure: Any = None) -> Any:
        """The optimizer's step, once all gradients are those of all ranks."""
        if self._banyan_should_synchronize:
            if self._banyan_synchronized:
                warnings.warn('optimizer.step() called without optimizer.skip_synchronize() context after '
                              'optimizer.synchronize(). This can cause training slowdown.')
            self.synchronize()
        self._banyan_synchronized = False
        return super(self.__class__, self).step(closure)

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """The optimizer's. AssertionError: sums of gradients are under way."""
        if self._banyan_handles:
            raise AssertionError('optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or '
                                 'optimizer.synchronize(). This is prohibited as it can cause a race condition.')
        super(self.__class__, self).zero_grad(*args, **kwargs)


def DistributedOptimizer(optimizer: torch.optim.Optimizer,
                         named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
                         compression: type[Compressor] = Compression.none, backward_passes_per_step: int = 1,
                         op: ReduceOp = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: int | Sequence[Sequence[torch.nn.Parameter]] | None = None,
                         sparse_as_dense: bool = False, process_set: Any = None) -> Any:
    """Makes an optimizer of the same class and state whose step goes by the gradients of all ranks.

    named_parameters: as model.named_parameters() returns them. compression: of Compression. op: Average, Sum, ...
    gradient_predivide_factor: gradients are divided by it before the sum, and by the rest of the size after it.
    groups, num_groups: gradients that are summed together; how many groups of parameters in order.
    """
    _ops._check_set(process_set)
    _ops._check_op(None, op)
    if gradient_predivide_factor != 1.0 and op is not Average:
        raise ValueError('gradient_predivide_factor not supported with op != Average')
    if backward_passes_per_step < 1:
        raise ValueError(f'backward_passes_per_step is {backward_passes_per_step}; right is 1 or more')
    methods = {name: value for name, value in vars(_DistributedOptimizer).items()
               if name not in ('__dict__', '__weakref__', '__module__', '__doc__')}
    made = type(optimizer.__class__.__name__, (optimizer.__class__,), methods)
    distributed = made.__new__(made)
    distributed.__dict__.update(optimizer.__dict__)
    distributed._banyan_begin(named_parameters, compression, backward_passes_per_step, op, gradient_predivide_factor,
                              groups, num_groups, sparse_as_dense)
    return distributed
