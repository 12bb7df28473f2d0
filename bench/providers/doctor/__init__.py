"""Fourteen questions that every provider must answer before a number about it means anything.

The same list is ``bench doctor NAME`` and the contract suite of the tests::

    report = await examine(config, context)
    report.ok, [(check.name, check.outcome, check.detail) for check in report.checks]

It uses namespaces of its own and leaves nothing behind unless asked to.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench.providers.doctor.examination import Examination
from bench.providers.doctor.questions import QUESTIONS
from bench.providers.doctor.report import Check, DoctorReport
from bench.providers.opening import open_provider
from bench.providers.protocol import ProviderContext

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig

__all__ = ["Check", "DoctorReport", "examine"]

RETRY_DELAY_MS = 200


async def examine(config: ProviderConfig, context: ProviderContext, *, keep: bool = False) -> DoctorReport:
    """Open the provider and ask every question; what builds on a failed one is skipped with the reason.

    Raises:
        ConfigError: the provider cannot be built at all.
    """
    with ExitStack() as stack:
        lines: list[str] = []
        stack.enter_context(_listening(lines))
        async with open_provider(_impatient(config), context) as provider:
            examination = Examination(config, provider, lines)
            try:
                checks = [await examination.ask(question) for question in QUESTIONS]
            finally:
                if not keep:
                    await examination.leave()
    return DoctorReport(
        provider=config.name, version=examination.version, checks=tuple(checks), refused=examination.refused
    )


def _impatient(config: ProviderConfig) -> ProviderConfig:
    """The same provider with short pauses between retries: somebody waits for the answer."""
    pause_ms = min(config.rate_limit.retry_delay_ms, RETRY_DELAY_MS)
    return config.model_copy(update={"rate_limit": config.rate_limit.model_copy(update={"retry_delay_ms": pause_ms})})


class _listening(logging.Handler):  # noqa: N801  used as a context manager
    """Collect what is logged while the block runs."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(str(record.msg))

    def __enter__(self) -> _listening:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        logging.getLogger().removeHandler(self)
