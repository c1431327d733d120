"""The hook of DistributedDataParallel on the reducer: what it trains, keeps, tells, and how it fails."""
# SPDX-License-Identifier: Apache-2.0

import os
import signal
import time

import pytest

torch = pytest.importorskip('torch', reason='no torch; tools/install-deps --torch')
try:
    import banyan.torch
except ImportError as other_torch:
    pytest.skip(str(other_torch), allow_module_level=True)

import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import torch_ranks  # noqa: E402


class Network(torch.nn.Module):
    """With a layer that not every step uses, one that is frozen, and one that is convolved in other strides."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Linear(16, 400)
        self.rare = torch.nn.Linear(400, 400)
        self.frozen = torch.nn.Linear(400, 36).requires_grad_(False)
        self.image = torch.nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)
        self.last = torch.nn.Linear(6, 4)

    def forward(self, values, rare=True):
        hidden = self.first(values).relu()
        hidden = self.rare(hidden) if rare else hidden
        return self.last(self.image(self.frozen(hidden).view(-1, 4, 3, 3)).flatten(1))


def wrapped(group=None, **options):
    options = {'find_unused_parameters': True, 'bucket_cap_mb': 0.3, **options}
    return DistributedDataParallel(Network(), process_group=group, **options)


def train(model, rank, first, last, rare=lambda step: step % 3 != 1, batches=1000):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for step in range(first, last):
        generator = torch.Generator().manual_seed(100 * (step % batches) + rank)
        values = torch.randn(8, 16, generator=generator)
        loss = torch.nn.functional.mse_loss(model(values, rare(step)), values[:, :4])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def flat(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def are_alike(model):
    mine = flat(model)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)
    return all(torch.equal(other, mine) for other in everyone)


def as_without(rank, size):
    for options in ({}, {'gradient_as_bucket_view': True}, {'find_unused_parameters': False, 'static_graph': True},
                    {'bucket_cap_mb': 0.001}):
        rare = (lambda step: True) if 'static_graph' in options else (lambda step: step % 3 != 1)
        plain = wrapped(**options)
        hooked = wrapped(**options)
        hook = banyan.torch.ddp_hook(hooked)
        assert train(hooked, rank, 0, 6, rare=rare) == pytest.approx(train(plain, rank, 0, 6, rare=rare), rel=1e-5)
        assert torch.allclose(flat(hooked), flat(plain), atol=1e-6) and are_alike(hooked)
        hook.close()


def over_gloo(rank, size):
    """Of a group of some ranks, by another backend, with steps that no rank sends."""
    group = dist.new_group([0, 2], backend='gloo')
    if rank == 1:
        return
    plain, hooked = wrapped(group), wrapped(group)
    hook = banyan.torch.ddp_hook(hooked, timeout=10)
    for model in (plain, hooked):
        for step in range(4):
            values = torch.randn(8, 16, generator=torch.Generator().manual_seed(step + 10 * rank))
            with model.no_sync():
                model(values).square().mean().backward()
            model(values.neg()).square().mean().backward()
    for one, other in zip(plain.parameters(), hooked.parameters()):
        assert one.grad is None and other.grad is None or torch.allclose(one.grad, other.grad, atol=1e-6)
    hook.close()


def by_codecs(rank, size, codec, rules):
    exact, coded = wrapped(), wrapped()
    hook = banyan.torch.ddp_hook(coded, codec, rules=rules)
    assert hook.stats() == {}
    wanted = train(exact, rank, 0, 60, batches=1)
    losses = train(coded, rank, 0, 60, batches=1)
    assert are_alike(coded)
    assert losses[-1] < 0.7 * losses[0] and losses[-1] == pytest.approx(wanted[-1], rel=0.6)
    stats = hook.stats()
    assert stats['step'] == 60 and 0 < stats['ratio'] < 1 and stats['nonfinite'] == 0
    assert stats['bytes_raw'] == 4 * sum(parameter.numel() for parameter in coded.parameters() if parameter.requires_grad)
    coded_one, exact_one = hook.totals('rare.weight'), hook.totals('first.bias')
    assert coded_one['residual_norm'] > 0 and exact_one['residual_norm'] == 0
    assert coded_one['bytes_sent'] < coded_one['bytes_raw'] / 2
    with pytest.raises(ValueError, match='frozen.weight'):
        hook.totals('frozen.weight')
    hook.close()


def saved_after(rank, size, steps):
    model = wrapped()
    hook = banyan.torch.ddp_hook(model, 'topk:0.02')
    train(model, rank, 0, steps)
    return model, hook


def resumed(rank, size):
    through, _ = saved_after(rank, size, 6)
    half, hook = saved_after(rank, size, 3)
    saved = {'model': half.module.state_dict(), 'hook': hook.state_dict()}
    again = wrapped()
    again.module.load_state_dict(saved['model'])
    resumed_hook = banyan.torch.ddp_hook(again, 'topk:0.02')
    with pytest.raises(ValueError, match='valid: its own'):
        resumed_hook.load_state_dict({**saved['hook'], 'rank': 1 - rank})
    resumed_hook.load_state_dict(saved['hook'])
    train(again, rank, 3, 6)
    assert torch.equal(flat(through), flat(again))


def residuals_of(rank, size):
    return saved_after(rank, size, 3)[1].state_dict()


def all_that_was_left(rank, size, states):
    """With no gradients left to compress, exact steps give back what others have kept: their sum."""
    model = wrapped()
    hook = banyan.torch.ddp_hook(model)
    with pytest.raises(ValueError, match='a list of those of all former ranks'):
        hook.load_state_dict(states[:-1])
    hook.load_state_dict(states)
    (model(torch.zeros(2, 16)) * 0).sum().backward()
    return {name: (getattr(model.module, name).weight.grad * size).sum(0).tolist() for name in ('first', 'rare', 'last')}


def killed(rank, size):
    model = wrapped()
    banyan.torch.ddp_hook(model, 'int8')
    train(model, rank, 0, 3)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match='failed rank 1'):
        train(model, rank, 3, 100000)
    took = time.monotonic() - start
    dist.distributed_c10d._abort_process_group()
    return took


def test_exact_hooks_train_as_without_one():
    torch_ranks.run(as_without, 2)


def test_groups_of_other_backends():
    torch_ranks.run(over_gloo, 3)


@pytest.mark.parametrize('codec, rules', [('int8', None), ('topk:0.05', None), (None, 'rare.*=int4;first.weight=fp16;*=exact')])
def test_codecs_train(codec, rules):
    torch_ranks.run(by_codecs, 2, codec, rules)


def test_a_state_goes_on_bit_for_bit():
    torch_ranks.run(resumed, 2)


def test_a_state_goes_to_another_number_of_ranks():
    states = list(torch_ranks.run(residuals_of, 3).values())
    by_two = torch_ranks.run(all_that_was_left, 2, states)
    by_one = torch_ranks.run(all_that_was_left, 1, states)
    for name, left in by_one[0].items():
        assert torch.allclose(torch.tensor(left), torch.tensor(by_two[0][name]), atol=1e-6)
    assert torch.tensor(by_one[0]['rare']).abs().sum() > 0


def test_a_killed_rank_is_named():
    said = torch_ranks.run(killed, 3, silent=(1,))
    assert set(said) == {0, 2}
    assert max(said.values()) < 5  # a second, where nobody else has the processors


def test_wrong_arguments_are_told():
    with pytest.raises(TypeError, match='valid: a DistributedDataParallel'):
        banyan.torch.ddp_hook(Network())
