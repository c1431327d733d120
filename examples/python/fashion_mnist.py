"""What the examples share: the images of Fashion-MNIST, a small network, and its share of right answers."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import gzip
import pathlib
import struct

import torch

FOLDER = '/usr/share/datasets/fashion-mnist'  # of Debian's package dataset-fashion-mnist
SIDE = 28


def options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('--data', type=pathlib.Path, default=FOLDER, help=f'folder of the data set (default: {FOLDER})')
    parser.add_argument('--steps', type=int, default=600, help='each by all ranks (default: 600)')
    parser.add_argument('--batch', type=int, default=64, help='images of a rank in a step (default: 64)')
    parser.add_argument('--rate', type=float, default=0.05, help='learning rate (default: 0.05)')
    return parser


def _numbers(path, axes):
    """The bytes of an IDX file, with its shape."""
    with gzip.open(path) as file:
        data = file.read()
    shape = struct.unpack_from(f'>{axes}I', data, 4)
    return torch.frombuffer(bytearray(data[4 + 4 * axes:]), dtype=torch.uint8).view(shape)


def load(folder, part):
    """Images as rows of 784 floats around 0, and their classes. part: 'train' or 't10k'."""
    folder = pathlib.Path(folder)
    images = _numbers(folder / f'{part}-images-idx3-ubyte.gz', 3).reshape(-1, SIDE * SIDE)
    classes = _numbers(folder / f'{part}-labels-idx1-ubyte.gz', 1)
    return (images.float() / 255 - 0.286) / 0.353, classes.long()


def network():
    """The same on every rank."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(SIDE * SIDE, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128),
                               torch.nn.ReLU(), torch.nn.Linear(128, 10))


def batches(options, rank, size):
    """A rank's images and classes, step by step: the ranks divide each step's images among themselves."""
    images, classes = load(options.data, 'train')
    generator = torch.Generator().manual_seed(1)  # the same order on all ranks
    order = torch.randperm(len(images), generator=generator)
    for step in range(options.steps):
        first = (step * size + rank) * options.batch
        rows = order[torch.arange(first, first + options.batch) % len(order)]
        yield images[rows], classes[rows]


@torch.no_grad()
def accuracy(model, options):
    """The share of the test images that the model knows."""
    images, classes = load(options.data, 't10k')
    return (model(images).argmax(1) == classes).float().mean().item()
