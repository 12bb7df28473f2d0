"""Run the doctor: sixteen checks that a provider must pass before its results are meaningful.

``bench doctor NAME`` and the tests of the providers use the same checks::

    report = await examine(config, context, tell=print)      # each check as it begins
    report.ok, [(check.name, check.outcome, check.detail) for check in report.checks]

The doctor uses its own namespaces, and clears them unless ``keep`` is set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import anyio

from bench.providers.doctor.examination import DoctorCheck, DoctorReport, Examination
from bench.providers.doctor.provider_checks import CHECKS
from bench.providers.factory import open_provider
from bench.providers.protocol import ProviderContext

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

__all__ = ["DoctorCheck", "DoctorReport", "examine"]

RETRY_DELAY_MS = 200
ATTEMPT_MS = 15_000
"""timeout in milliseconds for the calls in ``QUICK_CALLS`` if they set no timeout of their own
If the config sets no timeout at all, this timeout applies to every call."""
QUICK_CALLS = ("version", "health", "count")
"""calls that send no data, so that even a slow service answers them quickly"""


async def examine(
    config: ProviderConfig,
    context: ProviderContext,
    *,
    keep: bool = False,
    tell: Callable[[str], None] = lambda step: None,
    checks: list[DoctorCheck] | None = None,
) -> DoctorReport:
    """Open the provider and run every check. A check that depends on a failed check is skipped.

    ``tell`` is called with the name of each step as it begins. Each result is appended to ``checks`` at once.

    Raises:
        ConfigError: the provider cannot be built.
    """
    checks = [] if checks is None else checks
    with ExitStack() as stack:
        lines: list[str] = []
        stack.enter_context(_log_capture(lines))
        tell("opening")
        async with open_provider(_with_short_timeouts(config), context) as provider:
            examination = Examination(config, provider, lines, tell)
            try:
                for check in CHECKS:
                    checks.append(await examination.run(check))
            finally:
                if not keep:
                    with anyio.CancelScope(shield=True):  # Ctrl-C too leaves nothing behind
                        await examination.clear_namespaces()
    return DoctorReport(
        provider=config.name,
        version=examination.version,
        checks=tuple(checks),
        refused=examination.refused,
        hung=examination.hung,
        address=context.environment.resolve(config.base_url or ""),
    )


def _with_short_timeouts(config: ProviderConfig) -> ProviderConfig:
    """Return the config with short pauses between retries, and with short timeouts where the config sets none.

    The doctor uses this config, because a user waits for its results.
    """
    pauses = {"retry_delay_ms": min(config.rate_limit.retry_delay_ms, RETRY_DELAY_MS)}
    times = {} if "timeout" in config.connection.model_fields_set else {"timeout": ATTEMPT_MS}
    changes: dict[str, object] = {
        "rate_limit": config.rate_limit.model_copy(update=pauses),
        "connection": config.connection.model_copy(update=times),
    }
    if config.endpoints is not None:
        looks = {name: call for name in QUICK_CALLS if (call := getattr(config.endpoints, name)) is not None}
        short = {name: call.model_copy(update={"timeout": call.timeout or ATTEMPT_MS}) for name, call in looks.items()}
        changes["endpoints"] = config.endpoints.model_copy(update=short)
    return config.model_copy(update=changes)


class _log_capture(logging.Handler):  # noqa: N801  used as a context manager
    """A context manager that appends each log message inside it to ``lines``."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(str(record.msg))

    def __enter__(self) -> _log_capture:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        logging.getLogger().removeHandler(self)
