"""Latency, tokens and costs of a row, loss reasons, suspect golds, plug-ins of distributions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import metrics
from bench.errors import ConfigError
from bench.metrics import plugins
from bench.metrics.failure_reason import LossFacts, LossKind, count_losses, disagree, loss_of
from bench.metrics.latency import PARTS, attempt_us, phase_us, total_us
from bench.metrics.overlay import GoldScores
from bench.metrics.pricing import cost_of
from bench.model import Row, State, Verdict
from tests.rows import each_row

ROW = Row(benchmark="b", corpus="c", item_id="i")


def value(name: str, row: Row) -> float | None:
    return metrics.registry().measure(name).score(row)


# ------------------------------------------------------------------------------------ times


@each_row(
    ("times", "bare", "queue"),
    [
        ({}, None, None),
        ({"search": 900}, 900, None),
        ({"search": 900, "search.queue": 500}, 900, 500),
        ({"search": 900, "search.network": 60, "search.provider": 240}, 300, None),
        ({"search": 900, "search.network": 60}, 60, None),
        ({"search": 900, "search.provider": 240}, 240, None),
        ({"search": 900, "search.network": 0, "search.provider": 0}, 0, None),
        ({"answer": 900, "answer.queue": 1}, None, None),
    ],
)
def test_phase_us_counts_network_and_provider_but_not_waiting(
    times: dict[str, int], bare: int | None, queue: int | None
) -> None:
    assert (phase_us(times, "search"), phase_us(times, "search", "queue")) == (bare, queue)


@each_row(
    ("times", "spent"),
    [({}, None), ({"total": 9}, 9), ({"total": 9, "network": 2}, 2), ({"network": 2, "provider": 3, "queue": 4}, 5)],
)
def test_attempt_us_counts_network_and_provider(times: dict[str, int], spent: int | None) -> None:
    assert attempt_us(times) == spent


@each_row(
    ("times", "total", "queue"),
    [
        ({"search": 10, "answer": 20}, 30, None),
        ({"search": 10}, 10, None),
        ({"answer": 20}, None, None),
        ({"search": 9, "search.queue": 1, "answer": 20, "answer.queue": 2}, 29, 3),
        ({"search": 9, "search.queue": 1, "answer": 20}, 29, 1),
        ({"search.network": 1, "search.provider": 2, "answer.network": 4, "answer.provider": 8}, 15, None),
        ({"search": 9, "search.queue": 1, "answer.untimed": 1}, None, None),
    ],
)
def test_total_latency_adds_search_and_answer(times: dict[str, int], total: int | None, queue: int | None) -> None:
    assert (total_us(times), total_us(times, "queue")) == (total, queue)
    assert value("total_latency_p50", replace(ROW, times_us=times)) == total


@given(parts=st.fixed_dictionaries({part: st.integers(0, 10**9) for part in PARTS}))
def test_the_parts_of_a_phase_are_measured_separately(parts: dict[str, int]) -> None:
    times = {f"search.{part}": us for part, us in parts.items()}
    row = replace(ROW, times_us=times)
    found = {part: value(f"search_latency_mean.{part}", row) for part in PARTS}
    assert found == {part: float(us) for part, us in parts.items()}
    assert value("latency_mean", row) == parts["network"] + parts["provider"]


def test_each_latency_metric_reads_its_phase() -> None:
    times = {phase: number for number, phase in enumerate(("search", "answer", "ingest", "evaluate"), start=1)}
    row = replace(ROW, times_us={**times, "searchable": 9})
    names = ("latency_p50", "search_latency_p50", "answer_latency_max", "evaluate_latency_p99", "latency", "latency_ms")
    assert [value(name, row) for name in names] == [1, 1, 2, 4, 1, 1]
    assert [value(name, row) for name in ("ingest_latency_p50", "ingest_to_searchable_p95")] == [3, 9]
    assert value("ingest_to_searchable_p95", ROW) is None


@each_row(
    ("alias", "definition"),
    [
        ("latency_p50_ms", "latency_p50/1"),
        ("p50_latency_ms", "latency_p50/1"),
        ("latency_p95_ms", "latency_p95/1"),
        ("p99_latency_ms", "latency_p99/1"),
        ("avg_search_latency_ms", "latency_mean/1"),
        ("search_latency_p90", "latency_p90/1"),
        ("search_latency_p95.network", "latency_p95.network/1"),
        ("latency_max.limiter", "latency_max.limiter/1"),
        ("total_latency_p95.provider", "total_latency_p95.provider/1"),
    ],
)
def test_latency_aliases_resolve_to_one_definition(alias: str, definition: str) -> None:
    found = metrics.resolve(alias)
    assert (found.definition, found.unit, found.lower_is_better) == (definition, "ms", True)


# ------------------------------------------------------------------------------------ tokens and money


@each_row(
    ("costs", "query", "judge", "whole"),
    [
        ({}, 0.0, 0.0, 0.0),
        ({"search": "0.1", "answer": "0.2"}, 0.3, 0.0, 0.3),
        ({"search": "0.1", "answer": "0.2", "judge": "0.4"}, 0.3, 0.4, 0.7),
        ({"search": "0.1", "answer": None, "judge": "0.4"}, None, 0.4, None),
        ({"judge": None}, 0.0, None, None),
        ({"ingest": "9"}, 0.0, 0.0, 0.0),
        ({"search": "1e-9"}, 1e-9, 0.0, 1e-9),
    ],
)
def test_cost_metrics_of_a_row_have_their_expected_values(
    costs: dict[str, str | None], query: float | None, judge: float | None, whole: float | None
) -> None:
    row = replace(ROW, costs_usd=costs)
    assert [value(name, row) for name in ("cost_per_query", "cost_judge", "cost_total")] == [query, judge, whole]
    assert value("cost_per_correct", row) == whole


def test_costs_are_added_as_decimals() -> None:
    """0.1 + 0.2 is 0.3 in decimals and 0.30000000000000004 in doubles."""
    assert cost_of(("search", "answer"))(replace(ROW, costs_usd={"search": "0.1", "answer": "0.2"})) == 0.3


@each_row("role", ["context", "answer_in", "answer_out", "judge_in", "judge_out"])
def test_token_metrics_read_the_tokens_of_their_role(role: str) -> None:
    name = f"tokens_{role}"
    assert value(name, replace(ROW, tokens={role: 7, "other": 1})) == 7
    assert value(name, replace(ROW, tokens={role: None})) is None
    assert value(name, ROW) is None
    assert metrics.measure(name, [{"tokens": 2}, {"tokens": 4}, {"tokens": None}]).value == 3


def test_plain_rows_may_contain_costs_as_text_or_number() -> None:
    found = metrics.measure("cost_per_query", [{"cost_usd": "0.1"}, {"cost_usd": 0.3}, {"cost_usd": None}, {}])
    assert (found.value, found.n, found.n_unknown, found.note) == (0.2, 2, 2, "2 values are unknown")


# ------------------------------------------------------------------------------------ losses


def make_verdict(evaluator: str, value: float | None, correct: bool | None, *, judged: bool = True) -> Verdict:
    return Verdict(evaluator=evaluator, value=value, correct=correct, judged=judged)


@each_row(
    ("verdicts", "expected"),
    [
        ([], False),
        ([make_verdict("j", 1, True)], False),
        ([make_verdict("j", 1, True), make_verdict("j", 1, True)], False),
        ([make_verdict("j", 1, True), make_verdict("j", 0, False)], True),
        ([make_verdict("j", 1, True), make_verdict("k", 0, False)], False),
        ([make_verdict("j", 1, True), make_verdict("j", None, None)], False),
        ([make_verdict("rule", 1, True, judged=False), make_verdict("rule", 0, False, judged=False)], False),
        ([make_verdict("exact-match", 1, True, judged=False), make_verdict("j", 0, False)], True),
        ([make_verdict("exact-match", 1, True, judged=False), make_verdict("j", 0.5, False)], False),
        ([make_verdict("exact-match", 0, False, judged=False), make_verdict("j", 1, True)], False),
        ([make_verdict("exact-match", 1, True, judged=False), make_verdict("contains", 0, False, judged=False)], False),
        ([make_verdict("j", 0.5, False), make_verdict("j", 0.9, False)], False),
    ],
)
def test_disagree_compares_a_judge_with_itself_and_with_exact_match(verdicts: list[Verdict], expected: bool) -> None:
    assert disagree(verdicts) is expected
    assert disagree(verdicts[::-1]) is expected


HITS = {"returned": (("x", "a"), ("b",)), "kept": (("x", "a"),)}


@each_row(
    ("facts", "kind", "partial"),
    [
        ({"evidence": ("a",), **HITS}, LossKind.ANSWER_WRONG, False),
        ({"evidence": ("a", "b"), **HITS}, LossKind.ANSWER_WRONG, True),
        ({"evidence": ("b",), **HITS}, LossKind.BELOW_CUT, False),
        ({"evidence": ("z",), **HITS}, LossKind.NOT_RETRIEVED, False),
        ({"evidence": ("a",), **HITS, "in_context": ("b",)}, LossKind.BELOW_CUT, False),
        ({"evidence": ("a",), "kept": (("a",),), "in_context": ()}, LossKind.BELOW_CUT, False),
        ({"evidence": ("z",), "in_context": ("z",)}, LossKind.ANSWER_WRONG, False),
        ({"evidence": ("a",), "ingested": (), **HITS}, LossKind.NOT_INGESTED, False),
        ({"evidence": ("a", "b"), "ingested": ("a",), **HITS}, LossKind.NOT_INGESTED, False),
        ({"evidence": ("a",), "ingested": ("a", "b"), **HITS}, LossKind.ANSWER_WRONG, False),
        ({"evidence": (), "ingested": ()}, LossKind.NO_EVIDENCE_KNOWN, False),
        ({"evidence": ("a",), "gold_suspect": True}, LossKind.GOLD_SUSPECT, False),
    ],
)
@each_row("state", [State.INCORRECT, State.PARTIAL, State.ABSTAINED])
def test_loss_of_returns_the_expected_kind_for_each_lost_item(
    state: State, facts: dict[str, object], kind: LossKind, partial: bool
) -> None:
    found = loss_of(LossFacts(state=state, **facts))  # type: ignore[arg-type]
    assert found is not None
    assert (found.kind, found.partial_evidence) == (kind, partial)


IDS = st.lists(st.sampled_from("abcx"), max_size=3).map(tuple)


@given(
    state=st.sampled_from([*State, None]),
    evidence=IDS,
    ingested=st.one_of(st.none(), IDS),
    kept=st.lists(IDS, max_size=3),
    more=st.lists(IDS, max_size=3),
    suspect=st.booleans(),
)
def test_exactly_the_items_that_are_not_correct_are_lost(
    state: State | None,
    evidence: tuple[str, ...],
    ingested: tuple[str, ...] | None,
    kept: list[tuple[str, ...]],
    more: list[tuple[str, ...]],
    suspect: bool,
) -> None:
    facts = LossFacts(
        state=state, evidence=evidence, ingested=ingested, kept=kept, returned=[*kept, *more], gold_suspect=suspect
    )
    found = loss_of(facts)
    if state in (None, State.CORRECT):
        assert found is None
    elif state is not State.MEASURED:
        assert found is not None
    assert found is None or not found.partial_evidence or found.kind is LossKind.ANSWER_WRONG
    assert count_losses([found]) == ({} if found is None else {found.kind: 1})


# ------------------------------------------------------------------------------------ doubted golds


@each_row(
    ("listed", "values", "rescored", "expected"),
    [
        ((), {"a": 1.0, "b": 0.0}, None, (0.5, 0.5, 1.0, 2, 0)),
        (("a",), {"a": 0.0, "b": 1.0}, None, (0.5, 1.0, 0.5, 2, 1)),
        (("a",), {"a": 0.0, "b": 1.0}, {"a": 1.0}, (0.5, 1.0, 0.5, 2, 1)),
        (("a",), {"a": 0.0, "b": 1.0}, {"a": 0.0}, (0.5, 0.5, 0.5, 2, 1)),
        (("a",), {"a": 0.0, "b": 1.0}, {"b": 0.0, "z": 1.0}, (0.5, 1.0, 0.5, 2, 1)),
        (("a",), {"a": 0.0, "b": 1.0}, {"a": None}, (0.5, 1.0, 0.5, 2, 1)),
        (("a", "b"), {"a": 0.0, "b": 1.0}, None, (0.5, None, 0.0, 2, 2)),
        (("a",), {"a": None, "b": 1.0}, None, (1.0, 1.0, 1.0, 1, 0)),
        (("z",), {"a": 1.0}, None, (1.0, 1.0, 1.0, 1, 0)),
        (("a",), {}, None, (None, None, None, 0, 0)),
        (("a",), {"a": None}, {"a": 1.0}, (None, None, None, 0, 0)),
    ],
)
def test_raw_corrected_and_ceiling_scores_have_their_expected_values(
    listed: tuple[str, ...],
    values: dict[str, float | None],
    rescored: dict[str, float | None] | None,
    expected: tuple[object, ...],
) -> None:
    found = GoldScores.of(values, listed, rescored)
    assert (found.raw, found.corrected, found.ceiling, found.n, found.n_listed) == expected


@each_row(
    ("raw", "ceiling", "above"),
    [(0.6, 0.5, True), (0.5, 0.5, False), (0.5 + 1e-13, 0.5, False), (None, 0.5, False), (0.5, None, False)],
)
def test_above_ceiling_ignores_rounding_differences(raw: float | None, ceiling: float | None, above: bool) -> None:
    assert GoldScores(raw=raw, corrected=None, ceiling=ceiling, n=1, n_listed=0).above_ceiling is above


@given(values=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([0.0, 1.0]), min_size=1), listed=IDS)
def test_correct_answers_to_unlisted_items_do_not_exceed_the_ceiling(
    values: dict[str, float], listed: tuple[str, ...]
) -> None:
    honest = {item: 0.0 if item in listed else one for item, one in values.items()}
    assert not GoldScores.of(honest, listed).above_ceiling


# ------------------------------------------------------------------------------------ plug-ins by distribution

GROUP = "bench.metrics"


def install(folder: Path, distribution: str, *names: str, module: str = "nowhere_to_be_found") -> None:
    info = folder / f"{distribution}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n", encoding="utf-8")
    points = "".join(f"{name} = {module}:C\n" for name in names)
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}", encoding="utf-8")


def test_an_unregistered_plugin_name_returns_None() -> None:
    assert plugins.entry_point_named("nobodys_metric", GROUP) is None
    assert plugins.installed_plugins("bench.no_such_group", str) == {}


def test_a_plugin_name_is_found_without_importing_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "one-dist", "first", "second")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = plugins.entry_point_named("first", GROUP)
    assert found is not None and found.dist is not None
    assert (found.name, found.dist.name) == ("first", "one-dist")
    assert {name: one.distribution for name, one in plugins.installed_plugins(GROUP, str.upper).items()} == {
        "FIRST": "one-dist",
        "SECOND": "one-dist",
    }


def test_a_plugin_name_of_two_distributions_is_an_error_naming_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "one-dist", "mine")
    install(tmp_path, "two-dist", "mine", module="elsewhere")
    monkeypatch.syspath_prepend(str(tmp_path))
    for look in (lambda: plugins.entry_point_named("mine", GROUP), lambda: plugins.installed_plugins(GROUP, str)):
        with pytest.raises(ConfigError) as caught:
            look()
        assert caught.value.message in (
            'bench.metrics: "mine" is registered by one-dist and by two-dist',
            'bench.metrics: "mine" is registered by two-dist and by one-dist',
        )
        assert caught.value.hint == "uninstall one of the two distributions"


def test_two_spellings_in_one_distribution_are_one_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "one-dist", "My-Metric", "my_metric")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(plugins.installed_plugins(GROUP, lambda name: name.lower().replace("-", "_"))) == ["my_metric"]


def test_a_plugin_that_cannot_be_imported_names_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken-dist", "broken_one")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        metrics.open_metrics(["broken-one"], k=5, folder=tmp_path)
    assert caught.value.message == (
        'bench.metrics: "broken_one" of distribution broken-dist cannot be loaded: '
        "ModuleNotFoundError: No module named 'nowhere_to_be_found'"
    )
    assert caught.value.hint == "repair or uninstall broken-dist"


def test_the_catalog_lists_installed_plugins_without_importing_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken-dist", "broken_one")
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = [info for info in metrics.catalog() if info.name == "broken_one"]
    assert (found.summary, found.category, found.definition) == ("plug-in of broken-dist", "custom", "")
    assert "broken_one" in metrics.names()
