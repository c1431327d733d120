#!/usr/bin/env python3
"""tools/netlab places ranks, shapes uplinks, counts bytes, and leaves nothing behind.

usage: netlab_test.py [BANYAN_PERF BANYAN_TUNE]   with them, also that ranks of two hosts find nothing but the network
                                                  between them, and what they find that to be
Exit status 77 where there can be no cluster; what needs none is tested all the same.
"""
# SPDX-License-Identifier: Apache-2.0

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
NETLAB = pathlib.Path(__file__).resolve().parents[2] / 'tools' / 'netlab'
PERF = TUNE = None
LIMIT_S = 60


def load():
    loader = importlib.machinery.SourceFileLoader('netlab', str(NETLAB))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('netlab', loader))
    sys.modules['netlab'] = module
    loader.exec_module(module)
    return module


netlab = load()


def run(*arguments, **variables):
    return subprocess.run([NETLAB, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          env={**os.environ, **variables})


def tuning(ranks, hosts, transports, ppn=0, **more):
    """The text of a tuning file without rules."""
    link = {'latency_us': 30, 'busy_latency_us': 40, 'message_us': 2, 'GBps': 0.1, 'busy_GBps': 0.05, 'pairs': 2, 'spread': 0}
    return json.dumps({'schema': 1, 'rules': [], 'links': [{'where': 'between', **link}], **more, 'fingerprint': {
        'cpu': 'any', 'cores': 2, 'ranks': ranks, 'hosts': hosts, 'transports': transports, 'ppn': ppn}})


class Placement(unittest.TestCase):
    def test_host_by_host(self):
        hosts = netlab.place((1, 2, 3), False)
        self.assertEqual([host.ranks for host in hosts], [(0,), (1, 2), (3, 4, 5)])
        self.assertEqual(len({host.address for host in hosts}), 3)

    def test_around_the_hosts(self):
        hosts = netlab.place((1, 2, 3), True)
        self.assertEqual([host.ranks for host in hosts], [(0,), (1, 3), (2, 4, 5)])


    def test_cores_are_shared_out(self):
        self.assertEqual(netlab.share_cores({0, 1}, 4), [{0}, {1}, {0}, {1}])
        self.assertEqual(netlab.share_cores({3, 5, 9, 7, 1}, 2), [{1, 3}, {5, 7, 9}])
        self.assertEqual(netlab.share_cores({4}, 1), [{4}])


class Options(unittest.TestCase):
    def test_wrong_ones_are_named(self):
        for arguments, words in (
                (['-H', '2', '-p', '1,2,3', '--', 'true'], ['-p names 3 hosts', '-H 2']),
                (['-H', '0', '-p', '1', '--', 'true'], ["'0'", '1 to 250']),
                (['-H', '2', '-p', '1,x', '--', 'true'], ["'x'", '1 to 250']),
                (['-H', '2', '-p', '1', '-r', 'fast', '--', 'true'], ["'fast'", '100mbit']),
                (['-H', '2', '-p', '1', '-b', '32', '--', 'true'], ["'32'", '32kb', '8kb at least']),
                (['-H', '2', '-p', '1', '-b', '7kb', '--', 'true'], ["'7kb'", '8kb at least']),
                (['-H', '2', '-p', '1', '-b', '65mb', '--', 'true'], ["'65mb'", '64mb at most']),
                (['-H', '2', '-p', '1', '-b', '32kb', '--', 'true'], ['-r or -k']),
                (['-H', '2', '-p', '1', '-r', '1bit', '--', 'true'], ["'1bit'", '100mbit']),
                (['-H', '2', '-p', '1', '-k', '3:1gbit', '--', 'true'], ['-k wants 3 racks', '-H has 2 hosts']),
                (['-H', '2', '-p', '1', '-k', '1:1gbit', '--', 'true'], ["'1:1gbit'", '2 to 250', '2:100mbit']),
                (['-H', '2', '-p', '1', '-k', '2', '--', 'true'], ["''", '100mbit']),
                (['-H', '2', '-p', '1', '-k', '2:fast', '--', 'true'], ["'fast'", '100mbit']),
                (['-H', '2', '-p', '1'], ['PROGRAM']),
                (['-H', '2', '-p', '1', '--', 'no-such-program'], ['no-such-program: no such program'])):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)


class Ending(unittest.TestCase):
    def test_a_signal_during_the_report_ends_it_quietly(self):
        before = {each: signal.getsignal(each) for each in netlab.ENDING}
        for number in netlab.ENDING:
            with mock.patch.multiple(netlab, build=mock.DEFAULT, start=mock.DEFAULT, wait=lambda _: 0,
                                     all_traffic=lambda *_: {'host0': None},
                                     report=lambda *_, number=number: signal.raise_signal(number)), \
                    mock.patch.dict(os.environ, {netlab.INSIDE: '1'}):
                self.assertEqual(netlab.main(['-H', '1', '-p', '1', '--', 'true']), 128 + number)
        for each, handler in before.items():
            signal.signal(each, handler)


class Cluster(unittest.TestCase):
    """In namespaces."""

    def test_ranks_know_who_and_where_they_are(self):
        script = 'echo "$BANYAN_RANK/$BANYAN_LOCAL_RANK of $BANYAN_SIZE at $BANYAN_ADDRESS," $(ip -o -4 address show eth0)'
        done = run('-H', '2', '-p', '1,2', '--', 'sh', '-c', script)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(done.stdout.splitlines())
        self.assertEqual([line.split(',')[0] for line in lines],
                         [f'{who} of 3 at 10.77.0.1:4711' for who in ('0/0', '1/0', '2/1')])
        self.assertEqual([re.search(r'inet ([0-9.]+)', line)[1] for line in lines],
                         ['10.77.0.1', '10.77.0.2', '10.77.0.2'])

    def test_hosts_have_their_cores(self):
        hosts = netlab.share_cores(os.sched_getaffinity(0), 3)
        # One write a line: ranks share the pipe.
        script = ('import os; words = [os.environ["BANYAN_RANK"], *sorted(os.sched_getaffinity(0))]; '
                  'os.write(1, (" ".join(map(str, words)) + "\\n").encode())')
        done = run('-H', '3', '-p', '1', '--', sys.executable, '-c', script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [' '.join(map(str, [rank, *sorted(cores)])) for rank, cores in enumerate(hosts)])

    def test_hosts_have_names_that_end_with_them(self):
        before = os.uname().nodename
        done = run('-H', '2', '-p', '2,1', '--', 'sh', '-c', 'echo "$BANYAN_RANK $(uname -n)"')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ['0 host0', '1 host0', '2 host1'])
        self.assertEqual(os.uname().nodename, before)

    def test_racks_have_a_cable_that_hosts_share(self):
        # Hosts 0 and 2 are in one rack, host 1 in the other: each sends the first a megabyte.
        receive = ('import socket; s = socket.create_server(("10.77.0.1", 99))\n'
                   'for _ in range(2):\n c = s.accept()[0]\n while c.recv(65536): pass')
        send = ('import socket, time; time.sleep(0.3)\n'  # the server must listen by then; it tries again else
                'while True:\n try: c = socket.create_connection(("10.77.0.1", 99)); break\n except OSError: time.sleep(0.1)\n'
                'c.sendall(bytes(1 << 20))')
        script = f"[ $BANYAN_RANK = 0 ] && exec {sys.executable} -c '{receive}' || exec {sys.executable} -c '{send}'"
        done = run('-H', '3', '-p', '1', '-r', '1gbit', '-k', '2:100mbit', '--', 'sh', '-c', script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('uplinks of 1gbit, 2 racks with one of 100mbit each', done.stderr)
        sent = {rack: (int(out), int(into)) for rack, out, into in
                re.findall(r'(rack[01]) .*sent ([0-9]+) bytes, received ([0-9]+)', done.stderr)}
        for crossed in (sent['rack0'][1], sent['rack1'][0]):
            self.assertGreater(crossed, 1 << 20)
            self.assertLess(crossed, 2 << 20)

    def test_a_burst_is_of_every_cable_and_packets_fit_into_it(self):
        script = 'tc qdisc show dev eth0; ip -d -o link show eth0'
        for arguments, burst, packet in (((), '256Kb', 65536), (('-b', '32kb'), '32Kb', 16384)):
            done = run('-H', '2', '-p', '1', '-r', '100mbit', *arguments, '--', 'sh', '-c', script)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count(f'rate 100Mbit burst {burst} '), 2, done.stdout)
            self.assertEqual(done.stdout.count(f'gso_max_size {packet} '), 2, done.stdout)

    def test_uplinks_are_shaped_and_counted(self):
        receive = 'import socket; s = socket.create_server(("10.77.0.1", 99)); c = s.accept()[0]\nwhile c.recv(65536): pass'
        send = ('import socket, time; time.sleep(0.3)\n'  # the server must listen by then; it tries again else
                'for i in range(100):\n'
                '  try: c = socket.create_connection(("10.77.0.1", 99)); break\n'
                '  except OSError: time.sleep(0.1)\n'
                'c.sendall(bytes(2500000))')
        script = f"if [ $BANYAN_RANK = 0 ]; then exec python3 -c '{receive}'; else exec python3 -c '{send}'; fi"
        begin = time.monotonic()
        done = run('-H', '2', '-p', '1', '-r', '20mbit', '--', 'sh', '-c', script)
        took = time.monotonic() - begin
        self.assertEqual(done.returncode, 0, done.stderr)
        # 2.5 MB at 20 Mb/s, of which the first 256 KB may leave at once.
        self.assertGreater(took, 0.85, 'a link without a limit')
        sent = [int(found) for found in re.findall(r'sent ([0-9]+) bytes', done.stderr)]
        received = [int(found) for found in re.findall(r'received ([0-9]+)', done.stderr)]
        self.assertEqual(len(sent), 2)
        self.assertGreater(sent[1], 2500000)
        self.assertLess(sent[1], 2900000)
        self.assertGreater(received[0], 2500000)

    def test_nothing_outside_sees_it(self):
        before = subprocess.run(['ip', '-o', 'link'], capture_output=True, text=True, check=True).stdout.count('\n')
        script = 'ip -o link | grep -cv LOOPBACK; ip route | grep -c default; true'
        done = run('-H', '1', '-p', '1', '--', 'sh', '-c', script)
        self.assertEqual(done.stdout.split(), ['1', '0'], 'one interface, and no way out')
        after = subprocess.run(['ip', '-o', 'link'], capture_output=True, text=True, check=True).stdout.count('\n')
        self.assertEqual(before, after)

    def test_the_first_failure_counts_and_ends_the_others(self):
        begin = time.monotonic()
        done = run('-H', '2', '-p', '1', '--', 'sh', '-c', '[ $BANYAN_RANK = 0 ] && exit 7; exec sleep 300')
        self.assertEqual(done.returncode, 7)
        self.assertIn('rank 0 ended with 7', done.stderr)
        self.assertLess(time.monotonic() - begin, LIMIT_S / 2)

    def test_nothing_is_left_behind(self):
        # The first as the terminal does, to all of its processes.
        for how, to_all, status in ((signal.SIGINT, True, 130), (signal.SIGINT, False, 130), (signal.SIGTERM, False, 143),
                                    (signal.SIGKILL, False, -signal.SIGKILL)):
            mark = f'{300 + os.getpid() % 1000 / 1000 + how + 50 * to_all}'  # how long they would sleep: ours alone
            process = subprocess.Popen([NETLAB, '-H', '2', '-p', '2', '--', 'sleep', mark], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.assertTrue(self.until(lambda mark=mark: len(self.sleepers(mark)) == 4), 'the ranks run')
            if to_all:
                os.killpg(process.pid, how)
            else:
                process.send_signal(how)
            _, said = process.communicate(timeout=LIMIT_S)
            self.assertEqual(process.returncode, status, said)
            self.assertTrue(self.until(lambda mark=mark: not self.sleepers(mark)), 'a rank was left')
            self.assertEqual('uplinks' in said, how != signal.SIGKILL)
            self.assertNotIn('Traceback', said)

    def test_two_hosts_find_no_shared_memory_between_them(self):
        if PERF is None:
            return  # this build has no programs, or no transport between hosts
        done = run('-H', '2', '-p', '2', '-r', '1gbit', '--', PERF, 'allreduce', '-m', '1M:1M', '-i', '2', '-x', '0', '-c')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('4 ranks on 2 hosts', done.stdout)
        for sent in re.findall(r'sent ([0-9]+) bytes', done.stderr):
            self.assertGreater(int(sent), 1 << 20, 'the payload went another way')

    def test_measured_links_choose_for_all_ranks(self):
        if PERF is None:
            return
        with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
            for ranks, by in ((4, 'measured links'), (3, 'default table')):  # of another job they say nothing
                file.seek(0)
                file.truncate()
                file.write(tuning(ranks, 2, 'shm,ucx', ppn=3))
                file.flush()
                done = run('-H', '2', '-p', '2', '--', PERF, 'allreduce', '-m', '64K:64K', '-i', '1', '-x', '0', '-c',
                           BANYAN_TUNE_FILE=file.name, BANYAN_DEBUG='plan=info')
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn('at most 2 ranks of a host instead of 3; its rules and links are used', done.stderr)
                chosen = re.findall(r'allreduce of 16384 x float32: (\w+), .* by the (.*)', done.stderr + done.stdout)
                self.assertEqual(len(chosen), 4, done.stderr)
                self.assertEqual({because for _, because in chosen}, {by})
                self.assertEqual(len({algorithm for algorithm, _ in chosen}), 1)

    def test_rings_go_by_the_file_from_rack_to_rack(self):
        if PERF is None:
            return
        crossed = []
        with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
            file.write(tuning(4, 4, 'ucx', ring=['host0', 'host2', 'host1', 'host3']))
            file.flush()
            for path in ('', file.name):
                done = run('-H', '4', '-p', '1', '-k', '2:1gbit', '--', PERF, 'allreduce', '--algo', 'ring', '-m', '1M:1M',
                           '-i', '4', '-x', '0', '-c', BANYAN_TUNE_FILE=path, BANYAN_DEBUG='error')
                self.assertEqual(done.returncode, 0, done.stderr)
                crossed.append(int(re.search(r'rack0 .*sent ([0-9]+) bytes', done.stderr)[1]))
        self.assertGreater(crossed[0], 1.7 * crossed[1])  # two edges of the ring leave each rack, or one

    def test_links_beyond_a_leaf_are_measured(self):
        if TUNE is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            leaves = pathlib.Path(folder, 'topology.conf')
            leaves.write_text('SwitchName=a Nodes=host[0,2]\nSwitchName=b Nodes=host[1,3]\nSwitchName=top Switches=a,b\n')
            tuned = pathlib.Path(folder, 'tune.json')
            for budget in ('20s', '60s', '120s'):  # the first takes 4 s where nothing else runs
                done = run('-H', '4', '-p', '1', '-r', '400mbit', '-k', '2:200mbit', '--', TUNE, '--budget', budget,
                           '--collectives', 'barrier', '-o', tuned, BANYAN_TOPO_FILE=str(leaves), BANYAN_DEBUG='error')
                self.assertEqual(done.returncode, 0, done.stderr)
                links = {link['where']: link for link in json.loads(tuned.read_text()).get('links', [])}
                beyond = links.get('beyond leaf', {'pairs': 0, 'busy_GBps': 0})
                uplink = beyond['pairs'] * beyond['busy_GBps']
                if 'between' in links and 0.02 < uplink < 0.03:
                    break
        self.assertEqual(list(links), ['between', 'beyond leaf'], done.stdout)
        self.assertIn('# beyond a leaf: ', done.stdout)
        self.assertEqual(beyond['pairs'], 2)
        # The cable of a rack carries 0.025 GB/s in each direction, that of a host 0.05.
        self.assertTrue(0.02 < uplink < 0.03, done.stdout)
        self.assertLess(beyond['busy_GBps'], links['between']['busy_GBps'])
        self.assertTrue(1 < beyond['latency_us'] < 5000, done.stdout)

    def test_a_file_has_the_cores_that_ranks_may_use(self):
        if TUNE is None:
            return
        cores = max(len(os.sched_getaffinity(0)) // 2, 1)  # of the first of two hosts
        with tempfile.TemporaryDirectory() as folder:
            tuned = pathlib.Path(folder, 'tune.json')
            for ranks in (1, 2 * cores):
                done = run('-H', '2', '-p', str(ranks), '--', TUNE, '--budget', '2s', '--collectives', 'barrier', '-o', tuned,
                           BANYAN_DEBUG='error')
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(tuned.read_text())['fingerprint']['cores'], cores)

    @staticmethod
    def sleepers(mark):
        found = []
        for entry in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            try:
                words = entry.read_bytes().split(b'\0')
            except OSError:
                continue
            if words[:2] == [b'sleep', mark.encode()]:
                found.append(entry)
        return found

    @staticmethod
    def until(holds):
        deadline = time.monotonic() + LIMIT_S / 2
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)  # between two looks at /proc
        return True


def main():
    cluster = run('-H', '1', '-p', '1', '-r', '1gbit', '--', 'true')
    possible = cluster.returncode != netlab.CANNOT
    suite = unittest.TestSuite()
    for case in (Placement, Options, Ending, Cluster) if possible else (Placement, Options, Ending):
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    if not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful():
        return 1
    if not possible:
        print(cluster.stderr.strip().removeprefix('netlab: '))
    return 0 if possible else 77


if __name__ == '__main__':
    if len(sys.argv) > 2:
        PERF, TUNE = sys.argv[1:]
    sys.exit(main())
