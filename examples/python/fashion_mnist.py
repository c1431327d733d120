"""Fashion-MNIST for the examples beside this file: its images, a small network, and how many of the test images it knows."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import gzip
import pathlib
import zlib

import numpy
import torch

FOLDER = '/usr/share/datasets/fashion-mnist'


def options(about, **defaults):
    """The examples' options. defaults: options of one example with what they are when nothing is said."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument('--steps', type=int, default=600, help='of 64 images on each rank (600)')
    parser.add_argument('--data', default=FOLDER, help=f'a folder with the files of Fashion-MNIST ({FOLDER})')
    parser.add_argument('--seed', type=int, default=1, help='of parameters and the order of images (1)')
    for name, value in defaults.items():
        parser.add_argument(f'--{name}', type=type(value), default=value, help=f'({value})')
    given = parser.parse_args()
    if given.steps < 1:
        parser.error(f'--steps is {given.steps}; valid: a whole number from 1')
    return given


def _array(path, dimensions):
    """The bytes of a file of the format IDX: two zeros, the type 8, how many dimensions, each as 32 bits, the bytes."""
    try:
        content = gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        raise SystemExit(f'{path} is missing; apt-get install dataset-fashion-mnist, or --data FOLDER') from None
    except (OSError, EOFError, zlib.error) as error:
        raise SystemExit(f'{path} cannot be read: {error}; dataset-fashion-mnist has it whole') from None
    shape = tuple(int.from_bytes(content[4 + 4 * each:8 + 4 * each], 'big') for each in range(dimensions))
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) - start != numpy.prod(shape, dtype=numpy.int64):
        raise SystemExit(f'{path} is no IDX file of {dimensions} dimensions of bytes; dataset-fashion-mnist has one')
    return numpy.frombuffer(content, numpy.uint8, offset=start).reshape(shape)


def images_and_classes(folder, part):
    """All images of a part, 'train' or 't10k', as float32 around 0, and their classes from 0 to 9."""
    images = _array(pathlib.Path(folder) / f'{part}-images-idx3-ubyte.gz', 3)
    classes = _array(pathlib.Path(folder) / f'{part}-labels-idx1-ubyte.gz', 1)
    return (torch.from_numpy(images.astype(numpy.float32) / 255 - 0.5).flatten(1),
            torch.from_numpy(classes.astype(numpy.int64)))


def batches(given, rank, size, count=64):
    """given.steps batches of this rank; no other rank has the same images within a pass over all of them."""
    images, classes = images_and_classes(given.data, 'train')
    order, place = torch.empty(0, dtype=torch.int64), 0
    generator = torch.Generator().manual_seed(given.seed)
    for _ in range(given.steps):
        if place + count * size > len(order):
            order, place = torch.randperm(len(images), generator=generator), 0
        chosen = order[place + rank * count:place + (rank + 1) * count]
        place += count * size
        yield images[chosen], classes[chosen]


def network(seed):
    """784 pixels, 128 hidden units, 10 classes."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


@torch.no_grad()
def accuracy(model, folder):
    """The share of the test images that a model knows, in percent."""
    images, classes = images_and_classes(folder, 't10k')
    return 100 * (model(images).argmax(1) == classes).float().mean().item()
