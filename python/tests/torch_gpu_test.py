"""The backend on tensors of GPUs, which are the stand-in's for the driver: their memory is none of the host's, and
streams take their time. STANDIN_TORCH is the folder of the module that torch has them by."""
# SPDX-License-Identifier: Apache-2.0

import datetime
import os
import sys
import time

import pytest

torch = pytest.importorskip('torch', reason='no torch; tools/install-deps --torch')
try:
    import banyan.torch  # noqa: F401  (registers the backend)
except ImportError as other_torch:
    pytest.skip(str(other_torch), allow_module_level=True)
if 'STANDIN_TORCH' not in os.environ:
    pytest.skip('the stand-in is for builds with tests: meson test "python torch_gpu"', allow_module_level=True)

import torch.distributed as dist  # noqa: E402
from torch.distributed import ReduceOp  # noqa: E402

import torch_ranks  # noqa: E402


def gpus():
    """The stand-in. Torch takes it for the process's, so only ranks import it."""
    if os.environ['STANDIN_TORCH'] not in sys.path:
        sys.path.append(os.environ['STANDIN_TORCH'])
    import standin_torch
    return standin_torch


def on_gpu(values):
    tensor = gpus().empty(list(values.shape), values)
    gpus().write(tensor, values)
    return tensor


def options(kind, **fields):
    made = kind()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def backend():
    return dist.group.WORLD._get_backend(torch.device('cpu'))


def collectives(rank, size):
    gpu, group = gpus(), backend()
    for count in (1, 5, 1000, 300000):
        mine = torch.arange(count, dtype=torch.float32) * (rank + 1)
        total = torch.arange(count, dtype=torch.float32) * (size * (size + 1) // 2)
        tensor = on_gpu(mine)
        group.allreduce([tensor]).wait()
        assert torch.equal(gpu.read(tensor), total)
        tensor = on_gpu(mine)
        group.allreduce([tensor], options(dist.AllreduceOptions, reduceOp=ReduceOp.AVG)).wait()
        assert torch.allclose(gpu.read(tensor), total / size)
        tensor = on_gpu(mine)
        group.broadcast([tensor], options(dist.BroadcastOptions, rootRank=size - 1)).wait()
        assert torch.equal(gpu.read(tensor), torch.arange(count, dtype=torch.float32) * size)
        rows = torch.stack([torch.arange(count, dtype=torch.float32) * (peer + 1) for peer in range(size)])
        all_rows = gpu.empty([size, count], mine)
        group._allgather_base(all_rows, on_gpu(mine)).wait()
        assert torch.equal(gpu.read(all_rows), rows)
        lists = [[gpu.empty([count], mine) for _ in range(size)]]
        group.allgather(lists, [on_gpu(mine)]).wait()
        assert all(torch.equal(gpu.read(one), row) for one, row in zip(lists[0], rows))
        block = gpu.empty([count], mine)
        group._reduce_scatter_base(block, on_gpu(rows)).wait()
        assert torch.equal(gpu.read(block), rows[rank] * size)
        blocks = gpu.empty([size, count], mine)
        group.alltoall_base(blocks, on_gpu(rows + 1000 * rank), [], []).wait()
        assert torch.equal(gpu.read(blocks), torch.stack([rows[rank] + 1000 * peer for peer in range(size)]))
    return 'done'


def messages(rank, size):
    gpu, group = gpus(), backend()
    mine = torch.full((70000,), float(rank))
    came = gpu.empty([70000], mine)
    sent = group.send([on_gpu(mine)], (rank + 1) % size, 7)
    group.recv([came], (rank - 1) % size, 7).wait()
    sent.wait()
    assert torch.equal(gpu.read(came), torch.full((70000,), float((rank - 1) % size)))
    return 'done'


def order_of_streams(rank, size):
    """What is enqueued before a call is its input, and nothing that is enqueued later holds it back."""
    gpu, group = gpus(), backend()
    for own_stream in (False, True):
        if own_stream:
            gpu.new_stream()
        stream = gpu.stream()
        tensor = on_gpu(torch.zeros(1000))
        group.allreduce([tensor]).wait()
        before, behind = gpu.Gate(), gpu.Gate()
        before.close()
        gpu.write(tensor, torch.full((1000,), float(rank + 1)))
        work = group.allreduce([tensor], options(dist.AllreduceOptions, asyncOp=True))
        assert gpu.stream() == stream, 'the stream of the caller is as it was'
        behind.close()
        time.sleep(0.1)
        assert not work.is_completed(), 'its input is not there'
        before.open()
        work.wait()
        assert not gpu.is_idle(), 'the call waited for what came later'
        behind.open()
        assert torch.equal(gpu.read(tensor), torch.full((1000,), size * (size + 1) / 2))
        assert work.get_future().value()[0] is not None
    return 'done'


def many_at_once(rank, size):
    gpu, group = gpus(), backend()
    begin = [torch.full((2000 + 100 * number,), float(number + rank)) for number in range(20)]
    tensors = [on_gpu(one) for one in begin]
    works = [group.allreduce([one], options(dist.AllreduceOptions, asyncOp=True)) for one in tensors]
    for number, (work, tensor) in enumerate(zip(works, tensors)):
        work.wait()
        want = sum(number + peer for peer in range(size))
        assert torch.equal(gpu.read(tensor), torch.full_like(begin[number], float(want)))
    return 'done'


def coalesced(rank, size):
    gpu, group = gpus(), backend()
    tensors = [on_gpu(torch.full((10 + number,), float(rank))) for number in range(4)]
    group._start_coalescing()
    for tensor in tensors:
        group.allreduce([tensor], options(dist.AllreduceOptions, asyncOp=True))
    group._end_coalescing().wait()
    for number, tensor in enumerate(tensors):
        assert torch.equal(gpu.read(tensor), torch.full((10 + number,), float(sum(range(size)))))
    return 'done'


def abort(rank, size):
    """A stream that never gets there holds nobody for ever."""
    gpu, group = gpus(), backend()
    tensor = on_gpu(torch.zeros(10))
    gate = gpu.Gate()
    gate.close()
    work = group.allreduce([tensor], options(dist.AllreduceOptions, asyncOp=True))
    time.sleep(0.05)
    group.abort()
    start = time.monotonic()
    with pytest.raises(RuntimeError, match='aborted'):
        work.wait(datetime.timedelta(seconds=10))
    assert time.monotonic() - start < 1
    gate.open()
    return 'done'


@pytest.mark.parametrize('size', [1, 2, 3])
@pytest.mark.parametrize('function', [collectives, order_of_streams, many_at_once, coalesced, abort])
def test_tensors_of_gpus(function, size):
    assert set(torch_ranks.run(function, size).values()) == {'done'}


@pytest.mark.parametrize('size', [2, 3])
def test_messages_of_gpus(size):
    assert set(torch_ranks.run(messages, size).values()) == {'done'}
