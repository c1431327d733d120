"""The backend of torch.distributed: what collectives and messages do, beside the same by torch on one rank."""
# SPDX-License-Identifier: Apache-2.0

import datetime
import os
import signal
import time

import pytest

torch = pytest.importorskip('torch', reason='no torch; tools/install-deps --torch')
try:
    import banyan.torch  # noqa: F401  (registers the backend)
except ImportError as other_torch:
    pytest.skip(str(other_torch), allow_module_level=True)

import torch.distributed as dist  # noqa: E402
from torch.distributed import ReduceOp  # noqa: E402

import torch_ranks  # noqa: E402

INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
FEW_BITS = [torch.float8_e4m3fn, torch.float8_e5m2]


def given(rank, dtype, count=6):
    """Small whole numbers, whose sums and products every type has exactly."""
    return ((torch.arange(count) + rank) % 3).to(dtype)


def rows(size, dtype, count=6):
    return torch.stack([given(rank, dtype, count).to(torch.float64) for rank in range(size)])


def reduced(op, size, dtype, count=6):
    wide = rows(size, dtype, count)
    if op == ReduceOp.PRODUCT:
        wide = wide.prod(0)
    elif op == ReduceOp.MIN:
        wide = wide.amin(0)
    elif op == ReduceOp.MAX:
        wide = wide.amax(0)
    elif op == ReduceOp.AVG:
        wide = wide.sum(0) / size
        wide = wide.trunc() if not dtype.is_floating_point else wide
    else:
        wide = wide.sum(0)
    return wide.to(dtype)


def bits(op, size, dtype, count=6):
    total = given(0, dtype, count)
    for rank in range(1, size):
        other = given(rank, dtype, count)
        total = {ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or,
                 ReduceOp.BXOR: torch.bitwise_xor}[op](total, other)
    return total


def same(got, want):
    assert got.dtype == want.dtype
    assert torch.equal(got.to(torch.float64), want.to(torch.float64)), f'{got} is not {want}'


def sums(rank, size):
    for dtype in INTEGERS + FLOATS + FEW_BITS:
        for op in (ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.AVG):
            want = reduced(op, size, dtype)
            if op == ReduceOp.AVG and dtype.is_floating_point and size == 3:
                continue  # thirds are rounded; the next test has them
            tensor = given(rank, dtype)
            dist.all_reduce(tensor, op)
            same(tensor, want)
            tensor = given(rank, dtype)
            dist.reduce(tensor, size - 1, op)
            if rank == size - 1:
                same(tensor, want)
            block = torch.empty(2, dtype=dtype)
            dist.reduce_scatter_tensor(block, given(rank, dtype, 2 * size), op)
            same(block, reduced(op, size, dtype, 2 * size)[2 * rank:2 * rank + 2])
    third = torch.full((3,), float(rank))
    dist.all_reduce(third, ReduceOp.AVG)
    assert torch.allclose(third, torch.full((3,), (size - 1) / 2))
    for dtype in INTEGERS[:5] + [torch.bool]:
        for op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
            tensor = given(rank, dtype)
            dist.all_reduce(tensor, op)
            same(tensor, bits(op, size, dtype))
    answers = torch.tensor([rank == 0, True, False])
    dist.all_reduce(answers, ReduceOp.SUM)
    assert answers.tolist() == [True, True, False]
    answers = torch.tensor([rank == 0, True, False])
    dist.all_reduce(answers, ReduceOp.PRODUCT)
    assert answers.tolist() == [size == 1, True, False]
    number = torch.full((3,), complex(rank, -1))
    dist.all_reduce(number)
    assert number.tolist() == [complex(size * (size - 1) / 2, -size)] * 3
    scaled = torch.ones(4)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
    assert scaled.tolist() == [size / 2] * 4


@pytest.mark.parametrize('size', [1, 2, 3, 4])
def test_sums_of_every_type(size):
    torch_ranks.run(sums, size)


def moves(rank, size):
    for dtype in INTEGERS + FLOATS + FEW_BITS + [torch.bool, torch.complex64]:
        value = torch.full((2, 3), rank, dtype=torch.float32).to(dtype)
        everyone = [torch.full((2, 3), r, dtype=torch.float32).to(dtype) for r in range(size)]
        blank = [torch.zeros((2, 3), dtype=torch.float32).to(dtype) for _ in range(size)]

        def equal(got, want):
            assert torch.equal(got.view(torch.uint8), want.view(torch.uint8)), f'{dtype}: {got} is not {want}'
        tensor = value.clone()
        dist.broadcast(tensor, size - 1)
        equal(tensor, everyone[-1])
        dist.all_gather(blank, value)
        equal(torch.stack(blank), torch.stack(everyone))
        whole = torch.empty((2 * size, 3), dtype=dtype)
        dist.all_gather_into_tensor(whole, value)
        equal(whole, torch.cat(everyone))
        into = [torch.empty_like(value) for _ in range(size)] if rank == 0 else None
        dist.gather(value, into, dst=0)
        if rank == 0:
            equal(torch.stack(into), torch.stack(everyone))
        mine = torch.empty_like(value)
        dist.scatter(mine, everyone if rank == size - 1 else None, src=size - 1)
        equal(mine, everyone[rank])
        took = [torch.empty_like(value) for _ in range(size)]
        dist.all_to_all(took, [everyone[rank].clone() for _ in range(size)])
        equal(torch.stack(took), torch.stack(everyone))


def lengths(rank, size):
    send = [rank + peer for peer in range(size)]
    took = torch.empty(sum(send), 2)
    dist.all_to_all_single(took, torch.full((sum(send), 2), float(rank)), send, send)
    assert took[:, 0].tolist() == [float(peer) for peer in range(size) for _ in range(send[peer])]
    pieces = [torch.empty(rank + peer) for peer in range(size)]
    dist.all_to_all(pieces, [torch.full((rank + peer,), float(rank)) for peer in range(size)])
    assert [piece.tolist() for piece in pieces] == [[float(peer)] * (rank + peer) for peer in range(size)]
    uneven = [torch.empty(peer + 1) for peer in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    assert [piece.tolist() for piece in uneven] == [[float(peer)] * (peer + 1) for peer in range(size)]
    block = torch.empty(rank + 1)
    dist.reduce_scatter(block, [torch.ones(peer + 1) for peer in range(size)])
    assert block.tolist() == [float(size)] * (rank + 1)
    nothing = torch.empty(0)
    dist.all_reduce(nothing)
    dist.broadcast(nothing, 0)
    turned = torch.full((3, 4), float(rank)).t()
    dist.all_reduce(turned)
    assert torch.equal(turned, torch.full((4, 3), size * (size - 1) / 2))
    column = torch.zeros(4, 3)
    column[:, 1] = rank
    dist.broadcast(column[:, 1], size - 1)
    assert column[:, 1].tolist() == [size - 1.0] * 4 and column[:, 0].tolist() == [0.0] * 4
    objects = [None] * size
    dist.all_gather_object(objects, {'rank': rank})
    assert objects == [{'rank': peer} for peer in range(size)]
    listed = [rank, 'text'] if rank == 0 else [None, None]
    dist.broadcast_object_list(listed, 0)
    assert listed == [0, 'text']


@pytest.mark.parametrize('size', [1, 2, 3])
def test_moves_of_every_type(size):
    torch_ranks.run(moves, size)


@pytest.mark.parametrize('size', [1, 2, 4])
def test_lengths_and_strides(size):
    torch_ranks.run(lengths, size)


def order(rank, size):
    work = []
    tensor = torch.ones(1000)
    for _ in range(20):
        work.append(dist.all_reduce(tensor, async_op=True))
        work.append(dist.broadcast(tensor, 0, async_op=True))
    dist.barrier()  # a call that waits takes its turn behind those
    assert all(one.is_completed() for one in work)
    assert tensor[0] == size**20
    doubled = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    assert doubled.wait().tolist() == [2.0 * size] * 2
    nested = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(
        lambda done: dist.all_reduce(done.value()[0]) or done.value()[0])
    assert nested.wait().tolist() == [float(size * size)] * 2
    parts = [torch.full((3,), float(i)) for i in range(3)]
    with dist._coalescing_manager(device=torch.device('cpu')):
        for part in parts:
            dist.all_reduce(part)
    assert [part[0].item() for part in parts] == [0.0, float(size), 2.0 * size]
    wholes = [torch.empty(2 * size) for _ in range(2)]
    with dist._coalescing_manager(device=torch.device('cpu'), async_ops=True) as manager:
        for i, whole in enumerate(wholes):
            dist.all_gather_into_tensor(whole, torch.full((2,), float(rank + i)))
    manager.wait()
    assert wholes[1].tolist() == [float(peer + 1) for peer in range(size) for _ in range(2)]


def test_order_futures_and_coalescing():
    torch_ranks.run(order, 2)


def messages(rank, size):
    peer = 1 - rank
    big = 300000
    for first in ('send', 'recv'):
        took = torch.empty(big)
        send, recv = (lambda: dist.isend(torch.full((big,), float(rank)), peer)), (lambda: dist.irecv(took, peer))
        work = [send(), recv()] if first == 'send' else [recv(), send()]
        dist.all_reduce(torch.ones(1))  # messages under way do not hold up a collective
        for one in work:
            one.wait()
        assert took[0] == took[-1] == peer
    dist.send(torch.full((big,), float(rank)), peer)  # both send first, and get on
    dist.recv(took, peer)
    assert took[0] == peer
    if rank == 0:
        for tag in (1, 2, 3):
            dist.send(torch.full((2,), float(tag)), 1, tag=tag)
    else:
        for tag in (3, 1, 2):
            one = torch.empty(2)
            dist.recv(one, 0, tag=tag)
            assert one.tolist() == [float(tag)] * 2
    operations = [dist.P2POp(dist.isend, torch.full((4,), float(rank)), peer),
                  dist.P2POp(dist.irecv, took[:8:2], peer)]
    for one in dist.batch_isend_irecv(operations):
        one.wait()
    assert took[:8:2].tolist() == [float(peer)] * 4
    if rank == 0:
        dist.send(torch.ones(3), 1)
        dist.send(torch.full((2,), 5.0), 1)
    else:
        with pytest.raises(RuntimeError, match='rank 0 sent 12 bytes with tag 0 and the tensor has 8'):
            dist.recv(torch.empty(2), 0)
        two = torch.empty(2)
        dist.recv(two, 0)
        assert two.tolist() == [5.0, 5.0]


def from_any(rank, size):
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            tensor = torch.empty(2)
            source = dist.recv(tensor)
            assert tensor[0] == source
            seen.add(source)
        assert seen == set(range(1, size))
    else:
        dist.send(torch.full((2,), float(rank)), 0)
    dist.barrier()


def test_messages():
    torch_ranks.run(messages, 2)


def test_messages_from_any_rank():
    torch_ranks.run(from_any, 3)


def groups(rank, size):
    pair = dist.new_group([0, 2])
    other = dist.new_group([1, 2])
    for group, members in ((pair, (0, 2)), (other, (1, 2))):
        if rank in members:
            tensor = torch.ones(2)
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [2.0, 2.0]
    backend = dist.group.WORLD._get_backend(torch.device('cpu'))
    before = backend.sequence_number()
    dist.barrier()
    assert backend.sequence_number() == before + 1
    sparse = torch.sparse_coo_tensor([[rank, 4]], [1.0, 2.0], (6,))
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [1.0, 1.0, 1.0, 0.0, 6.0, 0.0]
    with pytest.raises(RuntimeError, match='valid: as many|valid: 3 times'):
        dist.all_gather_into_tensor(torch.empty(5), torch.empty(2))
    with pytest.raises(RuntimeError, match='bool tensors have no averages'):
        dist.all_reduce(torch.tensor([True]), ReduceOp.AVG)


def watched(rank, size):
    second = datetime.timedelta(seconds=1)
    banyan.torch.monitored_barrier()
    with pytest.raises(dist.DistBackendError, match=f'Rank {rank} timed out in monitoredBarrier'):
        banyan.torch.monitored_barrier(timeout=datetime.timedelta(seconds=0))
    start = time.monotonic()
    if rank >= 2:
        time.sleep(1.5)
    with pytest.raises(dist.DistBackendError, match='Ranks 2, 3 failed to pass monitoredBarrier in 1000 ms'):
        banyan.torch.monitored_barrier(timeout=second, wait_all_ranks=True)
    took = time.monotonic() - start
    assert rank >= 2 or took < 1.4
    banyan.torch.monitored_barrier()  # who came too late is not in this one
    if rank == 1:
        time.sleep(1.5)
    with pytest.raises(dist.DistBackendError, match='Rank 1 failed to pass'):
        banyan.torch.monitored_barrier(timeout=second)


def parts(rank, size):
    whole = dist.group.WORLD
    backend = whole._get_backend(torch.device('cpu'))
    ranks = [0, 3] if rank in (0, 3) else [2, 1]
    child = whole.split_group(ranks, group_name=f'pair of {min(ranks)}')
    tensor = torch.tensor([float(rank)])
    child.allreduce([tensor]).wait()
    assert (tensor.item(), child.size()) == (3.0, 2)
    with pytest.raises(RuntimeError, match='valid: a call by the others only'):
        backend.shrink([rank])
    with pytest.raises(RuntimeError, match='rank 7 is not in the group'):
        backend.shrink([7])
    dist.barrier()
    if rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError, match='failed rank 3'):
        for _ in range(10000):
            dist.all_reduce(torch.ones(100000))
    fewer = dist.shrink_group([3], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=fewer)
    assert (tensor.item(), dist.get_world_size(fewer)) == (3.0, 3)


def forked(rank, size):
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            os._exit(0 if 'child of fork' in str(error) else 3)
        os._exit(4)
    assert os.waitpid(child, 0)[1] == 0
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size


def test_groups_and_errors():
    torch_ranks.run(groups, 3)


def test_barrier_that_says_who_is_missing():
    torch_ranks.run(watched, 4)


def test_groups_of_some_ranks():
    torch_ranks.run(parts, 4, silent=(3,))


def test_child_of_fork():
    torch_ranks.run(forked, 2)


def killed(rank, size):
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(dist.DistBackendError, match='failed rank 1'):
        for _ in range(10000):
            dist.all_reduce(torch.ones(100000))
    took = time.monotonic() - start
    dist.distributed_c10d._abort_process_group()
    return took


def late(rank, size):
    if rank == 1:
        time.sleep(4)
        dist.distributed_c10d._abort_process_group()
        return 0
    start = time.monotonic()
    with pytest.raises(dist.DistBackendError, match='has sent nothing with tag 7 in 1'):
        dist.recv(torch.empty(1), 1, tag=7)
    with pytest.raises(dist.DistBackendError, match=' Timed out .*rank 1'):
        dist.all_reduce(torch.ones(1))
    took = time.monotonic() - start
    dist.distributed_c10d._abort_process_group()
    return took


def test_killed_rank_is_named():
    said = torch_ranks.run(killed, 3, silent=(1,))
    assert set(said) == {0, 2}
    assert max(said.values()) < 5  # a second, where nobody else has the processors


def test_rank_that_never_comes():
    said = torch_ranks.run(late, 2, timeout=1.5)
    assert 2.5 < said[0] < 3.9


def compressed(rank, size):
    torch.manual_seed(rank)
    tensor = torch.randn(20000)
    exact = tensor.double()
    dist.all_reduce(exact)
    dist.all_reduce(tensor)
    return (tensor.double() - exact).abs().max().item()


def test_options():
    import banyan.torch
    said = torch_ranks.run(compressed, 2, options=banyan.torch.Options(compress='int8'))
    assert 1e-6 < said[0] < 0.5 and said[0] > 1e-4
    with pytest.raises(TypeError, match='valid: a banyan.torch.Options'):
        banyan.torch._create(None, {'compress': 'int8'})
