"""Handle Ctrl-C and SIGTERM before and after a run.

During a run, ``bench.engine.stopping`` handles signals. Before and after a run, a signal ends the command with the exit
code of this signal, and a message describes the state of the run::

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
    """SIGTERM was received. It ends a command in the same way as Ctrl-C."""


class CommandInterrupted(BenchError):
    """The error of a command that a signal ended."""

    kind = "interrupted"


@dataclass(slots=True)
class Stage:
    """The text and the hint that are printed if a signal ends the command."""

    text: str = "no run was in progress"
    hint: str = "give the command again"


_stage = Stage()


def listen() -> None:
    """From now on, raise `Terminated` on SIGTERM, in the main thread.

    Without this, SIGTERM after a run would end the process without a message.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def stage(text: str, *, hint: str) -> None:
    """Set the text and the hint to print if a signal ends the command from now on."""
    _stage.text, _stage.hint = text, hint


def ended(interrupt: KeyboardInterrupt) -> int:
    """Print the message about a signal that ended the command, and return the exit code of the signal."""
    terminated = isinstance(interrupt, Terminated)
    # an interrupt that crossed an exec() of text has CPython end by signal 2 whatever the exit code; this forgets it
    exec("")  # noqa: S102 - nothing is run
    signal_name = "SIGTERM" if terminated else "SIGINT"
    console.error(CommandInterrupted(f"the command was stopped by {signal_name}; {_stage.text}", hint=_stage.hint))
    return EXIT_SIGTERM if terminated else EXIT_SIGINT


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
