#!/usr/bin/env python3
"""The shared library exports exactly the functions that the C headers declare and document; the version script names them.

usage: check_symbols.py banyan.map libbanyan.so HEADER...
"""
# SPDX-License-Identifier: Apache-2.0

import pathlib
import re
import subprocess
import sys


def declared(header):
    text = re.sub(r'/\*.*?\*/', '', header, flags=re.DOTALL)
    return set(re.findall(r'^BANYAN_API [^;(]*?\b(banyan_\w+)\(', text, re.MULTILINE))


def undocumented(header):
    lines = header.split('\n')
    return [line for above, line in zip(lines, lines[1:]) if line.startswith('BANYAN_API') and not above.endswith('*/')]


def mapped(script):
    return set(re.findall(r'\b(banyan_\w+);', script))


def exported(library):
    lines = subprocess.run(['nm', '-D', '--defined-only', library], stdout=subprocess.PIPE, text=True, check=True).stdout
    symbols = [line.split() for line in lines.splitlines()]
    # "A" is the version node itself.
    return {fields[-1].split('@')[0] for fields in symbols if fields[-2] != 'A'}


def difference(what, names, wanted):
    yield from (f'{what} lacks {name}' for name in sorted(wanted - names))
    yield from (f'{what} has {name}, which no header declares' for name in sorted(names - wanted))


def main(script, library, *headers):
    texts = {header: pathlib.Path(header).read_text(encoding='utf-8') for header in headers}
    wanted = set().union(*map(declared, texts.values()))
    found = [f'{header} declares nothing?' for header, text in texts.items() if not declared(text)]
    found += (f'without a comment: {line}' for text in texts.values() for line in undocumented(text))
    found += difference(script, mapped(pathlib.Path(script).read_text(encoding='utf-8')), wanted)
    found += difference(library, exported(library), wanted)
    print('\n'.join(found) or f'{len(wanted)} functions are declared, mapped and exported')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
