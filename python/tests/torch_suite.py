#!/usr/bin/env python3
"""PyTorch's own distributed_test from its wheel over this backend, one test at a time, and what gloo says to the same.

usage: torch_suite.py RESULTS [--backend banyan|gloo] [--ranks N] [--match TEXT] [--compare OTHER_RESULTS]

RESULTS is a file of JSON lines; tests that it has are not run again, so that an interrupted run goes on. With --compare
nothing is run: what the other file's tests passed and these did not is printed, and is the exit status.
"""
# SPDX-License-Identifier: Apache-2.0

import argparse
import inspect
import io
import json
import os
import re
import subprocess
import sys
import time
import unittest

# They ask for gloo by name in torch's Python, which no other backend can have.
BY_NAME = {'test_ddp_logging_data_cpu', 'test_monitored_barrier_gloo', 'test_monitored_barrier_gloo_subgroup',
           'test_monitored_barrier_failure_order', 'test_monitored_barrier_wait_all_ranks'}
SECONDS = 300  # that a test may take


def start_rank(environment, run, arguments, more):
    """The beginning of a rank: it was forked by a server that has imported what takes seconds, with its environment."""
    import torch.distributed as dist
    os.environ.clear()
    os.environ.update(environment)
    dist.set_debug_level_from_env()
    run(*arguments, **more)


def make_suite():
    """The class of tests; the server that forks the ranks imports this file and makes it again."""
    backend = os.environ['BANYAN_SUITE_BACKEND']
    import torch
    import torch.multiprocessing
    from torch.testing._internal import common_distributed
    from torch.testing._internal.common_distributed import DistTestCases
    if backend == 'banyan':
        import banyan.torch  # noqa: F401  (registers the backend)
        for feature in ('gpu', 'cuda', 'ddp', 'subgroup', 'plugin'):
            DistTestCases.backend_feature[feature] = set(DistTestCases.backend_feature[feature]) | {backend}
    common_distributed.skip_if_small_worldsize = lambda function: function
    # Skips compare the name where the tests are imported; those of all_to_all on the host want MPI's.
    os.environ['BACKEND'] = os.environ.get('BANYAN_SUITE_PRETEND', 'gloo')
    from torch.testing._internal.distributed import distributed_test
    os.environ['BACKEND'] = distributed_test.BACKEND = backend
    distributed_test.Barrier.sync.__func__.__defaults__ = (None, 60)

    class TestSuite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._skip_what_needs_gpus()
            self._spawn_processes()

        def _skip_what_needs_gpus(self):
            """Where there are none. The ranks would say so themselves, some seconds later."""
            text = inspect.getsource(inspect.unwrap(getattr(type(self), self._testMethodName)))
            if torch.cuda.device_count() == 0 and re.search('@skip_if_(lt_x_gpu|no_gpu)', text):
                self.skipTest('there is no GPU')

        def _spawn_processes(self):
            context = torch.multiprocessing.get_context('forkserver')
            context.set_forkserver_preload(['torch_suite'])

            def start(target, name, args, kwargs):
                return context.Process(target=start_rank, name=name, args=(dict(os.environ), target, args, kwargs))
            self._start_processes(start)

        def run_test(self, name, pipe):
            if name != 'test_get_backend':
                distributed_test.BACKEND = 'gloo'
            super().run_test(name, pipe)

        def _check_return_codes(self, *arguments, **more):
            super()._check_return_codes(*arguments, **more)
            codes = [process.exitcode for process in self.processes]
            assert len(set(codes)) == 1, f'ranks ended with {codes}'

    TestSuite.__module__, TestSuite.__qualname__ = '__main__', 'TestSuite'
    return TestSuite


if 'BANYAN_SUITE_BACKEND' in os.environ:
    TestSuite = make_suite()


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding='utf-8') as lines:
        return {entry['test']: entry for entry in map(json.loads, lines)}


def write(path, test, result, start, text=''):
    entry = {'test': test, 'result': result, 'seconds': round(time.monotonic() - start, 1)}
    if result != 'passed':
        entry['text'] = text[-3000:]
    with open(path, 'a', encoding='utf-8') as lines:
        lines.write(json.dumps(entry) + '\n')
    return f'{result} {test} {entry["seconds"]}'


def run_here(path, tests):
    """One test after the other; the name of the one that is running stands in a file."""
    said = os.fdopen(os.dup(1), 'w')
    with open(os.devnull, 'wb') as nothing:  # where what ranks print goes
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    for test in tests:
        with open(path + '.running', 'w', encoding='utf-8') as running:
            running.write(test)
        start, log = time.monotonic(), io.StringIO()
        ended = unittest.TextTestRunner(stream=log, verbosity=2).run(unittest.TestSuite([TestSuite(test)]))
        result = 'failed' if not ended.wasSuccessful() else 'skipped' if ended.skipped else 'passed'
        print(write(path, test, result, start, log.getvalue()), file=said, flush=True)
    os.remove(path + '.running')


def run_all(path, tests, environment):
    """By a process that is begun again where a test has taken it along."""
    while tests:
        start = time.monotonic()
        subprocess.run([sys.executable, __file__, '--here', path, *tests], env=environment, check=False)
        done = read(path)
        tests = [test for test in tests if test not in done]
        if tests:
            if not os.path.exists(path + '.running'):
                sys.exit(f'the tests do not begin, by {sys.executable}; right is one that has torch, numpy, expecttest')
            with open(path + '.running', encoding='utf-8') as running:
                print(write(path, running.read(), 'failed', start, 'the process of the tests has died'), flush=True)
            os.remove(path + '.running')
            tests = [test for test in tests if test not in read(path)]


def compare(mine, others):
    worse = [test for test, entry in others.items() if entry['result'] == 'passed' and test not in BY_NAME
             and mine.get(test, {}).get('result') != 'passed']
    better = [test for test, entry in mine.items() if entry['result'] == 'passed'
              and others.get(test, {}).get('result') != 'passed']
    for name, entries in (('here', mine), ('there', others)):
        counts = {kind: sum(entry['result'] == kind for entry in entries.values())
                  for kind in ('passed', 'skipped', 'failed')}
        print(name, counts)
    print('passed here only:', *better)
    print('passed there only:', *worse)
    return 1 if worse else 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('results')
    arguments.add_argument('--backend', choices=['banyan', 'gloo'], default='banyan')
    arguments.add_argument('--ranks', type=int, default=3)
    arguments.add_argument('--match', default='')
    arguments.add_argument('--compare')
    options = arguments.parse_args()
    results = read(options.results)
    if options.compare:
        return compare(results, read(options.compare))
    here = os.path.dirname(os.path.abspath(__file__))
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([here, os.environ.get('PYTHONPATH', '')]),
                       BANYAN_SUITE_BACKEND=options.backend, WORLD_SIZE=str(options.ranks),
                       OMP_NUM_THREADS='1', BACKEND=options.backend, DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(SECONDS))
    listed = subprocess.run([sys.executable, __file__, '--list'], env=environment, capture_output=True, text=True,
                            check=True).stdout.split()
    listed = [test for test in listed if options.match in test and test not in results]
    exchanges = [test for test in listed if 'all_to_all' in test]
    run_all(options.results, [test for test in listed if test not in exchanges], environment)
    run_all(options.results, exchanges, dict(environment, BANYAN_SUITE_PRETEND='mpi'))
    return int(any(entry['result'] == 'failed' for entry in read(options.results).values()))


if __name__ == '__main__':
    if sys.argv[1:] == ['--list']:
        print(*[name for name in dir(TestSuite) if name.startswith('test')], sep='\n')
    elif sys.argv[1:2] == ['--here']:
        run_here(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
