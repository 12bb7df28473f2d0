"""Create the document of one provider: its config, the keys that it needs, and its jobs in the workspace.

Jobs are grouped by setting. Jobs of one setting have the same task, models and data, and the newest job comes first.

Example::

    found = await provider_document(site, "bm25")
    found["settings"][0]["rows"][0]["run_id"]      # the newest run of the setting
    found["facts"]["variables"]["MEM0_API_KEY"]    # {"required": True, "set": False}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio.to_thread

from bench.config.catalog import Catalog
from bench.errors import BenchError
from bench.journal import Reader
from bench.journal.paths import CHECKPOINTS, JOURNAL
from bench.journal.results_db import MetricSummary, ResultsDb
from bench.plan.job_record import read_jobs
from bench.plan.shared_builds import BUILD
from bench.report.leaderboard.standings import RankedJob
from bench.report.summary import RESULTS_FILE
from bench.untyped_values import Json, utc_text
from bench.web.app_state import Site
from bench.web.charts import ChartValue, intervals
from bench.web.documents.run_list import runs_document
from bench.web.documents.workspace_documents import ReceiptKey, config_document, receipts_by_job
from bench.web.errors import NotFound

MAX_JOBS = 60
"""maximum number of jobs that the page shows; older jobs are left out"""


async def provider_document(site: Site, name: str) -> Json:
    """Return a provider with its jobs, grouped by setting. Jobs of its variants (``name@variant``) are included.

    Raises:
        NotFound: no config, job or run names the provider.
    """
    jobs = await _jobs(site.workspace, name)
    facts = await anyio.to_thread.run_sync(_facts, site, name)
    if facts is None and not jobs and not await _is_in_a_run(site, name):
        raise NotFound(f"there is no provider {name}", "see the list of configs")
    signed = receipts_by_job(site, {one.job.run_id for one in jobs})
    versions = {run: await _versions(site.workspace, run) for run in {one.job.run_id for one in jobs}}
    groups: dict[tuple[str, ...], list[RankedJob]] = {}
    for one in jobs:
        groups.setdefault(_setting_key(one), []).append(one)
    return {
        "name": name,
        "facts": facts or {},
        "config": await _config(site, name),
        "settings": [_setting(group, signed, versions) for group in groups.values()],
    }


def _setting_key(one: RankedJob) -> tuple[str, ...]:
    """Return a key that is equal for jobs with the same task, models and data."""
    dataset = one.job.data.get("dataset")
    content = dataset.get("content_sha256") if isinstance(dataset, Mapping) else None
    return (*one.setting, str(content), one.job.embedding_model or "")


async def _is_in_a_run(site: Site, name: str) -> bool:
    """Return True if any run uses the provider, even if the run has no results yet."""
    rows = (await runs_document(site))["runs"]
    return any(name == one.partition("@")[0] for row in rows for one in row.get("providers", ()))


async def _jobs(workspace: Path, name: str) -> list[RankedJob]:
    path = workspace / "results" / RESULTS_FILE
    if not path.is_file():
        return []
    async with ResultsDb.open(path) as database:
        own = [job for job in await database.runs() if job.provider.partition("@")[0] == name and not job.partial]
        return [RankedJob(job=job, metrics=await database.metrics(job)) for job in own[:MAX_JOBS]]


def _facts(site: Site, name: str) -> Json | None:
    """Return the facts of ``bench describe`` and which variables are set; None if the provider has no valid config."""
    from bench.plan.provider import embedded_by, load_named
    from bench.providers.description import detailed_entry, variables

    try:
        config = load_named(Catalog.load(site.workspace), name)
        found = detailed_entry(config, embedding=embedded_by(config, site.environment.dry_run()))
    except BenchError:
        return None
    named = variables(config).items()
    given = {one: {"required": needed, "set": bool(site.environment.get(one))} for one, needed in named}
    del found["path"]  # a place on this machine is no fact of a provider
    return {**found, "variables": given}


async def _config(site: Site, name: str) -> Json | None:
    try:
        return await config_document(site, "providers", name)
    except NotFound:  # a built-in one has no file
        return None


async def _versions(workspace: Path, run_id: str) -> dict[str, str]:
    """Return provider -> version that it reported in this run, as ``adapter / upstream``."""
    folder = workspace / CHECKPOINTS / run_id
    if not (folder / JOURNAL).is_file():
        return {}
    try:
        async with Reader.open(folder) as reader:
            builds = {event.scope: event.data for event in await reader.events(BUILD)}
            records = read_jobs(reader.meta.extra)
    except BenchError:
        return {}
    parts = {one.provider: builds.get(one.build, {}) for one in records}
    return {
        who: " / ".join(str(data[key]) for key in ("version", "upstream") if data.get(key))
        for who, data in parts.items()
    }


def _setting(
    group: Sequence[RankedJob], signed: Mapping[ReceiptKey, str], versions: Mapping[str, dict[str, str]]
) -> Json:
    """Return the jobs of one setting. Each job has the change of its value since the previous valid job."""
    first = group[0]
    rows = [
        {**_row(one, signed, versions.get(one.job.run_id, {})), **_change(one, group[at + 1 :])}
        for at, one in enumerate(group)
    ]
    metric = next((one.headline.metric for one in group if one.headline), "")
    valued = [(one, headline) for one in group if (headline := _valid_headline(one)) is not None]
    values = [ChartValue(name=_side(job), value=one.value, low=one.low, high=one.high, n=one.n) for job, one in valued]
    chart = intervals(values, title=metric)
    cells = dict(zip((_side(one) for one, _ in valued), chart.rows, strict=True)) if chart else {}
    task = f"{first.job.benchmark} {first.job.benchmark_version} | k = {first.job.data.get('k')}"
    return {
        "title": f"{task} | answering {first.models[0]} | judge {first.models[1]}",
        "metric": metric,
        "rows": [{**row, "cell": cells.get(str(row["side"]))} for row in rows],
        "ticks": chart.ticks if chart else (),
    }


def _valid_headline(one: RankedJob) -> MetricSummary | None:
    return one.headline if one.job.valid else None


def _side(one: RankedJob) -> str:
    return f"{one.job.run_id}:{one.job.provider}"


def _change(job: RankedJob, older: Sequence[RankedJob]) -> Json:
    """Return the previous valid job of the same variant, and the change of the value since that job.

    Both are None if this job is INVALID or has no previous job.
    """
    now = _valid_headline(job)
    for one in older if now else ():
        then = _valid_headline(one)
        if now and then and one.job.provider == job.job.provider:
            return {"earlier": _side(one), "change": (now.value or 0.0) - (then.value or 0.0)}
    return {"earlier": None, "change": None}


def _row(one: RankedJob, signed: Mapping[ReceiptKey, str], versions: Mapping[str, str]) -> Json:
    job, headline = one.job, _valid_headline(one)
    return {
        "run_id": job.run_id,
        "label": job.provider,
        "side": _side(one),
        "created_at": utc_text(job.created_at, "seconds"),
        "version": versions.get(job.provider) or None,
        "valid": job.valid,
        "value": headline.value if headline else None,
        "low": headline.low if headline else None,
        "high": headline.high if headline else None,
        "n": headline.n if headline else 0,
        "search_p50_ms": one.search_ms,
        "cost": one.cost,
        "receipt": signed.get((job.run_id, job.benchmark, job.provider, job.answering_model, job.judge_model)),
    }
