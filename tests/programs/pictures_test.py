#!/usr/bin/env python3
"""Pictures of machines, of schedules and those of docs/ can be read: nothing on anything else, nothing beyond its box.

usage: pictures_test.py [BANYAN_INFO]     without it those of docs/ only
"""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import picture_check
import picture_machines

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDEST = 1600
INFO = None


def drawn(*words):
    done = subprocess.run([INFO, *words, '--svg'], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise AssertionError(f'{words}: {done.stderr}')
    return done.stdout


class Case(unittest.TestCase):
    maxDiff = None

    def check_picture(self, text, widest=WIDEST):
        drawing = picture_check.read(text)
        self.assertEqual(list(picture_check.problems_of(drawing, widest))[:20], [])
        return drawing


class Judge(unittest.TestCase):
    """The test itself finds what it is for."""

    def problems(self, body, widest=400):
        text = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 200">{body}</svg>'
        return list(picture_check.problems_of(picture_check.read(text), widest))

    def test_faults_are_found(self):
        box = '<rect x="10" y="10" width="80" height="40"/>'
        words = '<text x="14" y="30" font-size="10">words</text>'
        self.assertEqual(self.problems(box + words), [])
        self.assertEqual(self.problems(box + words + '<line x1="14" y1="45" x2="80" y2="45"/>'), [])
        for fault in (box + '<text x="14" y="30" font-size="10">more words than fit</text>', words + words,
                      box + '<rect x="50" y="30" width="80" height="40"/>', words + '<line x1="0" y1="26" x2="99" y2="26"/>',
                      box + '<line x1="0" y1="30" x2="99" y2="30"/>', box + '<polyline points="0,0 50,20 99,0"/>',
                      box + '<line x1="50" y1="60" x2="50" y2="10"/>', '<text x="1" y="50" font-size="8">w</text>',
                      '<text x="390" y="50" font-size="10">words</text>', '<g font-size="90" font-weight="bold"><text y="80">more words</text></g>',
                      '<text font-size="10" transform="translate(5 20) rotate(-90)">longer</text>'):
            self.assertNotEqual(self.problems(fault), [], fault)
        self.assertNotEqual(self.problems(box, 300), [])


class Machines(Case):
    def setUp(self):
        if INFO is None:
            self.skipTest('no banyan_info was given')

    def check_machine(self, given):
        with tempfile.NamedTemporaryFile() as file:
            file.write(given if isinstance(given, bytes) else json.dumps(given).encode())
            file.flush()
            drawing = self.check_picture(drawn('--topo', '--from', file.name))
        self.assertGreaterEqual(drawing.texts[0][1], 16)
        self.assertTrue(drawing.texts[0][2], 'the title comes first')
        return drawing

    def test_made_up_machines(self):
        for name, machine in picture_machines.machines().items():
            with self.subTest(name):
                self.check_machine(machine)

    def test_a_device_is_drawn_or_counted(self):
        drawing = self.check_machine(picture_machines.machines()['mesh of 8'])
        for i in range(8):
            self.assertIn(f'gpu{i}', drawing.words())
            self.assertIn(f'mlx5_{i}', drawing.words())
        self.assertIn('xGMI: each of 8 GPUs to each other, ~48 GB/s a pair', drawing.words())
        self.assertLess(len(drawing.lines), 60)
        many = ' '.join(self.check_machine(picture_machines.machines()['64 GPUs']).words())
        self.assertIn('4 x gpu0 ... gpu3', many)

    def test_a_cluster_is_drawn_as_one(self):
        words = self.check_machine(picture_machines.machines()['16 alike']).words()
        self.assertTrue({f'node-{i}' for i in range(16)} <= set(words))
        self.assertIn('each of 16 nodes: node-0 ... node-15', words)
        self.assertEqual(words.count('gpu0'), 1)
        words = self.check_machine(picture_machines.machines()['three tiers']).words()
        self.assertIn('6 x 32 nodes', words)
        self.assertIn('4 x 8 nodes', words)
        self.assertIn('4 switches of tier 3', words)

    def test_real_machines(self):
        folder = os.environ.get('BANYAN_TEST_TOPOLOGIES')
        if not folder:
            self.skipTest('BANYAN_TEST_TOPOLOGIES names no folder of descriptions')
        for path in sorted(pathlib.Path(folder).iterdir()):
            if path.name == 'SOURCES':
                continue
            with self.subTest(path.name):
                given = path.read_bytes()
                if path.suffix == '.gz':
                    given = subprocess.run(['gzip', '-dc'], input=given, stdout=subprocess.PIPE, check=True).stdout
                self.check_machine(given)


class Schedules(Case):
    def setUp(self):
        if INFO is None:
            self.skipTest('no banyan_info was given')

    def test_schedules(self):
        for ranks in ('1', '2', '5', '8', '5:3', '4x2', '1+2+3'):
            for name in ('allreduce:ring', 'allreduce:direct', 'allreduce:recursive_doubling', 'allreduce:double_tree',
                         'allreduce:hierarchical', 'allreduce:ring(seg=64)', 'broadcast:binomial', 'alltoall:bruck', 'allgather:circulant',
                         'barrier:dissemination'):
                with self.subTest(f'{name}:{ranks}'):
                    drawing = self.check_picture(drawn('--schedule', f'{name}:{ranks}'), 3200)
                    self.assertTrue(drawing.words()[0].startswith(name.partition(':')[0] + ', '))
                    self.assertEqual(drawing.words()[-1], 'waits for the step above')

    def test_the_largest_are_readable_and_larger_ones_refused(self):
        self.check_picture(drawn('--schedule', 'broadcast:binomial:16'), 5000)
        for schedule, reason in (('allreduce:ring:17', 'right are at most 16'), ('allreduce:ring:1000:0', 'right are at most 1000')):
            done = subprocess.run([INFO, '--schedule', schedule, '--svg'], capture_output=True, text=True, check=False, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, '')
            self.assertIn(reason, done.stderr)


class Documents(Case):
    def test_pictures_of_the_documents(self):
        pictures = sorted((ROOT / 'docs').rglob('*.svg'))
        self.assertGreater(len(pictures), 10)
        for path in pictures:
            with self.subTest(path.name):
                drawing = self.check_picture(path.read_bytes())
                if path.name.startswith(('select-', 'all', 'broadcast')):
                    self.assertEqual(len(drawing.strokes), len(set(drawing.strokes)), 'two curves look the same')


if __name__ == '__main__':
    if len(sys.argv) > 1 and not sys.argv[1].startswith('-'):
        INFO = sys.argv.pop(1)
    unittest.main()
