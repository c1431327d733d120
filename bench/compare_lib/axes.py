"""Pictures as SVG of what two numbers have to do with each other: curves and dots in panels, both axes logarithmic."""
# SPDX-License-Identifier: Apache-2.0

from compare_lib.plot import line, scale, text

TOP, BOTTOM, LEFT = 96, 60, 80


class Axes:
    """A panel of a picture, with two logarithmic axes."""

    def __init__(self, left, right, height, ends):
        self.left, self.right, self.bottom = left, right, height - BOTTOM
        self.across, self.up = ends

    def x(self, value):
        return scale(value, *self.across, self.left, self.right)

    def y(self, value):
        return scale(value, *self.up, self.bottom, TOP)

    def drawn(self, marks, above, title, has_labels):
        parts = []
        for mark in above:
            y = self.y(mark)
            parts.append(line(self.left, y, self.right, y, '#dddddd'))
            if has_labels:
                parts.append(text(self.left - 8, y + 4, f'{mark:g}', 'end'))
        for mark in marks:
            x = self.x(mark)
            parts += [line(x, self.bottom, x, self.bottom + 5, '#444444'),
                      text(x, self.bottom + 20, f'{mark:g}', 'middle', 11)]
        return parts + [line(self.left, self.bottom, self.right, self.bottom, '#444444'),
                        line(self.left, TOP, self.left, self.bottom, '#444444'),
                        text((self.left + self.right) / 2, TOP - 10, title, 'middle', 13)]

    def curve(self, points, stroke):
        path = ' '.join(f'{self.x(x):.1f},{self.y(y):.1f}' for x, y in points)
        return f'<polyline points="{path}" fill="none" {stroke}/>'

    def dot(self, point, colour, hint):
        x, y = self.x(point[0]), self.y(point[1])
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"><title>{hint}</title></circle>'


def page(width, height, title, note, parts):
    return '\n'.join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}" font-family="sans-serif" fill="#222222">',
                      f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
                      text(LEFT, 28, title, size=18, more=' font-weight="bold"'), text(LEFT, 48, note, size=11), *parts,
                      '</svg>']) + '\n'


def side(words, height):
    """Along the vertical axis."""
    return text(0, 0, words, 'middle', more=f' transform="translate(22 {(TOP + height - BOTTOM) / 2:.1f}) rotate(-90)"')
