"""Plan one benchmark of a run: its checked dataset, selection, prompts, metrics and evaluators.

Example::

    planned = plan_benchmark(dataset, request, ranges=(), folder=Path("."))
    planned.n_selected, planned.k, [metric.definition for metric in planned.scoring.metrics]

A list of disputed gold answers is called an overlay. It is in ``overlays/NAME.yaml`` next to the benchmark's config.

Example::

    overlay: audit-2026        # in the benchmark's config, or overlays/audit-2026.yaml in full

The dataset is never changed. The digest of the overlay is part of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

from pydantic.alias_generators import to_camel

from bench.config.benchmark.config import BenchmarkConfig, config_sha256
from bench.config.benchmark.overlay import OverlayFile, read_overlay
from bench.config.file import Source
from bench.config.run import RunRequest
from bench.datasets import Dataset, Selection
from bench.errors import BenchError, ConfigError, DataError, UsageError
from bench.evaluators.packs import PromptPack, check_sealed, load_pack
from bench.plan.model import BenchmarkPlan, PlannedOverlay
from bench.plan.prompt_leaks import leaks
from bench.plan.prompts import Prompts, unfilled_names
from bench.plan.ranges import Ranges
from bench.plan.scoring import ANY_MODEL, Scoring

LLM_JUDGE = "llm-judge"
"""name of the evaluator that uses the judge prompts of a benchmark"""
OVERLAYS = "overlays"
"""folder of overlay files, next to the benchmark's config"""
DEFAULT_CONTEXT_BUDGET = 120_000
"""default maximum number of tokens of retrieved context in an answer prompt"""


def plan_benchmark(dataset: Dataset, request: RunRequest, *, ranges: Ranges, folder: Path) -> BenchmarkPlan:
    """Plan the settings of one benchmark that are equal for all providers.

    Raises:
        UsageError: no item is selected, or the benchmark does not allow an override.
        ConfigError: a metric, evaluator, prompt, prompt pack or file of disputed gold answers is invalid.
        DataError: the file of disputed gold answers is for another dataset.
    """
    config = dataset.config
    k = request.k[0] if request.k else config.search.default_limit
    pack = pack_of(config, folder)
    prompts = Prompts.of(
        config,
        pack=pack,
        answer_prompt=request.answer_prompt,
        judge_prompts=request.judge_prompt,
        types=dataset.known_types(),
        folder=folder,
    )
    scoring = Scoring.of(config, request, k=k, prompts=prompts, pack=pack)
    if problems := unfilled_names(prompts, dataset, judged=any(spec.method == LLM_JUDGE for spec in scoring.specs)):
        raise ConfigError.of(problems)
    whole = filters_of(request)
    selection = replace(whole, parts=ranges)
    everything = dataset.selected(whole)
    selected = dataset.selected(selection) if ranges else everything
    if not everything:
        raise UsageError(
            f"no item of {config.name} is selected",
            hint="change --items, --items-of or --question-type, or remove them",
        )
    return BenchmarkPlan(
        name=config.name,
        config=config,
        config_sha256=config_sha256(config),
        dataset=dataset,
        selection=selection,
        k=k,
        context_budget=request.context_budget or DEFAULT_CONTEXT_BUDGET,
        epochs=request.epochs,
        epochs_reducer=request.epochs_reducer or config.epochs_reducer,
        prompts=prompts,
        scoring=scoring,
        pack=pack,
        n_selected=len(selected),
        n_whole=len(everything),
        selected_types=dataset.types_of(selected),
        whole_types=dataset.types_of(everything),
        overlay=overlay_of(config, dataset),
        leaks=leaks(prompts, dataset),
    )


def at_cutoff(planned: BenchmarkPlan, request: RunRequest, k: int) -> BenchmarkPlan:
    """Return a copy of the plan with ``k`` hits per search. Metrics without their own k use this k too."""
    if k == planned.k:
        return planned
    scoring = Scoring.of(planned.config, request, k=k, prompts=planned.prompts, pack=planned.pack)
    return replace(planned, k=k, scoring=scoring)


def scoring_problems(config: BenchmarkConfig, folder: Path) -> list[ConfigError]:
    """Return the errors in a config's metrics, evaluators, prompts and prompt pack that would prevent a run.

    The check assumes that the run names an embedding model and allows code execution.
    """
    request = RunRequest(embedding_model=ANY_MODEL, allow_code_execution=True)
    try:
        pack = pack_of(config, folder)
        prompts = Prompts.of(config, pack=pack, answer_prompt=None, judge_prompts=(), folder=folder)
        Scoring.of(config, request, k=config.search.default_limit, prompts=prompts, pack=pack)
    except ConfigError as error:
        return list(error.problems) or [error]
    return []


def data_problems(dataset: Dataset, folder: Path) -> list[BenchError]:
    """Return the errors that can only be found by reading the data.

    There is an error for each placeholder that has no value in any item. There is also an error if the list of disputed
    gold answers does not fit the data. Call `scoring_problems` first, because this function raises the errors that
    `scoring_problems` returns.
    """
    config = dataset.config
    pack = pack_of(config, folder)
    prompts = Prompts.of(config, pack=pack, answer_prompt=None, judge_prompts=(), folder=folder)
    problems: list[BenchError] = [*unfilled_names(prompts, dataset, judged=config.evaluation.method == LLM_JUDGE)]
    try:
        overlay_of(config, dataset)
    except (ConfigError, DataError) as error:
        problems.append(error)
    return problems


def overlay_of(config: BenchmarkConfig, dataset: Dataset) -> PlannedOverlay | None:
    """Return the list of disputed gold answers (overlay) that a config names, or None.

    Raises:
        ConfigError: the overlay is missing or invalid, is for another benchmark, or names an unknown item.
        DataError: the overlay is for another dataset.
    """
    if config.overlay is None:
        return None
    name = PurePosixPath(config.overlay).name.removesuffix(".yaml")
    folder = config.folder_of("overlay")
    assert folder is not None
    path = folder / OVERLAYS / f"{name}.yaml"
    named = (name, f"{name}.yaml", f"{OVERLAYS}/{name}.yaml", f"./{OVERLAYS}/{name}.yaml")
    if config.overlay not in named or not path.is_file():
        text = f"there is no overlay {OVERLAYS}/{name}.yaml"
        raise ConfigError(text, where=config.place("overlay"), hint=f"put the overlay at {path}")
    source = Source.read(path)
    file = read_overlay(source)
    _check_edition(source, file, dataset)
    if problems := list(_misfits(source, file, dataset)):
        raise ConfigError.of(problems)
    return PlannedOverlay(
        name=name,
        sha256=sha256(path.read_bytes()).hexdigest(),
        source=file.source or "",
        items={one.id: one for one in file.items},
    )


def _check_edition(source: Source, file: OverlayFile, dataset: Dataset) -> None:
    if file.dataset_sha256 not in (dataset.sha256, dataset.content_sha256):
        raise DataError(
            f"the overlay is for the dataset with sha256 {file.dataset_sha256}, but the dataset of this run has "
            f"{dataset.sha256}",
            where=source.place(("dataset_sha256",)),
            hint="use an overlay for this dataset, or run without an overlay",
        )


def _misfits(source: Source, file: OverlayFile, dataset: Dataset) -> Iterator[ConfigError]:
    if file.benchmark and file.benchmark.lower() != dataset.name.lower():
        yield ConfigError(
            f"the overlay is for {file.benchmark}, not for {dataset.name}",
            where=source.place(("benchmark",)),
            hint=f"write benchmark: {dataset.name} in the overlay, or name another overlay in the config",
        )
    for index, item in enumerate(file.items):
        if dataset.index_of(item.id) is None:
            yield ConfigError(
                f'{dataset.name} has no item "{item.id}"',
                where=source.place(("items", index, "id")),
                hint=f"list the ids with: bench describe {dataset.name} --items",
            )


def filters_of(request: RunRequest) -> Selection:
    """Return the item selection of a request's flags, without the range of positions."""
    return Selection(
        items=request.items,
        items_of=request.items_of,
        question_types=request.question_type,
        sample=request.sample,
        per_type=request.per_type,
        seed=request.seed,
        limit=request.limit,
    )


def pack_of(config: BenchmarkConfig, workspace: Path) -> PromptPack | None:
    """Return the prompt pack that a config names, or None if the config names no pack.

    Raises:
        ConfigError: the pack is unknown or its official text was changed, or the config sets a key that the pack fixes.
    """
    name = config.evaluation.pack
    if name is None:
        return None
    pack = load_pack(name, workspace=workspace, where=config.place("evaluation", "pack"))
    written = config.origin.tree().get("evaluation") if config.origin else None
    given = {
        f"evaluation.{to_camel(key)}": config.place("evaluation", to_camel(key))
        for key, value in (written.items() if isinstance(written, dict) else ())
        # the same value as in the pack changes nothing
        if value is not None and (key != "method" or value != pack.evaluator)
    }
    # that rule would be added to a judge prompt of the pack
    lenient = [index for index, kind in enumerate(config.question_types) if kind.allow_off_by_one]
    if lenient:
        given["evaluation.judgePrompts.allowOffByOne"] = config.place("questionTypes", lenient[0], "allowOffByOne")
    check_sealed(pack, given)
    return pack
