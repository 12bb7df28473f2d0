"""``bench review``: let people label a sample of a judge's verdicts, and correct the score with these labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.flags import Toggle, whole_number
from bench.cli.global_flags import current
from bench.errors import DataError, UsageError
from bench.journal import Reader
from bench.journal.paths import find_run
from bench.plan.job_record import JobRecord
from bench.report.judges.review import Review, labels_in, read_review
from bench.report.judges.review_sheet import draw_sheet, judged_jobs, read_sheet, record_labels, texts_to_label
from bench.report.tables import Grid
from bench.visible_text import counted

HEAD = ("id", "question_type", "question", "expected", "answer", "label")
RIGHT = frozenset({"1", "r", "right", "correct", "y", "yes", "true"})
SHOWN: dict[bool | None, str] = {True: "right", False: "wrong"}
WRONG = frozenset({"0", "w", "wrong", "incorrect", "n", "no", "false"})


def review(
    run_id: str,
    /,
    *,
    n: Annotated[int | None, Parameter(converter=whole_number)] = None,
    output: Path = Path("review.tsv"),
    labels: Path | None = None,
    replace: Toggle = False,
    provider: str | None = None,
    seed: int = 0,
) -> int:
    """Draw answers for people to label (--n), then read their labels (--labels) and show the corrected score.

    Parameters
    ----------
    run_id
        A run of this workspace with verdicts of a judge.
    n
        Number of answers per provider and answering model. Answers with doubtful or different verdicts are drawn more
        often. All judges of a run are checked on the same answers.
    output
        The TSV file to write, without provider names and verdicts.
    labels
        The file with right or wrong in its last column. Rows without a label are left out.
    replace
        Use the labels of the file where they differ from the labels of the run. Without --replace, such a file is
        refused.
    provider
        Only this provider's jobs.
    seed
        Seed of the draw.
    """
    folder = find_run(current.get().workspace, run_id)
    if n is not None and labels is not None:
        raise UsageError("--n and --labels exclude each other", hint="give one of them")
    if replace and labels is None:
        raise UsageError("--replace needs --labels", hint="name the file with the new labels")
    if n is not None:
        drawn = anyio.run(_draw_answers, folder, n, seed, provider, output)
        console.line(str(output))
        console.note(f"{drawn}; fill in the column label with right or wrong, then")
        console.note(f"bench review {run_id} --labels {output}")
        console.note(f"or label in the browser: bench serve, then /runs/{run_id}/review")
        return 0
    if labels is not None:
        count, changed = anyio.run(_read_labels, folder, labels, replace)
        console.note(
            f"{counted(count, 'label(|s) (is|are)')} in the journal of run {run_id}"
            + (f", {counted(changed, 'of them (replaces|replace) another label')}" if changed else "")
        )
    found = anyio.run(_read_reviews, folder, provider)
    if not found:
        raise UsageError(
            f"run {run_id} has no labels", hint=f"draw answers to label with: bench review {run_id} --n 50"
        )
    _show(found)
    return 0


def _show(found: Sequence[tuple[JobRecord, Review]]) -> None:
    if current.get().json:
        jobs = [{"benchmark": one.benchmark, "provider": one.provider, **each.to_json()} for one, each in found]
        console.json_value({"kind": "human_review", "version": 1, "jobs": jobs})
    else:
        several = len({one.answer_owner for one, _ in found}) < len(found)
        console.grids(
            [
                _grid(f"{one.provider} / {each.judge}" if several else one.provider, one.benchmark, each)
                for one, each in found
            ]
        )


async def _draw_answers(folder: Path, n: int, seed: int, provider: str | None, output: Path) -> str:
    """Draw answers for people to label, write them to a TSV file, and return a text with the number of answers.

    Labels that exist already are also written to the file.

    Raises:
        UsageError: the file exists and has labels that the run does not have.
    """
    async with Reader.open(folder) as reader:
        _refuse_unread_labels(output, labels_in(await reader.events()), folder.name)
    await draw_sheet(folder, n=n, seed=seed, provider=provider)
    async with Reader.open(folder) as reader:
        sheet = await read_sheet(reader, provider)
        rows = [
            {**await texts_to_label(reader, entry), "label": SHOWN.get(sheet.labels.get(entry.id), "")}
            for entry in sheet.entries.values()
        ]
    sink = io.StringIO()
    writer = csv.writer(sink, delimiter="\t", lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows([" ".join(row.get(name, "").split()) for name in HEAD] for row in rows)
    from bench.report.result_files import replace_text

    replace_text(output, sink.getvalue())
    owners = len({entry.jobs[0].answer_owner for entry in sheet.entries.values()})
    return (
        f"{counted(len(rows), 'answer(|s)')}"
        + (f" ({n} of each of {owners} sets of answers)" if owners > 1 else "")
        + (f", {counted(sheet.labelled, 'of them (has|have) a label')}" if sheet.labelled else "")
    )


def _refuse_unread_labels(path: Path, labels: Mapping[str, bool], run_id: str) -> None:
    rows = _cells(path) if path.exists() else []
    if rows and tuple(rows[0]) == HEAD and (unread := sum(_is_unread(row, labels) for row in rows[1:])):
        raise UsageError(
            f"{path} has {counted(unread, 'label(|s)')} that run {run_id} does not have",
            hint=f"read the labels with: bench review {run_id} --labels {path}; or write another file with --output",
        )


def _is_unread(row: Sequence[str], labels: Mapping[str, bool]) -> bool:
    """Return True if a row of a label file has a label that is not in ``labels``."""
    label = row[-1].strip().lower() if len(row) == len(HEAD) else ""
    return bool(label) and (label not in RIGHT | WRONG or labels.get(row[0]) is not (label in RIGHT))


def _cells(path: Path) -> list[list[str]]:
    """Read the rows of a label file.

    Raises:
        DataError: the file is not a TSV file in UTF-8.
        OSError: the file cannot be read.
    """
    try:
        return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")), delimiter="\t"))
    except (ValueError, csv.Error) as error:
        raise DataError(
            "the file is not a TSV file in UTF-8", where=str(path), hint="save it as UTF-8, separated by tabs"
        ) from error


async def _read_labels(folder: Path, path: Path, replace: bool) -> tuple[int, int]:
    """Write the labels in a TSV file to the journal; return the number of labels, and how many replace another label.

    Raises:
        DataError: the header is wrong, an id is unknown, a label is neither right nor wrong, or an answer has two
            labels.
        UsageError: the file cannot be read. Or labels differ from the labels of the run, and ``replace`` is False.
    """
    try:
        lines = _cells(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="name the file with your labels") from error
    async with Reader.open(folder) as reader:
        await reader.refuse_held()
        sheet = await read_sheet(reader)
    if not lines or tuple(lines[0]) != HEAD:
        raise DataError(
            f"the header line must be {' '.join(HEAD)}",
            where=f"{path}:1",
            hint="keep the header line of the file",
        )
    given: dict[str, bool] = {}
    for at, row in enumerate(lines[1:], 2):
        found = _parse_label(row, sheet.entries, f"{path}:{at}") if any(row) else None
        if found is None:
            continue
        answer_id, right = found
        if given.setdefault(answer_id, right) is not right:
            raise DataError(
                f"{answer_id} is right and wrong in the same file",
                where=f"{path}:{at}",
                hint="keep one row for each answer",
            )
    changed = sheet.changed_by(given)
    if changed and not replace:
        sides = [(right, [name for name in changed if given[name] is right]) for right in (True, False)]
        listed = (
            f"{SHOWN[right]} in the file, {SHOWN[not right]} in the run: {', '.join(names)}"
            for right, names in sides
            if names
        )
        raise UsageError(
            f"{path}: {counted(len(changed), '(label differs|labels differ)')} from the labels of run {folder.name}; "
            + "; ".join(listed),
            hint="to use the labels of the file for these answers, repeat the command with --replace",
        )
    await record_labels(folder, given.items())
    return len(given), len(changed)


def _parse_label(row: Sequence[str], known: Container[str], where: str) -> tuple[str, bool] | None:
    if len(row) != len(HEAD):
        cells, columns = counted(len(row), "cell(|s)"), len(HEAD)
        raise DataError(
            f"the row has {cells}, but the header has {columns} columns",
            where=where,
            hint="keep all columns of the file",
        )
    answer_id, label = row[0], row[-1]
    given = label.strip().lower()
    if answer_id not in known:
        raise DataError(
            f'"{answer_id}" is not the id of an answer that was drawn from this run',
            where=where,
            hint="use the label file of this run; create it with: bench review RUN_ID --n 50",
        )
    if not given:
        return None
    if given not in RIGHT | WRONG:
        raise DataError(
            f'"{label}" is not a valid label: expected right or wrong', where=where, hint="write right, wrong, 1 or 0"
        )
    return answer_id, given in RIGHT


async def _read_reviews(folder: Path, provider: str | None) -> list[tuple[JobRecord, Review]]:
    async with Reader.open(folder) as reader:
        every = [(record, await read_review(reader, record)) for record in await judged_jobs(reader, provider)]
    return [(record, found) for record, found in every if found is not None]


def _grid(name: str, benchmark: str, found: Review) -> Grid:
    rows = [(name, str(size), str(labelled), str(right)) for name, size, labelled, right in found.strata]
    wrong, right = found.accepted_wrong, found.refused_right
    kinds = ", ".join(f"{kind} {'-' if one is None else f'{one:.2f}'}" for kind, one in found.kappa_by_type.items())
    return Grid(
        title=f"Human review: {benchmark} x {name}",
        head=("stratum", "answers", "labelled", "right"),
        rows=tuple(rows),
        right=(1, 2, 3),
        notes=(
            found.text,
            f"wrong among the labelled answers that the judge accepts: {wrong[0]} of {wrong[1]}; "
            f"right among those that the judge rejects: {right[0]} of {right[1]}",
            *([f"kappa by question type: {kinds}"] if len(found.kappa_by_type) > 1 else []),
        ),
    )
