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
