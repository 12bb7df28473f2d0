"""``bench results``, ``failures``, ``export``: show the results of one run without network calls."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO, TypeVar

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.commands.compare import compare as compare_jobs
from bench.cli.flags import Many, Toggle, run_or_newest, split_values, whole_number
from bench.cli.global_flags import current
from bench.errors import UsageError
from bench.journal import Reader
from bench.journal.paths import find_run
from bench.report import fold, results_json
from bench.report.outcome_text import outcome_texts
from bench.report.rendering import csv_text
from bench.report.tables import Grid, breakdown, matrix, overview
from bench.visible_text import counted

if TYPE_CHECKING:
    from bench.report import Report


T = TypeVar("T")
SHOWN_ITEMS = 20
"""default of --limit: number of lost items that ``bench failures`` shows per job"""


def results(
    run_id: str = "",
    *,
    by: Many = None,
    markdown: Toggle = False,
    csv: Toggle = False,
    html: Path | None = None,
    junit: Path | None = None,
    compare: Many = None,
    benchmark: str | None = None,
    rebuild: Toggle = False,
) -> int:
    """Show the results of a run as tables, --json, --markdown, --csv, --html FILE or --junit FILE.

    Parameters
    ----------
    run_id
        A run of this workspace, or a path to a journal. Default: the newest run.
    by
        Break the main metric down by these properties of items: question_type, group, or a metadata key.
    markdown
        Print the whole report as Markdown.
    csv
        One line per metric and label, not rounded.
    html
        Write one page without external resources to this file.
    junit
        Write JUnit XML for CI to this file: one suite per job, one case per item.
    compare
        Two or more providers of RUN_ID. Without RUN_ID: the newest run of each provider, as in bench compare.
    benchmark
        Only the jobs of this benchmark; --compare without RUN_ID needs it.
    rebuild
        Rebuild results/results.sqlite from the journals.
    """
    if rebuild:
        return _rebuild_results()
    console.require_one_format(
        {"--markdown": markdown, "--csv": csv, "--html": html is not None, "--junit": junit is not None}
    )
    if junit is not None:
        run_id = run_or_newest(run_id)
        return _report_export(run_id, "junit", str(junit), rows=_to_file(run_id, "junit", junit))
    if compare:
        if csv or html is not None:
            raise UsageError("--compare cannot be used with --csv or --html", hint="use --json, --markdown or neither")
        return _compare_providers(run_id, split_values(compare), benchmark, markdown=markdown)
    run_id = run_or_newest(run_id)
    dimensions = _dimensions(by)
    own = [name for name in dimensions if name not in BUILT_IN]
    in_words = not (current.get().json or markdown or csv or html)
    report, texts = read_run(run_id, partial(_read_report, by=own, benchmark=benchmark, in_words=in_words))
    _print_report(run_id, report, texts, dimensions, markdown=markdown, csv=csv, html=html)
    return 0


def _print_report(
    run_id: str,
    report: Report,
    texts: Sequence[str],
    dimensions: Sequence[str],
    *,
    markdown: bool,
    csv: bool,
    html: Path | None,
) -> None:
    """Print a report in the format that the flags select, or write it as an HTML page."""
    if current.get().json:
        console.json_value(results_json(report))
    elif markdown:
        from bench.report.result_files import report_markdown

        console.raw(report_markdown(report))
    elif csv:
        console.raw(csv_text(report))
    elif html is not None:
        _write_page(run_id, report, html)
    else:
        show_outcome(texts)
        console.grids(result_grids(report, dimensions))


async def _read_report(
    reader: Reader, *, by: Sequence[str], benchmark: str | None, in_words: bool
) -> tuple[Report, list[str]]:
    """Return the report of a run; if ``in_words``, also sentences that describe the results."""
    report = await fold(reader, by=by, benchmark=benchmark)
    return report, await outcome_texts(reader, report) if in_words else []


def _write_page(run_id: str, report: Report, path: Path) -> None:
    from bench.report.result_files import replace_text
    from bench.web.documents.report_documents import report_page_file

    workspace = current.get().workspace
    replace_text(path, read_run(run_id, lambda reader: report_page_file(reader, report, workspace)))
    console.line(str(path))


def show_outcome(texts: Sequence[str]) -> None:
    """Print the sentences that describe the results of a run."""
    for text in texts:
        console.paragraph(text)
        console.line()


def result_grids(report: Report, dimensions: Sequence[str] = ()) -> list[Grid]:
    """Return the tables of a run: the main metric, every metric, and the main metric split by each of ``dimensions``.

    A dimension is a property of items, such as the question type.
    """
    width = console.width()
    by = [grid for name in dimensions or BUILT_IN for grid in breakdown(report, name)]
    return [*overview(report, width=width), *matrix(report), *by]


def _compare_providers(run_id: str, providers: list[str], benchmark: str | None, *, markdown: bool) -> int:
    """Compare providers of a run. If ``run_id`` is empty, compare the newest runs of these providers."""

    if run_id:
        return compare_jobs(*(f"{run_id}:{name}" for name in providers), benchmark=benchmark, markdown=markdown)
    return compare_jobs(benchmark=benchmark, providers=providers, markdown=markdown)


def _rebuild_results() -> int:
    from bench.report.summary import rebuild

    count, broken = anyio.run(rebuild, current.get().workspace)
    for text in broken:
        console.note(f"not included: {text}")
    if current.get().json:
        console.json_value({"runs": count, "left_out": list(broken)})
    else:
        console.line(counted(count, "run(|s) read again"))
    return 0


BUILT_IN = ("question_type", "group")


def _dimensions(by: list[str] | None) -> list[str]:
    from bench.metrics import dimension_name

    return [dimension_name(name) for name in split_values(by)]


def read_run(run_id: str, act: Callable[[Reader], Awaitable[T]]) -> T:
    """Return the result of ``act``, which reads the journal of a run. An empty ``run_id`` means the newest run.

    Raises:
        UsageError: the run does not exist, or the workspace has no run.
        JournalError: the file cannot be read.
    """
    path = find_run(current.get().workspace, run_or_newest(run_id))

    async def opened() -> T:
        async with Reader.open(path) as reader:
            return await act(reader)

    return anyio.run(opened)


def failures(
    run_id: str = "",
    *,
    kind: Many = None,
    benchmark: str | None = None,
    provider: str | None = None,
    limit: Annotated[int, Parameter(converter=whole_number)] = SHOWN_ITEMS,
    full: Toggle = False,
) -> int:
    """Show why items were lost, with one reason per item. Errors that differ only in
    the corpus, item or namespace that they name are one line with the number of items.

    Parameters
    ----------
    run_id
        A run of this workspace, or a path to a journal. Default: the newest run.
    kind
        Only these reasons or kinds of error, for example not_retrieved or timeout.
    benchmark
        Only this benchmark's jobs.
    provider
        Only this provider's jobs.
    limit
        Maximum number of items and errors per job. 0 shows all; --json always has all.
    full
        Show long texts in full.
    """
    from bench.report.failure_tables import losses_grids, losses_json
    from bench.report.failures import lost_items

    if limit < 0:
        raise UsageError(f"--limit {limit} is not valid: expected 0 or more", hint="use 0 to show all items")
    found = read_run(run_id, lambda reader: lost_items(reader, benchmark=benchmark, provider=provider, kinds=kind))
    if current.get().json:
        console.json_value(losses_json(found))
    else:
        console.grids(losses_grids(found, limit=limit, cut=not full))
    return 0


ExportFormat = Literal["json", "jsonl", "csv", "parquet", "trec", "otlp-json", "otlp", "inspect", "every-eval-ever"]
JOB_FILES = ("inspect", "every-eval-ever")
"""formats with one or two files per job"""


def export(
    run_id: str = "",
    *,
    format: ExportFormat = "jsonl",  # noqa: A002  the flag's name
    output: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-",
    site: Path | None = None,
    follow: Toggle = False,
) -> int:
    """Write the rows of a run for other tools. All durations are whole microseconds, also in metrics.

    Parameters
    ----------
    run_id
        A run of this workspace, or a path to a journal. Default: the newest run.
    format
        Files: json, jsonl, csv, parquet, otlp-json (OpenTelemetry traces). Folders: trec (.run and .qrels files),
        inspect (one log per job, for inspect view), every-eval-ever (one record per job). otlp sends the traces to
        the collector that OTEL_EXPORTER_OTLP_ENDPOINT names (extra [otel]).
    output
        A file, a folder for trec, inspect and every-eval-ever, or - for stdout.
    site
        Write the web pages of RUN_ID, or of every run, to this folder. The pages need no server.
    follow
        With --format otlp: continue until the run ends.
    """
    if follow and format != "otlp":
        raise UsageError(f"--follow works only with --format otlp, not with {format}", hint="use --format otlp")
    if site is not None:
        return _site(run_id, site)
    if format == "otlp":
        return _traces(run_or_newest(run_id), follow=follow)
    from bench.report.exports.export import export_parquet
    from bench.report.exports.trec import export_trec

    if format in ("parquet", "trec", *JOB_FILES) and output == "-":
        raise UsageError(f"--format {format} cannot be written to stdout", hint="name a file or folder with --output")
    run_id = run_or_newest(run_id)
    if format == "trec":
        several = read_run(run_id, lambda reader: export_trec(reader, Path(output)))
        for stem, count in several.items():
            more = (
                f" ({counted(count, 'hit(|s) (has|have)')} several ids: one id of each hit is "
                f"written, an evidence id if possible)"
            )
            console.note(f"{stem}.run, {stem}.qrels{more if count else ''}")
        files = [f"{stem}.{kind}" for stem in several for kind in ("run", "qrels")]
        return _report_export(run_id, format, output, files=files)
    if format in JOB_FILES:
        written = read_run(run_id, lambda reader: _job_writer(format)(reader, Path(output)))
        for name, count in written.items():
            console.note(f"{name}: {counted(count, 'item(|s)')}")
        return _report_export(run_id, format, output, files=list(written))
    if format == "parquet":
        count = read_run(run_id, lambda reader: export_parquet(reader, Path(output)))
    elif output == "-":
        count = read_run(run_id, lambda reader: _writer(format)(reader, sys.stdout))
    else:
        count = _to_file(run_id, format, Path(output))
    console.note(counted(count, "trace(|s)" if format == "otlp-json" else "row(|s)"))
    return 0 if output == "-" else _report_export(run_id, format, output, rows=count)


def _traces(run_id: str, *, follow: bool) -> int:
    from bench.cli.live_traces import send_traces
    from bench.journal.paths import find_run

    count = anyio.run(partial(send_traces, find_run(current.get().workspace, run_id), follow=follow))
    console.note(counted(count, "trace(|s) sent"))
    return _report_export(run_id, "otlp", "", rows=count) if current.get().json else 0


def _site(run_id: str, folder: Path) -> int:
    from bench.web.site_export import export_site

    written = anyio.run(export_site, current.get().workspace, folder, frozenset([run_id] if run_id else []))
    for address, status in written.problems:
        console.note(f"{address} answered with status {status}; its file contains the error")
    if current.get().json:
        console.json_value({"site": str(folder), "files": written.files})
    else:
        console.line(f"{folder / 'index.html'} ({counted(written.files, 'file(|s)')})")
    return 0


def _report_export(run_id: str, form: str, output: str, **what: object) -> int:
    """Return the exit code 0. With ``--json``, first print the id of the exported run, the format and the output."""
    if current.get().json:
        console.json_value({"run_id": run_id, "format": form, "output": output, **what})
    return 0


def _writer(form: str) -> Callable[[Reader, TextIO], Awaitable[int]]:
    """Return the function that writes a run to an open file in the format ``form``."""
    if form == "otlp-json":
        from bench.report.exports.trace import export_otlp

        return export_otlp
    if form == "junit":
        from bench.report.exports.junit import export_junit

        return export_junit
    from bench.report.exports.export import export_rows

    return lambda reader, sink: export_rows(reader, form, sink)


def _job_writer(form: str) -> Callable[[Reader, Path], Awaitable[dict[str, int]]]:
    """Return the function that writes the files of each job to a folder, in a format of ``JOB_FILES``."""
    if form == "inspect":
        from bench.report.exports.inspect_log import export_inspect

        return export_inspect
    from bench.report.exports.eval_record import export_records

    return export_records


def _to_file(run_id: str, form: str, path: Path) -> int:
    from bench.report.result_files import replacing

    write = _writer(form)
    try:
        with replacing(path) as sink:
            return read_run(run_id, lambda reader: write(reader, sink))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="name a file that can be written") from error
