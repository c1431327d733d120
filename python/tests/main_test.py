"""python -m banyan, and what the package says of itself."""
# SPDX-License-Identifier: Apache-2.0

import inspect
import subprocess
import sys

import pytest

import banyan
from banyan import _core
from banyan._errors import error_of


def python_m(*arguments):
    return subprocess.run([sys.executable, '-m', 'banyan', *arguments], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, check=False)


def test_programs():
    info = python_m('info', '--version')
    if 'was built without banyan_info' in info.stdout:
        pytest.skip('no programs: tools/install-deps has what they need')
    assert info.returncode == 0 and banyan.__version__ in info.stdout
    assert 'allreduce' in python_m('perf', '--help').stdout
    assert python_m('tune', '--version').returncode == 0
    assert '--doctor' not in python_m('doctor').stdout[:20]
    measured = python_m('perf', 'allreduce', '-n', '2', '-m', '4', '-i', '10', '-c')
    assert measured.returncode == 0, measured.stdout


def test_wrong_names():
    done = python_m('inform')
    assert done.returncode == 2 and 'inform is none of its programs; valid: info, perf, tune, doctor' in done.stdout
    assert python_m().returncode == 2
    assert python_m('--help').stdout.startswith("Runs Banyan's programs")


def test_the_version():
    major, minor, patch = map(int, banyan.__version__.split('.'))
    assert _core.library_version() == 10000 * major + 100 * minor + patch


def test_everything_public_is_explained_and_typed():
    for name in banyan.__all__:
        thing = getattr(banyan, name)
        assert thing.__doc__, name
        functions = [thing] if inspect.isfunction(thing) else [
            f for n, f in vars(thing).items() if inspect.isfunction(f) and not n.startswith('_')]
        for function in functions:
            assert function.__doc__, f'{name}.{function.__name__}'
            assert 'return' in function.__annotations__, f'{name}.{function.__name__}'


def test_results_become_classes():
    for number, kind, also in [(4, banyan.InvalidArgument, ValueError), (8, banyan.Timeout, TimeoutError),
                               (32, banyan.Unsupported, NotImplementedError), (35, banyan.PeerLost, RuntimeError),
                               (99, banyan.InternalError, RuntimeError)]:
        error = error_of(number, 'why', 2)
        assert type(error) is kind and isinstance(error, also) and isinstance(error, banyan.Error)
        assert str(error) == 'why' and error.failed_rank == 2
    assert error_of(35, 'why', -1).failed_rank is None
