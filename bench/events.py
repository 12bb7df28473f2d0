"""The run log: one JSON line per event, with redaction before every sink.

``configure`` is called once by the command line, ``run_log`` by a run; everything else only does::

    from bench.events import log
    log().info("phase_done", phase="search", item="conv-26_0")

Levels: per-call events are ``debug`` (shown with -v), everything else ``info`` and above. Nothing that
passes through here, or through :func:`redact`, can hold a secret that was handed out by
:class:`bench.settings.Environment`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from bench.errors import UsageError
from bench.redaction import HIDDEN, KEY_LIKE, Redactor, redactor

__all__ = ["HIDDEN", "KEY_LIKE", "Redactor", "bind", "close", "configure", "log", "redact", "redactor", "run_log"]

NAME = "bench"
_sinks: list[logging.Handler] = []
_levels: list[int] = []
"""of each open run log the level it found; the first one's comes back at the end of the last"""
_changing = Lock()
Context = Mapping[str, str | int | None]
_bound: ContextVar[_Bound | None] = ContextVar("bound", default=None)


def redact(text: str) -> str:
    """Replace known secrets and key-like strings by ``[redacted]``."""
    return redactor(text)


def _redact_value(value: object) -> object:
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, Mapping):
        return {key: _redact_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value(inner) for inner in value]
    return value


class EventLog:
    """Says events: a name, and what is to be known of it; context bound by :func:`bind` goes with each."""

    __slots__ = ()

    def debug(self, event: str, **fields: object) -> None:
        """Say what only ``-v`` shows."""
        _say(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Say what the log of a run keeps."""
        _say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Say what the terminal shows too; ``exc_info`` is the error behind it."""
        _say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Say what ``--quiet`` shows too."""
        _say(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Say an error with the exception that is being handled."""
        _say(logging.ERROR, event, {"exc_info": sys.exc_info()[1], **fields})


_log = EventLog()


def log() -> EventLog:
    """The log of the run."""
    return _log


def _say(level: int, event: str, fields: dict[str, object]) -> None:
    ours = logging.getLogger(NAME)
    if ours.isEnabledFor(level):
        raised = fields.pop("exc_info", None)
        ours.log(level, event, exc_info=raised if isinstance(raised, BaseException) else None, extra={"fields": fields})


class _Bound(NamedTuple):
    """What one block binds, and the block around it."""

    outer: _Bound | None
    context: Context


def _context() -> dict[str, str | int]:
    """What is bound here; the innermost block wins."""
    chain: list[Context] = []
    block = _bound.get()
    while block is not None:
        chain.append(block.context)
        block = block.outer
    return {key: value for one in reversed(chain) for key, value in one.items() if value is not None}


class bind:  # noqa: N801 - used as the statement `with bind(...)`
    """Add run_id, job, corpus, item, phase, attempt or endpoint to every event inside the block.

    One context variable holds them all, as a chain that is read where an event is written: a phase binds, and only
    what goes wrong is logged.
    """

    __slots__ = ("_context", "_token")
    _token: Token[_Bound | None]

    def __init__(self, **context: str | int | None) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = _bound.set(_Bound(_bound.get(), self._context))

    def __exit__(self, *_exc: object) -> None:
        _bound.reset(self._token)


def configure(*, verbose: bool = False, quiet: bool = False, log_file: Path | None = None) -> None:
    """Send events to stderr (warnings, or all with ``verbose``) and to ``log_file``; called once a process.

    Raises:
        UsageError: the folder of ``log_file`` is not there.
    """
    if log_file is not None and not log_file.parent.is_dir():
        raise UsageError(f"--log-file {log_file}: no such folder {log_file.parent}", hint="create the folder first")
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING)
    console.setFormatter(_Formatter(_in_full if verbose else _briefly))
    close()
    _attach(console)
    logging.getLogger().setLevel(logging.DEBUG if verbose else logging.INFO)
    if log_file is not None:
        _attach(_rotating(log_file))


@contextmanager
def run_log(path: Path, run_id: str) -> Iterator[None]:
    """Write what happens inside the block, in tasks that are bound to this run, to ``path`` too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _rotating(path)
    handler.addFilter(lambda _: _context().get("run_id") == run_id)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        with _heard(), bind(run_id=run_id):
            yield
    finally:
        root.removeHandler(handler)
        handler.close()


@contextmanager
def _heard() -> Iterator[None]:
    """Let INFO pass for as long as any run log is open: runs side by side end in any order."""
    ours = logging.getLogger(NAME)
    with _changing:
        _levels.append(ours.level)
        if not ours.isEnabledFor(logging.INFO):
            ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        with _changing:
            level = _levels.pop()
            if not _levels:
                ours.setLevel(level)


def close() -> None:
    """Flush and close every sink that was opened here."""
    while _sinks:
        handler = _sinks.pop()
        logging.getLogger().removeHandler(handler)
        handler.close()


def _attach(handler: logging.Handler) -> None:
    _sinks.append(handler)
    logging.getLogger().addHandler(handler)


def _rotating(path: Path) -> logging.Handler:
    """A file of JSON lines: 20 MB, then the next; five are kept. A full disk loses events, never the run."""
    import logging.handlers  # brings pickle and sockets

    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=20_000_000, backupCount=4, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(_Formatter(_as_json))
    handler.handleError = lambda record: None  # type: ignore[method-assign]
    return handler


class _Formatter(logging.Formatter):
    """Every event, ours or a library's, with context, level, name and time, and without secrets."""

    def __init__(self, render: Callable[[dict[str, object]], str]) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            **_context(),
            **getattr(record, "fields", {}),
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return self._render({key: _redact_value(value) for key, value in event.items()})


def _as_json(event: dict[str, object]) -> str:
    return json.dumps(event, ensure_ascii=False, default=lambda value: redactor(repr(value)))


def _briefly(event: dict[str, object]) -> str:
    """One line, without the traceback: those of an item are in the log files."""
    head = f"{event['timestamp']} [{event['level']:<9}] {event['event']:<30} [{event['logger']}]"
    fields = event.keys() - {"timestamp", "level", "event", "logger", "exception"}
    return " ".join([head, *(f"{key}={_plain(event[key])}" for key in sorted(fields))])


def _in_full(event: dict[str, object]) -> str:
    return "\n".join([_briefly(event), *(str(event[key]) for key in ("exception",) if key in event)])


def _plain(value: object) -> str:
    """A text as it is where that is one clear word."""
    if isinstance(value, str) and value.isprintable() and not set(" =\"'").intersection(value):
        return value
    return redactor(repr(value))
