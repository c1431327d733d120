"""Who takes part, and with which command: the best settings each has, and for Banyan none."""
# SPDX-License-Identifier: Apache-2.0

import dataclasses

PAIRS = ('latency', 'bw')
PATTERNS = ('allreduce', 'allgather', 'reduce_scatter', 'broadcast', 'alltoall', 'barrier', *PAIRS)
# What anyone may have set for one library would tune it for one side only.
PREFIXES = ('BANYAN_', 'UCX_', 'UCC_', 'FI_', 'OMPI_', 'PMIX_MCA_', 'PRTE_MCA_', 'MPIR_', 'MPICH_', 'MPIEXEC_', 'HYDRA_',
            'GLOO_')
# Banyan sets UCX's TLS itself; on lo that leaves TCP.
BANYAN_TCP = {'BANYAN_NET_DEVICES': 'lo'}
TCP = {'UCX_TLS': 'tcp,self', 'UCX_NET_DEVICES': 'lo'}
STORE = '{store}'  # stands for a new empty folder


@dataclasses.dataclass(frozen=True)
class Peer:
    program: str         # in the folder of --peers
    launcher: str        # '': none, bench/compare starts the ranks
    flavour: str         # of one program: the message layer or the algorithm
    title: str           # in a table to be read
    patterns: tuple = PATTERNS


@dataclasses.dataclass(frozen=True)
class Case:
    """What all contenders are asked for alike, and where they are to run."""
    collective: str
    ranks: int
    cores: tuple         # this process may use
    transport: str = 'shm'
    shared: bool = False
    fresh: bool = False

    @property
    def crowded(self):
        return self.ranks > len(self.cores)


@dataclasses.dataclass(frozen=True)
class Process:
    command: tuple
    environment: dict
    core: int | None = None  # None: pins itself, or is not pinned


GLOO_OTHERS = ('allgather', 'reduce_scatter', 'broadcast', 'alltoall', 'barrier')
PEERS = {
    'ompi-ob1': Peer('mpi_perf_openmpi', 'mpirun.openmpi', 'ob1', 'Open MPI ob1'),
    'ompi-ucx': Peer('mpi_perf_openmpi', 'mpirun.openmpi', 'ucx', 'Open MPI UCX'),
    'mpich': Peer('mpi_perf_mpich', 'mpirun.mpich', '', 'MPICH'),
    'gloo': Peer('gloo_perf', '', 'default', 'gloo', GLOO_OTHERS),
    'gloo-ring': Peer('gloo_perf', '', 'ring', 'gloo ring', ('allreduce',)),
    'gloo-hd': Peer('gloo_perf', '', 'hd', 'gloo halving-doubling', ('allreduce',)),
    'gloo-bcube': Peer('gloo_perf', '', 'bcube', 'gloo bcube', ('allreduce',)),
}


def clean(environment):
    return {name: value for name, value in environment.items() if not name.startswith(PREFIXES)}


def sweep(case, segment):
    """The options that banyan_perf and the peers' programs have in common."""
    least, most, numbers = segment
    words = [case.collective, '-m', f'{least}:{most}']
    if numbers:
        words += ['-i', str(numbers[0]), '-x', str(numbers[1])]
    return words + (['--fresh'] if case.fresh else [])


def banyan(perf, case, segment, environment):
    words = [str(perf), *sweep(case, segment), '-n', str(case.ranks)]
    if case.shared:
        words.append('--shared')
    if case.collective == 'broadcast':
        words.append('-l')  # the others' root has one buffer, too
    if case.collective != 'barrier':
        words.append('-c')  # every size, before and after it is timed; the peers' programs do so always
    if not case.crowded:
        words.append('--bind')
    if case.transport == 'tcp':
        words += ['--transports', 'ucx']
    return Process((*words, '--csv', '-'), environment | (BANYAN_TCP if case.transport == 'tcp' else {}))


def openmpi(launcher, layer, case):
    words = [launcher, '-n', str(case.ranks)]
    if case.crowded:
        words += ['--bind-to', 'core:overload-allowed', '--oversubscribe', '--mca', 'mpi_yield_when_idle', '1']
    else:
        words += ['--bind-to', 'core']
    words += ['--mca', 'pml', layer]
    if layer == 'ucx':  # without the other two Debian's refuses itself over shared memory
        words += ['--mca', 'pml_ucx_tls', 'any', '--mca', 'pml_ucx_devices', 'any']
    if case.transport == 'tcp':
        words += (['--mca', 'btl', 'tcp,self', '--mca', 'btl_tcp_if_include', 'lo'] if layer == 'ob1' else
                  [word for name, value in TCP.items() for word in ('-x', f'{name}={value}')])
    return words, {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}


def mpich(launcher, case):
    # Several ranks a core: nothing that it has helps; MPIR_CVAR_POLLS_BEFORE_YIELD changes no figure.
    more = TCP | {'MPIR_CVAR_NOLOCAL': '1'} if case.transport == 'tcp' else {}  # each rank a host of its own
    return [launcher, '-n', str(case.ranks), '-bind-to', 'core'], more


def peer_processes(name, program, launcher, case, segment, environment):
    """The processes to start for one sweep: a launcher, or every rank. The first one prints the rows."""
    flavour = PEERS[name].flavour
    asked = sweep(case, segment)
    if PEERS[name].program == 'gloo_perf':
        return [Process((str(program), str(rank), str(case.ranks), STORE, flavour, *asked), environment,
                        case.cores[rank % len(case.cores)]) for rank in range(case.ranks)]
    words, more = mpich(launcher, case) if name == 'mpich' else openmpi(launcher, flavour, case)
    return [Process((*words, str(program), *asked), environment | more)]


def why_not(name, program, launcher, case):
    """Why this peer takes no part; None: it does. `launcher` is None where it is not installed."""
    peer = PEERS[name]
    if case.collective not in peer.patterns:
        return f'has no {case.collective}'
    if not program.is_file():
        return f'no {program.name} (not installed when Banyan was built?)'
    if peer.launcher and launcher is None:
        return f'no {peer.launcher} on PATH'
    return None
