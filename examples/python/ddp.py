#!/usr/bin/env python3
"""Trains on Fashion-MNIST by DistributedDataParallel, with gradients that travel in fewer bits where a codec is given.

    torchrun --nproc-per-node 2 examples/python/ddp.py --codec int8
"""
# SPDX-License-Identifier: Apache-2.0

import fashion_mnist
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import banyan.torch


def main():
    parser = fashion_mnist.options(__doc__)
    parser.add_argument('--backend', default='banyan', help='of torch.distributed (default: banyan)')
    parser.add_argument('--codec', help="of gradients: 'int8', 'topk:0.01', ... (default: exact)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()

    model = DistributedDataParallel(fashion_mnist.network())
    hook = banyan.torch.ddp_hook(model, options.codec) if options.codec else None
    optimizer = torch.optim.SGD(model.parameters(), options.rate, momentum=0.9)
    for step, (images, classes) in enumerate(fashion_mnist.batches(options, rank, size)):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 100 == 0:
            print(f'step {step}: loss {loss.item():.3f}', flush=True)

    if rank == 0:
        print(f'accuracy {100 * fashion_mnist.accuracy(model.module, options):.2f} %')
    if hook is not None:
        if rank == 0:
            print(f'bytes sent per byte of gradients: {hook.stats()["bytes_sent"] / hook.stats()["bytes_raw"]:.3f}')
        hook.close()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
