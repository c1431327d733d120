#!/usr/bin/env python3
"""Every tracked source file is short enough, says what it is for and under which licence, and has no loose ends. Its
comments begin with who does what. The README's program is one that is built. No line of a document or build file and no
table cell is too long to be read, and the files that a document names and links to exist.

usage: check_files.py ROOT     exit status 77 where ROOT is no git checkout
"""
# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import re
import subprocess
import sys

WALL = 500  # lines
WIDTH = 120  # columns of a document, outside tables and programs, and of a build file
CELL = 200  # characters in a cell of a table, without commands
CODE = {'.c', '.h', '.cc', '.cu', '.cuh', '.inc', '.in', '.py', '.sh'}
LICENCE = re.compile(r'^\s*(//|#|\*|/\*) SPDX-License-Identifier: Apache-2\.0')
# What makes descriptors, in the library: a Descriptor keeps them off the numbers of the standard streams.
MAKERS = re.compile(r'(?:(?<![\w>])::(?:open|openat|creat|socket|socketpair|accept|dup|pipe2?|inotify_init1?|mkostemp|'
                    r'shm_open)|\b(?:accept4|eventfd|epoll_create1?|memfd_create|timerfd_create|signalfd|userfaultfd)'
                    r')\(|SYS_pidfd|F_DUPFD')
LIBRARY = ('src/', 'transports/', 'topology/', 'algorithms/', 'compression/')
RAW = {'src/base/standard_streams.cc', 'src/base/descriptor.h'}  # which hold those numbers, and move what got one
COMMAND = re.compile(r'`--[^`]*`')  # or its options
QUOTED = re.compile(r'`([^`]+)`')
LINK = re.compile(r'\]\(([^)#\s]+)')
SOURCE = re.compile(r'[\w-]+\.(h|c|cc|cu)')  # named without its folder
BUILD = ('meson.build', 'meson_options.txt')
# A comment, behind code or on a line of its own, by the language of its file.
COMMENT = {True: re.compile(r'(?:^|(?<=\s))#(.*)'), False: re.compile(r'(?:^|(?<=\s))(?://|/\*)(.*)')}
TEST = re.compile(r'^TEST(?:_F|_P)?\(\s*\w+,\s*(\w+)', re.MULTILINE)
LOOSE = re.compile(r'\b(TODO|FIXME|XXX|HACK)\b(?!\()')


def check(path, text):
    lines = text.split('\n')
    if len(lines) - 1 > WALL:
        yield f'{path}: {len(lines) - 1} lines; the wall is {WALL}'
    if path.suffix not in ('.in',) and not any(map(LICENCE.match, lines[:60])):
        yield f'{path}: no line "SPDX-License-Identifier: Apache-2.0"'
    if not text.endswith('\n') or text.endswith('\n\n'):
        yield f'{path}: ends in no or in several line ends'
    for number, line in enumerate(lines, 1):
        if '\t' in line or '\r' in line or line != line.rstrip():
            yield f'{path}:{number}: tab, carriage return or trailing space'
        if path.name != 'check_files.py' and LOOSE.search(line):
            yield f'{path}:{number}: a loose end without a type and a reason'


def check_comments(path, text):
    """No comment, and no paragraph of one, begins with "Of": such a sentence has lost its subject. None is a banner."""
    comment = COMMENT[path.suffix in ('.py', '.sh')]
    goes_on = False
    for number, line in enumerate(text.split('\n'), 1):
        found = comment.search(line)
        if found and not goes_on and re.match(r'\W*Of\b', found[1]):
            yield f'{path}:{number}: a comment that begins with "Of"'
        if found and re.match(r'\s*-{3}', found[1]):
            yield f'{path}:{number}: a banner'
        goes_on = bool(found and found[1].strip() and not line[:found.start()].strip())


def check_test_names(path, text):
    for found in TEST.finditer(text):
        if not re.fullmatch(r'[A-Z][A-Za-z0-9]*', found[1]):
            yield f'{path}:{text.count(chr(10), 0, found.start()) + 1}: a test of the name {found[1]}; right is {camel(found[1])}'


def camel(name):
    return ''.join(word[:1].upper() + word[1:] for word in name.split('_'))


def check_descriptors(path, text):
    if not str(path).startswith(LIBRARY) or str(path) in RAW or path.suffix not in ('.cc', '.h', '.cu'):
        return
    code = re.sub(r'//[^\n]*', '', text)
    for found in MAKERS.finditer(code):
        before = code[max(0, found.start() - 80):found.start()]
        if not re.search(r'Descriptor[^;]*$', before):
            yield f'{path}:{code.count(chr(10), 0, found.start()) + 1}: {found[0].strip("(")} not in a Descriptor'


def check_readme(root):
    """The README's program is the example that is built and run."""
    shown = re.search(r'```c\n(.*?)```', (root / 'README.md').read_text(encoding='utf-8'), re.DOTALL)
    if not shown or shown[1] not in (root / 'examples/allreduce.c').read_text(encoding='utf-8'):
        yield 'README.md: its C program is not examples/allreduce.c'


def check_prose(path, text):
    """Lines that a window shows whole, and cells that fit beside each other."""
    program = False
    for number, line in enumerate(text.split('\n'), 1):
        program ^= line.startswith('```')
        if line.startswith('|'):
            if any(len(COMMAND.sub('', cell)) > CELL for cell in line.split('|')):
                yield f'{path}:{number}: a cell of more than {CELL} characters'
        elif len(line) > WIDTH and not program and not line.startswith('    '):
            yield f'{path}:{number}: {len(line)} columns; a document has {WIDTH}'


def check_build(path, text):
    for number, line in enumerate(text.split('\n'), 1):
        if len(line) > WIDTH:
            yield f'{path}:{number}: {len(line)} columns; a build file has {WIDTH}'


def check_names(page, text, tracked):
    """What a document names of ours, and links to, is there. A NAME in capitals stands for any."""
    folders = {str(folder) for path in tracked for folder in path.parents} - {'.'}
    there = {str(path) for path in tracked} | folders
    names = {path.name for path in tracked}
    for number, line in enumerate(text.split('\n'), 1):
        for word in (word for quoted in QUOTED.findall(line) for word in quoted.split()):
            ours = re.fullmatch(r'[\w./-]+', word) and '/' in word and word.split('/')[0] in folders
            if re.search(r'\b(NAME|ROOM)(_|\b)', word):
                continue
            if (ours and word.rstrip('/') not in there) or (SOURCE.fullmatch(word) and word not in names):
                yield f'{page}:{number}: no file {word}'
        for link in LINK.findall(line):
            if '://' not in link and os.path.normpath(page.parent / link) not in there:
                yield f'{page}:{number}: no file {link} to link to'


def main(root):
    tracked = subprocess.run(['git', '-C', str(root), 'ls-files', '-z'], stdout=subprocess.PIPE, text=True, check=False)
    if tracked.returncode != 0:
        print('skipped: not a git checkout')
        return 77
    paths = [pathlib.Path(name) for name in tracked.stdout.split('\0') if name]
    paths = [path for path in paths if (root / path).is_file()]
    pages = {path: (root / path).read_text(encoding='utf-8') for path in paths if path.suffix == '.md'}
    found = [line for page, text in pages.items() for line in check_prose(page, text)]
    found += [line for page, text in pages.items() for line in check_names(page, text, paths)]
    for path in (path for path in paths if path.name in BUILD):
        found += check_build(path, (root / path).read_text(encoding='utf-8'))
    paths = [path for path in paths if path.suffix in CODE]
    found += [line for path in paths for line in check(path, (root / path).read_text(encoding='utf-8'))]
    found += [line for path in paths for line in check_comments(path, (root / path).read_text(encoding='utf-8'))]
    found += [line for path in paths for line in check_test_names(path, (root / path).read_text(encoding='utf-8'))]
    found += [line for path in paths for line in check_descriptors(path, (root / path).read_text(encoding='utf-8'))]
    found += check_readme(root)
    print('\n'.join(found) or f'{len(paths)} files and {len(pages)} documents are in order')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
