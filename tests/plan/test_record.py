"""Job records in a journal, so that a report needs neither config nor dataset; records of merged runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from bench.errors import ConfigError, DataError, JournalError
from bench.evaluators import JudgePrompts
from bench.evaluators.judged import FaithfulnessEvaluator, RubricEvaluator
from bench.model import Phase
from bench.plan.job_record import (
    EXTRA_KEY,
    JobRecord,
    ModelNames,
    OverlayRecord,
    dump_jobs,
    merged_jobs,
    read_jobs,
    records,
    selects_per_range,
)
from bench.plan.model import BUILT_IN_EMBEDDING
from bench.plan.scoring import judge_settings
from tests.small_world import World

OVERLAY = """
benchmark: facts
dataset_sha256: {sha256}
source: our own audit
items:
  - {{id: c0q0, kind: wrong_answer, note: the text says 7, corrected_answer: 7}}
  - {{id: c1q1, kind: ambiguous}}
"""


def recorded(world: World, **flags: object) -> tuple[JobRecord, ...]:
    return records(world.plan(**{"providers": "bm25", **flags}))


def one(world: World, **flags: object) -> JobRecord:
    (found,) = recorded(world, **flags)
    return found


def add_overlay(world: World, text: str = OVERLAY, *, named: str = "audit") -> None:
    """Give the benchmark an overlay."""
    dataset = world.plan(providers="bm25").lanes[0].benchmark.dataset
    world.write("configs/benchmarks/overlays/audit.yaml", text.format(sha256=dataset.sha256))
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(f"{path.read_text()}overlay: {named}\n")


# ------------------------------------------------------------------------ a job


def test_a_record_has_all_settings_that_a_report_shows(world: World) -> None:
    found = one(world, answering_model="openai/a", k=3, seed=4, epochs=2, track="vendor")
    assert (found.key, found.lane, found.answer_owner) == (
        "facts/bm25|openai/a|none",
        "facts/bm25",
        "facts/bm25|openai/a",
    )
    assert found.owners == (found.lane, found.answer_owner, found.key)
    assert (found.benchmark, found.benchmark_version, found.benchmark_title) == ("facts", "1", "facts")
    assert (found.provider, found.provider_type) == ("bm25", "local")
    assert (found.k, found.seed, found.epochs, found.track, found.epochs_reducer) == (3, 4, 2, "vendor", "mean")
    assert (found.unit, found.level, found.cluster_by) == ("session", "session", "corpus")
    assert (found.n_selected, found.n_whole, found.n_items, found.n_repeats) == (12, 12, 12, 24)
    assert [metric.definition for metric in found.metrics] == [
        "accuracy/1", "hit@5/1", "recall_fraction@10/1", "mrr/1",
    ]  # fmt: skip
    assert found.metric_folder == f"{world.workspace}/configs/benchmarks"
    assert found.evaluators == ("contains/4",)
    assert set(found.prompts) == {"answer.default", "judge.default", "judge.abstention"}
    assert all(len(digest) == 64 for digest in found.prompts.values())


def test_digests_of_a_record_are_those_of_the_plan(world: World) -> None:
    plan = world.plan(providers="faulty")
    (found,) = records(plan)
    benchmarks, providers = plan.identity["benchmarks"], plan.identity["providers"]
    assert isinstance(benchmarks, Mapping) and isinstance(providers, Mapping)
    assert found.config_sha256 == {
        "benchmark": benchmarks["facts"]["config_sha256"],
        "provider": providers["faulty"]["config_sha256"],
    }
    size = (world.workspace / "datasets/facts.jsonl").stat().st_size
    assert found.dataset == {
        "path": "./datasets/facts.jsonl", **benchmarks["facts"]["dataset"], "bytes": size, "source": None,
        "license": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "models"),
    [
        ({}, ModelNames(embedding=None, answering=None, judge=None)),
        ({"providers": "faulty"}, ModelNames(embedding=None, answering=None, judge=None)),
        ({"providers": "mem0"}, ModelNames(embedding=BUILT_IN_EMBEDDING, answering=None, judge=None)),
        (
            {"providers": "letta"},
            ModelNames(embedding="openai/text-embedding-3-small", answering=None, judge=None),
        ),
        (
            {"providers": "vector", "embedding_model": "ollama/nomic"},
            ModelNames(embedding="ollama/nomic", answering=None, judge=None),
        ),
        (
            {"answering_model": "gpt-4o", "judge_model": "openai/j", "evaluators": "rubric"},
            ModelNames(embedding=None, answering="openai/gpt-4o", judge="openai/j"),
        ),
    ],
)
def test_models_of_a_record_have_full_names_or_none(world: World, flags: dict[str, object], models: ModelNames) -> None:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(path.read_text().replace("  questions:", "  rubric: a\n  questions:"))
    assert one(world, **flags).models == models


@pytest.mark.parametrize(
    ("flags", "selection"),
    [
        ({}, {}),
        ({"start": 2, "end": 7}, {}),
        ({"limit": 3}, {"limit": 3}),
        ({"sample": 5, "seed": 0}, {"sample": 5}),
        ({"sample": 5, "seed": 9}, {"sample": 5, "seed": 9}),
        ({"seed": 9}, {}),
        ({"sample": 5, "per_type": True}, {"sample": 5, "per_type": True}),
        ({"items": ["c0q0", "c1q0"]}, {"items": ["c0q0", "c1q0"]}),
        ({"items_of": "c1", "question_type": "one"}, {"items_of": ["c1"], "question_type": ["one"]}),
    ],
)
def test_the_selection_contains_only_flags_that_filter(
    world: World, flags: dict[str, object], selection: dict[str, object]
) -> None:
    assert one(world, **flags).selection == selection


@pytest.mark.parametrize(
    ("flags", "counts"),
    [
        ({"start": 2, "end": 7}, (6, 12)),
        ({"question_type": "one", "start": 1, "end": 4}, (2, 6)),
        ({"limit": 3, "start": 5}, (3, 3)),
        ({"items_of": "c1", "start": 1, "end": 6}, (2, 4)),
    ],
)
def test_selected_items_are_counted_inside_the_range_and_in_total(
    world: World, flags: dict[str, object], counts: tuple[int, int]
) -> None:
    found = one(world, **flags)
    assert (found.n_selected, found.n_whole, found.n_items) == (*counts, 12)


def test_a_skipped_job_is_recorded_with_its_reason(world: World) -> None:
    world.write(
        "configs/benchmarks/listing.yaml",
        'name: listing\nversion: "1"\nextends: facts\nrequiredCapabilities: [list_memories]\n',
    )
    found = recorded(world, benchmarks="facts listing", providers="faulty")
    assert [job.skipped for job in found] == [None, "skipped: listing needs list_memories, faulty does not have it"]


def test_groups_marks_and_breakdowns_are_recorded(world: World) -> None:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    text = path.read_text().replace("metrics: [accuracy", "metrics: [{name: accuracy, breakdown: [question_type]}")
    path.write_text(text.replace("batchSize: 1", "batchSize: 1, preprocessing: {escapeHtml: true}")
                    + "groups: {all: [one, two]}\n")  # fmt: skip
    found = one(world)
    assert found.groups == {"all": ("one", "two")}
    assert found.metrics[0].breakdown == ("question_type",)
    assert found.marks == ("altered",)


# ------------------------------------------------------------------------ gold overlays


def test_a_gold_overlay_is_part_of_the_record(world: World) -> None:
    assert one(world).overlay is None and one(world).suspects == {}
    add_overlay(world)
    found = one(world)
    assert isinstance(found.overlay, OverlayRecord)
    assert (found.overlay.name, found.overlay.source) == ("audit", "our own audit")
    assert found.suspects == {"c0q0": "wrong_answer", "c1q1": "ambiguous"}
    (lane,) = world.plan(providers="bm25").lanes
    assert [lane.benchmark.corrected_answer(item) for item in ("c0q0", "c1q1", "c2q2")] == ["7", None, None]
    assert read_jobs({EXTRA_KEY: dump_jobs([found])}) == (found,)


def test_a_changed_overlay_changes_the_plan_digest(world: World) -> None:
    before = world.plan(providers="bm25").digest
    add_overlay(world)
    first = world.plan(providers="bm25").digest
    path = world.workspace / "configs/benchmarks/overlays/audit.yaml"
    path.write_text(path.read_text() + "\n# a word\n")
    assert len({before, first, world.plan(providers="bm25").digest}) == 3


@pytest.mark.parametrize("named", ["audit", "audit.yaml", "overlays/audit.yaml", "./overlays/audit.yaml"])
def test_an_overlay_can_be_named_by_name_or_path(world: World, named: str) -> None:
    add_overlay(world, named=named)
    assert one(world).suspects != {}


@pytest.mark.parametrize("named", ["audti", "../audit", "/etc/audit.yaml", "elsewhere/audit.yaml"])
def test_an_overlay_that_is_missing_or_outside_the_folder_is_rejected(world: World, named: str) -> None:
    add_overlay(world, named=named)
    with pytest.raises(ConfigError, match="there is no overlay overlays/") as caught:
        one(world)
    assert caught.value.where is not None and caught.value.where.endswith("facts.yaml:15:1")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{sha256}", "ab" * 32, f"the overlay is for the dataset with sha256 {'ab' * 32}, but the dataset"),
        ("benchmark: facts", "benchmark: other", "the overlay is for other, not for facts"),
        ("c0q0", "c9q9", 'facts has no item "c9q9"'),
        ("c1q1", "c0q0", 'item "c0q0" is listed twice'),
    ],
)
def test_an_overlay_that_does_not_match_the_benchmark_is_rejected(
    world: World, old: str, new: str, message: str
) -> None:
    with pytest.raises((ConfigError, DataError)) as caught:
        add_overlay(world, OVERLAY.replace(old, new))
        one(world)
    assert caught.value.message.startswith(message)
    assert caught.value.where is not None and "overlays/audit.yaml:" in caught.value.where


# ------------------------------------------------------------------------ through the journal


def test_records_are_unchanged_by_serialization(world: World) -> None:
    found = recorded(world, providers="bm25 faulty@x vector", answering_model=["openai/a", "none"], sample=5)
    stored = json.loads(json.dumps({EXTRA_KEY: dump_jobs(found)}))
    assert read_jobs(stored) == found
    assert read_jobs({}) == ()


def test_a_record_in_an_unknown_format_is_a_JournalError(world: World) -> None:
    (job,) = dump_jobs([one(world)])
    for broken in ({**job, "k": "ten"}, {name: value for name, value in job.items() if name != "lane"}):
        with pytest.raises(JournalError, match="in a format that this version cannot read"):
            read_jobs({EXTRA_KEY: [broken]})


# ------------------------------------------------------------------------ merged runs


def part(
    job: JobRecord, start: int, end: int, n_selected: int
) -> tuple[tuple[tuple[int, int], ...], dict[str, object]]:
    return ((start, end),), {EXTRA_KEY: dump_jobs([replace(job, n_selected=n_selected)])}


def merged(*parts: object, shared: Mapping[tuple[str, Phase], int] | None = None) -> list[int]:
    found = read_jobs({EXTRA_KEY: merged_jobs(parts, shared or {})})  # type: ignore[arg-type]
    return [job.n_selected for job in found]


def test_merged_ranges_of_a_benchmark_count_all_its_items(world: World) -> None:
    job = one(world)
    assert merged(part(job, 1, 6, 6), part(job, 7, 12, 6)) == [12]
    assert merged(part(job, 1, 6, 6), part(job, 9, 12, 4)) == [12], "two of them are pending"
    assert merged(part(job, 1, 8, 8), part(job, 5, 12, 8)) == [12]
    assert merged(part(job, 1, 6, 6), part(job, 1, 6, 6)) == [12]
    assert merged(((), {EXTRA_KEY: dump_jobs([job])}), part(job, 1, 3, 3)) == [12]


def test_a_merged_filtered_job_counts_all_matching_items(world: World) -> None:
    job = one(world, question_type="one")
    assert job.n_whole == 6
    assert merged(part(job, 1, 6, 3), part(job, 7, 12, 3)) == [6]
    assert merged(part(job, 1, 6, 3), part(job, 9, 12, 2)) == [6]


def test_counts_per_question_type_are_recorded_and_merged(world: World) -> None:
    ranged = one(world, start=1, end=3)
    assert (ranged.selected_types, ranged.whole_types) == ({"two": 2, "one": 1}, {"two": 6, "one": 6})
    (job,) = read_jobs({EXTRA_KEY: merged_jobs([(((1, 3),), {EXTRA_KEY: dump_jobs([ranged])})], {})})
    assert (job.n_selected, job.selected_types) == (12, ranged.whole_types)
    typed = one(world, question_type="one")
    assert typed.selected_types == typed.whole_types == {"one": 6}
    first, last = one(world, start=1, end=6, limit=3), one(world, start=7, end=12, limit=3)
    parts = [(((1, 6),), {EXTRA_KEY: dump_jobs([first])}), (((7, 12),), {EXTRA_KEY: dump_jobs([last])})]
    (job,) = read_jobs({EXTRA_KEY: merged_jobs(parts, {})})
    assert (job.n_selected, job.selected_types) == (6, {"two": 4, "one": 2})
    (job,) = read_jobs({EXTRA_KEY: merged_jobs(parts, {(first.key, Phase.EVALUATE): 1})})
    assert (job.n_selected, job.selected_types) == (5, {}), "the type of the shared item is unknown"


def test_a_record_without_counts_per_type_can_be_read(world: World) -> None:
    (stored,) = dump_jobs([one(world)])
    del stored["selected_types"], stored["whole_types"]
    (job,) = read_jobs({EXTRA_KEY: [stored]})
    assert (job.n_selected, job.selected_types) == (12, {})


def test_items_limited_per_range_are_summed_without_shared_items(world: World) -> None:
    job = one(world, limit=3)
    assert selects_per_range(job.selection) and not selects_per_range({"question_type": ["one"]})
    assert merged(part(job, 1, 6, 3), part(job, 7, 12, 3)) == [6]
    shared = {(job.key, Phase.EVALUATE): 2}
    assert merged(part(job, 1, 6, 3), part(job, 2, 12, 3), shared=shared) == [4]
    assert merged(part(job, 1, 6, 3), part(job, 2, 12, 3), shared={(job.lane, Phase.SEARCH): 1}) == [5]


def test_records_are_merged_by_job_key(world: World) -> None:
    first, second = recorded(world, providers="bm25 oracle")
    parts = [
        (((1, 6),), {EXTRA_KEY: dump_jobs([replace(first, n_selected=6), replace(second, n_selected=6)])}),
        (((7, 9),), {EXTRA_KEY: dump_jobs([replace(second, n_selected=3)])}),
    ]
    found = read_jobs({EXTRA_KEY: merged_jobs(parts, {})})
    assert [(job.key, job.n_selected) for job in found] == [(first.key, 12), (second.key, 12)]


# ------------------------------------------------------------------------ settings of models


def test_asked_with_has_the_settings_of_each_external_model(world: World) -> None:
    asked = one(world, answering_model="openai/m", judge_model="openai/j", evaluators="llm-judge", seed=7).asked_with
    assert asked == {
        "answering": {"max_tokens": 1024, "temperature": 0.0, "seed": 7},
        "judge": {"max_tokens": 1024, "temperature": 0.0},
    }
    assert one(world, answering_model="builtin/extractive").asked_with == {}


def test_asked_with_omits_settings_that_a_model_is_not_sent(world: World) -> None:
    world.write("configs/models/openai.yaml", "name: openai\nmodels: {o9: {fixed_temperature: true}}\n")
    fixed = one(world, answering_model="openai/o9").asked_with["answering"]
    assert fixed == {"max_tokens": 1024, "seed": 0}
    world.variables["ANTHROPIC_API_KEY"] = "none"
    unseeded = one(world, answering_model="anthropic/c").asked_with["answering"]
    assert unseeded == {"max_tokens": 1024, "temperature": 0.0}


def test_judges_with_different_settings_are_listed_by_evaluator() -> None:
    prompt = JudgePrompts.of().default
    one, two = RubricEvaluator(prompt=prompt), FaithfulnessEvaluator(prompt=prompt, temperature=0.7)
    assert judge_settings((one,)) == {"max_tokens": 1024, "temperature": 0.0}
    assert judge_settings((one, two)) == {
        "rubric": {"max_tokens": 1024, "temperature": 0.0},
        "faithfulness": {"max_tokens": 1024, "temperature": 0.7},
    }


def test_a_record_without_asked_with_can_be_read(world: World) -> None:
    (job,) = dump_jobs([one(world, answering_model="openai/m")])
    del job["asked_with"]
    assert read_jobs({EXTRA_KEY: [job]})[0].asked_with == {}
