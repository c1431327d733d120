"""The default tables: the rows that lose least on what was measured, each of which must be worth it.

A table has rows `collective, values, bytes up to, ranks, algorithm`, of which the first that matches decides. Algorithms are chosen for
runs of sizes and of numbers of ranks, so that what all points lose to their fastest algorithm, as logarithms, and PENALTY for each row are
least together: by dynamic programming over the sizes, then over the numbers of ranks (as Bellman, "On the approximation of curves by line
segments using dynamic programming", 1961). Of algorithms that lose the same, the first of the library's list is taken.
"""
# SPDX-License-Identifier: Apache-2.0

import dataclasses
import graphlib
import itertools
import math

from compare_lib.figures import geometric_mean

TOLERANCE = 0.08  # less is the difference between two measurements, and no loss
PENALTY = 0.2  # a row must save that: 20 % on a point, or 7 % on three
GROWTH = 2  # rows of the largest size hold for so many times as large; those of the most ranks too, where several numbers were measured
SLOW = 2  # no row has what takes so many times as long
KEPT = 'kind,ranks,medium,bytes,hosts,algorithm=us ...'
KIB = 1024

# Names in C++: of the table of a medium, of values, of collectives.
TABLES = ('kMemoryRows', 'kSharedRows', 'kCrowdedRows', 'kNetworkRows', 'kLoopbackRows', 'kHostsRows', 'kTwoHostsRows')
MEDIA = {'memory': 'kMemoryRows', 'shared_cores': 'kSharedRows', 'crowded_cores': 'kCrowdedRows', 'loopback': 'kLoopbackRows'}
COLLECTIVES = ('allreduce', 'reduce_scatter', 'allgather', 'broadcast', 'reduce', 'alltoall', 'gather', 'scatter', 'barrier')


@dataclasses.dataclass(frozen=True)
class Point:
    """What was measured of one call: microseconds by algorithm."""
    table: str
    collective: str
    values: str
    ranks: int
    size: int  # in bytes, as rows have it
    hosts: str  # as in the lines
    times: dict

    def losses(self):
        least = min(self.times.values())
        return {algorithm: max(math.log(us / least) - TOLERANCE, 0.0) for algorithm, us in self.times.items()}


def table_of(medium, hosts):
    if medium != 'network':
        return MEDIA[medium]
    labels = hosts.split('.')
    if len(set(labels)) == len(labels):
        return 'kNetworkRows'
    return 'kTwoHostsRows' if len(set(labels)) == 2 else 'kHostsRows'


def kept(lines):
    """One line for each point, from lines of bench/select's CSV without its header. An algorithm has the geometric mean of the least, the
    median and the most that it took: one that is fast in most jobs and very slow in some is no good choice. What takes more than SLOW
    times as long as the fastest is left out."""
    points = {}
    for words in (line.split(',') for line in lines.splitlines()):
        point = ','.join([*words[:4], words[8] if len(words) > 8 else ''])
        points.setdefault(point, {})[words[4]] = geometric_mean([float(word) for word in words[5:8]])
    text = ''
    for point, times in points.items():
        most = SLOW * min(times.values())
        text += f'{point},{" ".join(f"{algorithm}={us:.4g}" for algorithm, us in times.items() if us <= most)}\n'
    return text


def expanded(lines):
    """Lines of bench/select's CSV, from what kept() made of them."""
    text = ''
    for point, _, times in (line.rpartition(',') for line in lines.splitlines() if not line.startswith('#') and line != KEPT):
        *words, hosts = point.split(',')
        for algorithm, us in (word.split('=') for word in times.split()):
            text += ','.join([*words, algorithm, us, us, us, hosts]) + '\n'
    return text


def points_of(lines, where):
    """Points of lines as kept() writes them; ValueError names the line."""
    for number, line in enumerate(lines.splitlines(), 1):
        if line.startswith('#') or line == KEPT:
            continue
        try:
            kind, ranks, medium, size, hosts, times = line.split(',')
            collective, _, narrow = kind.partition(':')
            ranks, size = int(ranks), int(size)
            by_algorithm = {name: float(us) for name, us in (word.split('=') for word in times.split())}
            if collective not in COLLECTIVES or not by_algorithm or min(by_algorithm.values()) <= 0:
                raise ValueError(f'{collective}: no collective of the tables, or no times')
            yield Point(table_of(medium, hosts), collective, 'kNarrow' if narrow else 'kAny', ranks,
                        size * ranks if collective == 'allgather' else size, hosts, by_algorithm)
        except (ValueError, KeyError) as error:
            raise ValueError(f'{where}, line {number}: {error}; right is {KEPT}') from error


def merged(points):
    """The same points, each once: of what was measured several times, the geometric means."""
    groups = {}
    for point in points:
        groups.setdefault((point.table, point.collective, point.values, point.ranks, point.size, point.hosts), []).append(point)
    for same in groups.values():
        common = [name for name in same[0].times if all(name in point.times for point in same)]
        yield dataclasses.replace(same[0], times={name: geometric_mean([point.times[name] for point in same]) for name in common})


def in_order(points):
    """All algorithms of the points, in the order of the library's list, which those of each point have."""
    order = graphlib.TopologicalSorter()
    for point in points:
        order.add(next(iter(point.times)))
        for before, after in itertools.pairwise(point.times):
            order.add(after, before)
    return list(order.static_order())


def losses_by_size(points):
    """[(size, {algorithm: what the points of that size lose together})], of algorithms that all of them have."""
    sizes = {}
    for point in sorted(points, key=lambda point: point.size):
        losses = point.losses()
        known = sizes.get(point.size)
        sizes[point.size] = losses if known is None else {name: known[name] + loss for name, loss in losses.items() if name in known}
    return list(sizes.items())


def runs(points):
    """The cheapest runs of sizes: (cost, [(size of the last point, algorithm), ...]); an infinite cost where there are none."""
    sizes = losses_by_size(points)
    names = in_order(points)
    best = [(0.0, [])]  # of the sizes before an index
    for end, (size, _) in enumerate(sizes, 1):
        cheapest = (math.inf, [])
        for algorithm in names:
            cost = PENALTY
            for begin in range(end - 1, -1, -1):
                cost += sizes[begin][1].get(algorithm, math.inf)
                if best[begin][0] + cost < cheapest[0]:
                    cheapest = best[begin][0] + cost, [*best[begin][1], (size, algorithm)]
        best.append(cheapest)
    return best[-1]


def segments(points):
    """The cheapest parts of numbers of ranks: (cost, [(ranks least, most, runs), ...])."""
    ranks = sorted({point.ranks for point in points})
    best = [(0.0, [])]
    for end, most in enumerate(ranks, 1):
        candidates = []
        for begin in range(end):
            cost, chosen = runs([point for point in points if ranks[begin] <= point.ranks <= most])
            least = 0 if begin == 0 else ranks[begin - 1] + 1
            reach = GROWTH * most if end == len(ranks) > 1 else most
            candidates.append((best[begin][0] + cost, [*best[begin][1], (least, reach, chosen)]))
        best.append(min(candidates, key=lambda candidate: candidate[0]))
    return best[-1]


def bound(size, last):
    if size == 0:  # a barrier's
        return 'kAnySize'
    size *= GROWTH if last else 1
    if size % KIB ** 2 == 0:
        return f'{size // KIB ** 2} * kMiB'
    return f'{size // KIB} * kKiB' if size % KIB == 0 else str(size)


def rows_of(points):
    """Lines of C++ for the points of one table."""
    for collective in COLLECTIVES:
        mine = [point for point in points if point.collective == collective]
        if not mine:
            continue
        chosen = {values: segments([point for point in mine if point.values == values])
                  for values in ('kNarrow', 'kAny') if any(point.values == values for point in mine)}
        together = segments(mine)
        if together[0] <= sum(cost for cost, _ in chosen.values()):
            chosen = {'kAny': together}
        name = 'k' + ''.join(word.capitalize() for word in collective.split('_'))
        for values, (_, parts) in chosen.items():
            for least, most, sizes in parts:
                for number, (size, algorithm) in enumerate(sizes, 1):
                    yield f'    {{{name}, {values}, {bound(size, number == len(sizes))}, {least}, {most}, "{algorithm}"}},'


def table(texts):
    """The file that algorithms/choice/default_table.cc includes; texts are kept lines, by name."""
    points = list(merged(point for name, text in texts.items() for point in points_of(text, name)))
    lines = ['// bench/select --table writes these rows, from what was measured: bench/defaults.',
             '// collective, values, bytes up to, ranks from, to, algorithm',
             '// SPDX-License-Identifier: Apache-2.0', '', '// clang-format off']
    for name in TABLES:
        rows = list(rows_of([point for point in points if point.table == name]))
        if not rows:
            raise ValueError(f'{name}: nothing was measured')
        lines += [f'constexpr TableRow {name}[] = {{', *rows, '};', '']
    return '\n'.join([*lines[:-1], '// clang-format on']) + '\n'
