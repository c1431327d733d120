"""A small task that tests train on: classes that a linear model of a fixed seed has for random inputs."""
# SPDX-License-Identifier: Apache-2.0

import torch

INPUTS, CLASSES = 64, 8


def batch(rank, step):
    values = torch.randn(32, INPUTS, generator=torch.Generator().manual_seed(1000 * step + rank))
    right = values @ torch.randn(INPUTS, CLASSES, generator=torch.Generator().manual_seed(7))
    return values, right.argmax(1)


def flat(module):
    """All parameters as one vector."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])
