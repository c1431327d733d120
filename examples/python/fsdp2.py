#!/usr/bin/env python3
"""Trains on Fashion-MNIST by FSDP2: each rank keeps a share of the parameters, and gathers those of a layer when it
computes there.

    torchrun --nproc-per-node 2 examples/python/fsdp2.py
"""
# SPDX-License-Identifier: Apache-2.0

import fashion_mnist
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import banyan.torch  # noqa: F401  (registers the backend)


def main():
    options = fashion_mnist.options(__doc__).parse_args()
    torch.set_num_threads(1)
    dist.init_process_group('banyan')
    rank, size = dist.get_rank(), dist.get_world_size()

    mesh = init_device_mesh('cpu', (size,))
    model = fashion_mnist.network()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), options.rate, momentum=0.9)
    for step, (images, classes) in enumerate(fashion_mnist.batches(options, rank, size)):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 100 == 0:
            print(f'step {step}: loss {loss.item():.3f}', flush=True)

    known = fashion_mnist.accuracy(model, options)  # on all ranks: each has a part of the model
    if rank == 0:
        print(f'accuracy {100 * known:.2f} %')
    dist.barrier()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
