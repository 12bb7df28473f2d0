"""``bench doctor PROVIDER``: the live contract test, as a table or JSON. It leaves nothing behind unless asked to."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.global_flags import current

if TYPE_CHECKING:
    from bench.model import Model
    from bench.providers.doctor import DoctorReport

CHECK_FAILED = 4
REFUSED = 3


def doctor(
    provider: str,
    /,
    *,
    keep: Annotated[bool, Parameter(negative=())] = False,
    embedding_model: str | None = None,
) -> int:
    """Ask a provider for everything a run will ask of it: setup, add, search, isolation, clear.

    Parameters
    ----------
    provider
        A name of bench list providers.
    keep
        Leave its namespaces there to look at.
    embedding_model
        For providers that take vectors.
    """
    report = anyio.run(_examined, provider, embedding_model, keep)
    if current.get().json:
        console.json_value(report.as_json())
    else:
        rows = [(check.name, check.outcome, f"{check.latency_ms:.0f} ms", check.detail) for check in report.checks]
        title = f"{report.provider} {report.version}"
        console.table(("check", "outcome", "took", "detail"), rows, title=title, right=(2,))
        console.line("ok" if report.ok else "the provider refused" if report.refused else "a check failed")
    if report.refused:
        return REFUSED
    return 0 if report.ok else CHECK_FAILED


async def _examined(name: str, embedding_model: str | None, keep: bool) -> DoctorReport:
    from bench import events
    from bench.config.catalog import Catalog
    from bench.engine.readers import embedding_options
    from bench.http import Http
    from bench.models import open_embedder, open_model
    from bench.plan.making import model_files
    from bench.plan.providers import load_named
    from bench.providers import ProviderContext, facts
    from bench.providers.doctor import examine
    from bench.settings import Environment

    flags = current.get()
    events.configure(verbose=flags.verbose, quiet=flags.quiet, log_file=flags.log_file)
    environment = Environment.load(flags.workspace, flags.env_file)
    catalog = Catalog.load(flags.workspace)
    config = load_named(catalog, name)
    rule = facts.embedding(config)
    async with Http() as http:

        async def reader(model: str) -> Model:
            return open_model(model, http=http, environment=environment, role="provider", files=model_files(catalog))

        embedder = None
        if rule is not None:
            embedder = open_embedder(
                embedding_model or rule.model,
                http=http,
                environment=environment,
                files=model_files(catalog),
                options=embedding_options(rule),
            )
        with tempfile.TemporaryDirectory() as folder:
            context = ProviderContext(
                http=http,
                environment=environment,
                run_dir=Path(folder),
                embedder=embedder,
                open_model=reader,
            )
            return await examine(config, context, keep=keep)
