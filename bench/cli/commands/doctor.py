"""``bench doctor PROVIDER``: test each kind of call to a live provider, and print the results as a table or JSON.

The test data is cleared afterwards, except with ``--keep``. Each step is reported on stderr when it starts, and every
ten seconds while it waits for the provider.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import anyio

from bench.cli import console, signals
from bench.cli.flags import Toggle
from bench.cli.global_flags import current
from bench.visible_text import counted

if TYPE_CHECKING:
    from bench.http import Http
    from bench.model import Model
    from bench.providers.doctor import DoctorCheck, DoctorReport

CHECK_FAILED = 4
REFUSED = 3
REPORT_EVERY_S = 10.0


def doctor(
    provider: str,
    /,
    *,
    keep: Toggle = False,
    embedding_model: str | None = None,
    timeout: str | None = None,
) -> int:
    """Test the calls that a run makes to a provider: setup, add, search, isolation, clear.

    Parameters
    ----------
    provider
        A name of bench list providers.
    keep
        Do not clear the namespaces of the test.
    embedding_model
        Model for providers that need vectors.
    timeout
        Maximum time of one answer, for example 60s. Default: 15s, or the provider's own timeout if it is longer.
    """
    from bench.config.run import RunRequest

    timeout_s = RunRequest.combine(None, {"timeout": timeout}).timeout
    answered: list[DoctorCheck] = []
    try:
        report = anyio.run(_examine, provider, embedding_model, keep, timeout_s, answered)
    except KeyboardInterrupt:
        _show(provider, answered)
        signals.stage(counted(len(answered), "check(|s) (was|were) finished"), hint="give the command again")
        raise
    if current.get().json:
        console.json_value(report.as_json())
        console.note(f"doctor: {_verdict_text(report)}")
    else:
        _show(f"{report.provider} {report.version}", report.checks)
        console.line(_verdict_text(report))
        if not report.ok and report.hung is None:
            console.note("hint: start with the first failed check; docs/troubleshooting.md lists causes by message")
    if report.refused:
        return REFUSED
    return 0 if report.ok else CHECK_FAILED


def _show(title: str, checks: Sequence[DoctorCheck]) -> None:
    rows = [(check.name, check.outcome, f"{check.latency_ms:.0f} ms", check.detail) for check in checks]
    if rows and not current.get().json:
        console.table(("check", "outcome", "took", "detail"), rows, title=title, right=(2,))


def _verdict_text(report: DoctorReport) -> str:
    from bench.events import redact
    from bench.settings import hide_secrets

    if report.hung is not None:
        place = f" from {redact(hide_secrets(report.address))}" if report.address else ""
        return f'no answer to "{report.hung.name}"{place}: {report.hung.detail}'
    return "ok" if report.ok else "the provider refused the requests" if report.refused else "a check failed"


@dataclass(slots=True)
class DoctorSteps:
    """The step that the doctor is executing. It is reported on stderr."""

    http: Http
    name: str = "loading"
    since: float = field(default_factory=perf_counter)

    def begin(self, name: str) -> None:
        """Report on stderr that a step starts."""
        self.name, self.since = name, perf_counter()
        console.note(f"doctor: {name}")

    def waiting(self) -> None:
        """Report on stderr how long the current step has taken, and the oldest request that has no answer yet."""
        oldest, age_s = self.http.oldest(), self.http.oldest_s()
        request = f", {oldest} has not answered for {age_s:.0f} s" if oldest and age_s is not None else ""
        console.note(f"doctor: {self.name}: {perf_counter() - self.since:.0f} s so far{request}")


async def _examine(
    name: str, embedding_model: str | None, keep: bool, timeout_s: float | None, answered: list[DoctorCheck]
) -> DoctorReport:
    from bench.cli.run_display import ticking
    from bench.http import Http
    from bench.models import open_embedder, open_model
    from bench.plan.build import model_files
    from bench.plan.provider import load_named
    from bench.providers import ProviderContext
    from bench.providers.doctor import examine

    flags = current.get()
    flags.configure_log()
    environment, catalog = flags.environment(), flags.catalog()
    config = load_named(catalog, name)
    rule = config.client_embeddings
    async with Http(attempt_s=timeout_s, repeats_timeouts=False) as http:
        steps = DoctorSteps(http)

        async def reader(model: str) -> Model:
            return open_model(model, http=http, environment=environment, role="provider", files=model_files(catalog))

        embedder = None
        if rule is not None:
            embedder = open_embedder(
                embedding_model or rule.model,
                http=http,
                environment=environment,
                files=model_files(catalog),
                options=rule,
            )
        with tempfile.TemporaryDirectory() as folder:
            context = ProviderContext(
                http=http,
                environment=environment,
                run_dir=Path(folder),
                embedder=embedder,
                open_model=reader,
            )
            async with ticking(REPORT_EVERY_S, steps.waiting):
                return await examine(config, context, keep=keep, tell=steps.begin, checks=answered)
