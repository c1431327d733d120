#!/usr/bin/env python3
"""The parts of bench/compare that are functions of values: command line, commands, figures, table, plot."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import pathlib
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as tree

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench'))

from compare_lib import contenders, figures, launch, options, plot, program  # noqa: E402

import picture_check  # noqa: E402

TWO = contenders.Case('allreduce', 2, (4, 6))
CROWD = contenders.Case('allreduce', 3, (4, 6))


class CommandLine(unittest.TestCase):
    def test_defaults(self):
        chosen = options.parse([])
        self.assertEqual((chosen.collective, chosen.ranks, chosen.least, chosen.most), ('allreduce', 2, 4, 64 << 20))

    def test_sizes(self):
        self.assertEqual(options.parse_sizes('4:64M'), (4, 64 << 20))
        self.assertEqual(options.parse_sizes('3K'), (3072, 3072))
        self.assertEqual(options.parse_sizes('1:1G'), (1, 1 << 30))

    def test_wrong_values_are_named(self):
        for line in ('--sizes 4:x', '--sizes 1:2:3', '--sizes 8:4', '--sizes 0', '--sizes -4', '--sizes 4k', '--ranks 1',
                     '--ranks two', '--collective allsum', '--transport ib', '--rounds 0', '--iterations x0',
                     '--iterations 0', '--iterations many', '--only mpich,nccl', '--only gloo', '--nothing',
                     '--collective bw --ranks 4', '--perf /none/such', '--before /none/such', '--peers /none/such', '--out /dev/null',
                     '--timeout 0'):
            with self.subTest(line), self.assertRaises(options.Wrong) as wrong:
                options.parse(line.split())
            option = [word for word in line.split() if word.startswith('--')][-1]
            self.assertIn(option, str(wrong.exception))

    def test_iterations(self):
        self.assertIsNone(options.parse_iterations(''))
        self.assertEqual(options.parse_iterations('50:5')(True), (50, 5))
        self.assertEqual(options.parse_iterations('50')(False), (50, 5))
        self.assertEqual(options.parse_iterations('x0.1')(True), (100, 20))
        self.assertEqual(options.parse_iterations('x0.001')(False), (1, 1))

    def test_places_are_not_recorded(self):
        line = '--perf /a/b --before /e --ranks 4 --peers=/c --out d --rounds=3'
        self.assertEqual(program.command_of(line.split()), 'bench/compare --ranks 4 --rounds=3')

    def test_segments_part_where_the_iterations_change(self):
        tenth = options.parse_iterations('x0.1')
        self.assertEqual(options.segments(4, 65536, None), [(4, 65536, None)])
        self.assertEqual(options.segments(4, 65536, tenth), [(4, 8192, (100, 20)), (16384, 65536, (10, 1))])
        self.assertEqual(options.segments(3, 50000, tenth), [(3, 6144, (100, 20)), (12288, 49152, (10, 1))])
        self.assertEqual(options.segments(4, 64, tenth), [(4, 64, (100, 20))])
        self.assertEqual(options.segments(1 << 20, 1 << 20, tenth), [(1 << 20, 1 << 20, (10, 1))])
        self.assertEqual(options.segments(4, 65536, options.parse_iterations('7:2')), [(4, 65536, (7, 2))])

    def test_apart_every_size_is_a_stage(self):
        whole = options.segments(4, 65536, options.parse_iterations('x0.1'))
        self.assertEqual(options.stages(whole, False), [whole])
        apart = options.stages(whole, True)
        self.assertEqual([stage[0][:2] for stage in apart], [(4 << n, 4 << n) for n in range(15)])
        self.assertEqual([stage[0][2] for stage in apart[11:13]], [(100, 20), (10, 1)])
        self.assertEqual(options.stages([(3, 6, None)], True), [[(3, 3, None)], [(6, 6, None)]])


class Commands(unittest.TestCase):
    segment = (4, 64, None)

    def banyan(self, case, **more):
        changed = contenders.Case(**{**case.__dict__, **more})
        return contenders.banyan('banyan_perf', changed, self.segment, {'HOME': '/'})

    def test_banyan_has_no_setting_where_ranks_are_many(self):
        self.assertIn('--bind', self.banyan(TWO).command)
        self.assertEqual(self.banyan(CROWD).command,
                         ('banyan_perf', 'allreduce', '-m', '4:64', '-n', '3', '-c', '--csv', '-'))
        self.assertEqual(self.banyan(CROWD).environment, {'HOME': '/'})

    def test_banyan_over_tcp_and_with_its_own_buffers(self):
        process = self.banyan(TWO, transport='tcp', shared=True, fresh=True)
        self.assertEqual(process.command[process.command.index('--transports') + 1], 'ucx')
        self.assertIn('--shared', process.command)
        self.assertIn('--fresh', process.command)
        self.assertEqual(process.environment, {'HOME': '/', 'BANYAN_NET_DEVICES': 'lo'})

    def test_every_size_that_is_timed_is_checked(self):
        for collective in contenders.PATTERNS:
            with self.subTest(collective):
                self.assertEqual('-c' in self.banyan(TWO, collective=collective).command, collective != 'barrier')

    def test_every_peer_is_asked_for_the_same(self):
        for case in (TWO, CROWD, contenders.Case('allreduce', 2, (0,), 'tcp', fresh=True)):
            for name, peer in contenders.PEERS.items():
                processes = contenders.peer_processes(name, '/p', peer.launcher, case, (4, 64, (9, 3)), {})
                for process in processes:
                    asked = contenders.sweep(case, (4, 64, (9, 3)))
                    self.assertEqual(list(process.command[-len(asked):]), asked)
                    self.assertEqual('--fresh' in process.command, case.fresh)
                    self.assertNotIn('--shared', process.command)

    def test_peers_have_their_best_settings_where_ranks_are_many(self):
        command, _ = contenders.openmpi('mpirun', 'ob1', CROWD)
        self.assertIn('core:overload-allowed', command)
        self.assertIn('mpi_yield_when_idle', command)
        command, _ = contenders.openmpi('mpirun', 'ob1', TWO)
        self.assertNotIn('mpi_yield_when_idle', command)

    def test_ranks_of_gloo_share_cores_in_turn(self):
        processes = contenders.peer_processes('gloo-hd', '/p', '', CROWD, self.segment, {})
        self.assertEqual([process.core for process in processes], [4, 6, 4])
        self.assertEqual([process.command[1] for process in processes], ['0', '1', '2'])

    def test_nobodys_variables_leak_in(self):
        found = contenders.clean({'PATH': 'a', 'BANYAN_ALGO': 'ring', 'UCX_TLS': 'sm', 'OMPI_MCA_pml': 'cm',
                                  'MPIR_CVAR_NOLOCAL': '1', 'MPIEXEC_TIMEOUT': '1', 'FI_PROVIDER': 'tcp',
                                  'UCC_TLS': 'ucp'})
        self.assertEqual(found, {'PATH': 'a'})

    def test_why_a_peer_is_missing(self):
        here = pathlib.Path(__file__)
        self.assertIn('no latency', contenders.why_not('gloo', here, None, contenders.Case('latency', 2, (0,))))
        self.assertIn('mpirun', contenders.why_not('mpich', here, None, TWO))
        self.assertIn('nowhere', contenders.why_not('mpich', pathlib.Path('/nowhere'), '/m', TWO))
        self.assertIsNone(contenders.why_not('mpich', here, '/m', TWO))


def samples(*rows):
    return [figures.Sample(*row) for row in rows]


TABLE = {4: {'banyan': 1.0, 'a': 2.0, 'b': 4.0}, 2048: {'banyan': 4.0, 'a': 2.0}, 1 << 20: {'banyan': 100.0}}


class Figures(unittest.TestCase):
    def test_rows_of_both_programs(self):
        self.assertEqual(figures.parse_rows('bytes,latency_us\n4,0.5\n8,0.75\n'), {4: 0.5, 8: 0.75})
        self.assertEqual(figures.parse_rows('bytes,count,algorithm,latency_us_avg,wrong,version,op\n4,1,"a,b",1.5,0,0.1.0,sum\n'), {4: 1.5})
        self.assertEqual(figures.parse_rows('bytes,latency_us,MBps\n0,2\n'), {0: 2.0})

    def test_what_is_no_row_is_left_out(self):
        self.assertEqual(figures.parse_rows(''), {})
        self.assertEqual(figures.parse_rows('bytes,latency_us\n4,nan\n8,0\n16,inf\nkilled\n32,\n64,1\n12'), {64: 1.0})

    def test_medians(self):
        found = figures.medians(samples((1, 'a', 8, 1.0), (2, 'a', 8, 9.0), (3, 'a', 8, 2.0), (1, 'a', 4, 1.0),
                                        (2, 'a', 4, 2.0), (1, 'banyan', 8, 5.0)))
        self.assertEqual(found, {4: {'a': 1.5}, 8: {'a': 2.0, 'banyan': 5.0}})
        self.assertEqual(list(found), [4, 8])

    def test_ratios(self):
        self.assertEqual(figures.best_peer(TABLE[4]), ('a', 2.0))
        self.assertIsNone(figures.best_peer(TABLE[1 << 20]))
        self.assertEqual(figures.ratios(TABLE), {4: 2.0, 2048: 0.5})
        self.assertAlmostEqual(figures.geometric_mean([1.0, 4.0, 2.0]), 2.0)

    def test_summary(self):
        once = samples(*((1, name, size, us) for size, row in TABLE.items() for name, us in row.items()))
        self.assertEqual(figures.summary(once),
                         'best peer / Banyan: geometric mean 1.00x over 2 sizes, worst 0.50x at 2K; '
                         'by means instead of medians 1.00x, worst 0.50x at 2K')
        self.assertIn('no size', figures.summary(samples((1, 'banyan', 4, 1.0))))

    def test_moods_weigh_in_means_and_not_in_medians(self):
        # Both are fast or slow by a factor of four; the slow mood met Banyan twice, the other once.
        moody = samples(*((r, 'banyan', 8, us) for r, us in enumerate((1.0, 4.0, 4.0))),
                        *((r, 'a', 8, us) for r, us in enumerate((2.0, 2.0, 8.0))))
        self.assertEqual(figures.medians(moody), {8: {'banyan': 4.0, 'a': 2.0}})
        found = figures.means(moody)[8]
        self.assertAlmostEqual(found['banyan'], 16 ** (1 / 3))
        self.assertAlmostEqual(found['a'], 32 ** (1 / 3))
        self.assertIn('mean 0.50x over 1 size, worst 0.50x at 8; by means instead of medians 1.26x, worst 1.26x at 8',
                      figures.summary(moody))

    def test_table(self):
        lines = figures.text_table(TABLE, ['banyan', 'a', 'b']).splitlines()
        self.assertEqual([line.split() for line in lines],
                         [['bytes', 'banyan', 'a', 'b', 'best', 'peer', 'ratio'],
                          ['4', '1.00', '2.00', '4.00', 'a', '2.00x'], ['2K', '4.00', '2.00', '-', 'a', '0.50x'],
                          ['1M', '100.0', '-', '-', '-', '-']])
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertIn('512.0', figures.text_table({2048: {'banyan': 4.0}}, ['banyan'], as_bandwidth=True))

    def test_markdown(self):
        titles = {'banyan': 'Banyan', 'absent': 'Nobody', 'a': 'Peer A'}
        self.assertEqual(figures.markdown(TABLE, titles).splitlines(),
                         ['| bytes | Banyan | Peer A | ratio |', '|---|---|---|---|', '| 4 | 1.00 | 2.00 | 2.00 |',
                          '| 2K | 4.00 | 2.00 | 0.50 |', '| 1M | 100.0 | - | - |'])
        self.assertIn('| 2K | 512.0 | 1,024.0 | 0.50 |', figures.markdown(TABLE, titles, as_bandwidth=True))

    def test_csv(self):
        self.assertEqual(figures.medians_csv(TABLE, ['banyan', 'a', 'b']).splitlines(),
                         ['bytes,banyan_us,a_us,b_us,best_peer,ratio', '4,1.0000,2.0000,4.0000,a,2.0000',
                          '2048,4.0000,2.0000,,a,0.5000', '1048576,100.0000,,,,'])
        self.assertEqual(figures.samples_csv(samples((1, 'a', 4, 0.5))).splitlines()[1], '1,a,4,0.5000')

    def test_sizes_as_text(self):
        self.assertEqual([figures.size_text(size) for size in (0, 4, 1024, 1536, 3 << 20, 1 << 30)],
                         ['0', '4', '1K', '1536', '3M', '1G'])


class Plot(unittest.TestCase):
    def test_it_is_xml_with_a_line_for_each(self):
        text = plot.svg(TABLE, ['banyan', 'a', 'b', 'absent'], 'allreduce <2>', ['command & more', 'machine'])
        root = tree.fromstring(text)
        space = '{http://www.w3.org/2000/svg}'
        self.assertEqual(len(root.findall(f'{space}polyline')), 3)
        self.assertEqual(len(root.findall(f'{space}circle')), 6)
        words = [element.text for element in root.findall(f'{space}text')]
        for expected in ('allreduce <2>', 'command & more', 'banyan', 'a', '4', '2K', '1M'):
            self.assertIn(expected, words)
        self.assertNotIn('absent', words)

    def test_less_time_is_lower_and_everything_inside(self):
        marks = plot.decades(1.0, 100.0)
        places = plot.horizontal(list(TABLE), 700)
        self.assertEqual(marks, [1.0, 10.0, 100.0])
        height = [plot.scale(value, 1, 100, plot.HEIGHT - plot.BOTTOM, plot.TOP) for value in (1.0, 10.0, 100.0)]
        self.assertEqual(height, sorted(height, reverse=True))
        self.assertAlmostEqual(height[1], (height[0] + height[2]) / 2)
        self.assertEqual([places[4], places[1 << 20]], [plot.LEFT, 700])

    def test_one_size_and_none(self):
        self.assertIsNotNone(tree.fromstring(plot.svg({0: {'banyan': 1.0}}, ['banyan'], 'barrier', [])))
        self.assertIsNone(plot.svg({}, ['banyan'], 'nothing', []))

    def test_many_curves_are_told_apart_and_named(self):
        names = ['banyan', *(f'an_algorithm_with_a_{"long" * 5}_name_{i}' for i in range(20))]
        drawing = picture_check.read(plot.svg({size: {name: 1.0 + i + size for i, name in enumerate(names)} for size in (4, 8, 16)},
                                              names, 'allreduce', []))
        self.assertEqual(list(picture_check.problems_of(drawing, 1600)), [])
        self.assertEqual(len(set(drawing.strokes)), len(names))

    def test_wrapped(self):
        self.assertEqual(plot.wrap('a bb ccc dd', 5), ['a bb', 'ccc', 'dd'])


def shell(words):
    return contenders.Process(('/bin/sh', '-c', words), {'PATH': '/usr/bin:/bin'})


class FakeProcess:
    """Ends after ten looks at it, and prints a row, or does not, before each."""

    def __init__(self, output, printing):
        self.output, self.printing, self.polls = output, printing, 0

    def poll(self):
        self.polls += 1
        if self.printing:
            self.output.write(b'row\n')
            self.output.flush()
        return 0 if self.polls > 10 else None


class Launch(unittest.TestCase):
    def test_the_first_one_is_heard(self):
        self.assertEqual(launch.run([shell('echo 1'), shell('echo 2')], 60), ('1\n', None))

    def test_a_failure_says_why_and_ends_the_rest(self):
        begun = time.monotonic()
        text, problem = launch.run([shell('echo row; sleep 300'), shell('echo broken >&2; exit 3')], 200)
        self.assertEqual(problem, 'exit status 3; broken')
        self.assertLess(time.monotonic() - begun, 100)
        self.assertIn(text, ('row\n', ''))

    def test_what_takes_too_long_is_ended_with_its_children(self):
        text, problem = launch.run([shell('trap "" TERM; sleep 301 & echo $$; exec sleep 302')], 0.2, grace=0.2)
        self.assertEqual(problem, 'nothing for 0.2 s')
        self.assertEqual(launch.members({int(text)}), [])

    def test_what_goes_on_printing_has_time(self):
        for printing, expected in ((True, None), (False, 'nothing for 5 s')):
            with self.subTest(printing), tempfile.TemporaryFile() as output:
                fake = FakeProcess(output, printing)
                self.assertEqual(launch.wait([fake], output, 5, lambda fake=fake: 2.0 * fake.polls), expected)

    def test_no_such_program(self):
        self.assertIn('No such file', launch.run([contenders.Process(('/none/such',), {})], 60)[1])

    def test_the_session_is_found_whatever_the_name(self):
        self.assertEqual(launch.session_of('12 (a) b) S 1 12 34 0 -1'), 34)
        self.assertIsNone(launch.session_of('12 (a) Z 1 12 34 0 -1'))


def script(folder, name, *lines):
    path = pathlib.Path(folder) / name
    path.write_text('\n'.join(['#!/bin/sh', *lines, '']))
    path.chmod(0o755)
    return path


WRONG = 'case " $* " in *" -c "*) echo "wrong element: index 7" >&2; exit 1;; esac'


class Program(unittest.TestCase):
    def compare(self, folder, *perf, out=''):
        """(status, stdout, stderr) with a Banyan and a peer that take no time."""
        script(folder, 'gloo_perf', 'echo bytes,latency_us', 'echo 33554432,3.0')
        perf = script(folder, 'banyan_perf', 'echo bytes,latency_us', 'echo 33554432,2.0', *perf)
        line = f'compare --perf {perf} --peers {folder} --only gloo-ring --sizes 32M --rounds 1 {out}'
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
            status = program.main(line.split())
        return status, out.getvalue(), errors.getvalue()

    def test_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, _ = self.compare(folder)
        self.assertEqual(status, 0)
        self.assertIn('geometric mean 1.50x over 1 size, worst 1.50x at 32M; by means instead of medians 1.50x', out)

    def test_a_build_of_before(self):
        with tempfile.TemporaryDirectory() as folder:
            before = script(folder, 'old_perf', 'echo bytes,latency_us', 'echo 33554432,2.5')
            for only, names in ('gloo-ring', ['banyan', 'before', 'gloo-ring']), ('', ['banyan', 'before']):
                _, out, errors = self.compare(folder, out=f'--before {before} --only={only}')
                self.assertIn('geometric mean 1.25x', out)
                self.assertEqual([line.rpartition(' ')[2] for line in errors.splitlines() if ' round 1' in line], names)
            _, out, _ = self.compare(folder, out=f'--out {folder}/out --before {before}')
            self.assertIn('Banyan before', (pathlib.Path(folder) / 'out' / 'allreduce-2-shm.md').read_text())

    def test_apart_all_contenders_come_before_the_next_size(self):
        with tempfile.TemporaryDirectory() as folder:
            _, out, errors = self.compare(folder, out='--sizes 16M:32M --apart')
        said = [line.partition('round 1 of 1, ')[2] for line in errors.splitlines()]
        self.assertEqual([line for line in said if line],
                         ['16M: banyan', '16M: gloo-ring', '32M: banyan', '32M: gloo-ring'])
        self.assertIn('1 interleaved round, each size by itself, medians', out)

    def test_what_is_written_names_no_place(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / 'out'
            status, text, _ = self.compare(folder, out=f'--out {out}')
            files = {path.name: path.read_text() for path in out.iterdir()}
        self.assertEqual(status, 0)
        self.assertEqual(sorted(files), [f'allreduce-2-shm{end}' for end in ('-rounds.csv', '.csv', '.md', '.svg')])
        self.assertIn('| 32M | 2.00 | 3.00 | 1.50 |', files['allreduce-2-shm.md'])
        for text in (text, *files.values()):
            self.assertNotIn(folder, text)

    def test_a_wrong_element_ends_it_whatever_the_size(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, errors = self.compare(folder, WRONG)
        self.assertEqual(status, program.FAILED)
        self.assertIn('banyan: exit status 1; wrong element: index 7', errors)
        self.assertNotIn('geometric mean', out)

    def test_names_of_files(self):
        self.assertEqual(program.stem_of(TWO), 'allreduce-2-shm')
        case = contenders.Case('barrier', 4, (0,), 'tcp', shared=True, fresh=True)
        self.assertEqual(program.stem_of(case), 'barrier-4-tcp-shared-fresh')

    def test_the_processor(self):
        self.assertEqual(program.model_of('processor: 0\nmodel name\t: A B\nmodel name\t: C\n'), 'A B')

    def test_iterations_in_words(self):
        self.assertIn('above', program.iterations_text(None))
        self.assertEqual(program.iterations_text(options.parse_iterations('5:2')), '5 iterations after 2 to warm up')


if __name__ == '__main__':
    unittest.main()
