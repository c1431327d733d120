"""Runs a function in ranks of their own, as torchrun would, with a deadline for all of them."""
# SPDX-License-Identifier: Apache-2.0

import datetime
import os
import tempfile
import time
import traceback

import torch
import torch.multiprocessing as multiprocessing


def _rank(function, rank, size, path, timeout, options, arguments, results, environment):
    import torch.distributed as dist

    import banyan.torch  # noqa: F401  (registers the backend)
    os.environ.update(environment)
    dist.set_debug_level_from_env()
    torch.set_num_threads(1)
    try:
        dist.init_process_group('banyan', init_method=f'file://{path}', rank=rank, world_size=size,
                                timeout=datetime.timedelta(seconds=timeout), pg_options=options)
        value = function(rank, size, *arguments)
        if dist.is_initialized():
            dist.destroy_process_group()
        results.put((rank, None, value))
    except BaseException:
        results.put((rank, traceback.format_exc(), None))


def run(function, size, *arguments, timeout=20, options=None, deadline=60, silent=()):
    """What the function returned, by rank. Ranks in `silent` may end without a word, by a signal."""
    os.environ['OMP_NUM_THREADS'] = '1'
    # Ranks are forked of a process that has imported what takes seconds, and made no thread. The last but one is what
    # optimizers would import with their first step.
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload(['torch', 'torch.distributed', 'torch.nn.parallel', 'banyan.torch',
                                    'torch._dynamo', 'pytest'])
    with tempfile.TemporaryDirectory() as folder:
        results = context.SimpleQueue()
        ranks = [context.Process(target=_rank, args=(function, rank, size, f'{folder}/store', timeout, options,
                                                     arguments, results, dict(os.environ))) for rank in range(size)]
        for process in ranks:
            process.start()
        try:
            end, said = time.monotonic() + deadline, {}
            while len(said) < size - len(silent):
                if not results.empty():
                    rank, error, value = results.get()
                    said[rank] = value
                    assert error is None, f'rank {rank}: {error}'
                assert time.monotonic() < end, f'ranks {set(range(size)) - set(said)} have not ended in {deadline} s'
                time.sleep(0.005)
            for rank, process in enumerate(ranks):
                process.join(max(0.1, end - time.monotonic()))
                assert rank in silent or process.exitcode == 0, f'rank {rank} ended with {process.exitcode}'
            return said
        finally:
            for process in ranks:
                if process.is_alive():
                    process.kill()
