#!/usr/bin/env python3
"""The two training examples: what they learn, go on with after an end, report, and refuse.

usage: training_test.py TRAIN_MNIST TRAIN_SYNTHETIC
"""
# SPDX-License-Identifier: Apache-2.0

import importlib.machinery
import importlib.util
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

sys.dont_write_bytecode = True
MNIST, SYNTHETIC = sys.argv[1:3]
LIMIT_S = 100
CLASSES, SIDE = 10, 8


BENCH = pathlib.Path(__file__).resolve().parents[2] / 'bench'


def load(name):
    sys.path.insert(0, str(BENCH))
    loader = importlib.machinery.SourceFileLoader(name, str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


training_table = load('training_table')


def run(*command, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith('BANYAN_')}
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          env={**environment, **variables})


def write_images(folder, name, count, chance):
    """Images of a class have bright pixels at places of its own, and others here and there."""
    labels = bytes(chance.randrange(CLASSES) for _ in range(count))
    images = bytearray()
    for label in labels:
        image = bytearray(SIDE * SIDE)
        for place in range(5):
            image[label * 6 + place] = 255
        for _ in range(6):
            image[chance.randrange(len(image))] = 255
        images += image
    (folder / f'{name}-images-idx3-ubyte').write_bytes(struct.pack('>4I', 0x803, count, SIDE, SIDE) + images)
    (folder / f'{name}-labels-idx1-ubyte').write_bytes(struct.pack('>2I', 0x801, count) + labels)


class Mnist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        chance = random.Random(1)
        write_images(cls.folder, 'train', 2048, chance)
        write_images(cls.folder, 't10k', 512, chance)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def train(self, ranks, *options, epochs=4, hidden=96, **variables):
        """With a first layer that is large enough for a codec."""
        return run(MNIST, '-n', str(ranks), '--data', self.folder, '--epochs', str(epochs), '--hidden', str(hidden),
                   '--batch', '16', *options, **variables)

    def trained(self, ranks, *options, **variables):
        done = self.train(ranks, *options, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def number(self, before, text):
        found = re.search(before + r' *([0-9.]+)', text)
        self.assertTrue(found, f'{before} in {text}')
        return float(found[1])

    def checksum(self, text):
        return re.search(r'identical on all ranks, checksum ([0-9a-f]{16})$', text, re.MULTILINE)[1]

    def test_it_learns_by_every_kind_of_codec(self):
        exact = self.number('bytes sent per step', self.trained(3, '--compress', 'off', '--least-accuracy', '95'))
        for options in (('int8',), ('int4',), ('threshold:0.003',),
                        ('topk:0.05', '--momentum-correction', '--warmup-steps', '20', '--clip-norm', '5')):
            text = self.trained(3, '--compress', *options, '--least-accuracy', '90')
            self.assertLess(self.number('bytes sent per step', text), exact, options)

    def test_the_variable_decides_where_the_option_does_not(self):
        exact = self.number('bytes sent per step', self.trained(2))
        short = self.number('bytes sent per step', self.trained(2, BANYAN_COMPRESS='int8'))
        self.assertLess(short, exact)
        off = self.trained(2, '--compress', 'off', BANYAN_COMPRESS='int8')
        self.assertEqual(self.number('bytes sent per step', off), exact)

    def test_without_feedback_it_ends_elsewhere(self):
        ends = {self.checksum(self.trained(2, '--compress', 'int4', '--feedback', way)) for way in ('on', 'off')}
        self.assertEqual(len(ends), 2)

    def test_one_that_went_on_ends_as_one_that_never_stopped(self):
        for options in (('--compress', 'off'), ('--compress', 'int4'),
                        ('--compress', 'topk:0.05', '--momentum-correction')):
            file = self.folder / f'same-{options[1]}'
            whole = self.trained(3, *options)
            self.trained(3, *options, '--checkpoint', file, '--stop-after', '1')
            self.trained(3, *options, '--checkpoint', file, '--resume', file, '--stop-after', '3')
            again = self.trained(3, *options, '--resume', file)
            self.assertIn('goes on after epoch 3 of 3 ranks', again)
            self.assertEqual(self.checksum(again), self.checksum(whole), options)

    def test_other_numbers_of_ranks_go_on(self):
        file = self.folder / 'other'
        options = ('--compress', 'int4', '--least-accuracy', '90')
        self.trained(4, *options, '--checkpoint', file, '--stop-after', '2')
        for ranks in (1, 2, 3, 5):
            self.assertIn('goes on after epoch 2 of 4 ranks', self.trained(ranks, *options, '--resume', file))

    def test_what_cannot_go_on_is_refused(self):
        file = self.folder / 'refused'
        self.trained(2, '--checkpoint', file, '--stop-after', '2')
        for name, settings, words in (('none', {}, 'none.0: it cannot be read'),
                                      ('refused', {'hidden': 64}, 'network 64-96-10, and this one is 64-64-10'),
                                      ('refused', {'epochs': 2}, 'it is of the end of epoch 2')):
            done = self.train(2, '--resume', self.folder / name, **settings)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(words, done.stderr)
        damaged = pathlib.Path(f'{file}.1')
        damaged.write_bytes(damaged.read_bytes()[:-1])
        done = self.train(2, '--resume', file)
        self.assertEqual(done.returncode, 1)
        self.assertIn('refused.1: it was cut or altered', done.stderr)

    def test_its_output_is_what_the_table_reads(self):
        text = self.trained(3)
        read = training_table.read(text)
        self.assertEqual(len(read.epochs), 4)
        self.assertEqual(read.accuracy, self.number('test accuracy', text[text.index('bytes sent per step'):]))
        steps = 4 * (2048 // (3 * 16))
        self.assertAlmostEqual(read.epochs[-1].sent / steps, read.bytes, delta=1)
        self.assertLess(read.epochs[-1].loss, read.epochs[0].loss)

    def test_wrong_options_are_refused(self):
        for options, words in ((('--compress', 'int8', '--momentum-correction'), "not with 'int8'"),
                               (('--momentum-correction',), "not with ''"),
                               (('--feedback', 'perhaps'), '--feedback'), (('--clip-norm', '-1'), '--clip-norm')):
            done = self.train(2, *options)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(words, done.stderr)


class Table(unittest.TestCase):
    TRAINED = {
        codec: [training_table.Training(accuracy, sent, [training_table.Epoch(loss, epoch * sent)
                                                         for epoch, loss in ((10, 0.8), (20, 0.5))])
                for accuracy in accuracies]
        for codec, accuracies, sent in (('off', (87.0, 88.0), 1000), ('int8', (87.2, 88.4), 250))}

    def test_differences_are_of_pairs(self):
        exact, other = training_table.table(self.TRAINED)[2:]
        self.assertEqual(exact, '| exact | 87.50 % |  | 1,000 | 1.0 | 0.5000 |')
        self.assertEqual(other, '| `int8` | 87.80 % | +0.30 +- 0.10 | 250 | 4.0 | 0.5000 |')

    def test_the_picture_has_a_dot_for_each_epoch(self):
        document = xml.dom.minidom.parseString(training_table.picture(self.TRAINED))
        dots = document.getElementsByTagName('circle')
        self.assertEqual(len(dots), 4)
        for dot in dots:
            self.assertTrue(all(0 < float(dot.getAttribute(name)) < 960 for name in ('cx', 'cy')))
            self.assertFalse(any(math.isnan(float(dot.getAttribute(name))) for name in ('cx', 'cy')))


class Synthetic(unittest.TestCase):
    def report(self, *options):
        done = run(SYNTHETIC, '-n', '3', '--model', 'mlp:256-128-64-10', '--steps', '5', '--json', '-', *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_step_takes_what_it_computes(self):
        report = self.report('--compute', '40ms')
        self.assertEqual((report['parameters'], report['tensors'], report['ranks']), (41802, 6, 3))
        self.assertGreater(report['step_ms']['least'], 35)  # pieces that came late are made up for
        self.assertGreater(report['communication_ms']['median'], 0)
        self.assertLess(report['communication_ms']['median'], report['step_ms']['median'])
        self.assertTrue(0 <= report['overlap'] <= 1)

    def test_bytes_are_those_of_the_codec(self):
        exact = self.report('--compute', '1ms', '--compress', 'off')['bytes_per_step']
        self.assertGreaterEqual(exact, 2 * 2 * 41802 * 4)  # 2 (P - 1) / P of the gradient, by each rank
        self.assertLess(self.report('--compute', '1ms', '--compress', 'int8')['bytes_per_step'], exact / 2)

    def test_layers_share_what_is_computed(self):
        done = run(SYNTHETIC, '--model', 'resnet50', '--layers')
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(sum(int(count) for _, _, count, _ in rows), 25557032)
        shares = {layer: float(share) for layer, share, _, _ in rows}
        self.assertEqual(len(shares), 54)
        self.assertAlmostEqual(sum(shares.values()), 1, places=3)

    def test_the_other_way(self):
        report = self.report('--compute', '10ms', '--way', 'end', '--spin')
        self.assertEqual((report['way'], report['spins'], report['bytes_per_step']), ('end', True, None))

    def test_wrong_options_are_refused(self):
        for options, words in ((('--model', 'resnet'), 'valid: resnet50, gpt2, mlp:A-B-C'), (('--way', 'x'), '--way'),
                               (('--compute', '5'), '--compute'), (('--compute', '2h'), '--compute'),
                               (('--steps', '0'), '--steps'), (('--bucket-bytes', 'x'), '--bucket-bytes')):
            done = run(SYNTHETIC, '-n', '2', *options)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(words, done.stderr)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
