"""The examples in Python learn Fashion-MNIST under torchrun, and say what is wrong with the files they read."""
# SPDX-License-Identifier: Apache-2.0

import gzip
import os
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip('torch', reason='no torch; tools/install-deps --torch')
try:
    import banyan.torch  # noqa: F401  (a package without it cannot run them)
except ImportError as other_torch:
    pytest.skip(str(other_torch), allow_module_level=True)

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / 'examples/python'
DATA = pathlib.Path('/usr/share/datasets/fashion-mnist')
SECONDS = 80

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f'no {DATA}; apt-get install dataset-fashion-mnist')


def run(name, *options):
    command = [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2',
               str(EXAMPLES / f'{name}.py'), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS,
                          env={**os.environ, 'OMP_NUM_THREADS': '1'})


@needs_data
@pytest.mark.parametrize('name, options, line', [
    ('ddp', ['--codec', 'int8'], r'step 100: loss [\d.]+, sent 1/3\.\d of the bytes'),
    ('fsdp2', [], r'rank 0 holds 50\d\d\d of 101770 parameters'),
    ('horovod_style', ['--codec', 'int8'], r'step 100: mean loss [\d.]+'),
    ('local_sgd', ['--codec', 'int8', '--every', '4'], r'step 100: loss [\d.]+'),
], ids=lambda value: value if isinstance(value, str) and value.isidentifier() else '')
def test_example_learns(name, options, line):
    ended = run(name, '--steps', '150', *options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(line, ended.stdout), ended.stdout
    known = re.search(r'^loss ([\d.]+), accuracy ([\d.]+) %$', ended.stdout, re.MULTILINE)
    assert known, ended.stdout
    assert float(known[2]) > 75, ended.stdout  # guessing knows 10


def test_what_is_wrong_with_the_data_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import fashion_mnist
    with pytest.raises(SystemExit, match='t10k-images-idx3-ubyte.gz is missing; apt-get install dataset-fashion-mnist'):
        fashion_mnist.images_and_classes(tmp_path, 't10k')
    for content in (b'', bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2]) + b'one', bytes(40)):
        (tmp_path / 't10k-images-idx3-ubyte.gz').write_bytes(gzip.compress(content))
        with pytest.raises(SystemExit, match='is no IDX file of 3 dimensions'):
            fashion_mnist.images_and_classes(tmp_path, 't10k')
    (tmp_path / 't10k-images-idx3-ubyte.gz').write_bytes(gzip.compress(bytes(99))[:-9])
    with pytest.raises(SystemExit, match='cannot be read'):
        fashion_mnist.images_and_classes(tmp_path, 't10k')
    monkeypatch.setattr(sys, 'argv', ['ddp.py', '--steps', '0'])
    with pytest.raises(SystemExit):
        fashion_mnist.options('')


def test_examples_are_short():
    for path in EXAMPLES.glob('*.py'):
        own = path.read_text().count('\n')
        assert path.stem == 'fashion_mnist' or own < 60, f'{path} has {own} lines'


@needs_data
def test_losses_are_those_of_gloo():
    ours, theirs = (run('ddp', '--steps', '100', '--codec', 'none', '--backend', backend) for backend in ('banyan', 'gloo'))
    assert ours.returncode == theirs.returncode == 0, ours.stderr + theirs.stderr
    found, wanted = (list(map(float, re.findall(r'loss ([\d.]+)', each.stdout))) for each in (ours, theirs))
    assert len(found) == 2 and found == pytest.approx(wanted, abs=2e-4)
