"""Local SGD: the ranks train by themselves, and average their parameters every k steps, or what these have changed by.

    torchrun --nproc-per-node 2 examples/python/local_sgd.py --every 8 --codec int8
"""
# SPDX-License-Identifier: Apache-2.0

import banyan.torch
import fashion_mnist
import torch
import torch.distributed as dist


def main():
    given = fashion_mnist.options(__doc__, every=8, warmup=16, codec='off', backend='banyan')
    torch.set_num_threads(1)
    dist.init_process_group(given.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    model = fashion_mnist.network(given.seed)
    optimizer = banyan.torch.LocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), every=given.every,
                                      warmup_steps=given.warmup, codec=given.codec)
    for step, (images, classes) in enumerate(fashion_mnist.batches(given, rank, size)):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and (step + 1) % 100 == 0:
            print(f'step {step + 1}: loss {loss.item():.4f}', flush=True)
    optimizer.average()  # the last steps were local ones
    if rank == 0:
        print(f'loss {loss.item():.4f}, accuracy {fashion_mnist.accuracy(model, given.data):.2f} %')
    optimizer.close()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
