"""Whether a drawing can be read: every text in its box, no two texts on each other, no line through a text or a foreign box.

It reads the SVG that this project writes: rect, line, polyline, text and circle, with attributes of their own or of groups. Texts are as
wide as DejaVu Sans has them, wider than most fonts that a reader may have.
"""
# SPDX-License-Identifier: Apache-2.0

import dataclasses
import re
from xml.etree import ElementTree

SPACE = '{http://www.w3.org/2000/svg}'
# From ' ' to '~', thousandths of the size.
PLAIN = (318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636, 636, 636,
         337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635,
         611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974,
         634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838)
BOLD = (348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696, 696, 696, 696, 696,
        400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995, 837, 850, 733, 850, 770, 720,
        682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716, 678, 435, 716, 712, 343, 343, 665, 343, 1042,
        712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838)
ABOVE, BELOW = 0.76, 0.24  # of the size, from the line that letters stand on
SLACK = 0.6  # pixels
SMALLEST = 9  # of letters that are read


@dataclasses.dataclass
class Area:
    left: float
    top: float
    right: float
    bottom: float
    name: str

    def holds(self, other):
        return (self.left - SLACK <= other.left and other.right <= self.right + SLACK and
                self.top - SLACK <= other.top and other.bottom <= self.bottom + SLACK)

    def meets(self, other):
        return (self.left + SLACK < other.right and other.left + SLACK < self.right and
                self.top + SLACK < other.bottom and other.top + SLACK < self.bottom)

    def has_within(self, point):
        return self.left + SLACK < point[0] < self.right - SLACK and self.top + SLACK < point[1] < self.bottom - SLACK

    def is_crossed(self, one, other):
        """Whether the line between two points enters it: by Liang and Barsky."""
        first, last = 0.0, 1.0
        dx, dy = other[0] - one[0], other[1] - one[1]
        for step, room in ((-dx, one[0] - self.left - SLACK), (dx, self.right - SLACK - one[0]),
                           (-dy, one[1] - self.top - SLACK), (dy, self.bottom - SLACK - one[1])):
            if step == 0:
                if room <= 0:
                    return False
                continue
            at = room / step
            first, last = (max(first, at), last) if step < 0 else (first, min(last, at))
        return first < last


@dataclasses.dataclass
class Drawing:
    width: float = 0
    height: float = 0
    texts: list = dataclasses.field(default_factory=list)  # (Area, size, bold)
    boxes: list = dataclasses.field(default_factory=list)
    lines: list = dataclasses.field(default_factory=list)  # points
    strokes: list = dataclasses.field(default_factory=list)  # of polylines: (colour, width, dashes)

    def words(self):
        return [area.name for area, *_ in self.texts]


def text_width(words, size, bold):
    widths = BOLD if bold else PLAIN
    return sum(widths[ord(letter) - 32] if ' ' <= letter <= '~' else 1000 for letter in words) * size / 1000


def text_area(given, words):
    size, bold = float(given.get('font-size', 16)), given.get('font-weight') == 'bold'
    width = float(given['textLength']) if 'textLength' in given else text_width(words, size, bold)
    x, y = float(given.get('x', 0)), float(given.get('y', 0))
    left = x - {'start': 0, 'middle': width / 2, 'end': width}[given.get('text-anchor', 'start')]
    area = Area(left, y - ABOVE * size, left + width, y + BELOW * size, words)
    moved = re.fullmatch(r'translate\(([-0-9.]+) ([-0-9.]+)\) rotate\(-90\)', given.get('transform', ''))
    if moved:
        x, y = float(moved[1]), float(moved[2])
        area = Area(x + area.top, y - area.right, x + area.bottom, y - area.left, words)
    elif 'transform' in given:
        raise ValueError(f'unknown transform {given["transform"]}')
    return area, size, bold


def read(text):
    root = ElementTree.fromstring(text.encode() if isinstance(text, str) else text)
    box = [float(number) for number in root.get('viewBox').split()]
    drawing = Drawing(box[2], box[3])

    def walk(element, above):
        tag = element.tag.removeprefix(SPACE)
        given = {**above, **element.attrib}
        for own in ('transform', 'x', 'y', 'width', 'height', 'textLength'):
            if own not in element.attrib:
                given.pop(own, None)
        if tag == 'rect':
            if element.get('width') != '100%' and (element.get('width'), element.get('height')) != (f'{box[2]:g}', f'{box[3]:g}'):
                x, y = float(given.get('x', 0)), float(given.get('y', 0))
                drawing.boxes.append(Area(x, y, x + float(given['width']), y + float(given['height']), f'box at {x:g} {y:g}'))
        elif tag == 'line':
            drawing.lines.append([(float(given['x1']), float(given['y1'])), (float(given['x2']), float(given['y2']))])
        elif tag == 'polyline':
            points = [tuple(map(float, point.split(','))) for point in given['points'].split()]
            drawing.lines.append(points)
            drawing.strokes.append((given.get('stroke'), given.get('stroke-width'), given.get('stroke-dasharray')))
        elif tag == 'text':
            words = ''.join(element.itertext())
            drawing.texts.append(text_area(given, words))
        elif tag == 'style':
            if element.text != 'text{font-family:sans-serif}':
                raise ValueError(f'a style sheet that is not read: {element.text}')
        elif tag in ('svg', 'g'):
            for child in element:
                walk(child, given)
        elif tag not in ('defs', 'title', 'circle'):
            raise ValueError(f'unknown element {tag}')

    walk(root, {})
    return drawing


def problems_of(drawing, widest):
    """Sentences, none where all is well."""
    page = Area(0, 0, drawing.width, drawing.height, 'the page')
    if drawing.width > widest:
        yield f'{drawing.width:g} wide; right is at most {widest}'
    texts = [area for area, *_ in drawing.texts]
    for area, size, _ in drawing.texts:
        if size < SMALLEST:
            yield f'"{area.name}" has letters of {size:g}'
    for area in texts + drawing.boxes:
        if not page.holds(area):
            yield f'"{area.name}" leaves the page'
    for i, text in enumerate(texts):
        yield from (f'"{text.name}" is on "{other.name}"' for other in texts[:i] if text.meets(other))
        yield from (f'"{text.name}" leaves {box.name}' for box in drawing.boxes if text.meets(box) and not box.holds(text))
    for i, box in enumerate(drawing.boxes):
        yield from (f'{box.name} overlaps {other.name}' for other in drawing.boxes[:i]
                    if box.meets(other) and not box.holds(other) and not other.holds(box))
    for points in drawing.lines:
        for one, other in zip(points, points[1:]):
            yield from (f'a line {one} - {other} crosses "{text.name}"' for text in texts if text.is_crossed(one, other))
            yield from (f'a line {one} - {other} crosses {box.name}' for box in drawing.boxes
                        if box.is_crossed(one, other) and not any(box.has_within(end) for end in (points[0], points[-1])))
        for point in points:
            if not page.holds(Area(*point, *point, '')):
                yield f'a line to {point} leaves the page'
