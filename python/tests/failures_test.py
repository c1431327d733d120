"""What becomes of ranks that die, differ, come late, are interrupted, or use what has ended."""
# SPDX-License-Identifier: Apache-2.0

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from ranks import Job, reached, run

import banyan


def outlive(comm):
    array = np.ones(1000, np.float32)
    comm.allreduce(array)
    reached('working')
    if comm.rank == 1:
        time.sleep(60)  # until it is killed
    start = time.monotonic()
    with pytest.raises(banyan.PeerLost) as error:
        comm.allreduce(array)
    assert error.value.result == 'PEER_LOST' and error.value.failed_rank == 1 == comm.failed_rank
    assert 'rank 1' in str(error.value)
    with pytest.raises(banyan.PeerLost):
        comm.barrier()
    comm.close()
    return time.monotonic() - start


def test_a_killed_rank_is_named_by_the_others():
    job = Job(outlive, 3)
    for rank in range(3):
        job.until(rank, 'working')
    os.kill(job.pid(1), signal.SIGKILL)
    results = job.results(dead={1})
    assert results[1] is None and max(results[0], results[2]) < 10


def late(comm):
    if comm.rank == 0:
        start = time.monotonic()
        with pytest.raises(banyan.Timeout) as error:
            comm.recv(np.empty(3), 1, timeout=0.3)
        assert isinstance(error.value, TimeoutError) and error.value.result == 'TIMEOUT'
        return time.monotonic() - start
    with pytest.raises(banyan.Error):
        comm.barrier(timeout=20)
    return 0


def test_a_call_has_its_own_deadline():
    assert 0.25 < run(late, 2)[0] < 5


def disagree(comm):
    with pytest.raises(banyan.Mismatch, match='count'):
        comm.allreduce(np.ones(3 + comm.rank))
    return True


def test_ranks_that_differ():
    assert run(disagree, 2) == [True, True]


def give_up(comm):
    if comm.rank == 0:
        threading.Timer(0.2, comm.abort).start()
        with pytest.raises(banyan.Aborted):
            comm.recv(np.empty(1), 1)
        return True
    with pytest.raises(banyan.PeerLost) as error:
        comm.recv(np.empty(1), 0)
    return error.value.failed_rank


def test_an_abort_by_another_thread():
    assert run(give_up, 2) == [True, 0]


def raise_in_context(comm):
    with pytest.raises(KeyError):
        with comm:
            if comm.rank == 0:
                raise KeyError('of the program')
            with pytest.raises(banyan.PeerLost):
                comm.barrier()
            raise KeyError('too')
    return comm.closed


def test_a_context_that_raises_aborts():
    assert run(raise_in_context, 2) == [True, True]


def interrupted(comm):
    if comm.rank == 1:
        with pytest.raises(banyan.PeerLost) as error:
            comm.recv(np.empty(1), 0)
        return error.value.failed_rank
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        comm.recv(np.empty(1), 1)
    return time.monotonic() - start


def test_control_c_ends_a_call():
    seconds, lost = run(interrupted, 2)
    assert seconds < 5 and lost == 0


def wait_with_handler(comm):
    got = []
    signal.signal(signal.SIGINT, lambda *_: got.append(time.monotonic()))
    if comm.rank == 0:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        time.sleep(0.6)
    comm.barrier()
    return len(got)


def test_other_handlers_run_when_the_call_has_ended():
    assert run(wait_with_handler, 2) == [1, 0]


MEET = '''
import os, signal, threading, time, banyan
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    banyan.Comm.create(0, 2, banyan.unique_id(), init_timeout=20)
except KeyboardInterrupt:
    print(time.monotonic() - start)
'''


def python(program, *arguments, **environment):
    return subprocess.run([sys.executable, '-c', program, *arguments], env={**os.environ, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)


def test_control_c_ends_a_meeting():
    done = python(MEET)
    assert float(done.stdout) < 5, done.stdout


BY_HAND = '''
import sys, numpy, banyan
comm = banyan.init(timeout=20)
print(int(comm.allreduce(numpy.ones(1))[0]), comm.rank)
if sys.argv[1] == 'raise': raise SystemExit(3) if comm.rank else RuntimeError('of the program')
'''


@pytest.mark.parametrize('way, statuses', [('leave', (0, 0)), ('raise', (1, 3))])
def test_by_hand_and_left_open(way, statuses):
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{free.getsockname()[1]}'
    results = [None, None]

    def one(rank):
        results[rank] = python(BY_HAND, way, BANYAN_RANK=str(rank), BANYAN_SIZE='2', BANYAN_ADDRESS=address)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank, done in enumerate(results):
        assert done.returncode == statuses[rank] and f'2 {rank}' in done.stdout, done.stdout
    assert time.monotonic() - start < 20


DAEMON = '''
import threading, time, numpy, banyan
comm = banyan.Comm.over(0, 1, lambda mine: [mine])
pair = banyan.unique_id()
def other():
    with banyan.Comm.create(1, 2, pair) as last:
        time.sleep(60)
def blocked():
    mine = banyan.Comm.create(0, 2, pair)
    started.set()
    mine.barrier()
started = threading.Event()
for function in (other, blocked):
    threading.Thread(target=function, daemon=True).start()
started.wait()
time.sleep(0.1)
print('ends')
'''


def test_a_daemon_thread_in_a_call_does_not_keep_the_interpreter():
    start = time.monotonic()
    done = python(DAEMON)
    assert done.returncode == 0 and done.stdout.startswith('ends'), done.stdout
    assert time.monotonic() - start < 20


BUSY_AT_THE_END = '''
import threading, time, banyan
def work():
    while True:
        comm = banyan.Comm.create(0, 1, banyan.unique_id())
        comm.barrier()
        del comm
for _ in range(6):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.15)
print('ends')
'''


def test_daemon_threads_that_want_the_lock_of_a_python_that_ends():
    for _ in range(12):  # of three, one died of it once
        done = python(BUSY_AT_THE_END)
        assert done.returncode == 0 and done.stdout.startswith('ends'), done.stdout


def test_without_a_launcher():
    cleared = {name: '' for name in ('BANYAN_RANK', 'BANYAN_SIZE', 'RANK', 'WORLD_SIZE')}
    done = python("import os\nfor name in list(os.environ):\n"
                  "    if name.startswith(('BANYAN_R', 'BANYAN_S', 'RANK', 'WORLD')): del os.environ[name]\n"
                  "import banyan\ntry: banyan.init()\nexcept banyan.InvalidUsage as error: print('said:', error)", **cleared)
    assert done.stdout.startswith('said:') and 'BANYAN_RANK' in done.stdout, done.stdout


def test_use_after_the_end(alone):
    request = alone.request('barrier')
    reducer = banyan.Reducer(alone, [banyan.Tensor('w', (3,))])
    op = alone.premulsum(2.0)
    alone.close()
    alone.close()
    alone.finalize()
    alone.abort()
    assert alone.closed and 'closed' in repr(alone)
    for call in (alone.barrier, request.start, request.wait, request.test, lambda: alone.split(0),
                 lambda: reducer.ready('w', np.zeros(3, np.float32)), reducer.wait, lambda: alone.failed_rank,
                 lambda: alone.allreduce(np.ones(1), op=op), lambda: alone.empty(3), lambda: alone.request('barrier')):
        with pytest.raises(banyan.InvalidUsage):
            call()
    request.close()
    reducer.close()
    with pytest.raises(TypeError, match='cannot be pickled'):
        pickle.dumps(alone)


def test_a_child_of_fork(alone):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                alone.barrier()
            except banyan.InvalidUsage:
                with banyan.Comm.create(0, 1, banyan.unique_id()) as own:
                    own.barrier()
                    status = 0
            alone.close()
        except banyan.InvalidUsage:
            pass
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    alone.barrier()


def wait_beside_a_thread(comm):
    counted, done, refused = [0], threading.Event(), []

    def count():
        while not done.is_set():
            counted[0] += 1
            try:
                comm.barrier()
            except banyan.InvalidUsage as error:
                refused.append(str(error))
                time.sleep(0.01)

    if comm.rank == 0:
        comm.recv(np.empty(1), 1)
        thread = threading.Thread(target=count)
        request = np.empty(1)
        timer = threading.Timer(0.05, thread.start)
        timer.start()
        comm.recv(request, 1)
        done.set()
        timer.join()
        thread.join()
        return counted[0], refused[0]
    comm.send(np.empty(1), 0)
    time.sleep(0.5)
    comm.send(np.empty(1), 0)
    return None


def test_the_gil_is_released_and_one_thread_uses_a_communicator():
    counted, refused = run(wait_beside_a_thread, 2)[0]
    assert counted > 5 and 'another thread is in a call' in refused


def abandon(comm):
    mine, other = np.ones(3), np.zeros(3)
    with pytest.raises(ZeroDivisionError):
        with comm.group():
            comm.send(mine, 1 - comm.rank)
            comm.recv(other, 1 - comm.rank)
            raise ZeroDivisionError
    assert (other == 0).all()
    with comm.group():
        with comm.group():
            comm.send(mine, 1 - comm.rank)
        comm.recv(other, 1 - comm.rank)
    return float(other.sum())


def test_a_group_that_raises_moves_nothing():
    assert run(abandon, 2) == [3.0, 3.0]


def test_meeting_over_a_function_of_the_caller():
    barrier, given = threading.Barrier(2, timeout=30), [None, None]

    def allgather_of(rank):
        def allgather(mine):
            given[rank] = mine
            barrier.wait()
            all_of = list(given)
            barrier.wait()
            return all_of
        return allgather

    sums = [None, None]

    def member(rank):
        with banyan.Comm.over(rank, 2, allgather_of(rank), timeout=30) as comm:
            sums[rank] = comm.allreduce(np.array([rank + 1]))[0]

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [3, 3]
    with pytest.raises(banyan.RemoteFailure):
        banyan.Comm.over(0, 2, lambda mine: [mine])
