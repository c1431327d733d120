#!/usr/bin/env python3
"""Trains on Fashion-MNIST with ranks that step by themselves, and average their parameters every few steps.

    torchrun --nproc-per-node 2 examples/python/local_sgd.py --every 16 --codec int8
"""
# SPDX-License-Identifier: Apache-2.0

import fashion_mnist
import torch
import torch.distributed as dist

import banyan.torch


def main():
    parser = fashion_mnist.options(__doc__)
    parser.add_argument('--every', type=int, default=16, help='steps from average to average (default: 16)')
    parser.add_argument('--codec', help="of what the steps have changed: 'int8', ... (default: exact)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group('banyan')
    rank, size = dist.get_rank(), dist.get_world_size()

    model = fashion_mnist.network()
    optimizer = banyan.torch.LocalSGD(torch.optim.SGD(model.parameters(), options.rate, momentum=0.9), options.every,
                                      codec=options.codec)
    for step, (images, classes) in enumerate(fashion_mnist.batches(options, rank, size)):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 100 == 0:
            print(f'step {step}: loss {loss.item():.3f}', flush=True)

    optimizer.average()
    if rank == 0:
        print(f'accuracy {100 * fashion_mnist.accuracy(model, options):.2f} %')
    optimizer.close()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
