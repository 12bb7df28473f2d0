"""``bench score``: score rankings or answers of another tool as a run would. No provider is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.flags import Many, whole_number
from bench.cli.global_flags import current
from bench.cli.results import result_grids, show_grids
from bench.journal import Reader
from bench.report import fold, results_json

if TYPE_CHECKING:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.report import Report
    from bench.settings import Environment


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
    """Score rankings or answers of another tool as in a run. No provider is called. The output is that of bench
    results.

    Parameters
    ----------
    runfile
        A TREC run file, or JSON lines {"item": ID, "hits": [session or turn ids in order], "answer": TEXT}.
    benchmark
        The benchmark of these items.
    name
        Name of the system in the results. Default: the name of the file.
    k
        Number of hits that count. Default: the benchmark's.
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
    from bench.cli.run_command import surroundings
    from bench.config.run import RunRequest

    catalog, environment = surroundings()
    flags = {
        "benchmarks": (benchmark,),
        "k": k,
        "judge_model": judge_model,
        "judge_prompt": judge_prompt,
        "embedding_model": embedding_model,
        "metrics": metrics,
        "allow_code_execution": allow_code_execution,
    }
    report = anyio.run(_scored, catalog, RunRequest.combine(None, flags), runfile, name or runfile.stem, environment)
    if current.get().json:
        console.json_value(results_json(report))
    else:
        show_grids(result_grids(report))
    return 0


async def _scored(catalog: Catalog, request: RunRequest, runfile: Path, name: str, environment: Environment) -> Report:
    from dataclasses import replace
    from tempfile import TemporaryDirectory

    from bench.engine.external_results import foreign_plan, score_foreign
    from bench.engine.external_rows import read_foreign

    plan, rows = foreign_plan(catalog, request, read_foreign(runfile), label=name, environment=environment)
    for text in plan.notes:
        console.note(text)
    with TemporaryDirectory(prefix="bench-score-") as place:
        folder = Path(place) / "score"
        await score_foreign(plan, rows, folder, environment=environment)
        async with Reader.open(folder) as reader:
            return replace(await fold(reader), stored=False)
