"""Run a command of ``bench``, and convert errors to messages and exit codes.

:mod:`bench.cli.app` lists the commands.
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
from bench.errors import BenchError, DiskFull, UsageError, is_disk_full, only_error

EXIT_BUG = 1
EXIT_BROKEN_PIPE = 141
READS_DATA = frozenset(("run", "plan", "describe", "validate"))
"""commands that show the progress of reading, because their data files can be large"""
OBJECTS_A_COLLECTION = 50_000
"""Number of new objects after which Python collects garbage. The default (700) makes the start of a run slow."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit the process with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line, and return its exit code. Errors are printed, never raised."""
    gc.set_threshold(OBJECTS_A_COLLECTION)
    console.prepare_streams()
    interrupts.listen()
    try:
        return _run(arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE


def _run(arguments: Sequence[str]) -> int:
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
        code = dispatch_ungrouped(rest)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except KeyboardInterrupt as interrupt:
        return interrupts.ended(interrupt)
    except BenchError as problem:
        add_command_hint(problem, rest)
        if flags.traceback or problem.exit_code == EXIT_BUG:
            show_traceback()
        console.error(problem)
        return problem.exit_code
    except OSError as problem:
        if flags.traceback:
            show_traceback()
        error = from_os_error(problem)
        print_error(error)
        return error.exit_code
    except Exception as problem:
        show_traceback()
        console.error(
            BenchError(
                f"{type(problem).__name__}: {problem}", hint="this is a bug in bench: report it with the lines above"
            )
        )
        return EXIT_BUG
    return code


def print_error(problem: BenchError) -> None:
    """Print an error on stderr, or with ``--json`` on stdout.

    If stdout cannot be written, for example on a full disk, use stderr.
    """
    console.discard_output()
    try:
        console.error(problem)
    except OSError:
        console.discard_output()
        global_flags.current.set(replace(global_flags.current.get(), json=False))
        with suppress(OSError):
            console.error(problem)


def add_command_hint(problem: BenchError, rest: Sequence[str]) -> None:
    """If a usage error has no hint of its own, set a hint that names the help of the command."""
    if isinstance(problem, UsageError) and problem.hint == UsageError.default_hint and rest:
        problem.hint = f"show the flags with: bench {rest[0]} --help"


def from_os_error(problem: OSError) -> BenchError:
    """Convert an OSError to an error with a hint; a full disk becomes `DiskFull`."""
    what = f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)
    if is_disk_full(problem):
        return DiskFull(what, hint="make room, then repeat the command; continue a run with: bench resume RUN_ID")
    return UsageError(what, hint="check that the path exists and that you have access to it")


def dispatch_ungrouped(arguments: list[str]) -> int:
    """Run the command. If it raises an exception group with a single error, raise this error instead."""
    try:
        return dispatch(arguments)
    except BaseExceptionGroup as group:
        error = only_error(group)
        if error is None:
            raise
        raise error from group


def dispatch(arguments: list[str]) -> int:
    """Run the command that the arguments name, and return its exit code."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        from importlib.resources import files

        console.raw(files("bench.cli").joinpath("help.txt").read_text(encoding="utf-8"))
        return 0 if arguments else 2
    if arguments[0] in ("--version", "version"):
        from bench.version import version_json, version_text

        if global_flags.current.get().json:
            console.json_value(version_json())
        else:
            console.line(version_text())
        return 0
    if arguments[0] == "list" and not {"-h", "--help"} & set(arguments):
        from bench.cli.commands import list as listing

        return listing.main(arguments[1:])
    from bench.cli.app import call

    return call(arguments)


def show_traceback() -> None:
    """Print on stderr the traceback of the exception that is being handled. Secrets are redacted."""
    import traceback

    from bench.events import redact

    sys.stderr.write(redact(traceback.format_exc()))
