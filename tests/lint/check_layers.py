#!/usr/bin/env python3
"""Holds the layers of the house: who may include whom, and does; no cycles; third-party headers in their one place.

usage: check_layers.py ROOT
"""
# SPDX-License-Identifier: Apache-2.0

import pathlib
import re
import sys

BASE = {'include', 'src/base'}
TOPOLOGY = {'topology', 'topology/formats', 'topology/discovery'}
ALGORITHMS = {'algorithms', 'algorithms/cost', 'algorithms/choice'}
STRANGERS = TOPOLOGY | {'compression', 'transports'}  # which do not know each other
LIBRARY = BASE | STRANGERS | ALGORITHMS | {
    'src/bootstrap', 'src/engine', 'src/cuda', 'src/tuning', 'src/liveness', 'src/communicator', 'src/c_api'}
# A folder may include from itself and from the folders named here, nothing else. What is below a folder that has no
# row of its own counts as that one. BASE is open to whoever needs it; any other permission is one that an include uses.
ALLOWED = {
    'include': set(),
    'src/base': {'include'},
    'topology': BASE,
    'topology/formats': BASE | {'topology'},
    'topology/discovery': BASE | {'topology', 'topology/formats'},
    'compression': BASE,
    'compression/cuda': BASE | {'compression'},
    'transports': BASE,
    'transports/shm': BASE | {'transports'},
    'transports/framed': BASE | {'transports'},
    'algorithms': BASE | {'topology', 'compression'},
    'algorithms/cost': BASE | {'topology', 'algorithms'},
    'algorithms/choice': BASE | {'algorithms', 'algorithms/cost', 'compression'},
    'algorithms/verify': BASE | {'algorithms'},
    'src': set(),  # nothing lies there but what the linker reads
    'src/bootstrap': BASE,
    'src/engine': BASE | {'compression', 'transports', 'algorithms', 'algorithms/choice'},
    'src/cuda': BASE | {'compression', 'compression/cuda', 'src/engine'},
    'src/tuning': BASE | {'compression', 'algorithms/cost', 'algorithms/choice'},
    'src/liveness': BASE | {'src/bootstrap', 'src/engine'},
    'src/communicator': LIBRARY - {'algorithms/cost', 'src/c_api'},
    'src/reducer': BASE | {'compression', 'compression/cuda', 'algorithms', 'algorithms/choice', 'src/communicator', 'src/cuda',
                           'src/engine', 'src/liveness'},
    'src/c_api': {'src/reducer'} | LIBRARY - {'topology/formats', 'algorithms', 'src/engine', 'src/liveness'},
    'bench': LIBRARY - {'src/engine', 'src/cuda', 'src/liveness'} | {'algorithms/verify', 'transports/shm', 'compression/cuda'},
    'python': {'include'},
    'examples': {'include'},
    'tests': LIBRARY | {'src/reducer', 'algorithms/verify', 'transports/shm', 'transports/framed', 'compression/cuda', 'bench',
                        'examples', 'python'},
}
# One .cc each may include what matches. The programs and the examples have a main of their own each, and reports too;
# hwloc's files are checked before hwloc reads them.
THIRD_PARTY = {
    r'ucp/|uct/': 1,
    r'ucs/': 1,
    r'infiniband/|rdma/': 1,
    r'cuda': 1,
    r'nccl': 1,
    r'hwloc': 2,
    r'nvml': 1,
    r'pmix': 1,
    r'tinyxml2': 1,
    r'openssl/': 1,
    r'zlib\.h': 1,
    r'CLI/': 5,
    r'nlohmann/': 3,
}
WALL_CLOCK = r'\bsystem_clock\b|\bCLOCK_REALTIME\b|\bgettimeofday\b'
FORBIDDEN = {
    WALL_CLOCK:
        'looks at the wall clock, which may jump; time is src/base/clock.h, and text of it src/base/date.h',
    r'/dev/shm': 'names /dev/shm; nothing of ours may lie there',
    r'\bHAVE_\w+\b|\b__has_include\b': 'asks what is installed; the build chooses the file instead',
    r'\bINADDR_ANY\b|\bin6addr_any\b': 'listens everywhere; name an interface',
}
# The one file that may, of what is forbidden.
MAY = {WALL_CLOCK: pathlib.Path('src/base/date.cc')}
QUOTED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
THEIRS = re.compile(r'^\s*#\s*include\s*<([^>]+)>', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)
SUFFIXES = ('.h', '.c', '.cc', '.cu', '.cuh', '.inc')


def folder_of(path):
    """The row of the table that a path below the root belongs to."""
    return next((str(folder) for folder in path.parents if str(folder) in ALLOWED), path.parts[0])


def climbs(target):
    """Whether it goes up a folder: nobody of ours does, and it would hide whose the file is."""
    return '..' in pathlib.Path(target).parts


def resolve(root, target):
    """The path below the root of #include "target", or None if it is not ours."""
    if climbs(target):
        return None
    for candidate in (pathlib.Path(target), pathlib.Path('include') / target):
        if (root / candidate).is_file():
            return candidate
    return None


def read_sources(root):
    """{path below the root: text} of all source files."""
    top = {folder.split('/')[0] for folder in ALLOWED}
    paths = [p for folder in sorted(top) for p in sorted((root / folder).rglob('*')) if p.suffix in SUFFIXES]
    return {p.relative_to(root): p.read_text(encoding='utf-8') for p in paths}


def ours(root, text):
    """What it includes of this project; the root is in the compiler's path, so angle brackets find it, too."""
    return QUOTED.findall(text) + [t for t in THEIRS.findall(text) if climbs(t) or resolve(root, t)]


def check_folders(root, sources):
    for path, text in sources.items():
        folder = folder_of(path)
        for target in ours(root, text):
            into = resolve(root, target)
            if into is None:
                yield f'{path}: no file {target} from the root or from include/'
            elif folder_of(into) not in ALLOWED[folder] | {folder}:
                yield f'{path}: {folder}/ must not include {target} (in {folder_of(into)}/)'


def check_permissions(root, sources):
    """A permission that nothing uses shows nobody how the house is built, and lets in what nobody has weighed."""
    used = {(folder_of(path), folder_of(into)) for path, text in sources.items()
            for into in (resolve(root, target) for target in ours(root, text)) if into}
    for folder, allowed in ALLOWED.items():
        yield from (f'ALLOWED: {folder}/ may include from {into}/, and nothing there does'
                    for into in sorted(allowed - BASE - {folder}) if (folder, into) not in used)


def rooms_below(root, sources, house):
    """{room of that house: {other room of it: [(file, what it includes)]}}"""
    rooms = {room: {} for room in ALLOWED if room.startswith(house + '/')}
    for path, text in sources.items():
        room = folder_of(path)
        for into in filter(None, (resolve(root, target) for target in ours(root, text))):
            if room in rooms and folder_of(into) in rooms and folder_of(into) != room:
                rooms[room].setdefault(folder_of(into), []).append((path, into))
    return rooms


def floors_of(rooms):
    """([the rooms of each floor, the lowest first], the includes that run back up). A room is above all that it
    includes from, and what would close a circle runs back up: into the room that more includes come from."""
    back, below = [], {room: set() for room in rooms}

    def reaches(start, goal):
        return start == goal or any(reaches(room, goal) for room in below[start])

    arrows = sorted(((room, into, files) for room in rooms for into, files in rooms[room].items()), key=lambda a: -len(a[2]))
    for room, into, files in arrows:
        if reaches(into, room):
            back += files
        else:
            below[room].add(into)
    floors = []
    while left := [room for room in rooms if not any(room in floor for floor in floors)]:
        built = {room for floor in floors for room in floor}
        floors.append([room for room in left if below[room] <= built])
    return floors, back


def check_cycles(root, sources):
    edges = {path: sorted({into for into in (resolve(root, t) for t in ours(root, text)) if into in sources})
             for path, text in sources.items()}
    done, trail = set(), []

    def visit(path):
        if path in trail:
            yield 'include cycle: ' + ' -> '.join(map(str, trail[trail.index(path):] + [path]))
        elif path not in done:
            trail.append(path)
            for into in edges[path]:
                yield from visit(into)
            done.add(trail.pop())

    for path in sources:
        yield from visit(path)


def check_third_party(sources):
    product = {path: text for path, text in sources.items() if path.parts[0] != 'tests'}
    for pattern, most in THIRD_PARTY.items():
        users = [path for path, text in product.items() if any(re.match(pattern, t) for t in THEIRS.findall(text))]
        yield from (f'{path}: {pattern} belongs in a .cc' for path in users if path.suffix not in ('.cc', '.cu'))
        if len(users) > most:
            yield f'{pattern} is included by {len(users)} files, at most {most} may: {", ".join(map(str, users))}'


def check_forbidden(sources):
    for path, text in sources.items():
        if path.parts[0] == 'tests':
            continue
        code = COMMENT.sub('', text)
        yield from (f'{path}: {why}' for pattern, why in FORBIDDEN.items()
                    if MAY.get(pattern) != path and re.search(pattern, code))


def main(root):
    sources = read_sources(root)
    if not sources:
        print(f'no sources below {root}', file=sys.stderr)
        return 1
    found = [*check_folders(root, sources), *check_permissions(root, sources), *check_cycles(root, sources),
             *check_third_party(sources), *check_forbidden(sources)]
    for house in ('src', 'topology', 'algorithms', 'transports'):
        floors, back = floors_of(rooms_below(root, sources, house))
        print(f'{house}/: {len(floors)} floors, {len(back)} includes run back up: '
              + ' | '.join(' '.join(room.removeprefix(house + '/') for room in floor) for floor in floors))
        found += [f'{path}: runs back up to {into}' for path, into in back]
    print('\n'.join(found) or f'{len(sources)} files keep to their layers')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
