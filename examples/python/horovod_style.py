#!/usr/bin/env python3
"""Trains on Fashion-MNIST with the calls of Horovod: in a script for it, only the line of the import changes.

    torchrun --nproc-per-node 2 examples/python/horovod_style.py --codec int8
"""
# SPDX-License-Identifier: Apache-2.0

import fashion_mnist
import torch

import banyan.torch.horovod as hvd


def main():
    parser = fashion_mnist.options(__doc__)
    parser.add_argument('--codec', default='none', help="of gradients: a codec that keeps all values, 'int8' (default: none)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    hvd.init()

    model = fashion_mnist.network()
    optimizer = torch.optim.SGD(model.parameters(), options.rate, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    compression = hvd.Compression.none if options.codec == 'none' else hvd.Compression.codec(options.codec)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression)
    for step, (images, classes) in enumerate(fashion_mnist.batches(options, hvd.rank(), hvd.size())):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            mean = hvd.allreduce(loss.detach(), name='loss')
            if hvd.rank() == 0:
                print(f'step {step}: loss {mean.item():.3f}', flush=True)

    if hvd.rank() == 0:
        print(f'accuracy {100 * fashion_mnist.accuracy(model, options):.2f} %')
    hvd.shutdown()


if __name__ == '__main__':
    main()
