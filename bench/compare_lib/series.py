"""Comparisons one after another, as a file lists them, and what they came to."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import fnmatch
import pathlib
import shlex

from compare_lib import figures, options, program

LIST = pathlib.Path(__file__).resolve().parents[1] / 'comparisons.txt'
HANDED_ON = ('rounds', 'iterations', 'perf', 'peers', 'timeout')
EXAMPLES = """\
What these five say counts for every line, whatever it says itself.

Exit status: that of bench/compare, 1 where any comparison failed, 77 where none had anything to compare with.

Examples:
  bench/compare_all --out results
  bench/compare_all --out results --rounds 3 --iterations x0.3 'allreduce-*-tcp' barrier-2-shm
"""


def parser():
    words = options.Parser(prog='bench/compare_all', description='Runs what is listed, and writes a table of all.',
                           formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLES, allow_abbrev=False)
    add = words.add_argument
    add('names', nargs='*', metavar='NAME', help='only these, with * and ? (default: all)')
    add('--out', metavar='DIR', help='write CSV, SVG, tables and summary.md there (default: only show what would run)')
    add('--list', metavar='FILE', help='other comparisons than those of bench/comparisons.txt')
    for name in HANDED_ON:
        add(f'--{name}', metavar='VALUE', help='as in bench/compare')
    return words


def parse_list(text, more=()):
    """{name of its files: its words and `more`} of every line that is no comment."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = [*shlex.split(line, comments=True), *more]
        if len(words) == len(more):
            continue
        try:
            name = program.stem_of(options.parse(words))
        except options.Wrong as error:
            raise options.Wrong(f'line {number} of the list: {error}') from error
        if name in found:
            raise options.Wrong(f'line {number} of the list: a second {name}')
        found[name] = words
    return found


def select(listed, patterns):
    for pattern in patterns:
        if not fnmatch.filter(listed, pattern):
            raise options.Wrong(f'{pattern}: there is no such comparison; valid are {" ".join(listed)}')
    return {name: words for name, words in listed.items()
            if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}


def overview_cells(samples):
    """Of the medians, then of the means of the rounds."""
    for table in (figures.medians(samples), figures.means(samples)):
        mean, worst, size = figures.overview(table)
        yield from (f'{mean:.2f}', f'{worst:.2f}', size)


def summary(outcomes):
    """Markdown of {name: samples, or the words of why there are none}."""
    lines = ['| comparison | sizes | geometric mean | worst | at | by means | worst | at |', f'|{"---|" * 8}']
    for name, outcome in outcomes.items():
        if isinstance(outcome, str):
            lines.append(f'| {name} | {outcome} |{" |" * 6}')
        else:
            sizes = len(figures.ratios(figures.medians(outcome)))
            lines.append(f'| {name} | {sizes} | {" | ".join(overview_cells(outcome))} |')
    return '\n'.join(lines) + '\n'


def run_all(chosen, out):
    """The exit status. What is done is in the summary already while the next one runs."""
    outcomes, statuses = {}, set()
    for name, words in chosen.items():
        program.say(f'{name}, {len(outcomes) + 1} of {len(chosen)}')
        try:
            outcomes[name] = program.compare([*words, '--out', str(out)])
            statuses.add(0)
        except program.Stop as stop:
            program.say(str(stop))
            outcomes[name] = 'failed' if stop.status == program.FAILED else 'nothing to compare with'
            statuses.add(stop.status)
        program.write_all(out, {'summary.md': summary(outcomes)})
    print('\n' + summary(outcomes), end='')
    return next(status for status in (program.FAILED, 0, program.NOTHING) if status in statuses)


def run(arguments):
    given = parser().parse_args(arguments)
    more = [word for name in HANDED_ON if (value := getattr(given, name)) is not None for word in (f'--{name}', value)]
    path = pathlib.Path(options.existing('--list', given.list, 'file') or LIST)
    chosen = select(parse_list(path.read_text(encoding='utf-8'), more), given.names)
    if given.out is not None:
        return run_all(chosen, options.folder('--out', given.out))
    for name, words in chosen.items():
        print(f'{name}: {program.command_of(words)}')
    return 0


def main(arguments):
    return program.status_of(lambda: run(arguments[1:]))
