"""The examples in Python, under torchrun, as their users start them."""
# SPDX-License-Identifier: Apache-2.0

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

if importlib.util.find_spec('torch') is None:
    pytest.skip('no torch; tools/install-deps --torch', allow_module_level=True)
try:
    import banyan.torch  # noqa: F401
except ImportError as other_torch:
    pytest.skip(str(other_torch), allow_module_level=True)

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / 'examples/python'
DATA = pathlib.Path('/usr/share/datasets/fashion-mnist')
if not DATA.is_dir():
    pytest.skip(f'no {DATA}; apt-get install dataset-fashion-mnist', allow_module_level=True)


def said_by(name, *options, ranks=2):
    launch = [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', str(ranks)]
    done = subprocess.run([*launch, EXAMPLES / f'{name}.py', *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=100, check=False, env=dict(os.environ, OMP_NUM_THREADS='1'))
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def accuracy(text):
    return float(re.search(r'accuracy ([\d.]+) %', text)[1])


@pytest.mark.parametrize('name, options', [
    ('ddp', []),
    ('fsdp2', []),
    ('horovod_style', ['--codec', 'int8']),
    ('local_sgd', ['--codec', 'int8']),
])
def test_example_learns(name, options):
    said = said_by(name, '--steps', '100', *options)
    assert accuracy(said) > 70, said


def test_losses_are_those_of_gloo():
    ours, theirs = (said_by('ddp', '--steps', '101', '--backend', backend) for backend in ('banyan', 'gloo'))
    assert re.findall(r'step.*', ours) == re.findall(r'step.*', theirs)
    assert accuracy(ours) == pytest.approx(accuracy(theirs), abs=0.05)
