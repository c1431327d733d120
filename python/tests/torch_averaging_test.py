"""Parameters averaged every k steps: by hand, by LocalSGD, by codecs of differences; states, schedulers, wrong use."""
# SPDX-License-Identifier: Apache-2.0

import io

import pytest

torch = pytest.importorskip('torch', reason='no torch; tools/install-deps --torch')
try:
    import banyan.torch
except ImportError as other_torch:
    pytest.skip(str(other_torch), allow_module_level=True)

import torch.distributed as dist  # noqa: E402

import torch_ranks  # noqa: E402
from banyan.torch import LocalSGD  # noqa: E402
from torch_task import CLASSES, INPUTS, batch, flat  # noqa: E402


def model(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, 96), torch.nn.Tanh(), torch.nn.Linear(96, CLASSES))


def steps(trained, optimizer, ranks, numbers):
    """Steps on the batches of these ranks as one."""
    for number in numbers:
        parts = [batch(rank, number) for rank in ranks]
        values, right = (torch.cat([part[each] for part in parts]) for each in (0, 1))
        loss = torch.nn.functional.cross_entropy(trained(values), right)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def spread(vector):
    """The largest difference between the ranks."""
    least, most = vector.clone(), vector.clone()
    dist.all_reduce(least, dist.ReduceOp.MIN)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return (most - least).max().item()


def by_hand(rank, size):
    gloo = dist.new_group(backend='gloo')
    shapes = [(3, 5), (), (7,), (0, 4), (2, 3, 4)]
    for group in (None, gloo):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            given = [[torch.full(shape, each + index + 0.5, dtype=dtype) for index, shape in enumerate(shapes)]
                     for each in range(size)]
            tensors = [*given[rank], torch.full((5, 3), float(rank)).t()]
            banyan.torch.average_parameters((each.requires_grad_() for each in tensors[:-1]), group)
            banyan.torch.average_parameters(tensors[-1:], group)
            for index, tensor in enumerate(tensors[:-1]):
                assert torch.equal(tensor, torch.full(shapes[index], (size - 1) / 2 + index + 0.5, dtype=dtype))
            assert (tensors[-1] == (size - 1) / 2).all()
    with pytest.raises(TypeError, match='parameter 1 is of torch.int64; valid: dense tensors of torch.float32'):
        banyan.torch.average_parameters([torch.ones(2), torch.ones(2, dtype=torch.int64)])
    pair = dist.new_group([0, 1])
    if rank > 1:
        with pytest.raises(ValueError, match='not in the process group'):
            banyan.torch.average_parameters([torch.ones(2)], pair)


def local(rank, size):
    alone = model()
    steps(alone, torch.optim.SGD(alone.parameters(), 0.1, momentum=0.9), range(size), range(6))
    trained = model(seed=rank + 1)  # LocalSGD gives all of them those of rank 0
    optimizer = LocalSGD(torch.optim.SGD(trained.parameters(), 0.1, momentum=0.9), every=1)
    steps(trained, optimizer, [rank], range(6))
    assert torch.allclose(flat(trained), flat(alone), atol=1e-5)  # means of steps are steps of means
    assert spread(flat(trained)) == 0

    losses = {}
    for codec in (None, 'int8', 'topk:0.05'):
        trained = model()
        inner = torch.optim.SGD(trained.parameters(), 0.1, momentum=0.5)
        optimizer = LocalSGD(inner, every=4, warmup_steps=2, codec=codec, average_momentum=True,
                             named_parameters=trained.named_parameters())
        together = []
        for number in range(12):
            steps(trained, optimizer, [rank], [number])
            together.append(spread(flat(trained)) == 0)
        assert together == [number in (0, 1, 5, 9) for number in range(12)]
        optimizer.average()
        assert spread(flat(trained)) == 0
        assert spread(torch.cat([inner.state[each]['momentum_buffer'].flatten() for each in trained.parameters()])) == 0
        losses[codec] = steps(trained, optimizer, [rank], range(12, 80))
        assert losses[codec] < 1.1 and losses[codec] == pytest.approx(losses[None], abs=0.2), losses
        if codec is not None:
            figures = optimizer.stats()
            assert figures['residual_norm'] > 0 and figures['bytes_sent'] < 0.6 * figures['bytes_raw']
            optimizer.close()
            optimizer.close()


def resumed(rank, size):
    def begin(saved=None):
        trained = model()
        optimizer = LocalSGD(torch.optim.Adam(trained.parameters(), 0.01), 2, codec='topk:0.05')
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
        if saved is not None:
            for part, state in zip((trained, optimizer, schedule), saved):
                part.load_state_dict(state)
        return trained, optimizer, schedule

    def go_on(job, numbers):
        for number in numbers:
            steps(job[0], job[1], [rank], [number])
            job[2].step()
        return flat(job[0])

    whole, half = begin(), begin()
    right = go_on(whole, range(8))
    go_on(half, range(3))  # between two averagings
    file = io.BytesIO()
    torch.save([part.state_dict() for part in half], file)
    file.seek(0)
    again = begin(torch.load(file, weights_only=True))
    assert again[1].steps == 3 and again[1].param_groups[0]['lr'] == pytest.approx(0.01 * 0.9 ** 3)
    assert torch.equal(go_on(again, range(3, 8)), right) and spread(right) == 0
    plain = LocalSGD(torch.optim.Adam(model().parameters(), 0.01), 2)
    with pytest.raises(ValueError, match='was saved with a codec'):
        plain.load_state_dict(half[1].state_dict())
    with pytest.raises(ValueError, match="has no 'local_sgd'"):
        plain.load_state_dict(plain.optimizer.state_dict())
    with pytest.raises(ValueError, match='the state has -1 steps'):
        plain.load_state_dict({**plain.state_dict(), 'local_sgd': {'steps': -1, 'differences': None}})
    fresh = begin()[1]
    for wrong in ({}, {'common': {'0': 7}, 'left': {}}, {'common': {}}):
        with pytest.raises(ValueError, match="no tensors as 'common'"):
            fresh.load_state_dict({**fresh.state_dict(), 'local_sgd': {'steps': 1, 'differences': wrong}})
    other = LocalSGD(torch.optim.Adam(torch.nn.Linear(80, 90).parameters()), 2, codec='topk:0.05')
    with pytest.raises(ValueError, match='the state is of parameters'):
        other.load_state_dict(half[1].state_dict())


def as_an_optimizer(rank, size):
    trained = model()
    late = torch.nn.Parameter(torch.ones(3))
    optimizer = LocalSGD(torch.optim.SGD(trained.parameters(), 0.1), 2)
    assert isinstance(optimizer, torch.optim.Optimizer) and 'every=2' in repr(optimizer)
    optimizer.add_param_group({'params': [late], 'lr': 1.0})
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(late.detach().clone()))

    def closure():
        optimizer.zero_grad()
        loss = (late * (rank + 1)).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 3 * (rank + 1)
    optimizer.step(closure)
    assert (seen[1] == 1 - 2 * (rank + 1)).all()
    assert (late == 1 - (size + 1)).all()

    inner = torch.optim.SGD(trained.parameters(), 0.1)
    for arguments, options, error, text in (((inner, 0), {}, ValueError, 'every is 0'),
                                            ((inner, 1.5), {}, ValueError, 'every is 1.5'),
                                            ((trained, 2), {}, TypeError, 'right is a torch.optim.Optimizer'),
                                            ((inner, 2), {'warmup_steps': -1}, ValueError, 'warmup_steps is -1'),
                                            ((inner, 2), {'timeout': 3.0}, TypeError, 'timeout is for a communicator'),
                                            ((inner, 2), {'codec': 'int9'}, banyan.InvalidArgument, 'int9'),
                                            ((inner, 2), {'named_parameters': []}, ValueError, 'no name for 4 of the 4')):
        with pytest.raises(error, match=text):
            LocalSGD(*arguments, **options)
    with pytest.raises(ValueError, match='no figures without a codec'):
        optimizer.stats()
    coded = LocalSGD(inner, 2, codec='int8')
    with pytest.raises(ValueError, match='cannot be added'):
        coded.add_param_group({'params': [late]})


def test_means_of_parameters():
    torch_ranks.run(by_hand, 3)


def by_optimizers(rank, size):
    local(rank, size)
    resumed(rank, size)
    as_an_optimizer(rank, size)


def test_local_sgd():
    torch_ranks.run(by_optimizers, 2)
