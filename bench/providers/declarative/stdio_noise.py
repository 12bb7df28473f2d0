"""What an MCP server prints on stdout beside its messages: skipped, said once in a line, never a traceback a line.

Example::

    noise = Noise()
    with noise.kept_short("engram"):
        ...                              # warning: engram prints "loading model" on stdout, which is no JSON-RPC
    noise.first                          # "loading model"
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pydantic import ValidationError

from bench.events import log, redact

SDK = "mcp.client.stdio"
"""the logger to which the SDK reports each line that it cannot read"""
SHOWN = 100
_listening: ContextVar[Noise | None] = ContextVar("listening", default=None)
"""whose server the task reads from: several servers share the SDK's one logger"""


@dataclass(slots=True, eq=False)
class Noise:
    """The first line that was no message."""

    first: str = ""

    @contextmanager
    def kept_short(self, name: str) -> Iterator[None]:
        """Report the first unreadable line of the block in our words and drop the SDK's own reports."""

        def heard(record: logging.LogRecord) -> bool:
            error = record.exc_info[1] if record.exc_info else None
            if _listening.get() is not self or not isinstance(error, ValidationError):
                return True
            if not self.first:
                self.first = redact(str(error.errors()[0]["input"]).strip())[:SHOWN]
                log().warning(
                    "mcp_server_prints_on_stdout", provider=name, line=self.first, note="no JSON-RPC: skipped"
                )
            return False

        _listening.set(self)  # for the tasks that the SDK starts from here
        logging.getLogger(SDK).addFilter(heard)
        try:
            yield
        finally:
            logging.getLogger(SDK).removeFilter(heard)
