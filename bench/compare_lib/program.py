"""The run: who takes part, interleaved rounds of what is checked and timed, table and files."""
# SPDX-License-Identifier: Apache-2.0

import datetime
import os
import pathlib
import platform
import shlex
import shutil
import signal
import sys

from compare_lib import contenders, figures, launch, options, plot

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAILED, USAGE, NOTHING = 1, 2, 77


class Stop(Exception):
    """Ends the program with a status and a text on stderr."""

    def __init__(self, status, words):
        super().__init__(words)
        self.status = status


def say(words):
    print(f'compare: {words}', file=sys.stderr, flush=True)


def find_perf(given):
    if given:
        return given
    built = ROOT / 'build/bench/banyan_perf'
    on_path = shutil.which('banyan_perf')
    if built.is_file():
        return built
    if on_path:
        return pathlib.Path(on_path)
    raise Stop(NOTHING, f'no banyan_perf: neither {built} nor on PATH; build it, or give --perf PATH')


def find_peers(given, perf):
    return given or perf.resolve().parent / 'peers'


def model_of(cpuinfo):
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(':')
        if name.strip() == 'model name':
            return value.strip()
    return platform.machine() or 'unknown processor'


def machine(cores):
    try:
        model = model_of(pathlib.Path('/proc/cpuinfo').read_text(errors='replace'))
    except OSError:
        model = model_of('')
    return f'{model}, {len(cores)} core{"" if len(cores) == 1 else "s"}, {platform.system()} {platform.release()}'


def iterations_text(wanted):
    def words(small):
        numbers = wanted(small) if wanted else options.OSU[small]
        return f'{numbers[0]} iterations after {numbers[1]} to warm up'
    return words(True) if words(True) == words(False) else f'{words(True)} up to {options.SMALL} bytes, {words(False)} above'


def pinning_text(case):
    if case.crowded:
        return 'more ranks than cores: peers with their best settings, Banyan with none'
    return 'one rank a core, pinned, all alike'


def stem_of(case):
    more = [word for word, wanted in (('shared', case.shared), ('fresh', case.fresh)) if wanted]
    return '-'.join([case.collective, str(case.ranks), case.transport, *more])


def write_all(folder, files):
    """{name: text}; None is left out."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            if text is not None:
                (folder / name).write_text(text, encoding='utf-8')
    except OSError as error:
        raise Stop(FAILED, f'--out {folder}: {error}') from error
    say(f'wrote {", ".join(files)} into {folder}')


class Comparison:
    """The inputs of a run, and what has been measured."""

    def __init__(self, chosen, command):
        self.chosen = chosen
        self.command = command
        self.case = contenders.Case(chosen.collective, chosen.ranks, tuple(sorted(os.sched_getaffinity(0))),
                                    chosen.transport, chosen.shared, chosen.fresh)
        self.wanted = options.parse_iterations(chosen.iterations)
        apart = chosen.apart and chosen.collective != 'barrier'
        self.stages = options.stages(options.segments(chosen.least, chosen.most, self.wanted), apart)
        self.environment = contenders.clean(os.environ)
        self.perf = find_perf(chosen.perf)
        self.builds = {figures.BANYAN: self.perf} | ({figures.BEFORE: chosen.before} if chosen.before else {})
        self.folder = find_peers(chosen.peers, self.perf)
        self.missing = {}
        self.samples = []
        before = [figures.BEFORE] if chosen.before else []
        self.names = [figures.BANYAN, *before, *self.find_peers()]

    def find_peers(self):
        if self.chosen.before and not self.chosen.only:
            return []
        found = []
        for name, peer in contenders.PEERS.items():
            if self.chosen.only and name not in self.chosen.only:
                continue
            reason = contenders.why_not(name, self.folder / peer.program, shutil.which(peer.launcher), self.case)
            if reason is None:
                found.append(name)
            elif not reason.startswith('has no') or self.chosen.only:
                self.missing[name] = reason
        if not found and not self.chosen.before:
            reasons = '; '.join(f'{name}: {reason}' for name, reason in self.missing.items())
            raise Stop(NOTHING, f'nothing to compare with: {reasons}')
        return found

    def version(self, name):
        program = self.builds.get(name) or self.folder / contenders.PEERS[name].program
        return launch.first_line([str(program), '--version'], self.environment)

    def header(self):
        today = datetime.datetime.now().astimezone().strftime('%Y-%m-%d %H:%M %Z')
        return [f'machine: {machine(self.case.cores)}', f'date: {today}', f'command: {self.command}',
                f'method: {self.chosen.rounds} interleaved round{"" if self.chosen.rounds == 1 else "s"}'
                f'{", each size by itself" if len(self.stages) > 1 else ""}, medians; '
                f'{iterations_text(self.wanted)}; {pinning_text(self.case)}',
                *(f'{name}: {self.version(name)}' for name in self.names)]

    def processes(self, name, segment):
        if name in self.builds:
            return [contenders.banyan(self.builds[name], self.case, segment, self.environment)]
        peer = contenders.PEERS[name]
        return contenders.peer_processes(name, self.folder / peer.program, peer.launcher, self.case, segment,
                                         self.environment)

    def measure(self, number, name, segments):
        """One contender over these sizes. One that failed takes no part any more."""
        for segment in segments:
            text, problem = launch.run(self.processes(name, segment), self.chosen.timeout)
            self.samples += [figures.Sample(number, name, size, latency)
                             for size, latency in figures.parse_rows(text).items()]
            if not problem and not figures.parse_rows(text):
                problem = 'printed no rows'
            if problem and name == figures.BANYAN:
                raise Stop(FAILED, f'banyan: {problem}')
            if problem:
                self.missing[name] = f'round {number}: {problem}'
                say(f'{name}: {problem}')
                return

    def rounds(self):
        for number in range(1, self.chosen.rounds + 1):
            # Nobody is always first, or always behind the same other.
            shift = (number - 1) % len(self.names)
            for stage in self.stages:
                at = f', {figures.size_text(stage[0][0])}' if len(self.stages) > 1 else ''
                for name in self.names[shift:] + self.names[:shift]:
                    if name not in self.missing:
                        say(f'round {number} of {self.chosen.rounds}{at}: {name}')
                        self.measure(number, name, stage)

    def report(self, header):
        table = figures.medians(self.samples)
        print(figures.text_table(table, self.names, self.case.collective == 'bw'), end='')
        print(f'\n{"MB/s" if self.case.collective == "bw" else "us"}; {figures.summary(self.samples)}')
        for name, reason in self.missing.items():
            print(f'missing: {name}: {reason}')
        sys.stdout.flush()
        if self.chosen.out is not None:
            self.write(table, header)
        if not figures.ratios(table):
            raise Stop(NOTHING, 'nothing to compare with: no peer got through')
        return self.samples

    def write(self, table, header):
        stem = stem_of(self.case)
        title = f'{self.case.collective}, {self.case.ranks} ranks, {self.case.transport}'
        title += ''.join(f', {word}' for word in stem.split('-')[3:])
        notes = [header[2], f'{header[0].partition(": ")[2]}; {header[1].partition(": ")[2]}']
        titles = {figures.BANYAN: 'Banyan', figures.BEFORE: 'Banyan before'} | {name: peer.title for name, peer in contenders.PEERS.items()}
        wide = self.case.collective == 'bw'
        write_all(self.chosen.out, {
            f'{stem}.csv': figures.medians_csv(table, self.names),
            f'{stem}-rounds.csv': figures.samples_csv(self.samples),
            f'{stem}.md': f'`{self.command}`, {"MB/s" if wide else "us"}; {figures.summary(self.samples)}\n\n'
                          f'{figures.markdown(table, titles, wide)}',
            f'{stem}.svg': plot.svg(table, self.names, title, notes)})

    def run(self):
        header = self.header()
        print('\n'.join(f'# {line}' for line in header), end='\n\n', flush=True)
        self.rounds()
        return self.report(header)


def end_politely(number, _frame):
    sys.exit(128 + number)


def command_of(words):
    return shlex.join(['bench/compare', *options.recorded(words)])


def compare(words):
    """What was measured: figures.Sample."""
    return Comparison(options.parse(words), command_of(words)).run()


def status_of(what):
    """The exit status of a program: what `what` returns, or what ended it, in words on stderr."""
    signal.signal(signal.SIGTERM, end_politely)  # an exception, so that what runs is ended, too
    try:
        return what()
    except options.Wrong as error:
        say(error)
        return USAGE
    except Stop as stop:
        say(stop)
        return stop.status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def main(arguments):
    def body():
        compare(arguments[1:])
        return 0
    return status_of(body)
