"""The fields of a receipt from the journal of its run, and their values if the journal does not contain them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from bench.canonical import digest
from bench.evaluators.packs import generic_answer_prompt
from bench.http.adaptive_concurrency import CEILING
from bench.journal import ResumeRow, RunMeta
from bench.journal.records import UsageTotals
from bench.model import Interval, Measurement, Usage, Verdict
from bench.plan.job_record import JobRecord, MetricRecord, ModelNames
from bench.receipt.base_model import integer, json_of
from bench.receipt.metadata import JobMetadata, environment
from bench.receipt.metadata import ReportedVersions as Versions
from bench.receipt.schema_run import ReceiptIsolation
from bench.receipt.totals import CorpusTimes, ItemsFileRow, JobTotals, in_micros, times
from bench.untyped_values import object_or_empty, text_or_none
from tests.rows import each_row

HEX = "ab" * 32
PROOF = ReceiptIsolation(probed=0, passed=0, failed=0)


def metric(name: str, definition: str, category: str = "retrieval") -> MetricRecord:
    return MetricRecord(name=name, definition=definition, category=category, unit=None, lower_is_better=False)


def record(**changes: Any) -> JobRecord:
    found: dict[str, Any] = {
        "key": "job", "lane": "lane", "answer_owner": "answers", "benchmark": "demo", "benchmark_version": "1",
        "benchmark_title": "Demo", "provider": "mem0", "provider_type": "hosted",
        "models": ModelNames(embedding=None, answering="none", judge="none"), "track": "uniform", "k": 10,
        "context_budget": None, "epochs": 1, "epochs_reducer": "mean", "seed": 0, "unit": "turn", "level": "turn",
        "n_selected": 3, "n_whole": 3, "n_items": 3, "metrics": (metric("mrr", "mrr/1"),), "metric_entries": ("mrr",),
        "metric_folder": "", "evaluators": (), "cluster_by": None, "groups": {}, "selection": {}, "dataset": {},
        "prompts": {}, "config_sha256": {}, **changes,
    }  # fmt: skip
    return JobRecord(**found)


def facts(of: JobRecord | None = None, **meta: Any) -> JobMetadata:
    keys = {name: meta.pop(name) for name in ("provider_versions", "reported", "parts", "resumes") if name in meta}
    return JobMetadata(
        meta=RunMeta(run_id="r1", plan_digest=HEX, **{"identity": {}, **meta}), record=of or record(), **keys
    )


def provider(**config: Any) -> dict[str, Any]:
    """The identity of a run whose provider has this config."""
    return {"identity": {"providers": {"mem0": config}}}


# ------------------------------------------------------------------------- loosely typed JSON


@each_row("value", [None, 1, "x", [], [{}], True])
def test_object_or_empty_returns_an_empty_object_for_other_json(value: object) -> None:
    assert object_or_empty(value) == {}


def test_json_of_an_unexpected_type_counts_as_missing() -> None:
    assert object_or_empty({"a": 1}) == {"a": 1}
    assert [integer(value) for value in (7, True, False, "7", 7.0, None, -1)] == [7, 0, 0, 0, 0, 0, -1]
    assert [text_or_none(value) for value in ("x", "", None, 1, ["x"])] == ["x", None, None, None, None]


# ------------------------------------------------------------------------- run


def test_a_run_without_settings_has_the_default_values() -> None:
    found = json_of(facts().run(PROOF, None))
    assert found == {
        "runId": "r1",
        "planDigest": HEX, "seed": 0, "epochs": 1, "concurrency": 10, "k": 10, "contextBudgetTokens": None,
        "track": "uniform", "isolation": "probe", "isolationProof": {"probed": 0, "passed": 0, "failed": 0},
        "preregistration": None, "log": None, "resumes": [], "shards": [],
    }  # fmt: skip


@each_row(
    ("stored", "found"), [("auto", CEILING), (1, 1), (64, 64), (0, 10), (None, 10), ("many", 10), (-3, 1), (True, 10)]
)
def test_concurrency_is_a_number_and_auto_is_its_ceiling(stored: object, found: int) -> None:
    run = facts(extra={"operation": {"concurrency": stored}}).run(PROOF, None)
    assert run.concurrency == found


def test_a_protocol_without_hits_has_no_k() -> None:
    assert facts(record(k=0)).run(PROOF, None).k is None
    assert facts(extra={"operation": {"isolation": "full"}}).run(PROOF, None).isolation == "full"


@each_row(
    ("ranges", "parts", "shards"),
    [
        ((), (), []),
        (((1, 4),), (), [(1, 1, 1, 4)]),
        (((5, 9), (1, 4)), (), [(1, 2, 1, 4), (2, 2, 5, 9)]),
        (((1, 9),), ((7, 9), (1, 3), (1, 3)), [(1, 2, 1, 3), (2, 2, 7, 9)]),
    ],
)
def test_shards_are_listed_once_in_order_and_those_of_a_merge_win(
    ranges: tuple[tuple[int, int], ...], parts: tuple[tuple[int, int], ...], shards: list[tuple[int, ...]]
) -> None:
    run = facts(ranges=ranges, parts=parts).run(PROOF, None)
    assert [(one.index, one.of, one.from_, one.to) for one in run.shards] == shards


def test_each_resume_is_listed_with_its_commit_and_version_if_known() -> None:
    at = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)
    stored = (
        ResumeRow(at=at, data={"code_state": {"commit": "0" * 40}, "versions": {"bench": "0.2"}}),
        ResumeRow(at=at, data={"code_state": None, "versions": {}}),
    )
    found = [json_of(one) for one in facts(resumes=stored).run(PROOF, None).resumes]
    assert found == [
        {"at": "2026-11-01T10:00:00Z", "codeCommit": "0" * 40, "benchVersion": "0.2"},
        {"at": "2026-11-01T10:00:00Z", "codeCommit": None, "benchVersion": "unknown"},
    ]


# ------------------------------------------------------------------------- benchmark and provider


def test_missing_benchmark_metadata_is_unknown() -> None:
    assert json_of(facts().benchmark()) == {
        "name": "demo", "version": "1", "split": None, "configSha256": "0" * 64,
        "dataset": {"sha256": "0" * 64, "bytes": 0, "items": 3, "source": "unknown", "license": "unknown"},
        "selection": {"filter": {}, "limit": None, "sample": None, "order": "dataset"},
    }  # fmt: skip


def test_complete_benchmark_metadata_is_copied_to_the_receipt() -> None:
    found = facts(
        record(
            dataset={"sha256": HEX, "bytes": 9, "source": "made here", "license": "MIT", "split": "test"},
            config_sha256={"benchmark": HEX},
            selection={"question_type": ["a"], "limit": 5, "sample": 2, "seed": 0, "items": []},
        )
    ).benchmark()
    assert (found.split, found.config_sha256) == ("test", HEX)
    assert json_of(found.dataset) == {"sha256": HEX, "bytes": 9, "items": 3, "source": "made here", "license": "MIT"}
    assert json_of(found.selection) == {"filter": {"question_type": ["a"]}, "limit": 5, "sample": 2, "order": "seeded"}


@each_row(
    ("url", "host"),
    [
        ("https://api.example.com/v1?key=s3cret", "api.example.com"),
        ("http://user:s3cret@localhost:8080/x", "localhost:8080"),
        ("http://[redacted]@localhost:8080/x", "localhost:8080"),
        ("https://[::1]:9/", "[::1]:9"),
        ("http://h:99999/", None),
        ("http://[broken/", None),
        ("", None),
        (None, None),
        (7, None),
        ("no address", None),
    ],
)
def test_only_the_host_of_an_endpoint_is_in_the_receipt(url: object, host: str | None) -> None:
    assert facts(**provider(base_url=url)).provider().endpoint_host == host


VERSIONS: list[tuple[dict[str, Any], Versions, str, str]] = [
    ({}, Versions(), "unknown", "declared"),
    ({}, Versions(version="2"), "2", "declared"),
    ({}, Versions(version="2", upstream="9.1"), "9.1", "api"),
    ({"plugin": {"my-memory": "0.4"}}, Versions(version="2", upstream="9.1"), "0.4", "package"),
    ({"plugin": {}}, Versions(upstream="9.1"), "9.1", "api"),
    ({"name": "bm25"}, Versions(upstream="9.1"), "0.7", "package"),
]


@each_row(("config", "found", "version", "source"), VERSIONS)
def test_the_provider_version_comes_from_package_then_api_then_declaration(
    config: dict[str, Any], found: Versions, version: str, source: str
) -> None:
    made = facts(provider_versions=found, versions={"bench": "0.7"}, **provider(**config)).provider()
    assert (made.version, made.version_source) == (version, source)


# ------------------------------------------------------------------------- models, prompts, metrics


def uses(**names: str | None) -> list[tuple[str, str, str, str | None, object]]:
    named = ModelNames(**{"embedding": None, "answering": None, "judge": None, **names})
    meta = {"identity": {"models": {"acme/a": {"settings": {"temperature": 0}}}}, "reported": {"judge": "a-2026"}}
    made = facts(record(models=named), **meta).models()
    return [(use.role, use.provider, use.requested, use.reported, dict(use.params)) for use in made]


def test_models_are_sorted_by_role_and_unused_roles_are_omitted() -> None:
    assert uses() == [] == uses(answering="none", judge="none", embedding="none")
    assert uses(judge="acme/a", answering="local", embedding="acme/team/e") == [
        ("answering", "", "local", None, {}),
        ("embedding", "acme", "team/e", None, {}),
        ("judge", "acme", "a", "a-2026", {"temperature": 0}),
    ]
    assert uses(embedding="(builtin)") == [("provider-internal", "", "unknown", None, {})]


def test_a_model_is_listed_with_its_request_parameters_and_seed() -> None:
    requested = {"answering": {"max_tokens": 1024, "temperature": 0.5, "seed": 7}, "judge": {"temperature": 0.0}}
    named = ModelNames(embedding=None, answering="openai/m", judge="acme/a")
    identity = {"models": {"acme/a": {"settings": {"context": 9}}}}
    found = facts(record(models=named, asked_with=requested), identity=identity).models()
    assert [(use.role, dict(use.params), use.seed) for use in found] == [
        ("answering", {"max_tokens": 1024, "temperature": 0.5}, 7),
        ("judge", {"context": 9, "temperature": 0.0}, None),
    ]


@each_row(
    ("track", "request_", "own", "source"),
    [
        ("vendor", {}, True, "vendor"), ("uniform", {"answer_prompt": "x.md"}, True, "custom"),
        ("uniform", {}, True, "benchmark"), ("uniform", {}, False, "default"),
        ("vendor", {"answer_prompt": "x.md"}, False, "vendor"),
    ],
)  # fmt: skip
def test_the_source_of_an_answer_prompt_is_vendor_custom_benchmark_or_default(
    track: str, request_: dict[str, Any], own: bool, source: str
) -> None:
    from bench.canonical import sha256_hex

    sha = HEX if own else sha256_hex(generic_answer_prompt().encode())
    made = facts(record(track=track, prompts={"judge.default": "cd" * 32, "answer.x": sha}), request=request_).prompts()
    assert [(one.role, one.sha256, one.source) for one in made] == [
        ("answer.x", sha, source), ("judge.default", "cd" * 32, "benchmark"),
    ]  # fmt: skip
    assert facts().prompts() == ()


@each_row(
    ("given", "default", "temporal"),
    [
        ([], "default", "benchmark"),
        (["jp.txt"], "custom", "benchmark"),
        (["temporal=jp.txt"], "default", "custom"),
        (["a=b.txt"], "custom", "benchmark"),
        (["x.txt", "temporal=y.txt"], "custom", "custom"),
    ],
)
def test_the_source_of_a_judge_prompt_is_custom_default_or_benchmark(
    given: list[str], default: str, temporal: str
) -> None:
    from bench.canonical import sha256_hex
    from bench.evaluators.packs import generic_prompt

    shas = {"judge.default": sha256_hex(generic_prompt("default").encode()), "judge.temporal": HEX}
    made = facts(record(prompts=shas), request={"judge_prompt": given}).prompts()
    assert {one.role: one.source for one in made} == {"judge.default": default, "judge.temporal": temporal}


def test_only_metrics_with_a_score_are_listed_and_sorted() -> None:
    listed = (
        metric("z", "z/1", "answer"),
        metric("a", "a/1", "latency"),
        metric("m", "m/1", "custom"),
        metric("b", "b/1"),
    )
    assert [use.name for use in facts(record(metrics=listed)).metrics()] == ["b", "m", "z"]


def test_the_config_digest_ignores_values_that_are_known_only_after_the_run() -> None:
    before = facts(**provider(name="bm25"), versions={"bench": "0.7"})
    after = facts(
        provider_versions=Versions(version="9"), reported={"judge": "x"}, parts=((1, 2),), versions={"bench": "0.7"},
        **provider(name="bm25"),
    )  # fmt: skip
    assert digest(before.config_tree()) == digest(after.config_tree())


# ------------------------------------------------------------------------- reproducibility

INEXACT: list[tuple[dict[str, str | None], dict[str, Any], Versions, str, tuple[str, ...]]] = [
    ({}, {"name": "bm25", "determinism": "deterministic"}, Versions(), "exact", ()),
    ({"answering": "builtin/extractive"}, {"name": "bm25", "determinism": "deterministic"}, Versions(), "exact", ()),
    ({"judge": "acme/j"}, {"name": "bm25", "determinism": "deterministic"}, Versions(), "statistical",
     ("the judge acme/j may answer otherwise",)),
    ({"embedding": "e", "answering": "a"}, {"determinism": "deterministic"}, Versions(version="1"), "statistical",
     ("the embedding model e may answer otherwise", "the answering model a may answer otherwise")),
    ({}, {}, Versions(version="1"), "statistical", ("the provider mem0 does not promise to answer the same again",)),
    ({}, {"determinism": "seeded"}, Versions(), "none",
     ("the provider mem0 does not promise to answer the same again",
      "the version of the provider that answered is unknown")),
]  # fmt: skip


@each_row(("names", "config", "found", "kind", "reasons"), INEXACT)
def test_the_reproducibility_class_has_its_reasons(
    names: dict[str, str | None], config: dict[str, Any], found: Versions, kind: str, reasons: tuple[str, ...]
) -> None:
    models = ModelNames(**{"embedding": None, "answering": None, "judge": None, **names})
    made = facts(
        record(models=models), provider_versions=found, versions={"bench": "0.7"}, **provider(**config)
    ).reproducibility()
    assert (made.class_, made.reasons) == (kind, reasons)


# ------------------------------------------------------------------------- machine


def test_a_missing_environment_is_unknown_and_its_git_values_are_null() -> None:
    found = json_of(environment(RunMeta(run_id="r", plan_digest=HEX, identity={})))
    assert found == {
        "python": "unknown", "implementation": "unknown", "platform": "unknown", "cpu": "unknown", "cpuCount": 0,
        "memoryBytes": 0, "containerImage": None, "containerDigest": None, "lockSha256": None, "packages": {},
        "git": {"commit": None, "tag": None, "dirty": None}, "codeTreeSha256": "0" * 64, "hostHash": "0" * 16,
    }  # fmt: skip


def test_the_journaled_environment_is_copied_to_the_receipt() -> None:
    stored = {
        "python": "3.12", "implementation": "PyPy", "platform": "linux/arm64", "cpu": "x",
        "cpuCount": 4, "memoryBytes": 5,
        "containerImage": "i", "containerDigest": "d", "lockSha256": HEX, "packages": {"a": "1"}, "codeTreeSha256": HEX,
        "hostHash": "1" * 16,
    }  # fmt: skip
    git = {"commit": "1" * 40, "tag": "v1", "dirty": True}
    meta = RunMeta(run_id="r", plan_digest=HEX, identity={}, extra={"environment": stored}, code_state=git)
    assert json_of(environment(meta)) == {**stored, "git": git}


# ------------------------------------------------------------------------- totals


def row(
    state: str = "correct",
    values: dict[str, float | None] | None = None,
    *,
    by: str | None = None,
    verdicts: Sequence[Verdict] = (),
    **item: Any,
) -> ItemsFileRow:
    found: Any = {"state": state, "errorKind": None, "labels": {"type": "a"}, "latencyUs": {"search": 5}, **item}
    failed = state in ("error", "not_ready")
    return ItemsFileRow(item=found, failed=failed, values=values or {}, retries=2, answered_by=by, verdicts=verdicts)


def job(**changes: Any) -> Any:
    found = {"record": record(n_selected=4), "metrics": {}, "usage": {}, **changes}
    return SimpleNamespace(**found)


def measurement(name: str, **more: Any) -> Measurement:
    return Measurement(metric=name, definition=f"{name}/1", value=0.5, value_failures_as_zero=0.25, n=2, **more)


NO_CORPORA = CorpusTimes(ingest_us=(), searchable_us=(), memories=0, wall_us=0)


def test_rows_add_up_to_counts_and_scores() -> None:
    interval = Interval(low=0.1, high=0.9, level=0.95, method="wilson")
    measured = {"mrr": replace(measurement("mrr", interval=interval, breakdown={"type": {}}), value=0.75)}
    folds = JobTotals.of(job(record=record(n_selected=2, epochs=3), metrics=measured))
    folds.add(row(values={"mrr": 1.0}))
    folds.add(row("incorrect", {"mrr": 0.5}, labels={"type": "b"}))
    folds.add(row("unscored", {"mrr": None}, labels={}, latencyUs={}))
    folds.add(row("error", errorKind="timeout"))
    counts = json_of(folds.counts())
    assert counts.pop("byState") == {
        "correct": 1, "incorrect": 1, "partial": 0, "abstained": 0, "error": 1, "not_ready": 0, "unsupported": 0,
        "unscored": 1, "measured": 0,
    }  # fmt: skip
    assert counts == {"planned": 6, "pending": 2, "scored": 2, "errorKinds": {"timeout": 1}, "retries": 8}
    scores = folds.scores(NO_CORPORA)
    score = json_of(scores.deterministic["mrr"])
    assert score == {
        "definition": "mrr/1", "value": 0.75, "valueFailuresAsZero": 0.3, "n": 2, "nExcluded": 1, "nFailed": 3,
        "aggregate": "mean", "interval": {"low": 0.1, "high": 0.9, "level": 0.95, "method": "wilson"},
        "breakdown": {"type": {"a": {"value": 1.0, "n": 1}, "b": {"value": 0.5, "n": 1}}},
    }  # fmt: skip
    assert scores.judged == {}
    times_of = json_of(scores)["measured"]
    assert times_of["search_us"] == {"n": 3, "min": 5, "p50": 5, "p95": 5, "p99": 5, "max": 5}  # type: ignore[index]
    assert times_of["ingest_memories_per_s"] == {"n": 0, "value": None}  # type: ignore[index]


def test_a_score_has_no_interval_if_the_report_combines_repeats_to_another_value() -> None:
    interval = Interval(low=0.1, high=0.9, level=0.95, method="t")
    folds = JobTotals.of(job(metrics={"mrr": measurement("mrr", interval=interval)}))
    folds.add(row(values={"mrr": 1.0}))
    score = folds.scores(NO_CORPORA).deterministic["mrr"]
    assert (score.value, score.interval) == (1.0, None)


def test_the_reported_models_of_answers_and_verdicts_are_collected() -> None:
    folds = JobTotals.of(job())
    verdict = Verdict(evaluator="e", value=1.0, correct=True, judged=True, model="j-2026")
    unnamed, by_rule = replace(verdict, model=None), replace(verdict, judged=False, model="x")
    folds.add(row(by="a-2026", verdicts=[verdict, unnamed, by_rule]))
    folds.add(row(by=None, verdicts=[verdict]))
    assert folds.models == {"answering": {"a-2026"}, "judge": {"j-2026"}}


JUDGED: list[tuple[str, str, tuple[str, ...], str, bool]] = [
    ("mrr", "mrr/1", (), "none", False),
    ("accuracy", "accuracy/1", ("exact-match",), "none", False),
    ("accuracy", "accuracy/1", ("exact-match",), "acme/j", False),
    ("accuracy", "accuracy/1", ("llm-judge",), "none", False),
    ("accuracy", "accuracy/1", ("llm-judge",), "acme/j", True),
    ("accuracy", "accuracy/1", ("rubric", "exact-match"), "acme/j", True),
    ("accuracy", "accuracy/1", ("exact-match", "llm-judge"), "acme/j", False),
    ("faithfulness", "faithfulness/1", (), "none", True),
    ("token_f1", "token_f1/1", ("llm-judge",), "acme/j", False),
    ("semantic_similarity", "semantic_similarity/1", (), "none", True),
    ("deletion_check", "deletion_check/1", ("llm-judge",), "acme/j", False),
    ("accuracy_macro", "accuracy_macro/1", ("llm-judge",), "acme/j", True),
]


@each_row(("name", "definition", "evaluators", "judge", "judged"), JUDGED)
def test_a_score_that_depends_on_a_model_is_listed_as_judged(
    name: str, definition: str, evaluators: tuple[str, ...], judge: str, judged: bool
) -> None:
    found = record(
        metrics=(metric(name, definition, "answer" if name != "mrr" else "retrieval"),), metric_entries=(name,),
        evaluators=evaluators, models=ModelNames(embedding=None, answering="acme/a", judge=judge),
    )  # fmt: skip
    folds = JobTotals.of(job(record=found))
    assert [one.name for one in folds.metrics] == [name]
    assert (name not in folds.row_metrics) is judged
    scores = folds.scores(NO_CORPORA)
    assert (list(scores.judged), list(scores.deterministic)) == (([name], []) if judged else ([], [name]))


def test_a_macro_mean_is_computed_from_the_labels_of_the_rows() -> None:
    found = record(
        n_selected=4,
        metrics=(metric("accuracy_macro", "accuracy_macro/1", "answer"),),
        metric_entries=("accuracy_macro",),
    )
    folds = JobTotals.of(job(record=found))
    for value, label in [(1.0, "a"), (1.0, "a"), (0.0, "b")]:
        folds.add(row(values={"accuracy_macro": value}, labels={"question_type": label}))
    folds.add(row("not_ready", labels={"question_type": "a"}))
    score = folds.scores(NO_CORPORA).deterministic["accuracy_macro"]
    assert (score.aggregate, score.value, score.n, score.n_failed) == ("macro:question_type", 0.5, 3, 1)
    assert score.value_failures_as_zero == (2 / 3 + 0.0) / 2


@each_row(
    ("values", "found"),
    [
        ([], (0, None, None, None, None, None)),
        ([7], (1, 7, 7, 7, 7, 7)),
        ([2, 1], (2, 1, 1, 2, 2, 2)),
        ([3, 1, 2], (3, 1, 2, 3, 3, 3)),
        (list(range(100, 0, -1)), (100, 1, 50, 95, 99, 100)),
        (list(range(1, 102)), (101, 1, 51, 96, 100, 101)),
    ],
)
def test_percentiles_are_nearest_rank_on_integers(values: list[int], found: tuple[int | None, ...]) -> None:
    made = times(values)
    assert (made.n, *made.ordered()) == found


def test_the_ingest_pace_is_null_without_time_or_corpora() -> None:
    def pace(**found: Any) -> object:
        return (
            CorpusTimes(**{"ingest_us": (1, 2), "searchable_us": (), "memories": 30, "wall_us": 2_000_000, **found})
            .pace()
            .value
        )

    assert (pace(), pace(wall_us=0), pace(ingest_us=()), pace(memories=0)) == (15.0, None, None, 0.0)


COSTS: list[tuple[dict[str, UsageTotals], int | None, dict[str, int | None]]] = [
    ({}, 0, {}),
    ({"judge": UsageTotals(calls=2, cost_usd="0.0000025")}, 2, {"judge": 2}),
    ({"judge": UsageTotals(calls=2, cost_usd="1.5"), "answering": UsageTotals(calls=1, cost_usd="0.25")}, 1_750_000,
     {"answering": 250_000, "judge": 1_500_000}),
    ({"judge": UsageTotals(calls=2, cost_usd="1", unknown_costs=1), "answering": UsageTotals(calls=1, cost_usd="1")},
     None, {"answering": 1_000_000, "judge": None}),
    ({"search": UsageTotals(calls=0, unknown_costs=3)}, 0, {"search": 0}),
]  # fmt: skip


@each_row(("usage", "total", "by_role_"), COSTS)
def test_costs_are_whole_micro_dollars_and_null_if_any_part_is_unknown(
    usage: dict[str, UsageTotals], total: int | None, by_role_: dict[str, int | None]
) -> None:
    cost = JobTotals.of(job(usage=usage)).scores(NO_CORPORA).cost
    assert (cost.usd_micros, {role: one.usd_micros for role, one in cost.by_role.items()}) == (total, by_role_)
    assert cost.calls == sum(one.calls for one in usage.values())
    assert (cost.price_table is None) is not any(one for one in by_role_.values())


def test_tokens_of_every_role_add_up() -> None:
    usage = {
        "judge": UsageTotals(calls=1, usage=Usage(input_tokens=10, output_tokens=1)),
        "answering": UsageTotals(calls=1, usage=Usage(input_tokens=20, output_tokens=2)),
    }
    cost = JobTotals.of(job(usage=usage)).scores(NO_CORPORA).cost
    assert (cost.calls, cost.prompt_tokens, cost.completion_tokens) == (2, 30, 3)


def test_costs_are_rounded_half_to_even_once_over_the_whole_sum() -> None:
    parts = [Decimal("0.0000004")] * 5
    assert in_micros(parts) == 2
    assert [in_micros([Decimal(text)]) for text in ("0.0000005", "0.0000015", "0.0000025", "0")] == [0, 2, 2, 0]
