"""DistributedDataParallel over Banyan; gradients travel by a codec, and what it drops goes with the next step's.

    torchrun --nproc-per-node 2 examples/python/ddp.py --codec topk:0.01
    torchrun --nproc-per-node 2 examples/python/ddp.py --codec none --backend gloo     # DDP alone, to compare with
"""
# SPDX-License-Identifier: Apache-2.0

import banyan.torch
import fashion_mnist
import torch
import torch.distributed as dist


def main():
    given = fashion_mnist.options(__doc__, codec='int8', backend='banyan')
    torch.set_num_threads(1)
    dist.init_process_group(given.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    model = torch.nn.parallel.DistributedDataParallel(fashion_mnist.network(given.seed))
    hook = None if given.codec == 'none' else banyan.torch.ddp_hook(model, given.codec)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (images, classes) in enumerate(fashion_mnist.batches(given, rank, size)):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and (step + 1) % 100 == 0:
            sent = f', sent 1/{hook.stats()["ratio"]:.1f} of the bytes' if hook else ''
            print(f'step {step + 1}: loss {loss.item():.4f}{sent}', flush=True)
    if rank == 0:
        print(f'loss {loss.item():.4f}, accuracy {fashion_mnist.accuracy(model.module, given.data):.2f} %')
    if hook:
        hook.close()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
