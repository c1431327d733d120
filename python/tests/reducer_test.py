"""The gradient reducer: means, error feedback, checkpoints, figures, wrong use."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import threading

import numpy as np
import pytest
from ranks import run

import banyan

SHAPES = {'embedding.weight': (200, 50), 'bias': (50,), 'output.weight': (50, 100)}
RULES = 'embedding.*=topk:0.05;output.*=int8'


def gradients(rank, step):
    rng = np.random.default_rng([rank, step])
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}


def reducer_of(comm, **settings):
    return banyan.Reducer(comm, [banyan.Tensor(name, shape) for name, shape in SHAPES.items()], **settings)


def steps(comm, reducer, numbers):
    results = []
    for step in numbers:
        mine = gradients(comm.rank, step)
        threads = [threading.Thread(target=reducer.ready, args=(name, mine[name])) for name in reversed(SHAPES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reducer.wait('bias')
        reducer.wait()
        results.append(mine)
    return results


def exact(comm):
    with reducer_of(comm) as reducer:
        found = steps(comm, reducer, range(3))
        stats = reducer.stats()
        assert stats['steps'] == 3 and stats['bytes_raw'] == reducer.stats('bias')['bytes_raw'] * 15050 // 50
    for step in range(3):
        every = [gradients(rank, step) for rank in range(comm.size)]
        for name in SHAPES:
            np.testing.assert_allclose(found[step][name], np.mean([one[name] for one in every], axis=0), rtol=1e-5, atol=1e-6)
    return True


def test_means_of_exact_gradients():
    assert run(exact, 3) == [True] * 3


def resumed(comm):
    whole, first = reducer_of(comm, rules=RULES), reducer_of(comm, rules=RULES)
    right = steps(comm, whole, range(4))[2:]
    steps(comm, first, range(2))
    blob = first.save()
    first.close()
    second = reducer_of(comm, rules=RULES)
    second.load(blob)
    found = steps(comm, second, range(2, 4))
    stats = second.stats('embedding.weight')
    assert stats['residual_norm'] > 0 and stats['bytes_sent'] < stats['bytes_raw']
    with pytest.raises(banyan.InvalidUsage):
        second.load(blob)
    return all((a[name] == b[name]).all() for a, b in zip(right, found) for name in SHAPES)


def test_a_checkpoint_goes_on_bit_for_bit():
    assert run(resumed, 2) == [True, True]


def fewer(comm, blobs):
    if not blobs:
        reducer = reducer_of(comm, rules=RULES)
        steps(comm, reducer, range(2))
        return reducer.save()
    reducer = reducer_of(comm, rules=RULES)
    reducer.load(*blobs)
    steps(comm, reducer, range(2, 3))
    return reducer.stats()['steps']


def test_a_checkpoint_of_more_ranks():
    blobs = run(fewer, 2, [])
    assert run(fewer, 1, blobs)[0] >= 1


def test_wrong_use(alone):
    with pytest.raises(ValueError, match="op is 'max'"):
        reducer_of(alone, op='max')
    with pytest.raises(ValueError, match='same name'):
        banyan.Reducer(alone, [banyan.Tensor('a', (3,)), banyan.Tensor('a', (4,))])
    with pytest.raises(TypeError, match='int16'):
        banyan.Reducer(alone, {'a': np.zeros(3, np.int16)})
    with pytest.raises(banyan.InvalidArgument):
        reducer_of(alone, rules='*=int9')
    reducer = banyan.Reducer(alone, {'a': np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match="no tensor 'b' was registered"):
        reducer.ready('b', np.zeros(3, np.float32))
    with pytest.raises(ValueError, match='gradient has 4 elements; right is 3'):
        reducer.ready('a', np.zeros(4, np.float32))
    with pytest.raises(TypeError, match='gradient has elements of float64; right is float32'):
        reducer.ready('a', np.zeros(3))
    with pytest.raises(banyan.InvalidArgument):
        reducer.ready(7, np.zeros(3, np.float32))
    with pytest.raises(banyan.Corrupt):
        reducer.load(b'no checkpoint')
    gradient = np.ones(3, np.float32)
    reducer.ready('a', gradient)
    with pytest.raises(banyan.InvalidUsage):
        reducer.ready('a', gradient)
    reducer.wait()
    reducer.close()
    reducer.close()


def dropped(comm):
    reducer = banyan.Reducer(comm, {'a': np.zeros(1 << 20, np.float32), 'b': np.zeros(3, np.float32)})
    with contextlib.suppress(banyan.PeerLost):  # the other one may be ahead
        reducer.ready('a', np.ones(1 << 20, np.float32))
    comm.abort()
    comm.close()  # and what was on its way is let go
    with pytest.raises(banyan.InvalidUsage):
        reducer.wait()
    return comm.closed


def test_a_step_that_is_given_up():
    assert run(dropped, 2) == [True, True]
