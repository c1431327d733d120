"""Ranks for tests: processes that meet, run one function of a test each, and hand back what it returned.

As a program it is such a rank; it gets its task on standard input.
"""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import importlib
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 60  # that ranks may take


class Job:
    """Ranks that are under way."""

    def __init__(self, function, size, *args, config=None, environment=None):
        import banyan
        self.folder = tempfile.TemporaryDirectory()
        self.processes = []
        unique = banyan.unique_id()
        for rank in range(size):
            task = {'module': function.__module__, 'function': function.__name__, 'args': args, 'rank': rank,
                    'size': size, 'id': unique, 'config': config or {'timeout': 30}, 'answer': self.answer(rank)}
            process = subprocess.Popen([sys.executable, str(HERE / 'ranks.py')], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env={**os.environ, **(environment or {})})
            process.stdin.write(pickle.dumps(task))
            process.stdin.close()
            self.processes.append(process)

    def answer(self, rank):
        return os.path.join(self.folder.name, str(rank))

    def pid(self, rank):
        return self.processes[rank].pid

    def until(self, rank, name):
        """Waits until the function of that rank has called reached(name)."""
        end = time.monotonic() + SECONDS
        while not os.path.exists(f'{self.answer(rank)}.{name}'):
            assert self.processes[rank].poll() is None, self.processes[rank].stdout.read().decode()
            assert time.monotonic() < end, f'rank {rank} has not reached {name}'
            time.sleep(0.01)

    def results(self, dead=()):
        """What each rank returned; None for those that are to die."""
        end = time.monotonic() + SECONDS
        found = []
        try:
            for rank, process in enumerate(self.processes):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.1, end - time.monotonic()))
                assert process.poll() is not None, f'rank {rank} does not end'
                said = process.stdout.read().decode()
                if rank in dead:
                    assert process.returncode < 0, f'rank {rank} is alive: {said}'
                    found.append(None)
                else:
                    assert process.returncode == 0, f'rank {rank} ended with {process.returncode}: {said}'
                    with open(self.answer(rank), 'rb') as file:
                        found.append(pickle.load(file))
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                process.stdout.close()
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


def main():
    import ranks  # the name by which tests have this module
    import banyan
    ranks.task = pickle.loads(sys.stdin.buffer.read())
    given = ranks.task
    function = getattr(importlib.import_module(given['module']), given['function'])
    comm = banyan.Comm.create(given['rank'], given['size'], given['id'], **given['config'])
    result = function(comm, *given['args'])
    with open(given['answer'], 'wb') as file:
        pickle.dump(result, file)
    if not comm.closed and comm.failed_rank is None:
        comm.close()


if __name__ == '__main__':
    try:
        main()
    except Exception:
        traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(1)
