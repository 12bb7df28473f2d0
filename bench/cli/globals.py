"""The flags that stand before or after any command: ``bench -q run`` = ``bench run -q``.

They are taken out of the argument list before a command's own parser sees it::

    flags, rest = split(["results", "r1", "--json"])      # flags.json is True, rest is ["results", "r1"]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

from bench.errors import UsageError

DISPLAYS = ("auto", "live", "plain", "json", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Globals:
    """What every command may know of its surroundings."""

    workspace: Path = Path()
    env_file: Path | None = None
    display: str = "auto"
    quiet: bool = False
    verbose: bool = False
    log_file: Path | None = None
    color: bool = True
    json: bool = False
    traceback: bool = False


SWITCHES: dict[str, dict[str, bool]] = {
    "-q": {"quiet": True},
    "--quiet": {"quiet": True},
    "-v": {"verbose": True},
    "--verbose": {"verbose": True},
    "--no-color": {"color": False},
    "--json": {"json": True},
    "--traceback": {"traceback": True},
}


def _display(text: str) -> str:
    if text not in DISPLAYS:
        raise UsageError(f"--display {text}: not one of {', '.join(DISPLAYS)}")
    return text


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise UsageError(f"--workspace {text}: no such folder", hint="name an existing folder")
    return path


VALUES: dict[str, tuple[str, Callable[[str], object]]] = {
    "--workspace": ("workspace", _folder),
    "--env-file": ("env_file", Path),
    "--display": ("display", _display),
    "--log-file": ("log_file", Path),
}

current: ContextVar[Globals] = ContextVar("bench_globals", default=Globals())


def split(arguments: Sequence[str]) -> tuple[Globals, list[str]]:
    """Take the global flags out of ``arguments``; everything after ``--`` is left alone.

    Raises:
        UsageError: a global flag has no value or a wrong one.
    """
    found = Globals()
    rest: list[str] = []
    tokens = iter(arguments)
    for token in tokens:
        if token == "--":
            rest += [token, *tokens]
        elif token in SWITCHES:
            found = replace(found, **SWITCHES[token])
        elif (name := token.partition("=")[0]) in VALUES:
            field, read = VALUES[name]
            value = token.partition("=")[2] if "=" in token else next(tokens, None)
            if value is None:
                raise UsageError(f"{name} needs a value")
            found = replace(found, **{field: read(value)})
        else:
            rest.append(token)
    return found, rest
