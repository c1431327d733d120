"""All collectives, types and ranks against numpy in fp64. Values are small integers, so that sums are exact."""
# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
from named import Named
from ranks import run

TYPES = ['int8', 'uint8', 'int32', 'uint32', 'int64', 'uint64', 'float16', 'float32', 'float64']
NAMED = ['bfloat16', 'float8_e4m3fn', 'float8_e5m2']
COUNTS = [0, 1, 7, 1009]
FOLD = {'sum': np.sum, 'prod': np.prod, 'max': np.max, 'min': np.min, 'avg': np.mean}


def values(rank, count, kind):
    """From 1 to 3, other ones on each rank."""
    return ((np.arange(count) * 7 + rank * 5) % 3 + 1).astype(kind)


def everybody(size, count):
    return np.stack([values(rank, count, np.float64) for rank in range(size)])


def same(found, right, what):
    np.testing.assert_array_equal(np.asarray(found, np.float64), right, err_msg=str(what))


def check_sums(comm, kind, count):
    mine, all_of = values(comm.rank, count, kind), everybody(comm.size, count)
    for op, fold in FOLD.items():
        right = fold(all_of, axis=0)
        if op == 'avg':
            right = np.trunc(right) if np.dtype(kind).kind in 'iu' else right.astype(kind).astype(np.float64)
        found = comm.allreduce(mine, op=op)
        assert found.dtype == mine.dtype and found is not mine
        same(found, right, (op, kind, count))
        inside = mine.copy()
        assert comm.allreduce(inside, out=inside, op=op) is inside
        same(inside, right, (op, kind, count, 'in place'))
    root = comm.size - 1
    found = comm.reduce(mine, op='max', root=root)
    assert (found is None) == (comm.rank != root)
    if found is not None:
        same(found, np.max(all_of, axis=0), ('reduce', kind, count))
    scaled = comm.allreduce(mine, op=comm.premulsum(np.array([2], kind)))
    same(scaled, np.sum(2 * all_of, axis=0), ('premulsum', kind, count))


def check_blocks(comm, kind, count):
    rank, size = comm.rank, comm.size
    mine, all_of = values(rank, count, kind), everybody(size, count)
    what = (kind, count)
    same(comm.allgather(mine), all_of, what)
    gathered = comm.gather(mine, root=0)
    assert (gathered is None) == (rank != 0)
    if rank == 0:
        same(gathered, all_of, what)
    whole = np.stack([values(rank + r, count, kind) for r in range(size)])
    blocks = [np.stack([values(other + r, count, np.float64) for r in range(size)]) for other in range(size)]
    same(comm.reduce_scatter(whole), np.sum(blocks, axis=0)[rank][None], what)
    same(comm.alltoall(whole), np.stack([block[rank] for block in blocks]), what)
    part = np.empty(count, kind)
    comm.scatter(whole if rank == 0 else None, out=part)
    same(part, blocks[0][rank], what)
    copied = mine.copy()
    assert comm.broadcast(copied, root=size - 1) is copied
    same(copied, all_of[size - 1], what)


def check_lists(comm, kind, count):
    rank, size = comm.rank, comm.size
    counts = [count + r for r in range(size)]
    parts = [values(r, counts[r], kind) for r in range(size)]
    same(comm.allgatherv(parts[rank], counts), np.concatenate(parts), (kind, count))
    out = np.full(sum(counts) + size, 9, kind)
    places = [sum(counts[:r]) + r + 1 for r in range(size)]
    comm.allgatherv(parts[rank], counts, out=out, displacements=places)
    for r in range(size):
        same(out[places[r]:places[r] + counts[r]], parts[r], (kind, count))
        assert out[places[r] - 1] == 9
    whole = values(rank, sum(counts), kind)
    total = np.sum(everybody(size, sum(counts)), axis=0)
    start = sum(counts[:rank])
    same(comm.reduce_scatterv(whole, counts), total[start:start + counts[rank]], (kind, count))
    sends = [count + rank + r for r in range(size)]
    gives = [[values(a, count + a + b, kind) for b in range(size)] for a in range(size)]
    found = comm.alltoallv(np.concatenate(gives[rank]), sends, sends)
    same(found, np.concatenate([gives[a][rank] for a in range(size)]), (kind, count))


def check_messages(comm, kind, count):
    mine, other = values(comm.rank, count, kind), np.empty(count, kind)
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    with comm.group():
        comm.send(mine, right)
        comm.recv(other, left)
    same(other, values(left, count, np.float64), (kind, count))
    if comm.size > 1 and comm.rank < 2:
        if comm.rank == 0:
            comm.send(mine, 1)
        else:
            assert comm.recv(other, 0) is other
            same(other, values(0, count, np.float64), (kind, count))


def check_named(comm, name, count):
    mine = Named(name, values(comm.rank, count, np.float32))
    found = Named(name, np.zeros(count, np.float32))
    comm.allreduce(mine, out=found, op='max')
    same(found.values(), np.max(everybody(comm.size, count), axis=0), (name, count))
    comm.allreduce(mine, out=found)
    if name == 'bfloat16' or comm.size < 3:  # the others have no 9
        same(found.values(), np.sum(everybody(comm.size, count), axis=0), (name, count))


def everything(comm):
    for count in COUNTS:
        for kind in TYPES:
            for check in (check_sums, check_blocks, check_lists, check_messages):
                check(comm, kind, count)
        for name in NAMED:
            check_named(comm, name, count)
    comm.barrier()
    return True


@pytest.mark.parametrize('size', [1, 2, 3, 4])
def test_all_collectives_and_types(size):
    assert run(everything, size) == [True] * size


def options(comm):
    mine = np.linspace(-1, 1, 5000, dtype=np.float32) * (comm.rank + 1)
    exact = comm.allreduce(mine)
    coded = comm.allreduce(mine, compress='int8', timeout=20)
    bound = comm.allreduce(mine, compress=banyan().Compression(absolute=1e-2))
    ring = comm.allreduce(mine, algorithm='ring')
    with comm.group():
        grouped = comm.allreduce(mine, compress='int8')
    assert (coded != exact).any()
    np.testing.assert_allclose(grouped, exact, atol=0.05)
    np.testing.assert_allclose(coded, exact, atol=0.05)
    np.testing.assert_allclose(bound, exact, atol=1e-2)
    np.testing.assert_allclose(ring, exact, rtol=1e-6, atol=1e-6)
    assert 'ring' in comm.explain('allreduce', mine, mine, algorithm='ring')
    return coded.tobytes()


def banyan():
    import banyan as package
    return package


def test_options_of_calls():
    first, second = run(options, 2)
    assert first == second


def requests(comm):
    array = np.ones(100, np.float32)
    out = np.empty_like(array)
    with comm.request('allreduce', array, out) as request:
        for step in range(3):
            array[:] = step
            request.start().wait()
            assert (out == step * comm.size).all()
        request.start()
        while not request.test():
            pass
    dropped = comm.request('barrier').start()  # closing completes it
    del dropped
    got = np.zeros(3, np.int64)
    with comm.group():
        comm.send(np.arange(3), comm.rank)
        comm.recv(got, comm.rank)
    assert got.tolist() == [0, 1, 2]
    return True


def test_requests():
    assert run(requests, 2) == [True, True]


def splits(comm):
    half = comm.split(comm.rank % 2, key=-comm.rank, timeout=20)
    none = comm.split(None if comm.rank == 0 else 0)
    assert (none is None) == (comm.rank == 0)
    ranks = half.allgather(np.array([comm.rank])).ravel().tolist()
    total = half.allreduce(np.array([comm.rank]))[0]
    half.close()
    return ranks, int(total)


def test_splits():
    assert run(splits, 4) == [([2, 0], 2), ([3, 1], 4), ([2, 0], 2), ([3, 1], 4)]


def memory(comm):
    array = comm.empty((4, 1000))
    array[:] = comm.rank
    comm.allreduce(array, out=array)
    comm.close()  # and the memory stays as long as the array
    return float(array.sum())


def test_memory_of_the_communicator():
    assert run(memory, 2) == [4000.0, 4000.0]


def invariant(comm):
    rng = np.random.default_rng(comm.rank)
    mine = rng.standard_normal(1000).astype(np.float32)
    return comm.allreduce(mine).tobytes(), comm.allreduce(mine, algorithm='ring').tobytes()


def test_invariant_sums():
    (a, b), (c, d) = run(invariant, 2, config={'timeout': 20, 'determinism': 'invariant', 'name': 'sums'})
    assert a == b == c == d
