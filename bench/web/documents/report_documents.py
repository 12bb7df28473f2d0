"""Create the one-page report of a run, as template values and as a self-contained HTML file.

Example::

    report_page, waiting = await report_page_document(site, run)
    html = await report_page_file(reader, report, workspace)        # bench results --html
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from bench.errors import BenchError
from bench.journal import Reader
from bench.journal.paths import CHECKPOINTS
from bench.plan.job_record import read_jobs
from bench.report import Report, fold, results_json
from bench.report.comparison.formats import ComparedRow
from bench.report.item_outcomes import RunOutcomes, item_outcomes
from bench.report.rendering import csv_text
from bench.report.result_files import report_markdown
from bench.untyped_values import Json
from bench.web.app_state import Site
from bench.web.cache import CachedDocument, Document, DocumentMaker, make_off_loop, max_wait_s
from bench.web.documents.comparison_documents import ShownComparison, compare_document, comparison_of
from bench.web.documents.run_documents import (
    ReportedRun,
    folder_of,
    journal_stamp,
    planned_items,
    progress_json,
    record_json,
    require_document,
    with_times,
)
from bench.web.errors import Busy
from bench.web.rendering import standalone
from bench.web.report_page import leaders_of, report_page_of

TableFormat = Literal["csv", "md"]


async def outcomes_of(site: Site, run_id: str) -> CachedDocument[RunOutcomes]:
    """Return the latest known outcomes of all items of a run."""
    return await _cached(site, run_id, outcomes_at)


async def _cached(site: Site, run_id: str, make: DocumentMaker[Document], *arguments: str) -> CachedDocument[Document]:
    """Return the latest known result of ``make``, which gets the workspace, the run id and ``arguments``."""
    folder = folder_of(site, run_id)
    async with Reader.open(folder) as reader:
        items = planned_items(read_jobs(reader.meta.extra))
    work = partial(make_off_loop, make, str(site.workspace), run_id, *arguments, items=items)
    key = (make.__qualname__, run_id, *arguments)
    return await site.cache.get(key, journal_stamp(folder), work, max_wait_s=max_wait_s(items))


async def outcomes_at(place: str, run_id: str) -> RunOutcomes:
    """Read the outcomes of all items of a run; ``place`` is the path of the workspace."""
    async with Reader.open(Path(place) / CHECKPOINTS / run_id) as reader:
        return await item_outcomes(reader)


async def report_page_document(site: Site, run: ReportedRun) -> tuple[Json, bool]:
    """Return the report of a run, and True if a part of the report is still being computed."""
    outcomes = await outcomes_of(site, run["run_id"])
    tested, waiting = await _lead_tests(site, run)
    report_page = report_page_of(run, outcomes.document, tested, testing=waiting)
    return report_page, waiting or outcomes.document is None or run["results"] is None


async def _lead_tests(site: Site, run: ReportedRun) -> tuple[dict[str, ComparedRow], bool]:
    """Compare the two best jobs of each group of jobs with a paired test.

    Return group -> test, and True if a test is still being computed. A run that is not complete has no tests.
    """
    found: dict[str, ComparedRow] = {}
    waiting = False
    if run["state"] != "complete" or run["results"] is None:
        return found, waiting
    for key, names in leaders_of(run).items():
        try:
            document = await compare_document(site, names, benchmark=key.partition(",")[0])
        except Busy:
            waiting = True
        except BenchError:  # not like for like, or a name that two jobs share: the page shows that it is not tested
            continue
        else:
            found |= _headline_of(key, document)
    return found, waiting


def _headline_of(key: str, document: ShownComparison) -> dict[str, ComparedRow]:
    rows = [row for pair in document["comparisons"] for row in pair["rows"] if not row["label"]]
    metric = key.rpartition(": ")[2]
    return next(({key: row} for row in rows if row["metric"] == metric), {})


# ------------------------------------------------------------------ files


async def report_page_file(reader: Reader, report: Report, workspace: Path) -> str:
    """Return the report of a run as one HTML page that needs no script, link or network."""
    run = await _run_of(reader, report)
    tested: dict[str, ComparedRow] = {}
    if reader.path.resolve().parent.parent == (workspace / CHECKPOINTS).resolve() and run["state"] == "complete":
        for key, names in leaders_of(run).items():
            try:
                document = await comparison_of(str(workspace), list(names), [], key.partition(",")[0], False)
            except BenchError:
                continue
            tested |= _headline_of(key, document)
    outcomes = await item_outcomes(reader)
    every = [job.record.key for job in report.jobs]
    outcomes["jobs"] = [one for one in outcomes["jobs"] if one["job"] in every]
    about = f"{report.status}, {reader.meta.created_at:%d %b %Y}, plan {report.plan_digest[:16]}"
    report_page = report_page_of(run, outcomes, tested)
    return standalone(title=f"Run {report.run_id}", about=about, report_page=report_page)


async def _run_of(reader: Reader, report: Report) -> ReportedRun:
    """Convert a report to the run document from which the page is built."""
    records = [job.record for job in report.jobs]
    return {
        "run_id": report.run_id,
        "state": str(report.status),
        "progress": progress_json([(job.record, job.counts, job.invalid, []) for job in report.jobs]),
        "records": [record_json(record) for record in records],
        "results": await with_times(reader, results_json(report), records),
    }


async def results_text(site: Site, run_id: str, form: TableFormat) -> str:
    """Return the result tables of a run as CSV or Markdown.

    Raises:
        Busy: the tables are being computed; ask again.
    """
    shown = await _cached(site, run_id, text_at, form)
    return str(require_document(shown, "the tables are being computed")["text"])


async def text_at(place: str, run_id: str, form: TableFormat) -> Json:
    """Compute the results of a run from its journal, and return ``{"text": the tables of the results}``."""
    async with Reader.open(Path(place) / CHECKPOINTS / run_id) as reader:
        report = await fold(reader)
    return {"text": csv_text(report) if form == "csv" else report_markdown(report)}


def receipts_of(found: Mapping[tuple[str, str, str, str | None, str | None], str]) -> list[Json]:
    """Return provider, address and badge of each receipt; ``found`` is job -> address of its receipt."""
    return [{"provider": names[2], "address": path, "badge": f"{path}.svg"} for names, path in found.items()]
