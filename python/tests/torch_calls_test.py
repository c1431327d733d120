"""Calls on the backend itself, as programs make them that were written for gloo: lists of tensors, errors, the end."""
# SPDX-License-Identifier: Apache-2.0

import datetime
import os
import subprocess
import sys
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


def backend_of(group=None):
    return (dist.group.WORLD if group is None else group)._get_backend(torch.device('cpu'))


def options(kind, **fields):
    made = kind()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def sums_of_several(rank, size):
    backend = backend_of()
    everyone = [(2.0 * peer + 1, 2.0 * peer + 2) for peer in range(size)]
    flat = torch.tensor(everyone).flatten()
    for op, want in ((ReduceOp.SUM, flat.sum()), (ReduceOp.PRODUCT, flat.prod()), (ReduceOp.MIN, flat.min()),
                     (ReduceOp.MAX, flat.max())):
        pair = [torch.full((3,), value) for value in everyone[rank]]
        done = backend.allreduce(pair, options(dist.AllreduceOptions, reduceOp=op)).get_future().wait()
        assert [one.tolist() for one in pair] == [[want.item()] * 3] * 2
        assert [one.data_ptr() for one in done] == [one.data_ptr() for one in pair]
    bits = [torch.tensor([1 << (2 * rank)]), torch.tensor([2 << (2 * rank)])]
    backend.allreduce(bits, options(dist.AllreduceOptions, reduceOp=ReduceOp.BOR)).wait()
    assert [one.item() for one in bits] == [4**size - 1] * 2
    sparse = [torch.sparse_coo_tensor([[place]], [1.0], (size + 1,)) for place in (rank, size)]
    backend.allreduce(sparse).wait()
    assert [one.to_dense().tolist() for one in sparse] == [[1.0] * size + [float(size)]] * 2
    with pytest.raises(RuntimeError, match='there are 2 tensors; valid: one for AVG'):
        backend.allreduce([torch.ones(1)] * 2, options(dist.AllreduceOptions, reduceOp=ReduceOp.AVG))


def moves_of_several(rank, size):
    backend = backend_of()
    for root in range(size):
        for first in range(2):
            pair = [torch.full((2,), float(10 * rank + slot)) for slot in range(2)]
            backend.broadcast(pair, options(dist.BroadcastOptions, rootRank=root, rootTensor=first)).wait()
            assert [one.tolist() for one in pair] == [[10.0 * root + first] * 2] * 2
    lists = [[torch.full((2,), -1.0) for _ in range(3 * size)] for _ in range(3)]
    given = [torch.full((2,), 3.0 * rank + slot) for slot in range(3)]
    said = backend.allgather(lists, given).get_future().wait()
    want = [[float(value)] * 2 for value in range(3 * size)]
    assert [[one.tolist() for one in made] for made in lists] == [want] * 3
    assert [[one.tolist() for one in made] for made in said] == [want] * 3


@pytest.mark.parametrize('size', [1, 3])
def test_several_tensors_of_a_rank(size):
    torch_ranks.run(sums_of_several, size)
    torch_ranks.run(moves_of_several, size)


def twice(rank, size):
    for count in (1, 4, 5000):
        tensor = torch.full((count,), rank + 1)
        dist.all_reduce_coalesced([tensor, tensor])
        assert tensor.tolist() == [size * (size + 1) // 2] * count
    whole = torch.arange(6.0)
    dist.all_reduce_coalesced([whole[:4], whole[2:]])  # two elements are in both, with one value
    assert whole.tolist() == [value * size for value in range(6)]


def test_tensor_that_is_named_twice():
    torch_ranks.run(twice, 4)


def inferred(rank, size):
    with torch.inference_mode():
        mine = torch.full((2,), float(rank))
        parts = [torch.empty(2) for _ in range(size)]
        columns = torch.full((3, 2), float(rank))
        taken = torch.zeros(2, 3).t()
        dist.all_reduce(columns[:, 0])
    # The caller may have left the mode, and the threads of the backend never were in it.
    dist.all_gather(parts, mine, async_op=True).wait()
    dist.all_reduce(columns[:, 1])
    assert [part.tolist() for part in parts] == [[float(peer)] * 2 for peer in range(size)]
    assert columns.tolist() == [[size * (size - 1) / 2] * 2] * 3
    if rank == 0:
        dist.send(torch.ones(3, 2), 1)
    elif rank == 1:
        dist.recv(taken, 0)
        assert taken.tolist() == [[1.0, 1.0]] * 3
    seen = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda _: torch.is_grad_enabled())
    assert seen.wait() is True


def test_tensors_of_inference_mode():
    torch_ranks.run(inferred, 2)


def wrong_collectives(rank, size):
    backend = backend_of()
    one, double, two = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (1,))
    longer = torch.sparse_coo_tensor([[0]], [1.0], (4,))

    def refused(words, call, *given):
        with pytest.raises(RuntimeError, match=words):
            call(*given)

    def rooted(kind, root=rank, tensor=0):
        made = options(kind, rootRank=root)
        if hasattr(made, 'rootTensor'):
            made.rootTensor = tensor
        return made
    for call, kind, given in ((backend.broadcast, dist.BroadcastOptions, ([one],)),
                              (backend.reduce, dist.ReduceOptions, ([one],)),
                              (backend.gather, dist.GatherOptions, ([], [one])),
                              (backend.scatter, dist.ScatterOptions, ([one], []))):
        for root in (-1, size):
            refused(f'invalid root rank {root}; valid: 0 to {size - 1}', call, *given, rooted(kind, root))
    for tensors, slot in (([one], -1), ([one], 1), ([], 0)):
        refused('invalid root tensor', backend.broadcast, tensors, rooted(dist.BroadcastOptions, tensor=slot))
    refused('invalid root tensor', backend.reduce, [one], rooted(dist.ReduceOptions, tensor=1))
    refused('requires a single-element tensor list', backend.reduce, [one, one], rooted(dist.ReduceOptions))
    for call in (lambda tensors: backend.broadcast(tensors, rooted(dist.BroadcastOptions)), backend.allreduce):
        refused('invalid tensor type at index 1: Double and not Float', call, [one, double])
        refused(r'invalid tensor size at index 1: \[2\]; valid: \[1\]', call, [one, two])
    refused('requires non-empty tensor list', backend.allreduce, [])
    refused('invalid tensor layout at index 1', backend.allreduce, [one, sparse])
    refused('invalid tensor layout at index 1', backend.allreduce, [sparse, one])
    refused('invalid tensor size at index 1', backend.allreduce, [sparse, longer])
    refused('unsupported reduction operation', backend.allreduce, [sparse],
            options(dist.AllreduceOptions, reduceOp=ReduceOp.MAX))
    refused('requires non-empty tensor list', backend.allreduce_coalesced, [])
    refused('tensors must all have the same type', backend.allreduce_coalesced, [one, double])
    refused('unsupported layout', backend.allreduce_coalesced, [sparse, sparse])


def wrong_lists(rank, size):
    backend = backend_of()
    one, double, two = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)

    def refused(words, call, *given):
        with pytest.raises(RuntimeError, match=words):
            call(*given)
    at_me, elsewhere = rank, (rank + 1) % size
    for call, kind, flip, own, side in (
            (backend.gather, dist.GatherOptions, False, 'input', 'output'),
            (backend.scatter, dist.ScatterOptions, True, 'output', 'input')):
        def asked(root, lists, tensors, call=call, kind=kind, flip=flip):
            return call(*((tensors, lists) if flip else (lists, tensors)), options(kind, rootRank=root))
        for tensors in ([], [one, one]):
            refused(f'requires a single-element {own} tensor list', asked, at_me, [], tensors)
        for lists in ([], [[one] * size, [one] * size]):
            refused(f'requires a single-element {side} list', asked, at_me, lists, [one])
        for length in (size - 1, size + 1):
            refused(f'Incorrect {side} list size {length}. {side.capitalize()} list size should be {size}', asked,
                    at_me, [[one] * length], [one])
        refused('invalid tensor type', asked, at_me, [[double] * size], [one])
        refused('invalid tensor size', asked, at_me, [[two] * size], [one])
        refused(f'requires empty {side} on non-root', asked, elsewhere, [[one] * size], [one])
    refused('requires non-empty input tensor list', backend.allgather, [], [])
    for lists in ([], [[one] * size] * 2):
        refused('requires input/output tensor lists to have the same length', backend.allgather, lists, [one])
    for length in (size - 1, size + 1):
        refused(f'invalid output tensor list of {length} tensors', backend.allgather, [[one] * length], [one])
    refused('invalid tensor type', backend.allgather, [[one, double, one][:size]], [one])
    refused('invalid tensor size: output .* has 2 elements; valid: 1', backend.allgather, [[two] * size], [one])
    pair = [[one] * 2 * size] * 2
    refused('invalid tensor type', backend.allgather, pair, [one, double])
    refused('invalid tensor size', backend.allgather, pair, [one, two])
    refused('invalid tensor size', backend.allgather, [[one, two] * size] * 2, [one, one])
    lists = [[one]] * (size - 1)
    refused('invalid size of output tensor at index 0', dist.all_gather_coalesced, [*lists, [two]], [one])
    refused('invalid tensor type at index 0', dist.all_gather_coalesced, [*lists, [double]], [one])
    refused('output lists should be equal to world size', dist.all_gather_coalesced, [*lists, [one], [one]], [one])


def test_errors_have_the_words_that_programs_know():
    torch_ranks.run(wrong_collectives, 2)
    torch_ranks.run(wrong_lists, 2)


def timed(rank, size):
    backend = backend_of()
    backend._set_default_timeout(datetime.timedelta(seconds=23))
    assert backend.options._timeout == datetime.timedelta(seconds=23)


def test_timeout_of_a_group():
    torch_ranks.run(timed, 1)


def sharded(rank, size):
    from torch.distributed._shard import sharded_tensor
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec
    assert dist.group.WORLD._device_types[0].type == 'cpu'
    places = [f'rank:{peer}/cpu' for peer in range(size)]
    tensor = sharded_tensor.ones(ChunkShardingSpec(dim=0, placements=places), 2 * size, 3)
    tensor.local_shards()[0].tensor.mul_(rank)
    whole = torch.empty(2 * size, 3) if rank == 0 else None
    tensor.gather(out=whole)
    if rank == 0:
        assert whole[:, 0].tolist() == [float(row // 2) for row in range(2 * size)]


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason='with CUDA, this asks for a GPU')
def test_sharded_tensor_on_the_host():
    torch_ranks.run(sharded, 2)


def goodbye(rank, size):
    """The first rank to have what it came for drops the group, while the sender is not done with the last one."""
    from banyan._settings import config_fields
    store = dist.PrefixStore('dropped', dist.distributed_c10d._get_default_store())
    group = banyan.torch.ProcessGroupBanyan(store, rank, size, datetime.timedelta(seconds=20),
                                            config_fields('dropped', None, None, None, 'default', None))
    tensor = torch.full((1 << 20,), float(rank))
    if rank == 0:
        for work in [group.send([tensor], peer, 0) for peer in range(1, size)]:
            work.wait()
        return
    if rank == size - 1:
        time.sleep(1)  # as one that still computes
    group.recv([tensor], 0, 0).wait()
    assert tensor.sum() == 0


def test_group_that_is_dropped():
    torch_ranks.run(goodbye, 3)


ENDS = '''
import os, sys, time
import torch, torch.distributed as dist
import banyan.torch
rank, size = int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group('banyan', init_method='file://' + sys.argv[1], rank=rank, world_size=size)
dist.barrier()
tensor = torch.full((1 << 20,), float(rank))
if sys.argv[4] == 'raises':
    if rank == 1:
        raise ValueError('rank 1 has raised')
    start = time.monotonic()
    try:
        dist.barrier()
    except dist.DistBackendError as error:
        assert 'failed rank 1' in str(error), error
        assert time.monotonic() - start < 4, 'a rank that has raised tells the others at once'
        os._exit(0)
    os._exit(3)
if rank == 0:
    for peer in range(1, size):
        dist.send(tensor, peer)
else:
    if rank == size - 1:
        time.sleep(1)  # as one that still computes
    dist.recv(tensor, 0)
    assert tensor.sum() == 0
'''


@pytest.mark.parametrize('how', ['returns', 'raises'])
def test_program_that_ends_with_an_open_group(tmp_path, how):
    ranks = [subprocess.Popen([sys.executable, '-c', ENDS, str(tmp_path / 'store'), str(rank), '3', how],
                              env={**os.environ, 'OMP_NUM_THREADS': '1'}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) for rank in range(3)]
    try:
        said = [process.communicate(timeout=60)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    want = [0, 1, 0] if how == 'raises' else [0, 0, 0]
    assert [process.returncode for process in ranks] == want, '\n'.join(said)
