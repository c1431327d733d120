"""Starts the processes of one contender, waits no longer than a limit, and leaves nothing behind."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from compare_lib.contenders import STORE

GRACE = 3  # seconds after a polite signal, and after SIGKILL
TICK = 0.01
LAST_WORDS = 3  # lines of stderr that are repeated


def session_of(stat):
    """The session in the text of /proc/PID/stat, whose second field may hold anything; None: only its status is left."""
    fields = stat.rpartition(')')[2].split()
    return None if fields[0] in 'ZX' else int(fields[3])


def members(sessions):
    """Processes of these sessions: a launcher puts its ranks into groups of their own."""
    found = []
    for entry in pathlib.Path('/proc').iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if session_of((entry / 'stat').read_text(errors='replace')) in sessions:
                    found.append(int(entry.name))
    return found


def signal_all(processes, number, sessions):
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
    if number == signal.SIGKILL:  # what a launcher that is asked politely would have ended itself
        for pid in members(sessions):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def end(processes, grace):
    sessions = {process.pid for process in processes}  # each began a session, so these are ours alone
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal_all(processes, number, sessions)
        limit = time.monotonic() + grace
        while any(process.poll() is None for process in processes) or members(sessions):
            if time.monotonic() > limit:
                break
            time.sleep(TICK)
        else:
            return


def start(process, output, errors):
    pin = (lambda: os.sched_setaffinity(0, {process.core})) if process.core is not None else None
    return subprocess.Popen(process.command, env=process.environment, stdin=subprocess.DEVNULL, stdout=output,
                            stderr=errors, start_new_session=True, preexec_fn=pin)


def wait(running, output, seconds, clock=time.monotonic):
    """None, or what went wrong: the first failure ends the rest. Every row that is printed gives new time."""
    limit, size = clock() + seconds, 0
    while True:
        if (now := os.fstat(output.fileno()).st_size) != size:
            limit, size = clock() + seconds, now
        codes = [process.poll() for process in running]
        if bad := [code for code in codes if code not in (None, 0)]:
            return f'exit status {bad[0]}' if bad[0] > 0 else f'ended by {signal.Signals(-bad[0]).name}'
        if all(code == 0 for code in codes):
            return None
        if clock() > limit:
            return f'nothing for {seconds:g} s'
        time.sleep(TICK)


def in_folder(process, folder):
    command = tuple(folder if word == STORE else word for word in process.command)
    return type(process)(command, process.environment, process.core)


def run(processes, seconds, grace=GRACE):
    """(what the first process printed, None or why it failed)."""
    with tempfile.TemporaryDirectory(prefix='compare-') as folder:
        store = pathlib.Path(folder) / 'store'
        store.mkdir()
        with open(f'{folder}/output', 'w+b') as output, open(f'{folder}/errors', 'w+b') as errors:
            running = []
            try:
                for process in processes:
                    first = not running
                    running.append(start(in_folder(process, str(store)), output if first else subprocess.DEVNULL, errors))
                problem = wait(running, output, seconds)
            except OSError as error:
                problem = str(error)
            finally:
                end(running, grace)
            output.seek(0)
            errors.seek(0)
            text = output.read().decode(errors='replace')
            if problem:
                said = [line.strip() for line in errors.read().decode(errors='replace').splitlines() if line.strip(' -')]
                problem = '; '.join([problem, *said[:LAST_WORDS]])
        return text, problem


def first_line(command, environment):
    """What a program says of its version."""
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return 'version unknown'
    lines = done.stdout.decode(errors='replace').splitlines()
    return ' '.join(lines[0].split()) if lines else 'version unknown'
