"""Training over the backend: DDP, FSDP2, meshes, checkpoints, pipelines, and torch's own checks of collectives."""
# SPDX-License-Identifier: Apache-2.0

import pytest

torch = pytest.importorskip('torch', reason='no torch; tools/install-deps --torch')
try:
    import banyan.torch  # noqa: F401  (registers the backend)
except ImportError as other_torch:
    pytest.skip(str(other_torch), allow_module_level=True)

import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import torch_ranks  # noqa: E402


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def batch(rank, step):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(8, 16, generator=generator), torch.randn(8, 4, generator=generator)


def steps(trained, rank, count=5):
    optimizer = torch.optim.Adam(trained.parameters(), 0.01)
    losses = []
    for step in range(count):
        values, wanted = batch(rank, step)
        loss = torch.nn.functional.mse_loss(trained(values), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def flat(module):
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])


def by_ddp(rank, size):
    trained = DistributedDataParallel(model(), bucket_cap_mb=0.001)
    losses = steps(trained, rank)
    mine = flat(trained)
    everyone = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(everyone, mine)
    assert all(torch.equal(other, mine) for other in everyone)
    by_gloo = DistributedDataParallel(model(), process_group=dist.new_group(backend='gloo'), bucket_cap_mb=0.001)
    assert losses == pytest.approx(steps(by_gloo, rank), rel=1e-4)
    assert torch.allclose(mine, flat(by_gloo), atol=1e-4)


def with_loader(rank, size):
    """Its workers are children of fork(), which begin and end while the group is at work."""
    values = torch.arange(64.0).view(64, 1).repeat(1, 16)
    sampler = torch.utils.data.DistributedSampler(values, shuffle=False)
    loader = torch.utils.data.DataLoader(values, batch_size=8, sampler=sampler, num_workers=2)
    trained = DistributedDataParallel(model())
    seen = torch.zeros(1)
    for _ in range(2):
        for rows in loader:
            trained(rows).sum().backward()
            trained.zero_grad()
            seen += rows[:, 0].sum()
    dist.all_reduce(seen)
    assert seen.item() == 2 * sum(range(64))


def by_fsdp(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh('cpu', (size,))
    sharded = model()
    for layer in sharded:
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    steps(sharded, rank)
    alone = model()
    optimizer = torch.optim.Adam(alone.parameters(), 0.01)
    for step in range(5):
        for other in range(size):
            values, wanted = batch(other, step)
            (torch.nn.functional.mse_loss(alone(values), wanted) / size).backward()
        optimizer.step()
        optimizer.zero_grad()
    for got, want in zip(sharded.parameters(), alone.parameters()):
        assert torch.allclose(got.full_tensor(), want, atol=1e-5)


def by_mesh(rank, size, folder):
    from torch.distributed import checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh('cpu', (2, 2), mesh_dim_names=('rows', 'columns'))
    for name, members in (('rows', [rank % 2, rank % 2 + 2]), ('columns', [rank // 2 * 2, rank // 2 * 2 + 1])):
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=mesh.get_group(name))
        assert tensor.item() == sum(members)
    whole = torch.arange(32.0).view(8, 4)
    dealt = distribute_tensor(whole, mesh['rows'], [Shard(0)])
    assert torch.equal((dealt * 2).full_tensor(), whole * 2)
    checkpoint.save({'dealt': dealt}, checkpoint_id=folder)
    loaded = {'dealt': distribute_tensor(torch.zeros(8, 4), mesh['rows'], [Shard(0)])}
    checkpoint.load(loaded, checkpoint_id=folder)
    assert torch.equal(loaded['dealt'].full_tensor(), whole)


def by_pipeline(rank, size):
    for micro in range(4):
        held = torch.full((3, 5), float(micro))
        if rank > 0:
            dist.recv(held, rank - 1)
        held = held + 1
        if rank < size - 1:
            dist.send(held, rank + 1)
        else:
            assert held[0, 0] == micro + size


def in_detail(rank, size):
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert tensor[0] == size
    steps(DistributedDataParallel(model()), rank, 2)
    with pytest.raises(RuntimeError, match='mismatch|differ|inconsisten'):
        dist.all_reduce(torch.ones(4 + rank))


def test_ddp_trains_as_over_gloo():
    torch_ranks.run(by_ddp, 2)


def test_workers_of_a_loader():
    torch_ranks.run(with_loader, 2)


def test_fsdp2_trains_as_one_process():
    torch_ranks.run(by_fsdp, 2)


def test_mesh_and_checkpoint(tmp_path):
    torch_ranks.run(by_mesh, 4, str(tmp_path))


def test_pipeline():
    torch_ranks.run(by_pipeline, 3)


def test_distributed_debug_detail(monkeypatch):
    monkeypatch.setenv('TORCH_DISTRIBUTED_DEBUG', 'DETAIL')
    torch_ranks.run(in_detail, 2)
