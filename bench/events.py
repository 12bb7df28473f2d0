"""The run log: one JSON line an event, with redaction in front of every sink.

``configure`` is called once by the command line; everything else only does::

    from bench.events import log
    log().info("phase_done", phase="search", item="conv-26_0")

Levels: per-call events are ``debug`` (shown with -v), everything else ``info`` and above. Nothing that
passes through here, or through :func:`redact`, can hold a secret that was handed out by
:class:`bench.settings.Environment`.
"""

from __future__ import annotations

import base64
import re
import urllib.parse
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

    import structlog

HIDDEN = "[redacted]"
KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|ghp|gho|hf|AIza|m0|sm|key)[-_][A-Za-z0-9_\-]{16,}\b|\bAIza[A-Za-z0-9_\-]{30,}\b"
    r"|(?i:\b(?:bearer|token|api-key)\s+)[A-Za-z0-9._~+/\-]{16,}=*"
)
SHORTEST_SECRET = 4


class Redactor:
    """Knows every secret in the forms in which it could leak: plain, base64, hex, percent-encoded."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, secret: str) -> None:
        """Remember a secret; shorter than four characters is not redacted (it would blank ordinary words)."""
        if len(secret) < SHORTEST_SECRET:
            return
        raw = secret.encode()
        forms = {secret, raw.hex(), raw.hex().upper(), urllib.parse.quote(secret, safe="")}
        for form in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
            forms.add(form.decode())
            forms.add(form.decode().rstrip("="))
        if not forms <= self._forms:
            self._forms |= forms
            longest_first = sorted(self._forms, key=len, reverse=True)
            self._pattern = re.compile("|".join(re.escape(form) for form in longest_first))

    def holds_secret(self, text: str) -> bool:
        """Say whether a known secret occurs in ``text`` in any form."""
        return self._pattern is not None and self._pattern.search(text) is not None

    def __call__(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(HIDDEN, text)
        return KEY_LIKE.sub(HIDDEN, text)


redactor = Redactor()
_sinks: list[logging.Handler] = []


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


def _redact_event(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> Mapping[str, object] | str | bytes | bytearray | tuple[object, ...]:
    return {key: _redact_value(value) for key, value in event.items()}


def log() -> structlog.stdlib.BoundLogger:
    """The logger of the run; context bound by :func:`bind` goes with every event."""
    import structlog

    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("bench")
    return logger


@contextmanager
def bind(**context: str | int | None) -> Iterator[None]:
    """Add run_id, job, corpus, item, phase, attempt or endpoint to every event inside the block."""
    import structlog

    with structlog.contextvars.bound_contextvars(**{key: value for key, value in context.items() if value is not None}):
        yield


def configure(*, verbose: bool = False, quiet: bool = False, log_file: Path | None = None, color: bool = False) -> None:
    """Send events to stderr (warnings, or all with ``verbose``) and to ``log_file``; called once a process."""
    import logging
    import sys

    import structlog

    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_event,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING)
    console.setFormatter(_formatter(structlog.dev.ConsoleRenderer(colors=color), shared))
    close()
    _attach(console)
    logging.getLogger().setLevel(logging.DEBUG if verbose else logging.INFO)
    if log_file is not None:
        _attach(_file_handler(log_file, shared))


def add_run_log(path: Path) -> None:
    """Write events to ``path`` too, rotated at 20 MB, five files kept."""
    _attach(_file_handler(path, []))


def close() -> None:
    """Flush and close every sink that was opened here."""
    import logging

    while _sinks:
        handler = _sinks.pop()
        logging.getLogger().removeHandler(handler)
        handler.close()


def _attach(handler: logging.Handler) -> None:
    import logging

    _sinks.append(handler)
    logging.getLogger().addHandler(handler)


def _file_handler(path: Path, shared: list[structlog.types.Processor]) -> logging.Handler:
    import logging.handlers

    import structlog

    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=20_000_000, backupCount=4, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(_formatter(structlog.processors.JSONRenderer(ensure_ascii=False), shared))
    return handler


def _formatter(
    renderer: structlog.types.Processor, shared: list[structlog.types.Processor]
) -> structlog.stdlib.ProcessorFormatter:
    import structlog

    foreign = [*shared, _redact_event] if shared else [structlog.stdlib.add_log_level, _redact_event]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=foreign,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
