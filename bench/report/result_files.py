"""Write the result files of a run: report.json, items.jsonl and report.md in ``results/<run_id>/``.

No file ever has partial content under its final name::

    folder = await publish(reader, report, Path("results"))
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from bench.journal import Reader
from bench.journal.paths import report_folder
from bench.report.exports.export import row_without_texts
from bench.report.fold import Report
from bench.report.rendering import markdown
from bench.report.results_document import report_json
from bench.report.tables import breakdown, matrix, overview


async def publish(reader: Reader, report: Report, results: Path) -> Path:
    """Write the three files of a run's results; return their folder."""
    folder = report_folder(results, report.run_id)
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / "report.json", json.dumps(report_json(report), indent=1, allow_nan=False) + "\n")
    replace_text(folder / "report.md", report_markdown(report))
    await replace_lines(folder / "items.jsonl", (line async for line in item_lines(reader, report)))
    return folder


def report_markdown(report: Report) -> str:
    """Return the whole report as Markdown."""
    state = f"{report.status}" + (", numbers can still change" if report.partial else "")
    head = [f"# Run {report.run_id}", "", f"State: {state}. Plan `{report.plan_digest[:16]}`.", ""]
    grids = [*overview(report), *matrix(report), *breakdown(report, "question_type"), *breakdown(report, "group")]
    return "\n".join([*head, *(markdown(grid) for grid in grids)])


async def item_lines(reader: Reader, report: Report) -> AsyncIterator[str]:
    """Yield one JSON line per job and item, with ids, state and values and without texts."""
    for job in report.jobs:
        async for item in reader.items(job.record.chain):
            if item.state is not None:
                yield json.dumps(row_without_texts(report.run_id, job.record, item), ensure_ascii=True, allow_nan=False)


def replace_text(path: Path, text: str) -> None:
    """Write a text to ``path`` atomically: the file is never seen with partial content."""
    with replacing(path) as sink:
        sink.write(text)


async def replace_lines(path: Path, lines: AsyncIterator[str]) -> int:
    """Write lines to ``path`` atomically; return the number of lines."""
    count = 0
    with replacing(path) as sink:
        async for line in lines:
            sink.write(line + "\n")
            count += 1
    return count


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a temporary file that replaces ``path`` when the ``with`` block ends without an error.

    An OSError in the block names ``path``.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as sink:
            yield sink
        part.replace(path)
    except OSError as error:
        if error.filename == str(part):
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # if the folder is missing, the first error explains it
            part.unlink(missing_ok=True)
