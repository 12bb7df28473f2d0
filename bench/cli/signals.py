"""Ctrl-C and SIGTERM outside a run: before the engine listens, and after it has ended.

While it works, the engine answers a signal itself (``bench.engine.stopping``). Earlier or later the command ends here,
with the exit code of the signal and two lines that say what that means for the run::

    listen()                                            # SIGTERM is raised like SIGINT
    stage("nothing was called yet", hint="give the command again")
    return ended(interrupt)                             # 130 or 143
"""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from types import FrameType

from bench.cli import console
from bench.errors import BenchError

EXIT_SIGINT = 130
EXIT_SIGTERM = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as SIGINT does."""


class CommandInterrupted(BenchError):
    """The command was ended by a signal."""

    kind = "interrupted"


@dataclass(slots=True)
class Stage:
    """What an interruption finds, and what to do then."""

    text: str = "nothing was running"
    hint: str = "give the command again"


_stage = Stage()


def listen() -> None:
    """Let SIGTERM raise; the end of a run's own watch leaves it to kill the process without a word."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def stage(text: str, *, hint: str) -> None:
    """Say what an interruption from here on finds."""
    _stage.text, _stage.hint = text, hint


def ended(interrupt: KeyboardInterrupt) -> int:
    """Tell what was interrupted; gives the exit code."""
    terminated = isinstance(interrupt, Terminated)
    # an interrupt that crossed an exec() of text has CPython end by signal 2 whatever the exit code; this forgets it
    exec("")  # noqa: S102 - nothing is run
    name = "SIGTERM" if terminated else "SIGINT"
    console.error(CommandInterrupted(f"ended by {name}; {_stage.text}", hint=_stage.hint))
    return EXIT_SIGTERM if terminated else EXIT_SIGINT


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
