"""The command line: ``bench COMMAND``. This module turns arguments into an exit code, and errors into two lines.

Commands live in the modules that :mod:`bench.cli.app` names, and are imported when they are called.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from bench.cli import console, global_flags
from bench.cli import signals as interrupts
from bench.errors import BenchError, DiskFull, UsageError, alone, is_disk_full

EXIT_BUG = 1
EXIT_BROKEN_PIPE = 141
READS_DATA = frozenset(("run", "plan", "describe", "validate"))
"""commands that may wait for data, and show how far it is read"""
OBJECTS_A_COLLECTION = 50_000
"""Python's own 700 has the collector walk the growing heap hundreds of times before a run's first call."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code, never raises."""
    gc.set_threshold(OBJECTS_A_COLLECTION)
    console.prepare_streams()
    interrupts.listen()
    try:
        flags, rest = global_flags.split(arguments)
    except UsageError as problem:
        global_flags.current.set(global_flags.Globals(json="--json" in arguments))
        console.error(problem)
        return problem.exit_code
    global_flags.current.set(flags)
    try:
        if rest[:1] and rest[0] in READS_DATA:
            console.show_reading()
        code = ungrouped(rest)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt as interrupt:
        return interrupts.ended(interrupt)
    except BenchError as problem:
        name_command(problem, rest)
        if flags.traceback or problem.exit_code == EXIT_BUG:
            show_traceback()
        console.error(problem)
        return problem.exit_code
    except OSError as problem:
        if flags.traceback:
            show_traceback()
        told = of_system(problem)
        say(told)
        return told.exit_code
    except Exception as problem:
        show_traceback()
        console.error(BenchError(f"{type(problem).__name__}: {problem}", hint="a bug: report it with the lines above"))
        return EXIT_BUG
    return code


def say(problem: BenchError) -> None:
    """Print an error; on stderr where stdout takes no more text, such as a file on a full disk."""
    console.drop_what_is_left()
    try:
        console.error(problem)
    except OSError:
        console.drop_what_is_left()
        global_flags.current.set(replace(global_flags.current.get(), json=False))
        with suppress(OSError):
            console.error(problem)


def name_command(problem: BenchError, rest: Sequence[str]) -> None:
    """A usage error that only points to the help: the help of the command shows its flags."""
    if isinstance(problem, UsageError) and problem.hint == UsageError.default_hint and rest:
        problem.hint = f"bench {rest[0]} --help shows the flags"


def of_system(problem: OSError) -> BenchError:
    """A file that cannot be read or written: a full disk waits for room, anything else is for the user."""
    what = f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)
    if is_disk_full(problem):
        return DiskFull(what, hint="make room, then give the command again, or bench resume RUN_ID for a run")
    return UsageError(what, hint="check that the place is there and may be written")


def ungrouped(arguments: list[str]) -> int:
    """Call the command; a single error inside the groups of its task groups is that error, whatever the command."""
    try:
        return dispatch(arguments)
    except BaseExceptionGroup as group:
        error = alone(group)
        if error is None:
            raise
        raise error from group


def dispatch(arguments: list[str]) -> int:
    """Hand the arguments to the command that they name."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        from importlib.resources import files

        console.raw(files("bench.cli").joinpath("help.txt").read_text(encoding="utf-8"))
        return 0 if arguments else 2
    if arguments[0] in ("--version", "version"):
        from bench.version import described

        console.line(described())
        return 0
    if arguments[0] == "list" and not {"-h", "--help"} & set(arguments):
        from bench.cli import list as listing

        return listing.main(arguments[1:])
    from bench.cli.app import call

    return call(arguments)


def show_traceback() -> None:
    """Print the traceback of the error in flight, without secrets, on stderr."""
    import traceback

    from bench.events import redact

    sys.stderr.write(redact(traceback.format_exc()))
