#!/usr/bin/env python3
"""Installs to a temporary prefix and uses it as a stranger would: C by pkg-config, C++ by CMake, C statically.

usage: check_install.py BUILD_FOLDER PREFIX VERSION PROGRAM...     77 where a tool is missing
"""
# SPDX-License-Identifier: Apache-2.0

import os
import re
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = {'banyan.h', 'c_reducer.h', 'c_types.h', 'communicator.h', 'encode.h', 'reducer.h', 'status.h', 'types.h',
           'version.h'}


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


def run(*command, **options):
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    expect(done.returncode == 0, f'{shlex.join(command)}: status {done.returncode}\n{done.stdout}')
    return done.stdout.strip()


def check_files(installed, library_folder, version, programs):
    headers = {path.name for path in (installed / 'include/banyan').iterdir()}
    expect(headers == HEADERS, f'headers are {sorted(headers)}, expected {sorted(HEADERS)}')
    major, minor, _ = version.split('.')
    abi = major if int(major) else f'{major}.{minor}'  # what may stand for each other, as CMake's package has it
    for name in ('libbanyan.so', f'libbanyan.so.{abi}', 'libbanyan.a', 'cmake/banyan/banyanConfig.cmake',
                 'cmake/banyan/banyanConfigVersion.cmake'):
        expect((library_folder / name).exists(), f'{library_folder / name} is missing')
    soname = run('objdump', '-p', library_folder / 'libbanyan.so')
    expect(f'SONAME               libbanyan.so.{abi}\n' in soname, f'the soname is not libbanyan.so.{abi}')
    for name in programs:
        expect(os.access(installed / 'bin' / name, os.X_OK), f'bin/{name} is missing')


def check_programs(installed, version, programs, environment):
    for name in programs:
        line = run(installed / 'bin' / name, '--version', env=environment)
        expect(version in line, f'{name} --version says "{line}", expected {version}')
        check_manual(installed / f'share/man/man1/{name}.1', run(installed / 'bin' / name, '--help', env=environment))


def check_manual(page, help_text):
    """The man page explains each option that the help shows."""
    text = page.read_text(encoding='utf-8').replace('\\-', '-').replace('"', '')
    for section in ('NAME', 'SYNOPSIS', 'DESCRIPTION', 'OPTIONS', 'EXIT STATUS', 'EXAMPLES'):
        expect(f'.SH {section}\n' in text, f'{page}: no section {section}')
    explained = text[text.index('.SH OPTIONS'):]
    options = re.findall(r'(?<![\w-])--?[a-z][a-z-]*', re.split(r'\n\n(?=Not|With|COLLECTIVE)', help_text)[0])
    expect(len(options) > 5, f'{page}: the help shows no options')
    for option in options:
        expect(re.search(rf'^\.[BIR]+ .*(?<![\w-]){re.escape(option)}(?![\w-])', explained, re.M),
               f'{page}: {option} is not explained')


def check_c(work, library_folder, version, environment):
    def ask(*what):
        return shlex.split(run('pkg-config', *what, 'banyan', env=environment))

    expect(ask('--modversion') == [version], f'banyan.pc has version {ask("--modversion")}')
    alone = dict(environment, PKG_CONFIG_LIBDIR=environment['PKG_CONFIG_PATH'])  # no other package is installed
    for what in (['--cflags'], ['--libs'], ['--static', '--libs']):
        run('pkg-config', *what, 'banyan', env=alone)
    compiler = os.environ.get('CC', 'cc').split()[-1]
    warnings = ['-std=c99', '-Wall', '-Wextra', '-pedantic', '-Werror']
    run(compiler, *warnings, HERE / 'main.c', '-o', work / 'c', *ask('--cflags'), *ask('--libs'))
    print(run(work / 'c', env=environment))

    libraries = ['-l:libbanyan.a' if word == '-lbanyan' else word for word in ask('--static', '--libs')]
    expect(not {'-lucp', '-lpmix'} & set(libraries), f'{libraries}: UCX and PMIx are opened at run time')
    run(compiler, *warnings, HERE / 'main.c', '-o', work / 'static', *ask('--cflags'), f'-L{library_folder}', *libraries)
    needed = run('objdump', '-p', work / 'static')
    expect('libbanyan' not in needed, 'the static program needs the shared library')
    print(run(work / 'static', env=environment))


def check_old_cpp(work, installed):
    """C++ of before 2020 is told so in one line, not by a page of what it does not know."""
    compiler = os.environ.get('CXX', 'c++').split()[-1]
    for header in ('communicator.h', 'status.h', 'types.h'):
        source = work / 'old.cc'
        source.write_text(f'#include <banyan/{header}>\n', encoding='utf-8')
        done = subprocess.run([compiler, '-std=c++17', '-fsyntax-only', f'-I{installed}/include', source], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        first = next((line for line in done.stdout.split('\n') if 'error' in line), '(compiles)')
        expect('need C++20' in first, f'{header} as C++17: {first}')


def check_cpp(work, installed, environment):
    if shutil.which('cmake') is None:
        print('no cmake: find_package not tried; apt-get install cmake')
        return 77
    run('cmake', '-G', 'Ninja', '-S', HERE, '-B', work / 'cmake', f'-DCMAKE_PREFIX_PATH={installed}', '-DCMAKE_BUILD_TYPE=Release')
    run('cmake', '--build', work / 'cmake')
    print(run(work / 'cmake/user', env=environment))
    return 0


def main(build, prefix, version, *programs):
    with tempfile.TemporaryDirectory() as folder:
        root, work = pathlib.Path(folder) / 'root', pathlib.Path(folder) / 'work'
        work.mkdir()
        run('meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', root)
        installed = root / prefix.lstrip('/')
        configs = list(installed.glob('**/pkgconfig/banyan.pc'))
        expect(len(configs) == 1, f'banyan.pc: found {configs}')
        library_folder = configs[0].parent.parent
        environment = dict(os.environ, PKG_CONFIG_PATH=str(configs[0].parent), PKG_CONFIG_SYSROOT_DIR=str(root),
                           LD_LIBRARY_PATH=str(library_folder))
        check_files(installed, library_folder, version, programs)
        check_programs(installed, version, programs, environment)
        check_c(work, library_folder, version, environment)
        check_old_cpp(work, installed)
        return check_cpp(work, installed, environment)


if __name__ == '__main__':
    try:
        sys.exit(main(*sys.argv[1:]))
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)
