"""FSDP2 over Banyan: each rank holds a share of the parameters, and of the optimizer's state.

    torchrun --nproc-per-node 2 examples/python/fsdp2.py
"""
# SPDX-License-Identifier: Apache-2.0

import banyan.torch  # noqa: F401  (registers the backend)
import fashion_mnist
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main():
    given = fashion_mnist.options(__doc__, backend='banyan')
    torch.set_num_threads(1)
    dist.init_process_group(given.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    model = fashion_mnist.network(given.seed)
    mesh = init_device_mesh('cpu', (size,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for step, (images, classes) in enumerate(fashion_mnist.batches(given, rank, size)):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and (step + 1) % 100 == 0:
            print(f'step {step + 1}: loss {loss.item():.4f}', flush=True)
    known = fashion_mnist.accuracy(model, given.data)  # all ranks: a forward pass gathers the parameters
    if rank == 0:
        held = sum(parameter.to_local().numel() for parameter in model.parameters())
        whole = sum(parameter.numel() for parameter in model.parameters())
        print(f'rank 0 holds {held} of {whole} parameters')
        print(f'loss {loss.item():.4f}, accuracy {known:.2f} %')
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
