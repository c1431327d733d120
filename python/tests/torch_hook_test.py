"""The communication hook of DDP: means as DDP's own, codecs by name, states, figures, failures."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import datetime
import io
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
from torch_task import CLASSES, INPUTS, batch, flat  # noqa: E402

TIMEOUT = datetime.timedelta(seconds=1)


def model(seed=1, dtype=torch.float32):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, 96), torch.nn.Tanh(), torch.nn.Linear(96, 96), torch.nn.Tanh(),
                               torch.nn.Linear(96, CLASSES)).to(dtype)


def steps(trained, rank, numbers, rate=0.1, momentum=0.0, optimizer=None, parts=1):
    dtype = next(trained.parameters()).dtype
    optimizer = optimizer or torch.optim.SGD(trained.parameters(), rate, momentum=momentum)
    loss = None
    for number in numbers:
        for part in range(parts):
            values, right = batch(rank, number * parts + part)
            with contextlib.nullcontext() if part == parts - 1 else trained.no_sync():
                loss = torch.nn.functional.cross_entropy(trained(values.to(dtype)).float(), right)
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def same_on_all(trained):
    mine = flat(trained)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)
    assert all(torch.equal(other, mine) for other in everyone)
    return mine


class Odd(torch.nn.Module):
    """Its parts are tied, frozen, or used on some steps only."""

    def __init__(self):
        super().__init__()
        self.layers = model()
        self.again = self.layers[0]
        self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)
        self.branch = torch.nn.Linear(CLASSES, CLASSES)
        self.calls = 0

    def forward(self, values):
        self.calls += 1
        results = self.layers(torch.tanh(values + self.again(values)[:, :INPUTS]))
        return results + self.branch(results) if self.calls % 2 else results


def exactly(rank, size):
    gloo = dist.new_group(backend='gloo')
    cases = [(model, {}, {}), (model, {'bucket_cap_mb': 0.001, 'gradient_as_bucket_view': True}, {'parts': 2}),
             (model, {'bucket_cap_mb': 0.001, 'static_graph': True}, {}),
             (Odd, {'find_unused_parameters': True, 'bucket_cap_mb': 0.001}, {}),
             (lambda: model(dtype=torch.bfloat16), {}, {}), (lambda: model(dtype=torch.float64), {}, {})]
    for index, (make, options, way) in enumerate(cases):
        torch.manual_seed(3)
        hooked = DistributedDataParallel(make(), process_group=gloo if index % 2 else None, **options)
        hook = banyan.torch.ddp_hook(hooked, 'off')
        torch.manual_seed(3)
        plain = DistributedDataParallel(make(), process_group=gloo, **options)
        assert steps(hooked, rank, range(4), **way) == pytest.approx(steps(plain, rank, range(4), **way), rel=1e-3)
        same_on_all(hooked)
        narrow = flat(plain).dtype == torch.bfloat16
        assert torch.allclose(flat(hooked), flat(plain), atol=1e-2 if narrow else 1e-6), index
        hooked.eval()(batch(rank, 0)[0].to(next(hooked.parameters()).dtype))
        assert hook.stats()['step'] == 4 and hook.error is None
        hook.close()
        hook.close()
    with pytest.raises(RuntimeError, match='the hook is closed'):
        steps(hooked, rank, [9])


def in_other_ways(rank, size):
    """Two models in one graph, then ranks that have no data left."""
    gloo = dist.new_group(backend='gloo')
    made = {}
    for hooked in (True, False):
        first, second = (DistributedDataParallel(torch.nn.Linear(INPUTS, INPUTS, bias=seed == 1), process_group=gloo,
                                                 bucket_cap_mb=0.001) for seed in (1, 2))
        hooks = [banyan.torch.ddp_hook(each, 'off') for each in (first, second) if hooked]
        with torch.no_grad():
            for each in (*first.parameters(), *second.parameters()):
                each.copy_(torch.linspace(-1, 1, each.numel()).view_as(each))
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], 0.01)
        for step in range(3):
            torch.tanh(second(torch.tanh(first(batch(rank, step)[0])))).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        with first.join():
            for step in range(1 + 2 * rank):
                first(batch(rank, step)[0]).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        made[hooked] = torch.cat([flat(first), flat(second)])
        assert [hook.stats()['step'] for hook in hooks] == [6, 3] * hooked
    assert torch.allclose(made[True], made[False], atol=1e-6)


def by_codecs(rank, size):
    wanted = steps(DistributedDataParallel(model()), rank, range(60))
    fewer = {}
    for codec in ('int8', 'topk:0.05'):
        trained = DistributedDataParallel(model(), bucket_cap_mb=0.01)
        hook = banyan.torch.ddp_hook(trained, codec)
        assert steps(trained, rank, range(60)) == pytest.approx(wanted, abs=0.1)
        same_on_all(trained)
        figures = hook.stats()
        assert figures['step'] == 60 and figures['residual_norm'] > 0 and 0 < figures['error_nmse'] < 1
        assert figures['bytes_raw'] == flat(trained).numel() * 4
        assert figures['bytes_sent'] * 59 < hook.totals()['bytes_sent'] < figures['bytes_sent'] * 61
        assert figures['ratio'] == figures['bytes_raw'] / figures['bytes_sent']
        assert figures['nonfinite'] == 0 and figures['wait_seconds'] >= 0 and figures['codec_seconds'] > 0
        fewer[codec] = figures['ratio']
    assert 2 < fewer['int8'] < 4 < fewer['topk:0.05']

    trained = DistributedDataParallel(model())
    hook = banyan.torch.ddp_hook(trained, 'topk:0.01', rules={'0.*': 'off', '[2-4].weight': 'int8', '*.bias': 'fp16'})
    steps(trained, rank, range(3))
    lost = {name: hook.totals(name)['residual_norm'] for name, _ in trained.module.named_parameters()}
    assert lost['0.weight'] == 0 < lost['2.weight'] < 0.1  # topk would leave much more
    ratio = {name: hook.totals(name)['bytes_raw'] / hook.totals(name)['bytes_sent'] for name in ('0.weight', '2.weight')}
    assert ratio['0.weight'] < 1.1 and 2 < ratio['2.weight'] < 4.1, ratio
    none = DistributedDataParallel(model())
    forgets = banyan.torch.ddp_hook(none, 'int8', feedback=False)
    steps(none, rank, range(2))
    kept, none_kept = (each.state_dict()['ranks'][rank].numel() for each in (hook, forgets))
    assert none_kept < 4 * 96 * 96 < kept  # bytes of the residuals of one layer


def dropped(rank, size):
    """A rank that has its sums goes on while others still wait for what it has sent."""
    for _ in range(20):
        trained = DistributedDataParallel(model(), bucket_cap_mb=0.01)
        banyan.torch.ddp_hook(trained, 'int8')
        if rank == 1:
            time.sleep(0.005)
        steps(trained, rank, range(2))
        del trained


def resumed(rank, size):
    def begin(saved=None):
        trained = DistributedDataParallel(model())
        optimizer = torch.optim.SGD(trained.parameters(), 0.1)
        hook = banyan.torch.ddp_hook(trained, 'topk:0.02', rules='4.*=int8', momentum=0.9, clip_norm=10.0, warmup_steps=4)
        if saved is not None:
            for part, state in zip((trained, optimizer, hook), saved):
                part.load_state_dict(state)
        return trained, optimizer, hook

    trained, optimizer, _ = begin()
    steps(trained, rank, range(6), optimizer=optimizer)
    half = begin()
    steps(half[0], rank, range(3), optimizer=half[1])
    for everything in (False, True):
        file = io.BytesIO()
        torch.save([half[0].state_dict(), half[1].state_dict(), half[2].state_dict(all_ranks=everything)], file)
        file.seek(0)
        again = begin(torch.load(file, weights_only=True))
        steps(again[0], rank, range(3, 6), optimizer=again[1])
        assert torch.equal(flat(again[0]), flat(trained))
    mine = half[2].state_dict()
    with pytest.raises(banyan.InvalidUsage):
        again[2].load_state_dict(mine)  # after its first step
    fresh = begin()[2]
    for wrong in ({}, {**mine, 'version': 2}, {**mine, 'size': 0}, {**mine, 'ranks': {rank: torch.ones(3)}},
                  {**mine, 'ranks': {}}):
        with pytest.raises(ValueError, match='right is'):
            fresh.load_state_dict(wrong)
    with pytest.raises(ValueError, match='right are those of one job'):
        fresh.load_state_dict(mine, {**mine, 'size': 3})
    cut = {**mine, 'ranks': {rank: mine['ranks'][rank][:-3]}}
    with pytest.raises(banyan.Corrupt):
        fresh.load_state_dict(cut)


class Weighed(torch.nn.Module):
    """The gradient of its weight is what it is called with."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(64, 80))

    def forward(self, gradient):
        return (self.weight * gradient).sum()


def step_of(members, codec, gradient, *states):
    """The sum that came out of a step of a group's ranks, and its hook."""
    trained = DistributedDataParallel(Weighed(), process_group=members)
    hook = banyan.torch.ddp_hook(trained, codec)
    if states:
        hook.load_state_dict(*states)
    trained(gradient).backward()
    return trained.module.weight.grad * dist.get_world_size(members), hook


def with_others(rank, size):
    members = {count: dist.new_group(range(count), backend='gloo') for count in (2, 3, 4)}
    given = [torch.randn(64, 80, generator=torch.Generator().manual_seed(each)) for each in range(size)]
    for before, now in ((4, 2), (2, 3)):
        if rank < before:
            came, hook = step_of(members[before], 'topk:0.1', given[rank])
            state = hook.state_dict()
            left = sum(given[:before]) - came
        parts = [None] * size
        dist.all_gather_object(parts, state if rank < before else None)
        files = [parts[each] for each in range(rank, before, now)] or parts[:1]
        if rank < now:
            later, _ = step_of(members[now], 'off', torch.zeros(64, 80), *files)
            if rank < before:
                assert left.norm() > 1 and torch.allclose(later, left, atol=1e-5)
            if now < before:
                with pytest.raises(ValueError, match=r'have none of \[\d\]'):
                    step_of(members[now], 'off', torch.zeros(64, 80), state)
        dist.barrier()


def test_another_number_of_ranks_conserves_what_is_left():
    torch_ranks.run(with_others, 4)


def wrong_use(rank, size):
    plain = model()
    with pytest.raises(TypeError, match='right is a torch.nn.parallel.DistributedDataParallel'):
        banyan.torch.ddp_hook(plain, 'int8')
    trained = DistributedDataParallel(plain)
    for options, error, text in (({'rules': 'no codec'}, ValueError, 'valid: GLOB=CODEC'),
                                 ({'rules': 7}, TypeError, 'rules is a int'),
                                 ({'codec': 'int9'}, banyan.InvalidArgument, 'int9'),
                                 ({'codec': 7}, TypeError, 'compress is a int'),
                                 ({'compress': 'int8'}, TypeError, 'right is codec'),
                                 ({'momentum': 2.0}, banyan.InvalidArgument, 'momentum'),
                                 ({'timeout': -1}, ValueError, 'timeout is -1')):
        with pytest.raises(error, match=text):
            banyan.torch.ddp_hook(trained, **options)
    banyan.torch.ddp_hook(trained, 'int8')
    with pytest.raises(RuntimeError, match='only be called once'):
        banyan.torch.ddp_hook(trained, 'int8')
    steps(trained, rank, range(2))

    sparse = DistributedDataParallel(torch.nn.Embedding(10, 4, sparse=True))
    hook = banyan.torch.ddp_hook(sparse)
    with pytest.raises(RuntimeError, match='a gradient is sparse'):
        sparse(torch.tensor([1, 2])).sum().backward()
    assert isinstance(hook.error, TypeError)


def killed(rank, size):
    trained = DistributedDataParallel(model(), bucket_cap_mb=0.01)
    hook = banyan.torch.ddp_hook(trained, 'int8')
    steps(trained, rank, range(3))
    if rank == 1:
        trained.module[2].register_full_backward_pre_hook(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    start = time.monotonic()
    with pytest.raises(RuntimeError, match='rank 1'):
        steps(trained, rank, range(3, 10000))
    took = time.monotonic() - start
    assert isinstance(hook.error, banyan.PeerLost) and hook.error.failed_rank == 1
    hook.close()
    dist.distributed_c10d._abort_process_group()
    return took


def training(rank, size):
    exactly(rank, size)
    in_other_ways(rank, size)
    by_codecs(rank, size)
    dropped(rank, size)


def using(rank, size):
    resumed(rank, size)
    wrong_use(rank, size)


@pytest.mark.parametrize('function', [training, using], ids=lambda function: function.__name__)
def test_hook(function):
    torch_ranks.run(function, 2)


def test_killed_rank_is_named():
    said = torch_ranks.run(killed, 3, silent=(1,))
    assert set(said) == {0, 2}
    assert max(said.values()) < 5  # a second, where nobody else has the processors


def late(rank, size):
    """The timeout is the group's, whatever its backend."""
    trained = DistributedDataParallel(model(), process_group=dist.new_group(backend='gloo', timeout=TIMEOUT))
    hook = banyan.torch.ddp_hook(trained, 'int8')
    steps(trained, rank, range(2))
    if rank == 1:
        time.sleep(3)
        return 0.0
    start = time.monotonic()
    with pytest.raises(RuntimeError, match='rank 1'):
        steps(trained, rank, range(2, 3))
    took = time.monotonic() - start
    assert isinstance(hook.error, banyan.Timeout)
    return took


def test_rank_that_never_comes_is_named():
    assert 0.9 < torch_ranks.run(late, 2)[0] < 2.9
