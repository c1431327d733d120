#!/usr/bin/env python3
"""PyTorch's own distributed_test from its wheel over this backend, one test at a time, and what gloo says to the same.

usage: torch_suite.py RESULTS [--backend banyan|gloo] [--ranks N] [--match TEXT] [--compare OTHER_RESULTS]

RESULTS is a file of JSON lines; tests that it has are not run again, so that an interrupted run goes on. With --compare
nothing is run: what the other file's tests passed and these did not is printed, and is the exit status.
"""
# SPDX-License-Identifier: Apache-2.0

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import time

# They ask for gloo by name in torch's Python, which no other backend can have.
BY_NAME = {'test_ddp_logging_data_cpu', 'test_monitored_barrier_gloo', 'test_monitored_barrier_gloo_subgroup',
           'test_monitored_barrier_failure_order', 'test_monitored_barrier_wait_all_ranks'}


def make_suite():
    """The class of tests; the ranks that it spawns import this file and make it again."""
    backend = os.environ['BANYAN_SUITE_BACKEND']
    import torch
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
            if torch.cuda.device_count() == 0 and re.search('@skip_if_(lt_x_gpu|no_gpu)|@require_n_gpus', text):
                self.skipTest('there is no GPU')

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


def one(test, environment):
    start = time.monotonic()
    if 'all_to_all' in test:
        environment = dict(environment, BANYAN_SUITE_PRETEND='mpi')
    try:
        ended = subprocess.run([sys.executable, __file__, '--one', test], env=environment, capture_output=True,
                               text=True, timeout=300, check=False)
        text = ended.stdout + ended.stderr
        result = 'failed' if ended.returncode else 'skipped' if 'skipped=1' in text else 'passed'
    except subprocess.TimeoutExpired as late:
        text, result = f'not done after {late.timeout} s', 'failed'
    entry = {'test': test, 'result': result, 'seconds': round(time.monotonic() - start, 1)}
    if result != 'passed':
        entry['text'] = text[-3000:]
    return entry


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
    environment = dict(os.environ, BANYAN_SUITE_BACKEND=options.backend, WORLD_SIZE=str(options.ranks),
                       OMP_NUM_THREADS='1', BACKEND=options.backend)
    listed = subprocess.run([sys.executable, __file__, '--list'], env=environment, capture_output=True, text=True,
                            check=True).stdout.split()
    for test in listed:
        if options.match not in test or test in results:
            continue
        entry = one(test, environment)
        with open(options.results, 'a', encoding='utf-8') as lines:
            lines.write(json.dumps(entry) + '\n')
        print(entry['result'], test, entry['seconds'], flush=True)
    return int(any(entry['result'] == 'failed' for entry in read(options.results).values()))


if __name__ == '__main__':
    if sys.argv[1:] == ['--list']:
        print(*[name for name in dir(TestSuite) if name.startswith('test')], sep='\n')
    elif sys.argv[1:2] == ['--one']:
        import unittest
        ran = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite([TestSuite(sys.argv[2])]))
        sys.exit(not ran.wasSuccessful())
    else:
        sys.exit(main())
