"""What is made of the rows: medians, ratios, a table and CSV. Values in, values out."""
# SPDX-License-Identifier: Apache-2.0

import csv
import dataclasses
import io
import math
import statistics

BANYAN = 'banyan'
BEFORE = 'before'  # another build of it


@dataclasses.dataclass(frozen=True)
class Sample:
    round: int
    contender: str
    bytes: int
    latency: float  # us


def parse_rows(text):
    """{bytes: us} of the CSV that banyan_perf and the peers' programs print."""
    found = {}
    for row in csv.DictReader(io.StringIO(text)):
        latency = row.get('latency_us_avg') or row.get('latency_us')
        try:
            size, value = int(row.get('bytes') or ''), float(latency or '')
        except ValueError:
            continue  # a line of the launcher's own, or one that was cut off
        if math.isfinite(value) and value > 0:
            found[size] = value
    return found


def tabulate(samples, statistic):
    """{bytes: {contender: us}}, sizes in order: `statistic` of what the rounds gave."""
    kept = {}
    for sample in samples:
        kept.setdefault(sample.bytes, {}).setdefault(sample.contender, []).append(sample.latency)
    return {size: {name: statistic(values) for name, values in kept[size].items()} for size in sorted(kept)}


def medians(samples):
    return tabulate(samples, statistics.median)


def means(samples):
    """Geometric ones. Where a machine is now fast and now slow, the median of the rounds is that of whichever it was
    more often; the mean weighs both."""
    return tabulate(samples, geometric_mean)


def best_peer(row):
    """(name, us) of the fastest but Banyan; None where there is none."""
    peers = [(latency, name) for name, latency in row.items() if name != BANYAN]
    return min(peers)[::-1] if peers else None


def ratio(row):
    """How many times faster Banyan is than the best peer; None where one of them is missing."""
    best = best_peer(row)
    return best[1] / row[BANYAN] if best and BANYAN in row else None


def ratios(table):
    return {size: value for size, row in table.items() if (value := ratio(row)) is not None}


def geometric_mean(values):
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def overview(table):
    """(geometric mean, worst, its size) of the ratios; None where there is none."""
    found = ratios(table)
    if not found:
        return None
    worst = min(found, key=found.get)
    return geometric_mean(found.values()), found[worst], size_text(worst)


def summary(samples):
    """One sentence: the geometric mean and the worst size, by medians and by means of the rounds."""
    table = medians(samples)
    sizes = len(ratios(table))
    if sizes == 0:
        return 'no size that both Banyan and a peer measured'
    mean, worst, size = overview(table)
    found = (f'best peer / Banyan: geometric mean {mean:.2f}x over {sizes} size{"" if sizes == 1 else "s"}, '
             f'worst {worst:.2f}x at {size}')
    mean, worst, size = overview(means(samples))
    return f'{found}; by means instead of medians {mean:.2f}x, worst {worst:.2f}x at {size}'


def size_text(size):
    for unit, bits in (('G', 30), ('M', 20), ('K', 10)):
        if size >= 1 << bits and size % (1 << bits) == 0:
            return f'{size >> bits}{unit}'
    return str(size)


def latency_text(latency):
    digits = 2 if latency < 100 else 1 if latency < 1000 else 0
    return f'{latency:,.{digits}f}'


def bandwidth(size, latency):
    return size / latency  # bytes per us are MB/s


def cells(table, names, show):
    for size, row in table.items():
        best, found = best_peer(row), ratio(row)
        yield [size_text(size), *(show(size, row[name]) if name in row else '-' for name in names),
               best[0] if best else '-', f'{found:.2f}x' if found is not None else '-']


def way_to_show(as_bandwidth):
    return (lambda size, us: f'{bandwidth(size, us):,.1f}') if as_bandwidth else (lambda size, us: latency_text(us))


def text_table(table, names, as_bandwidth=False):
    """Aligned columns: size, one per contender, the best peer, the ratio."""
    lines = [['bytes', *names, 'best peer', 'ratio'], *cells(table, names, way_to_show(as_bandwidth))]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return '\n'.join('  '.join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines) + '\n'


def markdown(table, titles, as_bandwidth=False):
    """As docs/performance.md has it. `titles`: {name: heading} of those that may have a column."""
    names = [name for name in titles if any(name in row for row in table.values())]
    lines = [['bytes', *(titles[name] for name in names), 'ratio'], ['---'] * (len(names) + 2)]
    lines += [[*line[:-2], line[-1].rstrip('x')] for line in cells(table, names, way_to_show(as_bandwidth))]
    return ''.join(f'| {" | ".join(line)} |\n'.replace(' --- ', '---') for line in lines)


def csv_text(header, rows):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def medians_csv(table, names):
    rows = []
    for size, row in table.items():
        best, found = best_peer(row), ratio(row)
        rows.append([size, *(f'{row[name]:.4f}' if name in row else '' for name in names),
                     best[0] if best else '', f'{found:.4f}' if found is not None else ''])
    return csv_text(['bytes', *(f'{name}_us' for name in names), 'best_peer', 'ratio'], rows)


def samples_csv(samples):
    return csv_text(['round', 'contender', 'bytes', 'latency_us'],
                    [[s.round, s.contender, s.bytes, f'{s.latency:.4f}'] for s in samples])
