"""A script for Horovod: but for the import of its module, nothing says Banyan.

    torchrun --nproc-per-node 2 examples/python/horovod_style.py --codec int8
"""
# SPDX-License-Identifier: Apache-2.0

import banyan.torch.horovod as hvd
import fashion_mnist
import torch


def main():
    given = fashion_mnist.options(__doc__, codec='none')
    torch.set_num_threads(1)
    hvd.init()
    model = fashion_mnist.network(given.seed + hvd.rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    compression = hvd.Compression.none if given.codec == 'none' else hvd.Compression.codec(given.codec)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression)
    for step, (images, classes) in enumerate(fashion_mnist.batches(given, hvd.rank(), hvd.size())):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        if (step + 1) % 100 == 0:
            mean = hvd.allreduce(loss.detach(), name='loss').item()
            if hvd.rank() == 0:
                print(f'step {step + 1}: mean loss {mean:.4f}', flush=True)
    if hvd.rank() == 0:
        print(f'loss {loss.item():.4f}, accuracy {fashion_mnist.accuracy(model, given.data):.2f} %')
    hvd.shutdown()


if __name__ == '__main__':
    main()
