"""Averages of parameters, and training that averages every few steps."""
# SPDX-License-Identifier: Apache-2.0

import copy

import pytest

torch = pytest.importorskip('torch', reason='no torch; tools/install-deps --torch')
try:
    import banyan.torch
except ImportError as other_torch:
    pytest.skip(str(other_torch), allow_module_level=True)

import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import torch_ranks  # noqa: E402


def network(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(16, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))


def train(model, optimizer, rank, first, last):
    losses = []
    for step in range(first, last):
        generator = torch.Generator().manual_seed(100 * step + rank)
        values = torch.randn(8, 16, generator=generator)
        loss = torch.nn.functional.mse_loss(model(values), values[:, :4])
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


def averages(rank, size):
    mean = (size - 1) / 2
    tensors = [torch.full(shape, float(rank), dtype=dtype) for shape in ((), (0,), (3,), (5, 7), (3000, 2000))
               for dtype in (torch.float32, torch.float64, torch.bfloat16)]
    tensors.append(torch.arange(12.0).view(3, 4).t() + rank)
    banyan.torch.average_parameters(tensors)
    assert all((tensor == mean).all() for tensor in tensors[:-1])
    assert torch.equal(tensors[-1], torch.arange(12.0).view(3, 4).t() + mean)
    with pytest.raises(TypeError, match='valid: floating-point'):
        banyan.torch.average_parameters([torch.ones(3, dtype=torch.int64)])


def every_step(rank, size):
    alone, together = network(seed=rank), DistributedDataParallel(network(seed=0))
    optimizer = banyan.torch.LocalSGD(torch.optim.SGD(alone.parameters(), 0.1), every=1)
    train(alone, optimizer, rank, 0, 5)
    train(together, torch.optim.SGD(together.parameters(), 0.1), rank, 0, 5)
    assert torch.allclose(flat(alone), flat(together), atol=1e-6)
    assert are_alike(alone)


def every_few(rank, size, codec):
    model = network(seed=rank)
    optimizer = banyan.torch.LocalSGD(torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), every=4, warmup_steps=2,
                                      codec=codec)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.5)
    assert are_alike(model)
    alike = []
    for step in range(10):
        train(model, optimizer, rank, step, step + 1)
        alike.append(are_alike(model))
    assert alike == [True, True, False, False, False, True, False, False, False, True]
    losses = train(model, optimizer, rank, 10, 120)
    for _ in range(50):
        schedule.step()
    assert optimizer.param_groups[0]['lr'] == 0.025 and optimizer.optimizer.param_groups[0]['lr'] == 0.025
    assert not are_alike(model) or size == 1
    optimizer.average()
    assert are_alike(model)
    optimizer.close()
    return losses[0], losses[-1]


def stopped_and_resumed(rank, size, codec):
    def begun():
        model = network()
        inner = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        return model, banyan.torch.LocalSGD(inner, every=2, codec=codec, average_state=True)

    model, optimizer = begun()
    train(model, optimizer, rank, 0, 5)
    saved = copy.deepcopy({'model': model.state_dict(), 'optimizer': optimizer.state_dict()})
    with pytest.raises(ValueError, match='this one is without one'):
        banyan.torch.LocalSGD(torch.optim.SGD(network().parameters(), 0.05), every=2).load_state_dict(saved['optimizer'])
    again, resumed = begun()
    again.load_state_dict(saved['model'])
    resumed.load_state_dict(saved['optimizer'])
    train(model, optimizer, rank, 5, 9)
    train(again, resumed, rank, 5, 9)
    assert torch.equal(flat(model), flat(again)) and resumed.steps == 9
    momenta = [optimizer.state[parameter]['momentum_buffer'].clone() for parameter in model.parameters()]
    optimizer.average()
    for before, parameter in zip(momenta, model.parameters()):
        dist.all_reduce(before, dist.ReduceOp.AVG)
        assert torch.equal(before, optimizer.state[parameter]['momentum_buffer'])
    with pytest.raises(ValueError, match='before'):
        optimizer.add_param_group({'params': [torch.ones(2, requires_grad=True)]})


def test_averages_of_any_shape():
    torch_ranks.run(averages, 3)


def test_every_step_is_as_by_ddp():
    torch_ranks.run(every_step, 2)


@pytest.mark.parametrize('codec', [None, 'int8', 'topk:0.05'])
def test_every_few_steps(codec):
    for first, last in torch_ranks.run(every_few, 2, codec).values():
        assert last < first / 2


def test_a_state_goes_on_bit_for_bit():
    torch_ranks.run(stopped_and_resumed, 2, 'int8')


def test_wrong_arguments_are_told():
    inner = torch.optim.SGD(network().parameters(), 0.1)
    with pytest.raises(ValueError, match='valid: from 1'):
        banyan.torch.LocalSGD(inner, every=0)
    with pytest.raises(TypeError, match='valid: a torch.optim.Optimizer'):
        banyan.torch.LocalSGD(network().parameters(), every=2)
