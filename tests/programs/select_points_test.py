#!/usr/bin/env python3
"""bench/select and choices: what choices lose, on one host and on several, by rows that were made up.

usage: select_points_test.py CHOICES     the program of bench/choices
"""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SELECT = pathlib.Path(__file__).resolve().parents[2] / 'bench' / 'select'
CHOICES = None
HEADER = 'collective,ranks,medium,bytes,algorithm,us,least_us,most_us,hosts\n'
HOSTS = '0.0.2.2'
# A reduce_scatter goes by levels between hosts, an allreduce of two ranks in memory by recursive doubling.
CLUSTER = [f'reduce_scatter,4,network,1024,{name},{us},{us},{us},{HOSTS}'
           for name, us in (('direct', 50), ('circulant', 40), ('hierarchical', 44))]
MEMORY = [f'allreduce,2,memory,16384,{name},{us},{us},{us},' for name, us in (('recursive_doubling', 10), ('ring', 8))]
LINK = {'where': 'between', 'latency_us': 20, 'busy_latency_us': 20, 'message_us': 1, 'GBps': 0.1, 'busy_GBps': 0.05,
        'pairs': 2, 'spread': 0}


def judge(rows, *files):
    return subprocess.run([CHOICES, 'judge', *files], input='\n'.join(rows), capture_output=True, text=True, check=False)


class Judge(unittest.TestCase):
    def test_choices_go_by_hosts(self):
        judged = judge(CLUSTER)
        self.assertEqual(judged.returncode, 0, judged.stderr)
        self.assertEqual(judged.stdout, 'reduce_scatter,4,network,1024,circulant,40.000,hierarchical,44.000,-,nan,'
                                        'hierarchical,44.000\n')

    def test_rows_without_hosts_are_those_of_before(self):
        judged = judge([row.rstrip(',') for row in MEMORY])
        self.assertRegex(judged.stdout, r'^allreduce,2,memory,16384,ring,8\.000,recursive_doubling,10\.000,\w+,[\d.]+,')

    def test_what_is_wrong_with_hosts_is_named(self):
        for hosts, said in (('', 'line 1: '), ('0.0', 'line 1: hosts of 2 ranks; right are 4'), ('0.0.2.4', 'line 1: ')):
            judged = judge([CLUSTER[0].replace(HOSTS, hosts)])
            self.assertEqual(judged.returncode, 2, hosts)
            self.assertIn(said, judged.stderr)

    def test_measured_links_and_rules_of_a_file_choose(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'tune.json'
            path.write_text(json.dumps({
                'schema': 1, 'links': [LINK], 'rules': [{'rule': 'reduce_scatter nodes=2-2: direct'}],
                'fingerprint': {'cpu': '', 'cores': 1, 'ranks': 4, 'hosts': 2, 'transports': 'ucx'}}), encoding='utf-8')
            fields = judge(CLUSTER, str(path)).stdout.strip().split(',')
        self.assertEqual(fields[6], 'hierarchical')
        self.assertIn(fields[8], ('direct', 'circulant', 'hierarchical'))
        self.assertEqual(fields[10:], ['direct', '50.000'])


class Select(unittest.TestCase):
    def test_medians_of_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            build, kept = pathlib.Path(folder), pathlib.Path(folder) / 'kept.csv'
            program = build / 'bench' / 'choices'
            program.parent.mkdir()
            # Takes 1, 9 and 2 us, by the number of the algorithm that is to begin.
            program.write_text('#!/bin/sh\n[ "$1" = judge ] && exec "$CHOICES" "$@"\nset -- $5 1 9 2\nshift $(($1 + 1))\n'
                               'echo "allreduce,2,memory,64,ring,$1,"\necho "allreduce,2,memory,64,recursive_doubling,7.5,"\n',
                               encoding='utf-8')
            program.chmod(0o755)
            shown = subprocess.run([sys.executable, '-B', str(SELECT), '--build', str(build), '--ranks', '2', '--rounds', '3', '--csv',
                                    str(kept)], capture_output=True, text=True, check=False, env=os.environ | {'CHOICES': CHOICES})
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertEqual(kept.read_text(encoding='utf-8'), HEADER + 'allreduce,2,memory,64,ring,2.000,1.000,9.000,\n'
                             'allreduce,2,memory,64,recursive_doubling,7.500,7.500,7.500,\n')

    def test_points_of_both_kinds_make_one_table(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'points.csv'
            path.write_text(HEADER + '\n'.join(CLUSTER + MEMORY) + '\n', encoding='utf-8')
            build = pathlib.Path(CHOICES).parents[1]
            shown = subprocess.run([sys.executable, '-B', str(SELECT), '--build', str(build), '--from', str(path), '--worst', '2'],
                                   capture_output=True, text=True, check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        lines = {line[:28].strip(): line[28:].split() for line in shown.stdout.splitlines()}
        self.assertEqual(lines['reduce_scatter, 4 ranks'][:5], ['1', '0.0', '100.0', '10.0', '10'])
        self.assertEqual(lines['reduce_scatter, 4 ranks'][5:], ['-'])
        self.assertEqual(lines['all'][:5], ['2', '0.0', '50.0', '17.5', '25'])


if __name__ == '__main__':
    CHOICES = sys.argv.pop()
    unittest.main()
