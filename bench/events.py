"""Write the run log: one JSON line per event, without secrets.

``configure`` and ``run_log`` prepare the log. Other code only logs::

    from bench.events import log
    log().info("phase_done", phase="search", item="conv-26_0")

Events of single calls have the level ``debug`` (shown with -v). All other events have ``info`` or a higher level.
:func:`redact` removes known secrets from any text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.errors import UsageError
from bench.redaction import HIDDEN, KEY_LIKE, Redactor, redactor

if TYPE_CHECKING:
    import logging

    import structlog

__all__ = ["HIDDEN", "KEY_LIKE", "Redactor", "bind", "close", "configure", "log", "redact", "redactor", "run_log"]

NAME = "bench"
_handlers: list[logging.Handler] = []
_levels: list[int] = []
"""for each open run log, the level of the logger before this log was opened. The first level is restored when no run
log is open"""
_level_lock = Lock()
Context = Mapping[str, str | int | None]
_bound: ContextVar[_BoundContext | None] = ContextVar("bound", default=None)


def redact(text: str) -> str:
    """Replace each known secret in a text, and each string that looks like a key, by ``[redacted]``."""
    return redactor(text)


def _redact_value(value: object) -> object:
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, Mapping):
        return {key: _redact_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value(inner) for inner in value]
    return value


def _add_bound(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> Mapping[str, object] | str | bytes | bytearray | tuple[object, ...]:
    return {**_context(), **event}


def _redact_event(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> Mapping[str, object] | str | bytes | bytearray | tuple[object, ...]:
    return {key: _redact_value(value) for key, value in event.items()}


def log() -> structlog.stdlib.BoundLogger:
    """Return the logger of bench. It adds the context of :func:`bind` to every event."""
    import structlog

    if not structlog.is_configured():
        _configure_structlog()
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(NAME)
    return logger


class _BoundContext(NamedTuple):
    """An open ``with bind(...)`` block.

    ``context`` has the fields that the block adds to events. ``outer`` is the block around this block, or None.
    """

    outer: _BoundContext | None
    context: Context


def _context() -> dict[str, str | int]:
    """Return the context of all open :func:`bind` blocks. Values of inner blocks take precedence."""
    chain: list[Context] = []
    block = _bound.get()
    while block is not None:
        chain.append(block.context)
        block = block.outer
    return {key: value for one in reversed(chain) for key, value in one.items() if value is not None}


class bind:  # noqa: N801 - used as the statement `with bind(...)`
    """Add run_id, job, corpus, item, phase, attempt or endpoint to every event inside a ``with`` block."""

    __slots__ = ("_context", "_token")
    _token: Token[_BoundContext | None]

    def __init__(self, **context: str | int | None) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = _bound.set(_BoundContext(_bound.get(), self._context))

    def __exit__(self, *_exc: object) -> None:
        _bound.reset(self._token)


def configure(*, verbose: bool = False, quiet: bool = False, log_file: Path | None = None) -> None:
    """Send events to stderr, and to ``log_file`` if it is given. Call this once per process.

    Stderr gets warnings and errors, and with ``quiet`` only errors. With ``verbose`` it gets all events of bench, and
    those of libraries from level ``info``.

    Raises:
        UsageError: the folder of ``log_file`` does not exist.
    """
    import logging
    import sys

    import structlog

    if log_file is not None and not log_file.parent.is_dir():
        raise UsageError(f"--log-file {log_file}: no such folder {log_file.parent}", hint="create the folder first")
    _configure_structlog()
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING)
    renderer = structlog.dev.ConsoleRenderer(colors=False)
    console.setFormatter(_formatter(renderer if verbose else _without_traceback(renderer)))
    close()
    _attach(console)
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger(NAME).setLevel(logging.DEBUG if verbose else logging.NOTSET)
    if log_file is not None:
        _attach(_rotating_handler(log_file))


@contextmanager
def run_log(path: Path, run_id: str) -> Iterator[None]:
    """Also write the events of the run to the file ``path``, until the ``with`` block ends."""
    import logging

    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _rotating_handler(path)
    handler.addFilter(lambda _: _context().get("run_id") == run_id)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        with _info_enabled(), bind(run_id=run_id):
            yield
    finally:
        root.removeHandler(handler)
        handler.close()


@contextmanager
def _info_enabled() -> Iterator[None]:
    """Enable the level INFO while at least one run log is open. The logs of concurrent runs can end in any order."""
    import logging

    ours = logging.getLogger(NAME)
    with _level_lock:
        _levels.append(ours.level)
        if not ours.isEnabledFor(logging.INFO):
            ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        with _level_lock:
            level = _levels.pop()
            if not _levels:
                ours.setLevel(level)


def close() -> None:
    """Close the log handlers that :func:`configure` opened."""
    import logging

    while _handlers:
        handler = _handlers.pop()
        logging.getLogger().removeHandler(handler)
        handler.close()


def _attach(handler: logging.Handler) -> None:
    import logging

    _handlers.append(handler)
    logging.getLogger().addHandler(handler)


def _configure_structlog() -> None:
    """Route all events of bench through the handlers of the standard library."""
    import structlog

    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _shared_processors() -> list[structlog.types.Processor]:
    """Return the processors for all events, both of bench and of libraries.

    The last processor removes secrets.
    """
    import structlog

    return [
        _add_bound,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_event,
    ]


def _without_traceback(renderer: structlog.types.Processor) -> structlog.types.Processor:
    """Return a renderer for the console that omits tracebacks. Log files still have them."""

    def render(logger: structlog.types.WrappedLogger, name: str, event: structlog.types.EventDict) -> Any:
        event.pop("exception", None)
        return renderer(logger, name, event)

    return render


def _rotating_handler(path: Path) -> logging.Handler:
    """Return a handler that writes JSON lines to a file, with at most five files of 20 MB each.

    If the disk is full, events are lost, but the run continues.
    """
    import logging.handlers

    import structlog

    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=20_000_000, backupCount=4, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(_formatter(structlog.processors.JSONRenderer(ensure_ascii=False)))
    handler.handleError = lambda record: None  # type: ignore[method-assign]
    return handler


def _formatter(renderer: structlog.types.Processor) -> structlog.stdlib.ProcessorFormatter:
    import structlog

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared_processors(),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
