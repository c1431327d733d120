#!/usr/bin/env python3
"""The default tables are what bench/select makes of the kept measurements, and calls get what they say.

usage: default_tables_test.py CHOICES     the program of bench/choices
"""
# SPDX-License-Identifier: Apache-2.0

import itertools
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / 'bench'))
from compare_lib import defaults  # noqa: E402  (found by the line above)

KEPT = sorted((TOP / 'bench' / 'defaults').glob('*.txt'))
ROWS = TOP / 'algorithms' / 'choice' / 'measured_rows.inc'
CHOICES = None


def points(*lines):
    return list(defaults.points_of('\n'.join(lines), 'here'))


def rows(*lines):
    """(values, bytes up to, ranks from, to, algorithm) of each row."""
    found = [re.fullmatch(r' *\{k\w+, k(\w+), (.*), (\d+), (\d+), "(\w+)"\},', row).groups() for row in defaults.rows_of(points(*lines))]
    return [(values, size, int(least), int(most), algorithm) for values, size, least, most, algorithm in found]


class Rows(unittest.TestCase):
    def test_the_fastest_of_a_point_has_a_row(self):
        self.assertEqual(rows('allreduce,2,memory,4,,ring=2 direct=1'), [('Any', '8', 0, 2, 'direct')])
        self.assertEqual(rows('barrier,2,memory,0,,ring=2 direct=1'), [('Any', 'kAnySize', 0, 2, 'direct')])

    def test_sizes_have_runs(self):
        self.assertEqual(rows('broadcast,2,memory,4,,ring=2 direct=1', 'broadcast,2,memory,2048,,ring=3 direct=1',
                              'broadcast,2,memory,4096,,ring=1 direct=2'),
                         [('Any', '2 * kKiB', 0, 2, 'direct'), ('Any', '8 * kKiB', 0, 2, 'ring')])

    def test_a_row_must_be_worth_it(self):
        lines = [f'reduce,2,memory,{size},,ring=1 direct=2' for size in (4, 64)]
        self.assertEqual(len(rows(*lines, 'reduce,2,memory,1024,,ring=1.3 direct=1')), 1)
        self.assertEqual(len(rows(*lines, 'reduce,2,memory,1024,,ring=1.4 direct=1')), 2)

    def test_of_two_that_are_alike_the_first_of_the_list_has_the_row(self):
        for times, algorithm in ('ring=1.05 direct=1', 'ring'), ('direct=1.05 ring=1', 'direct'), ('ring=1.2 direct=1', 'direct'):
            self.assertEqual(rows(f'reduce,2,memory,4,,{times}')[0][4], algorithm)

    def test_numbers_of_ranks_share_rows_where_they_can(self):
        same = [f'reduce,{ranks},crowded_cores,4,,star=1 direct=2' for ranks in (5, 8)]
        self.assertEqual(rows(*same), [('Any', '8', 0, 16, 'star')])
        other = 'reduce,16,crowded_cores,4,,star=3 direct=2'
        self.assertEqual(rows(*same, other), [('Any', '8', 0, 8, 'star'), ('Any', '8', 9, 32, 'direct')])

    def test_narrow_types_have_rows_of_their_own_where_it_pays(self):
        exact = 'allreduce,2,memory,4,,ring=1 direct=2'
        self.assertEqual(rows(exact, 'allreduce:float16,2,memory,4,,ring=1.2 direct=1'), [('Any', '8', 0, 2, 'ring')])
        self.assertEqual(rows(exact, 'allreduce:float16,2,memory,4,,ring=2 direct=1'),
                         [('Narrow', '8', 0, 2, 'direct'), ('Any', '8', 0, 2, 'ring')])

    def test_an_allgather_goes_by_the_whole_result(self):
        lines = ['allgather,3,shared_cores,1024,,ring=2 direct=1', 'allgather,3,shared_cores,2048,,ring=1 direct=2']
        self.assertEqual(rows(*lines)[0][1], '3 * kKiB')

    def test_hosts_have_tables_of_their_own(self):
        tables = [defaults.table_of('network', hosts) for hosts in ('0.1', '0.0.2', '0.0.2.3', '0.1.2')]
        self.assertEqual(tables, ['kNetworkRows', 'kTwoHostsRows', 'kHostsRows', 'kNetworkRows'])

    def test_what_was_measured_twice_counts_once(self):
        twice = list(defaults.merged(points('reduce,2,memory,4,,ring=1 direct=4', 'reduce,2,memory,4,,ring=4 direct=1 star=1')))
        self.assertEqual([point.times for point in twice], [{'ring': 2.0, 'direct': 2.0}])

    def test_no_rows_are_cheaper(self):
        """Of all ways to give the sizes algorithms, by trying them."""
        generator = random.Random(3)
        for _ in range(200):
            times = [[generator.choice((1, 1.05, 1.1, 1.3, 2)) for _ in 'abc'] for _ in range(4)]
            made = points(*(f'reduce,2,memory,{4 << size},,a={row[0]} b={row[1]} c={row[2]}' for size, row in enumerate(times)))
            cost = min(sum(max(math.log(row[each] / min(row)) - defaults.TOLERANCE, 0) for row, each in zip(times, way))
                       + defaults.PENALTY * sum(1 for _ in itertools.groupby(way)) for way in itertools.product(range(3), repeat=4))
            self.assertAlmostEqual(defaults.runs(made)[0], cost)

    def test_what_is_wrong_is_named(self):
        for line in ('allreduce,2,memory,4,direct=1', 'allreduce,2,tape,4,,direct=1', 'allreduce,2,memory,4,,direct=0',
                     'allreduce,2,memory,4,,', 'send,2,memory,4,,direct=1', 'allreduce,2,memory,four,,direct=1'):
            with self.assertRaisesRegex(ValueError, 'here, line 2: .*right is kind,ranks'):
                points('# a remark', line)
        with self.assertRaisesRegex(ValueError, 'kSharedRows: nothing was measured'):
            defaults.table({'here': 'allreduce,2,memory,4,,direct=1'})

    def test_kept_lines_lose_nothing_that_counts(self):
        csv = 'allreduce,2,memory,4,ring,2,1,4,\nallreduce,2,memory,4,star,4.1,4.1,4.1,\nallreduce,2,memory,4,direct,2,2,3.375,\nbarrier,4,network,0,star,3,3,3,0.0.2.2\n'
        kept = defaults.kept(csv)
        self.assertEqual(kept, 'allreduce,2,memory,4,,ring=2 direct=2.381\nbarrier,4,network,0,0.0.2.2,star=3\n')
        self.assertEqual(defaults.kept(defaults.expanded(f'# a remark\n{defaults.KEPT}\n{kept}')), kept)


def select(*words):
    build = pathlib.Path(CHOICES).parents[1]
    command = [sys.executable, '-B', str(TOP / 'bench' / 'select'), '--build', str(build), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Program(unittest.TestCase):
    def test_what_is_kept_says_no_more_than_is_known(self):
        with tempfile.TemporaryDirectory() as folder:
            csv, kept = pathlib.Path(folder) / 'measured.csv', pathlib.Path(folder) / 'kept.txt'
            csv.write_text('collective,ranks,medium,bytes,algorithm,us,least_us,most_us,hosts\n'
                           'allreduce,2,memory,64,ring,2,2,2,\n', encoding='utf-8')
            for words, rounds in ((), None), (('--rounds', '5'), '5 rounds'):
                kept.unlink(missing_ok=True)
                shown = select('--from', str(csv), '--keep', str(kept), *words)
                self.assertEqual(shown.returncode, 0, shown.stderr)
                head, names, point = kept.read_text(encoding='utf-8').splitlines()
                self.assertEqual((names, point), (defaults.KEPT, 'allreduce,2,memory,64,,ring=2'))
                self.assertEqual(head.endswith(' rounds'), rounds is not None, head)
                self.assertTrue(rounds is None or head.endswith(rounds), head)
            shown = select('--from', str(kept))
            self.assertRegex(shown.stdout, r'all +1 ', shown.stderr)

    def test_a_table_names_the_file_and_line_that_are_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'kept.txt'
            path.write_text('nonsense\n', encoding='utf-8')
            shown = select('--table', str(path))
            self.assertEqual((shown.returncode, shown.stdout), (1, ''))
            self.assertIn(f'{path}, line 1: ', shown.stderr)
        self.assertIn('No such file', select('--table', str(path)).stderr)
        self.assertIn("invalid at_least_one value: '0'", select('--rounds', '0').stderr)


class Committed(unittest.TestCase):
    def test_rows_are_those_of_the_kept_measurements(self):
        self.assertNotEqual(KEPT, [])
        made = defaults.table({path.name: path.read_text(encoding='utf-8') for path in KEPT})
        self.assertEqual(ROWS.read_text(encoding='utf-8'), made,
                         'make it anew: bench/select --table bench/defaults/*.txt > algorithms/choice/measured_rows.inc')

    def test_calls_get_what_the_rows_say(self):
        text = ''.join(path.read_text(encoding='utf-8') for path in KEPT)
        judged = subprocess.run([CHOICES, 'judge'], input=defaults.expanded(text), capture_output=True, text=True, check=True).stdout
        said = {}
        for line in ROWS.read_text(encoding='utf-8').splitlines():
            if line.startswith('constexpr'):
                table = said.setdefault(line.split()[2].rstrip('[]'), [])
            elif line.startswith('    {'):
                collective, values, size, least, most, algorithm = line.strip(' {},').split(', ')
                table.append((collective, values, row_size(size), int(least), int(most), algorithm.strip('"')))
        measured = list(defaults.points_of(text, 'kept'))
        self.assertEqual(len(measured), len(judged.splitlines()))
        for point, words in zip(measured, (line.split(',') for line in judged.splitlines())):
            name = 'k' + point.collective.title().replace('_', '')
            expected = next(row[5] for row in said[point.table] if row[0] == name and row[1] in ('kAny', point.values)
                            and point.size <= row[2] and row[3] <= point.ranks <= row[4])
            self.assertEqual(words[6], expected, f'{point.table}, {point.ranks} ranks: {",".join(words)}')


def row_size(text):
    if text == 'kAnySize':
        return math.inf
    number, _, unit = text.partition(' * ')
    return int(number) * {'': 1, 'kKiB': 1 << 10, 'kMiB': 1 << 20}[unit]


if __name__ == '__main__':
    CHOICES = sys.argv.pop()
    unittest.main()
