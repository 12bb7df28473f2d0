"""The flags that every command has. They can be before or after the command: ``bench -q run`` is equal to ``bench run
-q``.

``split`` removes these flags from the arguments before the command parses the arguments::

    flags, rest = split(["results", "r1", "--json"])      # flags.json is True, rest is ["results", "r1"]
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.config.catalog import Catalog
    from bench.settings import Environment

DISPLAYS = ("auto", "live", "plain", "json", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Globals:
    """The values of the global flags."""

    workspace: Path = Path()
    env_file: Path | None = None
    display: str = "auto"
    quiet: bool = False
    verbose: bool = False
    log_file: Path | None = None
    color: bool = True
    json: bool = False
    traceback: bool = False

    def catalog(self) -> Catalog:
        """Load the configs of the workspace."""
        from bench.config.catalog import Catalog

        return Catalog.load(self.workspace)

    def environment(self) -> Environment:
        """Load the environment variables, with those of the ``.env`` file."""
        from bench.settings import Environment

        return Environment.load(self.workspace, self.env_file)

    def configure_log(self) -> None:
        from bench import events

        events.configure(verbose=self.verbose, quiet=self.quiet, log_file=self.log_file)


SWITCHES: dict[str, Callable[[Globals], Globals]] = {
    "-q": lambda flags: replace(flags, quiet=True),
    "--quiet": lambda flags: replace(flags, quiet=True),
    "-v": lambda flags: replace(flags, verbose=True),
    "--verbose": lambda flags: replace(flags, verbose=True),
    "--no-color": lambda flags: replace(flags, color=False),
    "--json": lambda flags: replace(flags, json=True),
    "--traceback": lambda flags: replace(flags, traceback=True),
}


def _display(text: str) -> str:
    if text not in DISPLAYS:
        raise UsageError(f"--display {text}: expected one of {', '.join(DISPLAYS)}")
    return text


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise UsageError(f"--workspace {text}: no such folder", hint="name an existing folder")
    return path


VALUES: dict[str, Callable[[Globals, str], Globals]] = {
    "--workspace": lambda flags, text: replace(flags, workspace=_folder(text)),
    "--env-file": lambda flags, text: replace(flags, env_file=Path(text)),
    "--display": lambda flags, text: replace(flags, display=_display(text)),
    "--log-file": lambda flags, text: replace(flags, log_file=Path(text)),
}


def command(text: str) -> str:
    """Return a bench command as the user must type it, with ``--workspace`` if the user gave this flag."""
    workspace = current.get().workspace
    return text if workspace == Path() else f"{text} --workspace {shlex.quote(str(workspace))}"


current: ContextVar[Globals] = ContextVar("bench_globals", default=Globals())  # noqa: B039  frozen


def split(arguments: Sequence[str]) -> tuple[Globals, list[str]]:
    """Return the values of the global flags, and the arguments without these flags.

    Arguments after ``--`` are never global flags.

    Raises:
        UsageError: a global flag has no value or an invalid value.
    """
    found = Globals()
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word in SWITCHES:
            found = SWITCHES[word](found)
        elif (name := word.partition("=")[0]) in VALUES:
            value = word.partition("=")[2] if "=" in word else next(words, None)
            if value is None:
                raise UsageError(f"{name} needs a value")
            found = VALUES[name](found, value)
        else:
            rest.append(word)
    return found, rest
