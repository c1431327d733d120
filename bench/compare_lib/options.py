"""The command line of bench/compare: words in, a checked Options out."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import dataclasses
import pathlib
import re

from compare_lib.contenders import PAIRS, PATTERNS, PEERS

UNITS = {'': 0, 'K': 10, 'M': 20, 'G': 30}
SMALL = 8192  # bytes; OSU's border between many and few iterations
OSU = {True: (1000, 200), False: (100, 10)}  # small or not: iterations, warm-up
PLACES = ('--perf', '--before', '--peers', '--out')

EXAMPLES = """\
--iterations: N or N:WARMUP for every size, or xFACTOR of OSU's numbers (x0.1: a tenth of them).
--only: banyan takes part always.

Exit status: 0; 1 a failed run of Banyan or a wrong element; 2 a wrong command line; 77 nothing to
compare with.

Examples:
  bench/compare --collective allreduce --ranks 2 --sizes 4:256M --out results
  bench/compare --ranks 2 --sizes 1M:16M --apart --rounds 15
  bench/compare --collective broadcast --ranks 4 --transport tcp --rounds 3 --iterations x0.1
  bench/compare --before ../main-of-yesterday/build/bench/banyan_perf
"""


class Wrong(Exception):
    """A wrong command line; the text says what would be right."""


@dataclasses.dataclass(frozen=True)
class Options:
    collective: str
    ranks: int
    least: int
    most: int
    transport: str
    shared: bool
    fresh: bool
    rounds: int
    apart: bool
    iterations: str
    only: tuple
    perf: pathlib.Path | None
    before: pathlib.Path | None
    peers: pathlib.Path | None
    out: pathlib.Path | None
    timeout: float


def parse_size(text):
    found = re.fullmatch(r'(\d{1,15})([KMG]?)', text)
    if not found:
        raise Wrong(f'--sizes: "{text}" is no size; write a number, with K, M or G behind it if wanted')
    return int(found[1]) << UNITS[found[2]]


def parse_sizes(text):
    """(least, most) in bytes."""
    parts = text.split(':')
    if len(parts) > 2:
        raise Wrong(f'--sizes {text}: more than one colon; write MIN:MAX or one size, such as 4:64M')
    least, most = parse_size(parts[0]), parse_size(parts[-1])
    if least < 1:
        raise Wrong(f'--sizes {text}: MIN is at least 1')
    if least > most:
        raise Wrong(f'--sizes {text}: MIN is more than MAX')
    return least, most


def parse_iterations(text):
    """A function from "is the size small" to (iterations, warm-up); None: as OSU."""
    if not text:
        return None
    if factor := re.fullmatch(r'x(\d+(?:\.\d+)?)', text):
        if float(factor[1]) <= 0:
            raise Wrong(f'--iterations {text}: the factor must be more than 0')
        return lambda small: tuple(max(1, round(n * float(factor[1]))) for n in OSU[small])
    if (explicit := re.fullmatch(r'(\d+)(?::(\d+))?', text)) and int(explicit[1]) > 0:
        numbers = int(explicit[1]), int(explicit[2] or max(1, int(explicit[1]) // 10))
        return lambda small: numbers
    raise Wrong(f'--iterations {text}: write N, N:WARMUP or xFACTOR, such as 200:20 or x0.1')


def doubling(least, most):
    sizes = [least]
    while sizes[-1] * 2 <= most:
        sizes.append(sizes[-1] * 2)
    return sizes


def stages(segments_of_all, apart):
    """What is measured of all contenders before the next is: lists of segments."""
    if not apart:
        return [segments_of_all]
    return [[(size, size, numbers)] for least, most, numbers in segments_of_all for size in doubling(least, most)]


def segments(least, most, iterations):
    """[(least, most, (iterations, warm-up) or None)]: what one call of a program can be asked for."""
    if iterations is None:
        return [(least, most, None)]
    sizes = doubling(least, most)
    parts = [[size for size in sizes if (size <= SMALL) == small] for small in (True, False)]
    wanted = [iterations(True), iterations(False)]
    if wanted[0] == wanted[1]:
        return [(least, most, wanted[0])]
    return [(part[0], part[-1], numbers) for part, numbers in zip(parts, wanted) if part]


def one_of(option, value, valid):
    if value not in valid:
        raise Wrong(f'{option} {value}: valid are {" ".join(valid)}')
    return value


def number(option, text, least, most):
    if not re.fullmatch(r'\d{1,9}', text) or not least <= int(text) <= most:
        raise Wrong(f'{option} {text}: a whole number from {least} to {most}')
    return int(text)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Wrong(f'{message}; {self.prog} --help shows all options')


def parser():
    words = Parser(prog='bench/compare', description='Banyan beside the other libraries that are installed.',
                   formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLES, allow_abbrev=False)
    add = words.add_argument
    add('--collective', default='allreduce', metavar='NAME', help=f'{" ".join(PATTERNS)} (default: allreduce)')
    add('--ranks', default='2', metavar='N', help='ranks on this machine (default: 2)')
    add('--sizes', default='4:64M', metavar='MIN:MAX', help='message bytes, doubling; K M G (default: 4:64M)')
    add('--transport', default='shm', metavar='NAME', help='shm, or tcp on loopback (default: shm)')
    add('--shared', action='store_true', help="Banyan's buffers from banyan_mem_alloc; the others as they are")
    add('--fresh', action='store_true', help='all write their inputs anew before every call, not timed')
    add('--rounds', default='5', metavar='N', help='every round runs every contender once (default: 5)')
    add('--apart', action='store_true', help='a round goes from contender to contender at every size (default: all sizes of '
                                             'one in a row)')
    add('--iterations', default='', metavar='HOW', help="see below (default: as OSU)")
    add('--only', default='', metavar='LIST', help=f'of {",".join(PEERS)} (default: all that can run)')
    add('--perf', metavar='PATH', help='banyan_perf (default: build/bench/banyan_perf, or on PATH)')
    add('--before', metavar='PATH', help='the banyan_perf of an earlier build takes part, and peers only if --only names them')
    add('--peers', metavar='DIR', help='the programs of bench/peers (default: peers/ beside banyan_perf)')
    add('--out', metavar='DIR', help='write CSV, SVG and a table in Markdown there (default: only the table)')
    add('--timeout', default='300', metavar='SECONDS', help='that a contender may go without a new row (default: 300)')
    return words


def parse_only(text, collective):
    names = tuple(name for name in text.split(',') if name and name != 'banyan')
    for name in names:
        one_of('--only', name, PEERS)
    if names and all(collective not in PEERS[name].patterns for name in names):
        raise Wrong(f'--only {text}: none of these has {collective}')
    return names


def existing(option, text, what):
    if text is None:
        return None
    path = pathlib.Path(text)
    if what == 'file' and not path.is_file() or what == 'folder' and not path.is_dir():
        raise Wrong(f'{option} {text}: there is no such {what}')
    return path.resolve()


def folder(option, text):
    """One that exists or can be made; None: none is wanted."""
    path = pathlib.Path(text) if text is not None else None
    if path is not None and path.exists() and not path.is_dir():
        raise Wrong(f'{option} {path}: this is no folder')
    return path


def recorded(arguments):
    """Without what says where files are on this machine."""
    kept, words = [], iter(arguments)
    for word in words:
        if word in PLACES:
            next(words, None)
        elif word.partition('=')[0] not in PLACES:
            kept.append(word)
    return kept


def parse(arguments):
    given = parser().parse_args(arguments)
    collective = one_of('--collective', given.collective, PATTERNS)
    ranks = number('--ranks', given.ranks, 2, 1024)
    if collective in PAIRS and ranks != 2:
        raise Wrong(f'--ranks {ranks}: {collective} is between two ranks; give --ranks 2')
    least, most = parse_sizes(given.sizes)
    parse_iterations(given.iterations)
    transport = one_of('--transport', given.transport, ('shm', 'tcp'))
    return Options(
        collective=collective, ranks=ranks, least=least, most=most, transport=transport, shared=given.shared,
        fresh=given.fresh, rounds=number('--rounds', given.rounds, 1, 10000), apart=given.apart,
        iterations=given.iterations, only=parse_only(given.only, collective), perf=existing('--perf', given.perf, 'file'),
        before=existing('--before', given.before, 'file'),        peers=existing('--peers', given.peers, 'folder'), out=folder('--out', given.out),
        timeout=number('--timeout', given.timeout, 1, 86400))
