"""``bench dispute``: judge the answers of several runs, receipts or files again, all with the same judges and judge
prompts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from bench.cli import console
from bench.cli.commands.rescore import prompt_names
from bench.cli.flags import Many, Toggle, split_values
from bench.cli.global_flags import current
from bench.errors import UsageError
from bench.visible_text import counted

if TYPE_CHECKING:
    from bench.canonical import JSON
    from bench.config.catalog import Catalog
    from bench.datasets import Dataset
    from bench.engine.external_rows import ExternalRow
    from bench.engine.items.judge_cells import JudgeCell
    from bench.journal import Event, Reader
    from bench.plan.job_record import JobRecord
    from bench.receipt.schema import Receipt
    from bench.report.judges.dispute import Dispute
    from bench.report.judges.panel import Panel, PanelCell
    from bench.report.judges.review import AnswerKey, Review
    from bench.settings import Environment

MIN_JUDGES_AND_PROMPTS = 2
UNKNOWN = "unknown"
RECEIPT = "bench.receipt/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSet:
    """A set of answers to judge, with the source of the answers."""

    name: str
    rows: Sequence[ExternalRow]
    source: str
    context: str = UNKNOWN
    leaks: str = UNKNOWN
    labels: LabelSource | None = None
    """the job whose answers people can label; None for answers of a file or a receipt"""


@dataclass(frozen=True, slots=True)
class LabelSource:
    """A job of a run, with the run's folder and journal events. The journal stores the labels of the answers."""

    record: JobRecord
    folder: Path
    events: Sequence[Event]


def dispute(
    *targets: str,
    judge_model: Many = None,
    judge_prompt: Many = None,
    benchmark: str | None = None,
    markdown: Toggle = False,
    html: Path | None = None,
) -> int:
    """Judge the same answers with two or more judges and judge prompts, and show how the score depends on them.

    Parameters
    ----------
    targets
        RUN or RUN:PROVIDER, a receipt signed --with-answers, JSON lines {"item": ID, "answer": TEXT}, or a result file
        of mem0, zep, memorybench, AMB or EverMemOS.
    judge_model
        Two or more models that judge.
    judge_prompt
        Two or more judge prompts: files or texts.
    benchmark
        The benchmark that answer files belong to.
    markdown
        Print the tables as Markdown.
    html
        Write one page without external resources to this file.
    """
    from bench.cli.commands.run_command import load_workspace
    from bench.report.judges.dispute import dispute_grids
    from bench.report.rendering import grids_page
    from bench.report.rendering import markdown as as_markdown

    console.require_one_format({"--markdown": markdown, "--html": html is not None})
    judges, prompts = split_values(judge_model), list(judge_prompt or ())
    for flag, given in (("--judge-model", judges), ("--judge-prompt", prompts)):
        if len(given) < MIN_JUDGES_AND_PROMPTS:
            raise UsageError(
                f"a dispute needs at least {MIN_JUDGES_AND_PROMPTS} values of {flag}, got {len(given)}",
                hint=f"give another value to {flag}",
            )
    if not targets:
        raise UsageError("no answers were given", hint="name a run, a receipt or an answer file: bench dispute RUN")
    catalog, environment = load_workspace()
    found = anyio.run(_judge_all, catalog, environment, targets, benchmark, (judges, prompts))
    grids = dispute_grids(found)
    if current.get().json:
        console.json_value(found.to_json())
    elif markdown:
        console.raw("\n".join(map(as_markdown, grids)))
    elif html is not None:
        from bench.report.result_files import replace_text

        replace_text(html, grids_page(f"Dispute: {found.benchmark}", grids))
        console.line(str(html))
    else:
        console.grids(grids)
    return 0


async def _judge_all(
    catalog: Catalog,
    environment: Environment,
    targets: Sequence[str],
    benchmark: str | None,
    cells: tuple[list[str], list[str]],
) -> Dispute:
    from bench.datasets import open_benchmark
    from bench.report.judges.dispute import Dispute, DisputeSide

    name = benchmark or await _benchmark_of(catalog.workspace, targets)
    dataset = open_benchmark(catalog.benchmark(name), catalog.workspace)
    sides = [side for target in targets for side in await _answer_sets(catalog, target, dataset)]
    if not sides:
        raise UsageError(
            f"no answers to the benchmark {name} in {', '.join(targets)}",
            hint="list the jobs of a run with: bench results RUN_ID",
        )
    names = [side.name for side in sides]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(
            f'two of the given runs, receipts or files have the name "{twice}"', hint="remove or rename one of them"
        )
    planned = [await _plan_cells(catalog, environment, dataset, side, cells) for side in sides]
    _note_calls([cell for some in planned for cell in some])
    panels = [await _judge_panel(environment, side, some) for side, some in zip(sides, planned, strict=True)]
    return Dispute(
        benchmark=dataset.name,
        sides=tuple(
            DisputeSide(
                panel=panel, source=side.source, context=side.context, leaks=side.leaks, reviews=_reviews(side, panel)
            )
            for panel, side in zip(panels, sides, strict=True)
        ),
    )


def _reviews(side: AnswerSet, panel: Panel) -> tuple[Review | None, ...]:
    """Return one review for each judge and prompt. A review compares the verdicts with people's labels.

    A review is None if the answers have no labels. The result is empty if the answers are not from a run.
    """
    from bench.report.judges.review import review_of

    if side.labels is None:
        return ()
    return tuple(review_of(side.labels.events, side.labels.record, cell.verdicts) for cell in panel.cells)


async def _benchmark_of(workspace: Path, targets: Sequence[str]) -> str:
    from bench.journal import Reader
    from bench.journal.paths import find_run
    from bench.plan.job_record import read_jobs

    for target in targets:
        if (receipt := _read_receipt_file(target)) is not None:
            return receipt.benchmark.name
        if not Path(target).is_file():
            async with Reader.open(find_run(workspace, target.partition(":")[0])) as reader:
                return read_jobs(reader.meta.extra)[0].benchmark
    raise UsageError("an answer file does not name its benchmark", hint="add --benchmark NAME")


async def _answer_sets(catalog: Catalog, target: str, dataset: Dataset) -> list[AnswerSet]:
    if (receipt := _read_receipt_file(target)) is not None:
        return [_answers_of_receipt(Path(target), receipt, dataset)]
    if Path(target).is_file():
        return [_answers_of_file(Path(target), dataset)]
    return await _answers_of_run(catalog, target, dataset)


def _read_receipt_file(target: str) -> Receipt | None:
    """Return the receipt in a file; None if the file contains no receipt.

    Raises:
        UsageError: the receipt does not have the expected structure.
    """
    from bench.receipt.base_model import SchemaMismatch
    from bench.receipt.schema import read_receipt

    path = Path(target)
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        tree: JSON = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    if not isinstance(tree, dict) or tree.get("schema") != RECEIPT:
        return None
    try:
        return read_receipt(tree)
    except SchemaMismatch as mismatch:
        raise UsageError(
            f"{path} is not a valid receipt: {mismatch}", hint=f"show the failed checks with: bench verify {path}"
        ) from mismatch


def _answers_of_file(path: Path, dataset: Dataset) -> AnswerSet:
    from bench.engine.external_rows import read_external
    from bench.engine.vendor_results import read_vendor

    if path.suffix == ".json":
        found = read_vendor(path, dataset)
        return AnswerSet(name=path.stem, rows=found.rows, source=found.text)
    rows = [row for row in read_external(path) if row.answer is not None]
    mapped = [row for row in rows if dataset.index_of(row.item) is not None]
    text = f"{len(mapped)} of {counted(len(rows), 'row(|s)')} mapped to items, {len(rows) - len(mapped)} not mapped"
    return AnswerSet(name=path.stem, rows=mapped, source=f"answers: {text}")


def _answers_of_receipt(path: Path, receipt: Receipt, dataset: Dataset) -> AnswerSet:
    from bench.engine.external_rows import ExternalRow
    from bench.plan.prompt_leaks import KNOWS_ANSWER, KNOWS_TYPE
    from bench.receipt.receipt_evidence_sheet import context_of, receipt_rows

    items = path.parent / receipt.per_query.file
    every = [row for row in receipt_rows(items) if row.get("epoch") == 1]
    rows = [
        ExternalRow(item=str(row["itemId"]), where=f"{items.name}", answer=str(row["answer"]))
        for row in every
        if row.get("answer") and dataset.index_of(str(row["itemId"])) is not None
    ]
    if not rows:
        raise UsageError(
            f"{path}: the items file of this receipt has no answers",
            hint="include the answers with: bench sign RUN_ID --with-answers",
        )
    named = [why for why in receipt.reproducibility.reasons if why.startswith((KNOWS_ANSWER, KNOWS_TYPE))]
    return AnswerSet(
        name=receipt.receipt_id,
        rows=rows,
        source=f"receipt of {receipt.provider.name}, {counted(len(rows), 'answer(|s)')}; bench verify checks it",
        context=context_of(receipt, path) or UNKNOWN,
        leaks="; ".join(named) or "the receipt lists no problem",
    )


async def _answers_of_run(catalog: Catalog, target: str, dataset: Dataset) -> list[AnswerSet]:
    from bench.journal import Reader
    from bench.journal.paths import find_run
    from bench.plan.job_record import read_jobs

    run, _, provider = target.partition(":")
    folder = find_run(catalog.workspace, run)
    async with Reader.open(folder) as reader:
        jobs = [one for one in read_jobs(reader.meta.extra) if one.models.answering is not None]
        every = {one.answer_owner: one for one in jobs if one.benchmark == dataset.name}
        events = await reader.events()
        return [
            await _answers_of_job(reader, LabelSource(record, folder, events))
            for record in every.values()
            if provider in ("", record.provider)
        ]


async def _answers_of_job(reader: Reader, labels: LabelSource) -> AnswerSet:
    from bench.engine.external_rows import ExternalRow
    from bench.model import Phase
    from bench.receipt.evidence_sheet import context_text
    from bench.report.memory_cost import read_context

    rows, record = [], labels.record
    async for item in reader.items(record.chain):
        answered = item.phases.get(Phase.ANSWER)
        if item.epoch == 1 and answered is not None and answered.ok:
            rows.append(ExternalRow(item=item.item, where=reader.meta.run_id, answer=str(answered.data.get("answer"))))
    return AnswerSet(
        name=f"{reader.meta.run_id}:{record.provider}:{record.models.answering}",
        rows=rows,
        source=f"run {reader.meta.run_id}, {counted(len(rows), 'answer(|s)')}",
        context=context_text(await read_context(reader, record)) or UNKNOWN,
        leaks="; ".join(record.prompt_leaks) or "contains neither the gold answer nor question type",
        labels=labels,
    )


# ------------------------------------------------------------------------------ judging


async def _plan_cells(
    catalog: Catalog,
    environment: Environment,
    dataset: Dataset,
    side: AnswerSet,
    judges_and_prompts: tuple[list[str], list[str]],
) -> list[tuple[str, JudgeCell]]:
    """Return one pair (prompt name, planned verdicts) for each judge with each prompt.

    ``side`` is the set of answers. Existing verdicts are reused.
    """
    from bench.config.run import RunRequest
    from bench.engine.external_results import external_plan
    from bench.engine.items.judge_cells import judge_cell

    judges, prompts = judges_and_prompts
    found = []
    for name, prompt in zip(prompt_names(prompts), prompts, strict=True):
        for judge in judges:
            flags = {
                "benchmarks": (dataset.name,),
                "judge_model": (judge,),
                "judge_prompt": (prompt,),
                "evaluators": ("llm-judge",),
                "metrics": ("accuracy",),
            }
            request = RunRequest.combine(None, flags)
            plan, rows = external_plan(catalog, request, list(side.rows), label="answers", environment=environment)
            run = None if side.labels is None else (side.labels.folder, side.labels.record.answer_owner)
            found.append((name, await judge_cell(plan, rows, run=run)))
    return found


def _note_calls(cells: Sequence[tuple[str, JudgeCell]]) -> None:
    """Print how many verdicts will be requested and how many are reused, before any judge is called."""
    requested, reused = sum(cell.n_to_judge for _, cell in cells), sum(cell.n_reused for _, cell in cells)
    each = [f"{cell.n_to_judge} of {cell.judge}, {name}" for name, cell in cells if cell.n_to_judge]
    console.note(
        f"{counted(requested + reused, 'verdict(|s)')}: {counted(reused, '(is|are)')} reused, "
        f"{counted(requested, '(is|are)')} requested" + (f" ({'; '.join(each)})" if each else "")
    )


async def _judge_panel(environment: Environment, side: AnswerSet, cells: Sequence[tuple[str, JudgeCell]]) -> Panel:
    """Judge a set of answers with each judge and prompt, and return all verdicts. Existing verdicts are reused."""
    from bench.journal import Reader
    from bench.plan.job_record import read_jobs
    from bench.report.judges.panel import Panel, read_cell, with_texts

    found: list[PanelCell] = []
    types: dict[AnswerKey, str] = {}
    for name, cell in cells:
        folder = await cell.judged_folder(environment)
        async with Reader.open(folder) as reader:
            (record,) = read_jobs(reader.meta.extra)
            one, kinds = await read_cell(reader, record, 0, name)
        found.append(one)
        types.update(kinds)
        if failed := cell.n_to_judge + cell.n_reused - len(one.verdicts):
            console.note(
                f"{counted(failed, 'verdict(|s)')} of {one.name} on {side.name} failed; the same command "
                f"requests them again"
            )
    panel = Panel(side=side.name, benchmark=record.benchmark, cells=tuple(found), types=types)
    async with Reader.open(folder) as reader:
        return await with_texts(reader, record, panel)
