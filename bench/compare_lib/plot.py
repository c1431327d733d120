"""A plot of latency over size as SVG: one line per contender, both axes logarithmic."""
# SPDX-License-Identifier: Apache-2.0

import math
from xml.sax.saxutils import escape

from compare_lib.figures import BANYAN, latency_text, size_text

WIDTH, HEIGHT = 960, 600
LEFT, TOP, BOTTOM = 90, 96, 60
BESIDE, LETTER = 52, 8  # the legend's room: its samples and gaps, and at most so much for each letter
# Told apart with any eyes (Okabe and Ito); Banyan's is the darkest and thickest. Where there are more curves than colours, dashes differ.
COLOURS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#999999')
DASHES = ('', '7 3', '2 3', '9 3 2 3')
SECOND_LINE = 130  # letters of the command that fit a line


def scale(value, least, most, begin, end):
    """Where a value lies on a logarithmic axis."""
    if most <= least:
        return (begin + end) / 2
    return begin + (math.log(value) - math.log(least)) / (math.log(most) - math.log(least)) * (end - begin)


def decades(least, most):
    """Powers of ten that hold both."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return [10.0 ** power for power in range(low, max(high, low + 1) + 1)]


def text(x, y, words, anchor='start', size=12, more=''):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{more}>{escape(words)}</text>'


def line(x1, y1, x2, y2, colour):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def right_of(names):
    """Where the plot ends and the legend begins."""
    return WIDTH - BESIDE - LETTER * max(12, *map(len, names))


def horizontal(sizes, right):
    """{size: x}. Sizes double, so they are evenly spaced; one of 0 bytes has a place, too."""
    if len(sizes) == 1:
        return {sizes[0]: (LEFT + right) / 2}
    return {size: LEFT + (right - LEFT) * i / (len(sizes) - 1) for i, size in enumerate(sizes)}


def axes(places, marks, right):
    bottom = HEIGHT - BOTTOM
    parts = []
    for mark in marks:
        y = scale(mark, marks[0], marks[-1], bottom, TOP)
        label = f'{mark:,.0f}' if mark >= 1 else f'{mark:g}'
        parts += [line(LEFT, y, right, y, '#dddddd'), text(LEFT - 8, y + 4, label, 'end')]
    step = max(1, math.ceil(len(places) / 16))
    for i, (size, x) in enumerate(places.items()):
        if i % step == 0:
            parts += [line(x, bottom, x, bottom + 5, '#444444'), text(x, bottom + 20, size_text(size), 'middle')]
    parts += [line(LEFT, bottom, right, bottom, '#444444'), line(LEFT, TOP, LEFT, bottom, '#444444'),
              text((LEFT + right) / 2, HEIGHT - 14, 'message bytes', 'middle'),
              text(0, 0, 'latency (us), median', 'middle',
                   more=f' transform="translate(22 {(TOP + bottom) / 2:.1f}) rotate(-90)"')]
    return parts


def stroke_of(name, names):
    """Of a contender's line; no two are the same."""
    if name == BANYAN:
        return 'stroke="#000000" stroke-width="3"', '#000000', 3
    place = [other for other in names if other != BANYAN].index(name)
    colour, dashes = COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)]
    return f'stroke="{colour}" stroke-width="1.6"' + (f' stroke-dasharray="{dashes}"' if dashes else ''), colour, 1.6


def curve(name, names, table, places, marks):
    """A contender's line; dots, so that one size alone is seen and a hint says the figure."""
    bottom = HEIGHT - BOTTOM
    points = [(places[size], scale(row[name], marks[0], marks[-1], bottom, TOP), size, row[name])
              for size, row in table.items() if name in row]
    stroke, colour, width = stroke_of(name, names)
    path = ' '.join(f'{x:.1f},{y:.1f}' for x, y, _, _ in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 0.6:.1f}" fill="{colour}">'
            f'<title>{escape(name)}, {size_text(size)}: {latency_text(latency)} us</title></circle>'
            for x, y, size, latency in points]
    return [f'<polyline points="{path}" fill="none" {stroke}/>', *dots]


def legend(present, names, right):
    parts, x = [], right + 16
    for i, name in enumerate(present):
        y = TOP + 14 + 20 * i
        parts += [f'<line x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" {stroke_of(name, names)[0]}/>', text(x + 30, y + 4, name)]
    return parts


def wrap(words, letters):
    lines = ['']
    for word in words.split(' '):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > letters:
            lines.append('')
        lines[-1] += (' ' if lines[-1] else '') + word
    return lines


def svg(table, names, title, notes):
    """The whole file. `notes` are lines below the title: command, machine, date."""
    present = [name for name in names if any(name in row for row in table.values())]
    values = [row[name] for row in table.values() for name in present if name in row]
    if not values:
        return None
    right = right_of(present)
    places, marks = horizontal(list(table), right), decades(min(values), max(values))
    small = [part for note in notes for part in wrap(note, SECOND_LINE)][:4]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#222222">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             text(LEFT, 28, title, size=18, more=' font-weight="bold"'),
             *(text(LEFT, 46 + 14 * i, words, size=11) for i, words in enumerate(small)),
             *axes(places, marks, right)]
    for name in sorted(present, key=lambda name: name == BANYAN):  # Banyan's on top
        parts += curve(name, names, table, places, marks)
    return '\n'.join([*parts, *legend(present, names, right), '</svg>']) + '\n'
