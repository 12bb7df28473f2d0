"""Make a plan from flags and configs: read each file once, check everything, make no call.

Example::

    plan = make_plan(Catalog.load(Path(".")), RunRequest(benchmarks=("demo",)), Environment.load(Path(".")))
    plan.digest, [lane.key for lane in plan.running]

``plan.identity`` is a tree of all settings that can change a result. See :mod:`bench.plan.identity`.
"""

from __future__ import annotations

import platform
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from bench.config.catalog import Catalog
from bench.config.model import ModelFile, context_window, read_model_file, with_settings
from bench.config.run import RunRequest
from bench.datasets import CoverageGap, evidence_level, open_benchmark, require_coverage
from bench.errors import ConfigError, UsageError
from bench.model import Phase
from bench.models import check_model, resolve_name
from bench.plan.benchmark import at_cutoff, plan_benchmark
from bench.plan.cost_estimate import check_prices, page_notes, tiny_prices, unused_prices
from bench.plan.crash_cost import crash_notes
from bench.plan.identity import digest, identity_of
from bench.plan.model import NONE, BenchmarkPlan, Job, Lane, Plan, ProviderPlan
from bench.plan.model_settings import answer_tokens
from bench.plan.plugins import Installed, refuse_duplicates
from bench.plan.provider import choose, label_at_cutoff
from bench.plan.ranges import Ranges, ranges_of
from bench.plan.shared_builds import with_shared_builds
from bench.plan.unpriced_calls import budget_note, other_address_notes
from bench.plan.validity import same_family_note
from bench.settings import Environment
from bench.tokens import count_tokens
from bench.untyped_values import Json
from bench.version import __version__, distribution_version
from bench.visible_text import counted

DEMO = ("demo",)


def make_plan(catalog: Catalog, request: RunRequest, environment: Environment, *, ranges: Ranges | None = None) -> Plan:
    """Plan a run. If ``ranges`` is given, it replaces the range of the request, for example when runs are merged.

    Raises:
        UsageError: a name is unknown, flags contradict each other, no item is selected, or no job can run.
        ConfigError: a config, prompt, metric, model or environment variable is invalid.
        DataError: a dataset is missing, invalid or changed, or evidence would not be sent.
    """
    names = request.benchmarks or DEMO
    datasets = [open_benchmark(catalog.benchmark(name), catalog.workspace) for name in names]
    _refuse_repeated([dataset.config.name for dataset in datasets])
    total = max(len(dataset) for dataset in datasets)
    chosen = ranges_of(request, total) if ranges is None else ranges
    benchmarks = [plan_benchmark(dataset, request, ranges=chosen, folder=catalog.workspace) for dataset in datasets]
    embedding = None if request.embedding_model is None else resolve_name(request.embedding_model)
    providers = choose(
        catalog, names=request.providers, overrides=request.set, embedding=embedding, environment=environment
    )
    settings = {resolve_name(name): own for name, own in request.models.items()}
    files, installed = with_settings(model_files(catalog), settings), Installed.read()
    lanes = with_shared_builds(
        [
            _lane(at_k, provider_at_k, request)
            for benchmark in benchmarks
            for provider in providers
            for at_k, provider_at_k in _cutoffs(benchmark, provider, request)
        ]
    )
    running = [lane for lane in lanes if lane.skipped is None]
    refuse_duplicates(lanes, files, installed)
    _check_models(running, environment, files)
    _check_context_room(running, request, files)
    _check_rates(lanes, request)
    check_prices(catalog, request.prices, files)
    _check_single_namespace(running, request)
    spread = _spread_flag(request)
    if spread is not None and request.reuse_build != "never":
        raise UsageError(f"--reuse-build and {spread} exclude each other", hint=f"remove {spread}")
    _check_coverage(running)
    if not running:
        raise UsageError(
            "no job is left to run: " + "; ".join(lane.skipped or "" for lane in lanes), hint="add another provider"
        )
    identity = identity_of(lanes, request, environment, files, installed)
    alone = _single_process_reason(running, request)
    return Plan(
        request=request,
        workspace=catalog.workspace,
        lanes=lanes,
        identity=identity,
        digest=digest(identity),
        total=total,
        ranges=chosen,
        versions=versions(installed),
        model_files=files,
        workers=1 if alone else request.workers or 1,
        notes=tuple(dict.fromkeys([*_notes(lanes), *_flag_notes(running, request, environment, files, alone)])),
    )


def _refuse_repeated(names: Sequence[str]) -> None:
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise UsageError(
            f'benchmark "{twice}" is named twice', hint="name the benchmark once; repeat its items with --epochs"
        )


def _cutoffs(
    benchmark: BenchmarkPlan, provider: ProviderPlan, request: RunRequest
) -> Iterator[tuple[BenchmarkPlan, ProviderPlan]]:
    """Yield the plans of benchmark and provider for each k of the run.

    If the run has more than one k, the provider's label contains the k.
    """
    if len(request.k) < 2:
        yield benchmark, provider
        return
    for k in request.k:
        yield at_cutoff(benchmark, request, k), replace(provider, label=label_at_cutoff(provider.label, k))


def model_files(catalog: Catalog) -> dict[str, ModelFile]:
    """Return a map from a prefix of model names to the workspace file that configures these models."""
    return {entry.name: read_model_file(entry.path) for entry in catalog.models() if not entry.shadowed}


def versions(installed: Installed) -> Json:
    """Return the versions of packages and plug-ins for the record. A run may be resumed with other versions."""
    return {
        "bench": __version__,
        "python": platform.python_version(),
        "packages": {name: distribution_version(name) for name in ("aiohttp", "nltk", "sacrebleu", "genai-prices")},
        "plugins": installed.versions(),
    }


def _lane(benchmark: BenchmarkPlan, provider: ProviderPlan, request: RunRequest) -> Lane:
    config, ingest = benchmark.config, provider.config.ingest
    key = f"{benchmark.name}/{provider.label}"
    if provider.embedding is not None:
        key += f"/{provider.embedding}"
    unit = config.unit if ingest.unit == "benchmark" else "session" if ingest.unit == "chunk" else ingest.unit
    return Lane(
        key=key,
        benchmark=benchmark,
        provider=provider,
        jobs=tuple(_jobs(key, benchmark, request)),
        unit=unit,
        text=ingest.text,
        level=evidence_level(config, unit=unit, turn_evidence=benchmark.dataset.turn_evidence),
        skipped=_missing_operations(benchmark, provider),
    )


def _jobs(lane: str, benchmark: BenchmarkPlan, request: RunRequest) -> list[Job]:
    """Return one job per combination of answering model and judge.

    A job has no judge if no evaluator needs one. A job without an answering model has a judge only if a judge scores
    hits.
    """
    evaluation = benchmark.config.evaluation
    answering = _model_names(request.answering_model, evaluation.answering_model.model)
    own = benchmark.scoring.judge or evaluation.judge.model or (benchmark.pack.judge_model if benchmark.pack else None)
    judging = _model_names(request.judge_model, own) if benchmark.scoring.judging else [NONE]
    jobs = [
        Job(lane=lane, answering=model, judge=judge if model != NONE or benchmark.scoring.judges_hits else NONE)
        for model in answering
        for judge in judging
    ]
    return list(dict.fromkeys(jobs))


def _model_names(flags: Sequence[str], own: str | None) -> list[str]:
    names = list(flags) or ([own] if own is not None else [NONE])
    return list(dict.fromkeys(name if name == NONE else resolve_name(name) for name in names))


def _missing_operations(benchmark: BenchmarkPlan, provider: ProviderPlan) -> str | None:
    """Return a message with the operations that the benchmark needs and the provider lacks.

    Return None if the provider has all operations.
    """
    from bench.providers.adapters import declared_capabilities

    if provider.built_in == "oracle":
        has = frozenset({"add_memory", "retrieve_memory"})
    else:
        has = declared_capabilities(provider.config).operations
    missing = sorted(set(benchmark.config.required_capabilities) - has)
    if not missing:
        return None
    lacking = "it" if len(missing) == 1 else "them"
    return f"skipped: {benchmark.name} needs {', '.join(missing)}, {provider.label} does not have {lacking}"


def unjudged(running: Sequence[Lane]) -> Iterator[tuple[str, str]]:
    """Yield the benchmark and the evaluator of each lane whose answers need a judge but have none."""
    for lane in running:
        scoring = lane.benchmark.scoring
        if scoring.judging and any(job.answering != NONE and job.judge == NONE for job in lane.jobs):
            yield lane.benchmark.name, scoring.judging[0]


def _check_models(running: Sequence[Lane], environment: Environment, files: dict[str, ModelFile]) -> None:
    """Raise an error if a running lane uses an unknown model, or a model whose API key is not set."""
    embedding = {lane.provider.embedding for lane in running}
    for name in dict.fromkeys(name for lane in running for name in lane.models):
        try:
            check_model(name, environment, files)
        except ConfigError as error:
            if name not in embedding:
                raise
            other = "or use --embedding-model local/bge-small-en-v1.5, which needs no key"
            raise ConfigError(error.message, where=error.where, hint=f"{error.hint}; {other}") from error


def _check_context_room(running: Sequence[Lane], request: RunRequest, files: Mapping[str, ModelFile]) -> None:
    """Raise UsageError if the context window of an answering model is too small for a prompt with memories."""
    for lane in running:
        limit = answer_tokens(lane.benchmark, request)
        templates = [one.template for one in lane.benchmark.prompts.answers.values()]
        sizes = [count_tokens(one.text) for one in templates if "retrievedContext" in one.names]
        for name in lane.answering_models if sizes else ():
            size, fixed = context_window(name, files), min(sizes)
            if size is not None and size <= limit + fixed:
                raise UsageError(
                    f"the context of {name} ({size} tokens) has no room for memories: bench reserves {limit} tokens "
                    f"for the answer, and the prompt of {lane.benchmark.name} has {fixed} tokens without memories",
                    hint='lower --max-answer-tokens, or correct the key "context" of the model in configs/models',
                )


def _check_rates(lanes: Sequence[Lane], request: RunRequest) -> None:
    """Raise UsageError if ``--rate`` names an endpoint that no job uses."""
    endpoints = dict.fromkeys(name for lane in lanes for name in lane.endpoints)
    known = dict.fromkeys([*(name.rpartition(".")[0] for name in endpoints), *endpoints])
    for name in request.rate:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"endpoints: {', '.join(endpoints) or 'none'}"
            raise UsageError(f'--rate {name}: no job of this run uses the endpoint "{name}"', hint=hint)


def _spread_flag(request: RunRequest) -> str | None:
    """Return the flag that requests more than one process, or None if no flag does."""
    return "--cluster" if request.cluster is not None else "--workers" if (request.workers or 1) > 1 else None


def _check_single_namespace(running: Sequence[Lane], request: RunRequest) -> None:
    """Raise UsageError if the run cannot work with a service that has only one namespace.

    Such a service allows only one process, and it contains only the latest corpus. A run that only ingests must
    therefore have only one corpus.
    """
    for lane in running:
        if not lane.provider.config.scoping.single:
            continue
        name = lane.provider.label
        if (spread := _spread_flag(request)) is not None:
            hint = f"remove {spread}"
            raise UsageError(f"{name} has one namespace (scoping: single): several workers cannot share it", hint=hint)
        if not {Phase.SEARCH, Phase.ANSWER, Phase.EVALUATE}.intersection(request.phases) and _corpora(lane) > 1:
            text = f"{name} has one namespace (scoping: single): it cannot keep {_corpora(lane)} corpora at once"
            raise UsageError(text, hint="run every phase, or choose one corpus with --items-of")


def _corpora(lane: Lane) -> int:
    return len({ref.corpus for ref in lane.benchmark.dataset.items(lane.benchmark.selection)})


def _check_coverage(running: Sequence[Lane]) -> None:
    """Check that the memories contain every evidence turn.

    Lanes with equal benchmark, memory unit and memory text are checked once.
    """
    seen: set[tuple[str, str, str | None]] = set()
    for lane in running:
        way = (lane.benchmark.name, lane.unit, lane.text)
        if way not in seen and lane.benchmark.dataset.turn_evidence:
            seen.add(way)
            _check_lane_coverage(lane)


def _check_lane_coverage(lane: Lane) -> None:
    dataset = lane.benchmark.dataset
    by_corpus: dict[str, array[int]] = {}
    for ref in dataset.items(lane.benchmark.selection):
        by_corpus.setdefault(ref.corpus, array("I")).append(ref.position)
    whole = sum(map(len, by_corpus.values())) == len(dataset)
    dataset.check_coverage_once(
        lane.unit,
        lane.text,
        lambda: require_coverage(_gaps(lane, by_corpus), benchmark=lane.benchmark.name),
        whole=whole,
    )


def _gaps(lane: Lane, by_corpus: Mapping[str, array[int]]) -> list[CoverageGap]:
    dataset = lane.benchmark.dataset
    gaps: list[CoverageGap] = []
    for corpus_id, positions in by_corpus.items():
        items = [dataset.item(dataset.ref(position)) for position in positions]
        gaps += dataset.coverage_gaps(corpus_id, items, unit=lane.unit, text=lane.text)
    return gaps


def _notes(lanes: Sequence[Lane]) -> list[str]:
    notes = [lane.skipped for lane in lanes if lane.skipped is not None]
    for lane in lanes:
        if any(job.answering != NONE for job in lane.jobs):
            notes += lane.benchmark.leaks
        notes += [*lane.benchmark.dataset.notes, *lane.provider.config.warnings]
        notes += [same for job in lane.jobs if (same := same_family_note(job.answering, job.judge)) is not None]
    return notes


def _single_process_reason(running: Sequence[Lane], request: RunRequest) -> str | None:
    """Return the reason why only one process can do the work, or None if several processes could share it."""
    if request.limit is not None or request.sample is not None:
        return f"one process must select the items of {'--limit' if request.limit is not None else '--sample'}"
    if max(map(_corpora, running)) < 2:
        return "there is only one corpus, which one process ingests"
    return None


def _flag_notes(
    running: Sequence[Lane],
    request: RunRequest,
    environment: Environment,
    files: Mapping[str, ModelFile],
    alone: str | None,
) -> Iterator[str]:
    """Yield the notes of a plan, such as a flag without effect, a price that may be wrong, or the cost of a crash.

    ``alone`` is the reason why only one process can do the work.
    """
    if request.judge_model not in ((), (NONE,)) and all(job.judge == NONE for lane in running for job in lane.jobs):
        yield "--judge-model has no effect: no evaluator of this run uses a judge"
    if not request.judge_model:
        for name, evaluator in unjudged(running):
            yield f"{name}: answers get no verdict, because {evaluator} needs a judge: name one with --judge-model"
    embeds = any(lane.provider.embedding or lane.benchmark.scoring.embedding for lane in running)
    if request.embedding_model is not None and not embeds:
        yield "--embedding-model has no effect: no provider or evaluator of this run uses an embedding model"
    models = {name for lane in running for job in lane.jobs for name in (job.answering, job.judge)} - {NONE}
    if all(name.startswith("builtin/") for name in models):
        for flag, given in (("--batch", request.batch), ("--cache", request.cache is not None)):
            if given:
                yield f"{flag} has no effect: this run calls no model endpoint"
    if (request.workers or 1) > 1 and alone is not None:
        yield f"--workers has no effect: {alone}"
    yield from unused_prices(request.prices, running)
    yield from tiny_prices(request.prices)
    yield from page_notes(running)
    yield from filter(None, [budget_note(running, request)])
    yield from crash_notes(running, request)
    yield from other_address_notes(running, request, environment, files)
    for benchmark in {lane.benchmark.name: lane.benchmark for lane in running}.values():
        if request.sample is not None and not request.per_type and request.sample > benchmark.n_whole:
            yield (
                f"--sample {request.sample}: {benchmark.name} has "
                f"{counted(benchmark.n_whole, 'matching item(|s)')}, so all are used"
            )
