"""Ctrl-C and SIGTERM outside a run: before the engine handles signals, and after it has ended.

During a run the engine handles signals (``bench.engine.stopping``). Before and after, a signal ends the command with
the exit code of the signal and a message on the state of the run::

    listen()                                            # SIGTERM raises, as SIGINT does
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
    """The error of a command that a signal ended."""

    kind = "interrupted"


@dataclass(slots=True)
class Stage:
    """The text and hint of the message that an interruption prints."""

    text: str = "no run was in progress"
    hint: str = "give the command again"


_stage = Stage()


def listen() -> None:
    """Let SIGTERM raise `Terminated`; after a run has ended, the default action would end the process silently."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def stage(text: str, *, hint: str) -> None:
    """Set the text and hint that an interruption prints from now on."""
    _stage.text, _stage.hint = text, hint


def ended(interrupt: KeyboardInterrupt) -> int:
    """Print the message on an interruption; return the exit code of the command."""
    terminated = isinstance(interrupt, Terminated)
    # an interrupt that crossed an exec() of text has CPython end by signal 2 whatever the exit code; this forgets it
    exec("")  # noqa: S102 - nothing is run
    signal_name = "SIGTERM" if terminated else "SIGINT"
    console.error(CommandInterrupted(f"the command was stopped by {signal_name}; {_stage.text}", hint=_stage.hint))
    return EXIT_SIGTERM if terminated else EXIT_SIGINT


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
