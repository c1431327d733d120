"""The backend on tensors of GPUs, which are the stand-in's for the driver: their memory is none of the host's, and
streams take their time. STANDIN_TORCH is the folder of the module that torch has them by."""
# SPDX-License-Identifier: Apache-2.0

import datetime
import os
import signal
import sys
import time
import types

import pytest

torch = pytest.importorskip('torch', reason='no torch; tools/install-deps --torch')
try:
    import banyan
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


def rooted(rank, size):
    """Those in which ranks have different parts, and what they give is not theirs to change before the end."""
    gpu, group = gpus(), backend()
    root = size - 1
    mine = torch.arange(1000, dtype=torch.float32) * (rank + 1)
    rows = [torch.arange(1000, dtype=torch.float32) * (peer + 1) for peer in range(size)]
    tensor = on_gpu(mine)
    group.reduce([tensor], options(dist.ReduceOptions, rootRank=root)).wait()
    if rank == root:
        assert torch.equal(gpu.read(tensor), sum(rows))
    given, lists = on_gpu(mine), [[gpu.empty([1000], mine) for _ in range(size)]] if rank == root else []
    group.gather(lists, [given], options(dist.GatherOptions, rootRank=root)).wait()
    gpu.write(given, torch.zeros(1000))
    if rank == root:
        assert all(torch.equal(gpu.read(one), row) for one, row in zip(lists[0], rows))
    part = gpu.empty([1000], mine)
    group.scatter([part], [[on_gpu(row) for row in rows]] if rank == root else [],
                  options(dist.ScatterOptions, rootRank=root)).wait()
    assert torch.equal(gpu.read(part), rows[rank])
    part = gpu.empty([1000], mine)
    group.reduce_scatter([part], [[on_gpu(row) for row in rows]]).wait()
    assert torch.equal(gpu.read(part), rows[rank] * size)
    parts = [gpu.empty([1000], mine) for _ in range(size)]
    group.alltoall(parts, [on_gpu(row * (rank + 1)) for row in rows]).wait()
    assert all(torch.equal(gpu.read(one), rows[rank] * (peer + 1)) for peer, one in enumerate(parts))
    # Rank r has 2 rows for rank 0, and one for each other.
    splits = [2] + [1] * (size - 1)
    sent = on_gpu(torch.full((sum(splits), 5), float(rank)))
    came = [splits[rank]] * size
    got = gpu.empty([sum(came), 5], mine)
    group.alltoall_base(got, sent, came, splits).wait()
    assert torch.equal(gpu.read(got)[:, 0], torch.arange(size, dtype=torch.float32).repeat_interleave(splits[rank]))
    tensor = on_gpu(mine)
    group.allreduce([tensor], options(dist.AllreduceOptions, reduceOp=dist._make_nccl_premul_sum(0.5))).wait()
    assert torch.equal(gpu.read(tensor), sum(rows) * 0.5)
    group.barrier().wait()
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


def messages_in_order(rank, size):
    """A stream that is not there holds back its own messages, and neither the caller nor other messages."""
    gpu, group = gpus(), backend()
    peer = (rank + 1) % 2
    late, soon, behind = (gpu.empty([1000], torch.zeros(0)) for _ in range(3))
    given, gate = on_gpu(torch.zeros(1000)), gpu.Gate()
    usual = gpu.stream()
    gpu.new_stream()
    gate.close()
    gpu.write(given, torch.full((1000,), 5.0 + rank))
    gpu.write(late, torch.full((1000,), -1.0))
    works = [group.recv([late], peer, 1), group.send([given], peer, 1)]
    gpu.use_stream(usual)
    works += [group.recv([soon], peer, 2), group.recv([behind], peer, 1)]
    works += [group.send([on_gpu(torch.full((1000,), 6.0 + rank))], peer, 1)]
    group.send([on_gpu(torch.full((1000,), 8.0 + rank))], peer, 2).wait()
    works[2].wait()
    assert torch.equal(gpu.read(soon), torch.full((1000,), 8.0 + peer))
    assert not any(works[held].is_completed() for held in (0, 1, 3, 4)), 'those of a tag stay in order'
    gate.open()
    for work in works:
        work.wait()
    assert torch.equal(gpu.read(late), torch.full((1000,), 5.0 + peer)), 'the message came behind what was enqueued'
    assert torch.equal(gpu.read(behind), torch.full((1000,), 6.0 + peer))
    return 'done'


def messages_time_out(rank, size):
    """A recv whose stream is never there ends all the same."""
    gpu, group = gpus(), backend()
    group._set_default_timeout(datetime.timedelta(seconds=1))
    tensor, gate = on_gpu(torch.zeros(10)), gpu.Gate()
    gpu.new_stream()
    gate.close()
    with pytest.raises(RuntimeError, match='Timed out waiting'):
        group.recv([tensor], (rank + 1) % 2, 3).wait()
    gate.open()
    return 'done'


def order_of_streams(rank, size):
    """What is enqueued before a call is its input, what is enqueued after its wait sees the result, and nobody is held
    up: neither the host nor what comes later."""
    gpu, group = gpus(), backend()
    for own_stream in (False, True):
        if own_stream:
            gpu.new_stream()
        stream = gpu.stream()
        tensor, copy = on_gpu(torch.zeros(1000)), gpu.empty([1000], torch.zeros(0))
        group.allreduce([tensor]).wait()
        before, behind = gpu.Gate(), gpu.Gate()
        before.close()
        gpu.write(tensor, torch.full((1000,), float(rank + 1)))
        work = group.allreduce([tensor], options(dist.AllreduceOptions, asyncOp=True))
        assert gpu.stream() == stream, 'the stream of the caller is as it was'
        gpu.new_stream()
        gpu.use_stream(stream)
        work.wait()
        copy.copy_(tensor)
        behind.close()
        time.sleep(0.1)
        assert not work.is_completed(), 'its input is not there'
        before.open()
        work.wait(datetime.timedelta(seconds=20))
        assert work.is_completed()
        assert not gpu.is_idle(), 'the call waited for what came later'
        behind.open()
        assert torch.equal(gpu.read(copy), torch.full((1000,), size * (size + 1) / 2))
        assert work.get_future().value()[0] is not None
    return 'done'


def other_streams(rank, size):
    """A stream that waits for the future sees the result."""
    gpu, group = gpus(), backend()
    tensor, copy = on_gpu(torch.ones(1000)), gpu.empty([1000], torch.zeros(0))
    gate = gpu.Gate()
    gate.close()
    work = group.allreduce([tensor], options(dist.AllreduceOptions, asyncOp=True))
    gpu.new_stream()
    work.get_future().wait()
    copy.copy_(tensor)
    assert not gpu.is_idle()
    gate.open()
    assert torch.equal(gpu.read(copy), torch.full((1000,), float(size)))
    return 'done'


def times_out(rank, size):
    gpu, group = gpus(), backend()
    tensor, gate = on_gpu(torch.ones(10)), gpu.Gate()
    gate.close()
    work = group.allreduce([tensor], options(dist.AllreduceOptions, asyncOp=True))
    with pytest.raises(RuntimeError, match='Timed out.*not through'):
        work.wait(datetime.timedelta(milliseconds=50))
    gate.open()
    work.wait(datetime.timedelta(seconds=20))
    assert torch.equal(gpu.read(tensor), torch.full((10,), float(size)))
    return 'done'


def captured(rank, size):
    gpu, group = gpus(), backend()
    tensor = on_gpu(torch.ones(10))
    group.allreduce([tensor]).wait()
    gpu.new_stream()
    gpu.begin_capture()
    for call in (lambda: group.allreduce([tensor]), lambda: group.broadcast([tensor])):
        with pytest.raises(RuntimeError, match='captured'):
            call()
    gpu.end_capture()
    group.allreduce([tensor]).wait()
    assert torch.equal(gpu.read(tensor), torch.full((10,), float(size * size)))
    return 'done'


def several_devices(rank, size):
    gpu, group = gpus(), backend()
    with pytest.raises(RuntimeError, match='one device in a call'):
        group._allgather_base(torch.empty(size * 10), on_gpu(torch.ones(10)))
    return 'done'


def killed(rank, size):
    """What is enqueued ends, its stream goes on, and the group says whom it has lost."""
    gpu, group = gpus(), backend()
    tensor = on_gpu(torch.ones(100000))
    group.allreduce([tensor]).wait(datetime.timedelta(seconds=20))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work = group.allreduce([tensor], options(dist.AllreduceOptions, asyncOp=True))
    start = time.monotonic()
    with pytest.raises(RuntimeError, match='rank 1'):
        work.wait(datetime.timedelta(seconds=20))
    assert time.monotonic() - start < 5
    gpu.read(tensor)
    with pytest.raises(RuntimeError, match='rank 1'):
        group.allreduce([tensor]).wait()
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
    with pytest.raises(RuntimeError, match='aborted'):
        group.allreduce([tensor])
    gate.open()
    return 'done'


class Bucket:
    """What DDP gives its hook, on a GPU."""

    def __init__(self, parameters, values, last):
        self._parameters, self._gradients, self._last = parameters, [on_gpu(values)], last

    def buffer(self):
        return self._gradients[0]

    def gradients(self):
        return self._gradients

    def parameters(self):
        return self._parameters

    def is_last(self):
        return self._last


def hook(rank, size):
    """Gradients go on when their stream is there, and the caller goes on before."""
    from banyan.torch import DdpHook
    gpu = gpus()
    names, lengths = {'first parameter': 'a', 'other parameter': 'b'}, (3000, 70000)
    settings = {'bucket_bytes': 0, 'error_feedback': True, 'momentum': 0.0, 'clip_norm': 0.0, 'warmup_steps': 0}
    for codec, near in ((None, 0.0), ('int8', 0.02)):
        tensors = [banyan.Tensor(name, (length,), torch.float32, compress=codec)
                   for name, length in zip(names.values(), lengths)]
        state = DdpHook(types.SimpleNamespace(process_group=dist.group.WORLD), tensors, names, settings,
                        {'name': 'ddp-hook'})
        for step in range(3):
            buckets = [Bucket([parameter], torch.zeros(length), number == 1)
                       for number, (parameter, length) in enumerate(zip(names, lengths))]
            gate = gpu.Gate()
            gate.close()
            for bucket, length in zip(buckets, lengths):
                for begin in range(0, length, 2000):
                    gpu.write(bucket.buffer()[begin:begin + 2000], torch.full((min(2000, length - begin),), 1.0 + step + rank))
            futures = [state._reduce(bucket) for bucket in buckets]
            time.sleep(0.05)
            assert not any(future.done() for future in futures)
            gate.open()
            for future, bucket in zip(futures, buckets):
                means = gpu.read(future.wait())
                assert torch.allclose(means, torch.full_like(means, 1.0 + step + (size - 1) / 2), rtol=near, atol=0)
        state.close()
    return 'done'


def arrays(rank, size):
    """Communicators and codecs of Python take such tensors without torch's backend."""
    gpu = gpus()

    def gather(mine):
        everyone = [None] * size
        dist.all_gather_object(everyone, mine)
        return everyone
    comm = banyan.Comm.over(rank, size, gather)
    mine = torch.arange(50000, dtype=torch.float32) + rank
    given, got = on_gpu(mine), gpu.empty([50000], mine)
    gpu.read(given)
    comm.allreduce(given, out=got)
    assert torch.equal(gpu.read(got), mine * size + (sum(range(size)) - size * rank))
    comm.broadcast(given, root=size - 1)
    assert torch.equal(gpu.read(given), mine - rank + (size - 1))
    gpu.new_stream()
    gate = gpu.Gate()
    request = comm.request('allreduce', given, out=got, stream=gpu.stream())
    gate.close()
    gpu.write(given[:2000], torch.full((2000,), 7.0))
    request.start()
    gate.open()
    assert torch.equal(gpu.read(got)[:2000], torch.full((2000,), 7.0 * size))
    request.wait()
    sent = banyan.encode('int8', given)
    assert bytes(sent) == bytes(banyan.encode('int8', gpu.read(given)))
    del request
    comm.close()
    return 'done'


@pytest.mark.parametrize('size', [1, 2, 3])
@pytest.mark.parametrize('function', [collectives, rooted, order_of_streams, other_streams, many_at_once, coalesced, abort,
                                      times_out, captured, several_devices, hook, arrays])
def test_tensors_of_gpus(function, size):
    assert set(torch_ranks.run(function, size).values()) == {'done'}


@pytest.mark.parametrize('size', [2, 3])
def test_messages_of_gpus(size):
    assert set(torch_ranks.run(messages, size).values()) == {'done'}


@pytest.mark.parametrize('function', [messages_in_order, messages_time_out])
def test_messages_that_are_held_up(function):
    assert set(torch_ranks.run(function, 2).values()) == {'done'}


def test_killed_rank_is_named():
    assert set(torch_ranks.run(killed, 3, silent=(1,)).values()) == {'done'}
