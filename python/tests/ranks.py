"""Ranks for tests: processes that meet, run one function of a test each, and hand back what it returned.

They are forked by a process that has imported the packages, which takes seconds, and runs nothing by itself.
"""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import tempfile
import time
import traceback

SECONDS = 60  # that ranks may take
_FORKS = multiprocessing.get_context('forkserver')
# Optimizers would import the last one with their first step.
_FORKS.set_forkserver_preload(['numpy', 'pytest', 'banyan', 'torch', 'banyan.torch', 'torch._dynamo'])


class Job:
    """Ranks that are under way."""

    def __init__(self, function, size, *args, config=None):
        import banyan
        self.folder = tempfile.TemporaryDirectory()
        self.processes = []
        unique = banyan.unique_id()
        for rank in range(size):
            task = {'module': function.__module__, 'function': function.__name__, 'args': args, 'rank': rank,
                    'size': size, 'id': unique, 'config': config or {'timeout': 30}, 'answer': self.answer(rank),
                    'environment': dict(os.environ)}
            process = _FORKS.Process(target=be_rank, args=(task,))
            process.start()
            self.processes.append(process)

    def answer(self, rank):
        return os.path.join(self.folder.name, str(rank))

    def pid(self, rank):
        return self.processes[rank].pid

    def said(self, rank):
        """What a rank has written."""
        with contextlib.suppress(FileNotFoundError), open(f'{self.answer(rank)}.said', encoding='utf-8') as file:
            return file.read()
        return ''

    def until(self, rank, name):
        """Waits until the function of that rank has called reached(name)."""
        end = time.monotonic() + SECONDS
        while not os.path.exists(f'{self.answer(rank)}.{name}'):
            assert self.processes[rank].is_alive(), self.said(rank)
            assert time.monotonic() < end, f'rank {rank} has not reached {name}'
            time.sleep(0.01)

    def results(self, dead=()):
        """What each rank returned; None for those that are to die."""
        end = time.monotonic() + SECONDS
        found = []
        try:
            for rank, process in enumerate(self.processes):
                process.join(max(0.1, end - time.monotonic()))
                assert not process.is_alive(), f'rank {rank} does not end: {self.said(rank)}'
                if rank in dead:
                    assert process.exitcode == -signal.SIGKILL, f'rank {rank} is alive: {self.said(rank)}'
                    found.append(None)
                else:
                    assert process.exitcode == 0, f'rank {rank} ended with {process.exitcode}: {self.said(rank)}'
                    with open(self.answer(rank), 'rb') as file:
                        found.append(pickle.load(file))
        finally:
            for process in self.processes:
                process.kill()
                process.join()
                process.close()
            self.folder.cleanup()
        return found


def run(function, size, *args, **settings):
    """function(comm, *args) on each rank. What they return, in the order of ranks."""
    return Job(function, size, *args, **settings).results()


def reached(name):
    """Says to Job.until that this rank has come so far."""
    with open(f'{task["answer"]}.{name}', 'wb'):
        pass


task = {}


def be_rank(given):
    """Is a rank: its function runs here, and what it writes goes into a file."""
    task.update(given)
    said = os.open(given['answer'] + '.said', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(said, stream)
    os.environ.update(given['environment'])
    try:
        work(given)
    except Exception:
        traceback.print_exc()
        os._exit(1)


def work(given):
    import banyan
    function = getattr(importlib.import_module(given['module']), given['function'])
    comm = banyan.Comm.create(given['rank'], given['size'], given['id'], **given['config'])
    result = function(comm, *given['args'])
    with open(given['answer'], 'wb') as file:
        pickle.dump(result, file)
    if not comm.closed and comm.failed_rank is None:
        comm.close()
