"""``bench retry``, ``rescore``, ``extend``, ``fork``, ``score``: use stored results of runs or of other tools."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.commands.results import result_grids
from bench.cli.commands.run_command import execute_plan, load_workspace, requested_settings
from bench.cli.flags import Many, RunFlags, SelectionFlags, given_flags, whole_number
from bench.cli.global_flags import current
from bench.errors import UsageError
from bench.journal import Reader
from bench.journal.paths import find_run
from bench.model import Phase
from bench.report import fold, results_json

if TYPE_CHECKING:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.engine.run_context import RunScope
    from bench.plan import Plan
    from bench.report import Report
    from bench.report.judges.panel import Panel
    from bench.settings import Environment
    from bench.untyped_values import Json


EXIT_INVALID_JOB = 4
"""exit code if a run finished but one of its jobs is INVALID"""
FOR_ANSWERS = ("answering_model", "answer_prompt", "context_budget", "max_answer_tokens")
"""flags that change the answers of a run"""


def retry(
    run_id: str,
    /,
    *,
    phase: Literal["ingest", "index", "search", "answer", "evaluate"] | None = None,
    items: Many = None,
    concurrency: str | None = None,
) -> int:
    """Run the failed items (state error or not_ready) again. Wrong answers are never run again.

    Parameters
    ----------
    run_id
        The run with failed items.
    phase
        Only items that failed in this phase.
    items
        Only these item ids. An item that did not fail is an error.
    concurrency
        Requests in flight, or auto.
    """
    from bench.datasets.selection import split_ids
    from bench.engine import resumed_plan
    from bench.engine.resume import failed_items
    from bench.engine.run_context import RunScope

    catalog, environment = load_workspace()
    flags = given_flags(RunFlags(concurrency=concurrency))

    async def planned() -> tuple[Path, Plan, frozenset[str]]:
        folder, plan = await resumed_plan(run_id, catalog=catalog, flags=flags, environment=environment)
        failed = await failed_items(folder)
        named = split_ids(items or (), failed.__contains__)
        item_id = next((name for name in named if name not in failed), None)
        if item_id is not None:
            raise UsageError(
                f'item "{item_id}" of run {run_id} did not fail',
                hint=f'name an item in state "error" or "not_ready"; list them with: bench failures {run_id}',
            )
        return folder, plan, await failed_items(folder, phase=Phase(phase) if phase else None, items=named)

    folder, plan, chosen = anyio.run(planned)
    if not chosen:
        return _nothing_to_retry(folder)
    return execute_plan(plan, environment, resume=folder, scope=RunScope(item_ids=chosen))


def _nothing_to_retry(folder: Path) -> int:
    from bench.engine.resume import NOTHING_TO_RETRY
    from bench.report.status import run_status

    console.note(NOTHING_TO_RETRY)
    if current.get().json:
        found = anyio.run(run_status, folder)
        cost = {"cost_usd": found.cost_usd, "cost_unknown_calls": found.cost_unknown_calls}
        done = {
            "event": "done",
            "run_id": found.run_id,
            "status": found.state,
            "exit_code": 0,
            "message": NOTHING_TO_RETRY,
        }
        console.json_line({**done, "jobs": [], **cost, "resume": None})
    return 0


def rescore(
    run_id: str,
    /,
    *,
    judge_model: Many = None,
    judge_prompt: Many = None,
    evaluators: Many = None,
    metrics: Many = None,
) -> int:
    """Judge or measure the stored answers again, in the same run. No provider is called, and old verdicts stay.

    Parameters
    ----------
    run_id
        The run with the answers.
    judge_model
        Other judges. With two or more verdicts per answer, their agreement is shown.
    judge_prompt
        File or text; TYPE=FILE for one question type. With several prompts, the last one counts.
    evaluators
        Evaluators instead of the benchmark's own.
    metrics
        Replace the list of metrics.
    """
    from bench.engine.resume import rescored_plan

    catalog, environment = load_workspace()
    named = {"judge_model": judge_model, "judge_prompt": judge_prompt, "evaluators": evaluators, "metrics": metrics}
    flags: Json = {name: value for name, value in named.items() if value is not None}
    generations: dict[int, str] = {}
    scorings = _scorings_by_prompt(judge_prompt, catalog.workspace)
    words = [word for name, value in named.items() if value for word in (f"--{name.replace('_', '-')}", *value)]
    again = shlex.join(["bench", "rescore", run_id, *words])
    for name, prompts in scorings:
        if prompts:
            flags["judge_prompt"] = prompts

        async def planned(prompt: str = name) -> tuple[Path, Plan, RunScope]:
            return await rescored_plan(
                run_id, catalog=catalog, flags=flags, environment=environment, prompt=prompt, command=again
            )

        folder, plan, scope = anyio.run(planned)
        if len(scorings) > 1 and not current.get().json:
            console.line(f"Judge prompt {name}")
        code = execute_plan(plan, environment, resume=folder, scope=scope)
        generations[scope.generation] = name
        if code not in (0, EXIT_INVALID_JOB):
            return code
    _show_panels(folder, generations)
    return code


def _scorings_by_prompt(entries: Sequence[str] | None, workspace: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Return (name, prompts) for each time that the answers are judged.

    The answers are judged once with each prompt for all question types. ``prompts`` is this prompt, followed by the
    prompts for single question types. If no prompt is for all types, the answers are judged once, and ``name`` is
    ``(own)``.
    """
    defaults: list[str] = []
    by_type: list[str] = []
    for entry in entries or ():
        kind, equals, _ = entry.partition("=")
        of_type = (
            equals and kind != "default" and re.fullmatch(r"@?[\w .-]+", kind) and not (workspace / entry).is_file()
        )
        (by_type if of_type else defaults).append(entry)
    names = prompt_names(defaults)
    if not defaults:
        return [("(own)", tuple(by_type))]
    return [(name, (entry, *by_type)) for name, entry in zip(names, defaults, strict=True)]


def prompt_names(entries: Sequence[str]) -> list[str]:
    """Return a unique short name for each prompt: the name of its file, or its position."""
    names: list[str] = []
    for at, entry in enumerate(entries, 1):
        text = entry.removeprefix("default=").removeprefix("@")
        stem = Path(text).stem if len(text) < 200 and not set(text) & set("\n${") else ""
        names.append(stem if stem and stem not in names else f"prompt {at}")
    return names


def _show_panels(folder: Path, generations: Mapping[int, str]) -> None:
    """Print how often several judges or judge prompts agree; print nothing for only one judge with one prompt."""
    from bench.journal import Reader
    from bench.report.judges.panel import panel_grids, read_panels

    async def panels() -> list[Panel]:
        async with Reader.open(folder) as reader:
            return await read_panels(reader, generations)

    several = [panel for panel in anyio.run(panels) if len(panel.cells) > 1]
    if current.get().json:
        if several:
            console.json_line({"event": "judges", "panels": [panel.to_json() for panel in several]})
        return
    for panel in several:
        console.line()
        console.grids(panel_grids(panel))


def extend(run_id: str, /, *, flags: SelectionFlags | None = None) -> int:
    """Run more items in an existing run: the same plan with a wider selection. The results of ended items are kept.

    Parameters
    ----------
    run_id
        The run to extend.
    """
    from bench.engine.resume import extended_plan

    catalog, environment = load_workspace()
    found = given_flags(flags or SelectionFlags())
    planned = partial(extended_plan, run_id, catalog=catalog, flags=found, environment=environment)
    folder, plan = anyio.run(planned)
    return execute_plan(plan, environment, resume=folder)


def fork(
    run_id: str,
    /,
    *,
    from_: Annotated[Literal["ingest", "answer", "evaluate"], Parameter(name="--from")],
    flags: RunFlags | None = None,
) -> int:
    """Start a new run from the memories (ingest), search results (answer) or answers (evaluate) of another run.

    With --from answer or evaluate, no provider is called, and items that the other run has not ended stay pending.
    With --from ingest, the run searches the memories that the other run kept. This is the same as bench run with the
    flags of that run and --reuse-build.

    Parameters
    ----------
    run_id
        The other run.
    from_
        What the new run uses. ingest: kept memories; answer: search results; evaluate: answers.
    """
    from bench.engine.resume import forked_plan, reuse_plan, stored_items

    catalog, environment = load_workspace()
    start, found = Phase(from_), requested_settings(catalog, flags or RunFlags())
    if start is Phase.INGEST:
        planned_on = partial(reuse_plan, run_id, catalog=catalog, flags=found, environment=environment)
        return execute_plan(anyio.run(planned_on), environment, resume=None)
    wrong = next((name for name in FOR_ANSWERS if name in found), None)
    if start is Phase.EVALUATE and wrong is not None:
        text = f"--{wrong.replace('_', '-')} would change answers, but --from evaluate keeps them"
        raise UsageError(text, hint="use --from answer")
    if spread := {"cluster", "workers"}.intersection(found):
        raise UsageError("a fork of a run cannot use several processes", hint=f"remove --{spread.pop()}")

    async def planned() -> tuple[Plan, RunScope]:
        plan, scope = await forked_plan(run_id, start, catalog=catalog, flags=found, environment=environment)
        only = await stored_items(find_run(catalog.workspace, run_id), start)
        if not only:
            results = "answers" if start is Phase.EVALUATE else "search results"
            raise UsageError(f"run {run_id} has no stored {results}", hint="start a new run with: bench run")
        alone = plan.request.model_copy(update={"cluster": None, "shards": None, "workers": None})
        return replace(plan, request=alone), replace(scope, item_ids=only)

    plan, scope = anyio.run(planned)
    return execute_plan(plan, environment, resume=None, scope=scope)


def score(
    runfile: Path,
    /,
    *,
    benchmark: str,
    name: str | None = None,
    k: Annotated[int | None, Parameter(name=["-k", "--k"], converter=whole_number)] = None,
    judge_model: Many = None,
    judge_prompt: Many = None,
    embedding_model: str | None = None,
    metrics: Many = None,
    allow_code_execution: Annotated[bool | None, Parameter(negative=())] = None,
) -> int:
    """Score rankings or answers of another tool in the same way as a run.

    No provider is called. The output is that of bench results.

    Parameters
    ----------
    runfile
        A TREC run file, or JSON lines {"item": ID, "hits": [session or turn ids in order], "answer": TEXT}.
    benchmark
        The benchmark of these items.
    name
        Name of the system in the results. Default: the name of the file.
    k
        Number of hits per item that count. Default: all hits of the file, and at least the benchmark's k.
    judge_model
        As in bench run, for benchmarks with a judge.
    judge_prompt
        As in bench run.
    embedding_model
        Model for evaluators that compare embeddings.
    metrics
        Metrics instead of the benchmark's list.
    allow_code_execution
        Allow the evaluator code-correctness to execute answers.
    """
    from bench.config.run import RunRequest

    catalog, environment = load_workspace()
    flags = {
        "benchmarks": (benchmark,),
        "k": k,
        "judge_model": judge_model,
        "judge_prompt": judge_prompt,
        "embedding_model": embedding_model,
        "metrics": metrics,
        "allow_code_execution": allow_code_execution,
    }
    report = anyio.run(
        _score_file, catalog, RunRequest.combine(None, flags), runfile, name or runfile.stem, environment
    )
    if current.get().json:
        console.json_value(results_json(report))
    else:
        console.grids(result_grids(report))
    return 0


async def _score_file(
    catalog: Catalog, request: RunRequest, runfile: Path, name: str, environment: Environment
) -> Report:
    from tempfile import TemporaryDirectory

    from bench.engine.external_results import external_plan, score_external
    from bench.engine.external_rows import read_external

    plan, rows = external_plan(catalog, request, read_external(runfile), label=name, environment=environment)
    for text in plan.notes:
        console.note(text)
    with TemporaryDirectory(prefix="bench-score-") as place:
        folder = Path(place) / "score"
        await score_external(plan, rows, folder, environment=environment)
        async with Reader.open(folder) as reader:
            return replace(await fold(reader), stored=False)
