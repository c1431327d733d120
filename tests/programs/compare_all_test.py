#!/usr/bin/env python3
"""bench/compare_all: its list, what is chosen of it, and what is written when a comparison fails."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench'))

from compare_lib import figures, options, program, series  # noqa: E402

LIST = """\
# a comment

--collective allreduce --ranks 2 --shared  # another
--collective barrier --ranks 4
--collective latency
"""
SAMPLES = [figures.Sample(1, *row) for row in (('banyan', 4, 1.0), ('a', 4, 2.0), ('banyan', 2048, 4.0), ('a', 2048, 2.0))]


class List(unittest.TestCase):
    def test_lines_have_the_names_of_their_files(self):
        found = series.parse_list(LIST, ['--rounds', '1'])
        self.assertEqual(list(found), ['allreduce-2-shm-shared', 'barrier-4-shm', 'latency-2-shm'])
        self.assertEqual(found['barrier-4-shm'], ['--collective', 'barrier', '--ranks', '4', '--rounds', '1'])

    def test_what_is_wrong_is_found_before_anything_runs(self):
        for text, more, said in (('\n--ranks 1', [], 'line 2 of the list: --ranks 1'),
                                 ('--ranks 2\n--sizes 4', [], 'line 2 of the list: a second allreduce-2-shm'),
                                 (LIST, ['--rounds', '0'], '--rounds 0')):
            with self.subTest(text), self.assertRaisesRegex(options.Wrong, said):
                series.parse_list(text, more)

    def test_some_by_name(self):
        listed = series.parse_list(LIST)
        self.assertEqual(series.select(listed, []), listed)
        self.assertEqual(list(series.select(listed, ['latency-*', 'barrier-4-shm'])), ['barrier-4-shm', 'latency-2-shm'])
        with self.assertRaisesRegex(options.Wrong, 'bw-2-shm: there is no such comparison; valid are allreduce-2'):
            series.select(listed, ['bw-2-shm'])

    def test_the_one_of_the_repository(self):
        names = list(series.parse_list(series.LIST.read_text()))
        for collective in ('allgather', 'reduce_scatter', 'broadcast', 'alltoall', 'barrier'):
            self.assertIn(f'{collective}-2-shm', names)
            self.assertIn(f'{collective}-4-shm', names)
        for name in ('allreduce-2-shm', 'allreduce-2-shm-shared', 'allreduce-2-shm-fresh', 'allreduce-2-tcp',
                     'allreduce-4-tcp', 'latency-2-shm', 'bw-2-shm', *(f'allreduce-{ranks}-shm' for ranks in range(3, 9))):
            self.assertIn(name, names)


class Run(unittest.TestCase):
    def run_all(self, *outcomes):
        """(exit status, the summary's lines) of comparisons that end so."""
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()), mock.patch.object(program, 'compare', side_effect=outcomes):
            status = series.run_all({f'run-{i}': [] for i in range(len(outcomes))}, pathlib.Path(folder))
            return status, (pathlib.Path(folder) / 'summary.md').read_text().splitlines()[2:]

    def test_the_summary(self):
        self.assertEqual(self.run_all(SAMPLES), (0, ['| run-0 | 2 | 1.00 | 0.50 | 2K | 1.00 | 0.50 | 2K |']))

    def test_one_that_fails_is_named_and_the_rest_goes_on(self):
        status, lines = self.run_all(program.Stop(program.FAILED, 'a wrong element'), SAMPLES)
        self.assertEqual((status, lines[0]), (program.FAILED, '| run-0 | failed | | | | | | |'))
        self.assertEqual(len(lines), 2)

    def test_without_peers(self):
        nothing = program.Stop(program.NOTHING, 'nothing')
        self.assertEqual(self.run_all(nothing), (program.NOTHING, ['| run-0 | nothing to compare with | | | | | | |']))
        self.assertEqual(self.run_all(nothing, SAMPLES)[0], 0)

    def test_without_a_folder_it_only_says_what_it_would_run(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = series.main(['compare_all', '--iterations', 'x0.1', 'barrier-*'])
        self.assertEqual(status, 0)
        self.assertEqual(out.getvalue().splitlines()[1], 'barrier-4-shm: bench/compare --collective barrier --ranks 4 '
                         '--only ompi-ob1,ompi-ucx --iterations x0.1')


if __name__ == '__main__':
    unittest.main()
