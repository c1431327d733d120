"""Horovod's surface: calls by name in any order, joining, optimizers, states, and what is wrong."""
# SPDX-License-Identifier: Apache-2.0

import os
import signal
import time

import pytest
from ranks import Job, reached, run

import banyan

try:
    import torch

    import banyan.torch.horovod as hvd
except ImportError as missing:
    pytest.skip(str(missing), allow_module_level=True)


def calls(comm):
    hvd.init(comm)
    rank, size = hvd.rank(), hvd.size()
    mean = sum(torch.arange(5.) + each for each in range(size)) / size
    assert torch.allclose(hvd.allreduce(torch.arange(5.) + rank, name='mean'), mean)
    in_place = torch.arange(6.).reshape(2, 3).t() + rank  # in no contiguous memory
    hvd.allreduce_(in_place, op=hvd.Sum)
    assert torch.allclose(in_place, torch.arange(6.).reshape(2, 3).t() * size + size * (size - 1) / 2)
    assert hvd.allreduce(torch.tensor([rank, -rank]), op=hvd.Max).tolist() == [size - 1, 0]
    assert hvd.allreduce(torch.tensor(2.0), prescale_factor=3, postscale_factor=0.5, op=hvd.Sum).item() == 3 * size
    assert hvd.allreduce(torch.ones(3, dtype=torch.bfloat16)).dtype == torch.bfloat16
    many = hvd.grouped_allreduce([torch.ones(3), torch.full((2, 2), 2.0)], op=hvd.Sum)
    assert [each.unique().tolist() for each in many] == [[size], [2 * size]]

    gathered = hvd.allgather(torch.full((rank + 1, 2), rank))
    assert gathered.tolist() == [[each] * 2 for each in range(size) for _ in range(each + 1)]
    assert hvd.allgather(torch.empty(0, 3) if rank == 0 else torch.ones(1, 3)).shape == (size - 1, 3)
    flags = torch.tensor([True, False]) if rank == size - 1 else torch.zeros(2, dtype=torch.bool)
    assert hvd.broadcast(flags, size - 1).tolist() == [True, False]
    sent = hvd.alltoall(torch.arange(2 * size).float() + 10 * rank)
    assert sent.tolist() == [10 * each + 2 * rank + place for each in range(size) for place in (0, 1)]
    rows, came = hvd.alltoall(torch.full((size * (size + 1) // 2,), rank), splits=torch.arange(1, size + 1))
    assert rows.tolist() == [each for each in range(size) for _ in range(rank + 1)] and came.tolist() == [rank + 1] * size
    part = hvd.reducescatter(torch.arange(5.).reshape(5, 1), op=hvd.Sum)
    cuts = [5 * 0] + [sum(5 // size + (each < 5 % size) for each in range(end)) for end in range(1, size + 1)]
    assert part.flatten().tolist() == [size * row for row in range(cuts[rank], cuts[rank + 1])]

    weight = torch.ones(2, requires_grad=True)
    (hvd.allreduce(weight * (rank + 1), op=hvd.Sum) * 3).sum().backward()
    assert weight.grad.tolist() == [3.0 * size * (rank + 1)] * 2
    assert hvd.broadcast_object({'of': rank}, 0) == {'of': 0}
    assert hvd.allgather_object('x' * rank) == ['x' * each for each in range(size)]
    hvd.barrier()
    return hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()


@pytest.mark.parametrize('size', [1, 2, 3])
def test_calls_do_what_they_say(size):
    assert run(calls, size) == [(rank, size, 0, 1) for rank in range(size)]


def in_any_order(comm):
    meeting = comm.split(0)
    hvd.init(comm)
    names = list(range(100)) if comm.rank == 0 else list(reversed(range(100)))
    handles = {name: hvd.allreduce_async(torch.full((name % 7 + 1,), float(name)), name=str(name), op=hvd.Sum)
               for name in names}
    for name in sorted(handles):
        result = hvd.synchronize(handles[name])
        assert result.tolist() == [name * comm.size] * (name % 7 + 1)
    if comm.rank != 0:
        meeting.barrier()  # until then the call of rank 0 cannot end
    first = hvd.allreduce_async(torch.ones(1), name='twice')
    if comm.rank == 0:
        assert not hvd.poll(first)
        with pytest.raises(ValueError, match='waits already'):
            hvd.allreduce_async(torch.ones(1), name='twice')
        meeting.barrier()
    second = hvd.allreduce_async(torch.ones(1), name='last') if comm.rank else None
    hvd.synchronize(first)
    hvd.synchronize(hvd.allreduce_async(torch.ones(1), name='last') if second is None else second)
    with pytest.raises(ValueError, match='no handle'):
        hvd.synchronize(first)


def differ(comm):
    hvd.init(comm)
    with pytest.raises(ValueError, match=r"ranks differ in 'allreduce.bad': rank 0 has .*\[2\], and rank 1 has .*\[3\]"):
        hvd.allreduce(torch.ones(comm.rank + 2), name='bad')
    with pytest.raises(ValueError, match='root_rank is 9'):
        hvd.broadcast(torch.ones(1), 9)
    with pytest.raises(banyan.Unsupported, match='Adasum'):
        hvd.allreduce(torch.ones(1), op=hvd.Adasum)
    with pytest.raises(ValueError, match='splits are'):
        hvd.alltoall(torch.ones(3), splits=[7])
    assert hvd.allreduce(torch.ones(1)).item() == 1  # and all goes on


def joining(comm):
    hvd.init(comm)
    sums = []
    for step in range(3 + 2 * comm.rank):  # the last rank has the most data
        sums.append(hvd.allreduce(torch.ones(4), name=f'step {step}', op=hvd.Sum)[0].item())
    last = hvd.join()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == comm.size  # all are back
    return last, sums


@pytest.mark.parametrize('function', [in_any_order, differ])
def test_names(function):
    run(function, 2)


def test_who_has_joined_adds_zeros():
    results = run(joining, 3)
    assert [last for last, _ in results] == [2, 2, 2]
    assert results[2][1] == [3, 3, 3, 2, 2, 1, 1]


# Shorter vectors than 4 KiB stay exact.
def model_of(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 512), torch.nn.Tanh(), torch.nn.Linear(512, 3))


def trained(model, optimizer, inputs, passes=1):
    for step in range(6):
        for part in inputs[step].chunk(passes):
            (model(part).square().mean() / passes).backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def training(comm, options):
    hvd.init(comm)
    model = model_of(comm.rank)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 + comm.rank, momentum=0.9)
    options = dict(options)
    if 'codec' in options:
        options['compression'] = getattr(hvd.Compression, options.pop('codec'))
    passes = options.get('backward_passes_per_step', 1)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), **options)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]['lr'] == 0.1
    inputs = torch.randn(6, comm.size, 8, 6, generator=torch.Generator().manual_seed(5))
    return trained(model, optimizer, inputs[:, comm.rank], passes).numpy()


@pytest.mark.parametrize('options', [
    {}, {'num_groups': 2}, {'backward_passes_per_step': 2}, {'gradient_predivide_factor': 2.0}, {'codec': 'fp16'},
    {'codec': 'int8'}], ids=str)
def test_optimizers_train_as_one(options):
    results = run(training, 2, options)
    assert (results[0] == results[1]).all()
    model = model_of(0)
    inputs = torch.randn(6, 2, 8, 6, generator=torch.Generator().manual_seed(5))
    alone = trained(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), inputs.reshape(6, 16, 6))
    furthest = abs(results[0] - alone.numpy()).max()
    assert furthest < (2e-2 if 'codec' in options else 1e-5)
    assert options.get('codec') != 'int8' or furthest > 1e-7  # it has an effect


def wrong_use(comm):
    hvd.init(comm)
    model = model_of(0)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match='unique'):
        hvd.DistributedOptimizer(plain, [('a', each) for each in model.parameters()])
    with pytest.raises(ValueError, match='not named'):
        hvd.DistributedOptimizer(plain, list(model.named_parameters())[1:])
    with pytest.raises(ValueError, match='ddp_hook'):
        hvd.Compression.codec('topk:0.01')
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    model(torch.ones(1, 6)).sum().backward()
    with pytest.raises(AssertionError, match='race condition'):
        optimizer.zero_grad()
    with pytest.raises(AssertionError, match='backward_passes_per_step'):
        model(torch.ones(1, 6)).sum().backward()
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        optimizer.step()
    hvd.shutdown()
    with pytest.raises(ValueError, match='not been initialized'):
        hvd.rank()


def test_wrong_use_is_told():
    run(wrong_use, 2)


def outlive(comm):
    hvd.init(comm)
    hvd.allreduce(torch.ones(3))
    reached('working')
    if comm.rank == 1:
        time.sleep(60)  # until it is killed
    start = time.monotonic()
    with pytest.raises(banyan.PeerLost) as error:
        hvd.allreduce(torch.ones(3))
    assert error.value.failed_rank == 1
    with pytest.raises(banyan.PeerLost):
        hvd.barrier()
    return time.monotonic() - start


def test_a_killed_rank_is_named_by_the_others():
    job = Job(outlive, 3)
    for rank in range(3):
        job.until(rank, 'working')
    os.kill(job.pid(1), signal.SIGKILL)
    assert max(seconds for seconds in job.results(dead={1}) if seconds is not None) < 10
