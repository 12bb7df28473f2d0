"""The counting rule: n + n_excluded + n_failed is the planned number, for all outcomes, metrics, labels and shards."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.journal import Event, JournaledPhase, Key, ProbeRow, Reader, RunState, merge
from bench.model import SCORED_STATES, Measurement, Phase, State
from bench.plan.job_record import JobRecord
from bench.report.comparison.comparison_targets import ComparisonTarget, sides_of
from bench.report.fold import JobReport, Report, fold
from tests.full_journal import ItemData, call, write_run
from tests.laws import examples
from tests.rows import each_row
from tests.small_journal import measuring, record

NAMES = (
    "accuracy", "correctness", "hit_at_10", "ndcg_at_10", "accuracy_macro", "over_abstention_rate", "answer_length",
    "latency_p95", "latency_mean", "accuracy_excl_adversarial", "cost_per_query", "tokens_context",
)  # fmt: skip
RECORD = record("p", **measuring(*NAMES))
FAILED = (State.ERROR, State.NOT_READY)

VALUE = st.one_of(st.none(), st.floats(0, 1), st.sampled_from([0.0, 1.0]))
LABELS = st.sampled_from([{}, {"question_type": "one"}, {"question_type": "two", "group": "x"}, {"speaker": "Ann"}])


@st.composite
def ends(draw: st.DrawFn, epochs: int = 1) -> list[ItemData]:
    """Up to nine items with an outcome per epoch; some epochs have not ended."""
    found = []
    for number in range(draw(st.integers(0, 9))):
        labels = draw(LABELS)
        for epoch in range(1, epochs + 1):
            state = draw(st.sampled_from([*State, None]))
            if state is None:
                continue
            values = draw(st.fixed_dictionaries(dict.fromkeys(NAMES, VALUE)))
            failed = state in (*FAILED, State.UNSUPPORTED)
            one = ItemData(
                item=f"q{number}",
                corpus=f"c{number % 3}",
                epoch=epoch,
                state=state,
                outcome="timeout" if failed else "ok",
                labels=labels,
                values=values,
                reason=draw(st.sampled_from(["", "no_evidence"])),
            )
            found.append(one)
    return found


def folded(job: JobRecord, items: Sequence[ItemData], planned: int) -> JobReport:
    async def done() -> Report:
        with tempfile.TemporaryDirectory() as place:
            folder = await write_run(Path(place), "r", [(job, items)], planned=planned)
            async with Reader.open(folder) as reader:
                return await fold(reader, by=())

    return anyio.run(done).jobs[0]


def total(one: Measurement) -> int:
    return one.n + one.n_excluded + one.n_failed


def assert_adds_up(job: JobReport, planned: int) -> None:
    for name, one in job.metrics.items():
        assert total(one) == planned, (name, one)
        assert sum(one.excluded_reasons.values()) == one.n_excluded, (name, one)
        assert (one.value is None) == (one.n == 0) or name == "latency_p95" or one.n_unknown, (name, one)
        assert one.value is None or math.isfinite(one.value)
        for dimension, labels in one.breakdown.items():
            for what in ("n", "n_excluded", "n_failed"):
                parts = sum(getattr(inner, what) for inner in labels.values())
                assert parts == getattr(one, what), (name, dimension, what)


QUICK = settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))


@QUICK
@given(items=ends(), open_items=st.integers(0, 4), clustered=st.booleans())
def test_each_planned_item_is_counted_once_in_each_metric_and_breakdown(
    items: list[ItemData], open_items: int, clustered: bool
) -> None:
    planned = len(items) + open_items
    job = folded(replace(RECORD, cluster_by="corpus" if clustered else None), items, planned)
    assert job.n_planned == planned and job.n_pending == open_items
    assert sum(job.counts.values()) + job.n_pending == planned
    assert_adds_up(job, planned)
    failed = sum(item.state in FAILED for item in items) + open_items
    assert {one.n_failed for one in job.metrics.values()} == {failed}


@QUICK
@given(items=ends(epochs=2), open_items=st.integers(0, 3))
def test_an_item_is_counted_once_for_any_number_of_ended_epochs(items: list[ItemData], open_items: int) -> None:
    planned = len({one.item for one in items}) + open_items
    job = folded(replace(RECORD, epochs=2), items, planned)
    assert job.n_planned == planned
    assert sum(job.counts.values()) + job.n_pending == planned
    assert job.n_scored == sum(job.counts.get(state, 0) for state in SCORED_STATES)
    assert sum(job.error_kinds.values()) == job.counts.get(State.ERROR, 0)
    failed = sum(job.counts.get(state, 0) for state in FAILED) + job.n_pending
    assert {one.n_failed for one in job.metrics.values()} == {failed}
    assert_adds_up(job, planned)


@QUICK
@given(items=ends())
def test_value_failures_as_zero_includes_failed_items_as_zero(items: list[ItemData]) -> None:
    job = folded(RECORD, items, len(items))
    for name in ("correctness", "hit_at_10", "ndcg_at_10"):
        one = job.metrics[name]
        if one.value is None:
            assert one.value_failures_as_zero in (None, 0.0)
        else:
            expected = one.value * one.n / (one.n + one.n_failed)
            assert one.value_failures_as_zero == pytest.approx(expected, abs=1e-12), name
            assert one.value_failures_as_zero <= one.value


@pytest.mark.parametrize("cut", [1, 4, 8])
async def test_merged_shards_have_the_counts_of_the_whole_run(tmp_path: Path, cut: int) -> None:
    states = [*State][:9]
    job = replace(RECORD, n_whole=9, n_items=9)
    items = [
        ItemData(
            item=f"q{at}", corpus=f"c{at % 2}", state=state, labels={"question_type": f"t{at % 3}"},
            outcome="timeout" if state in (*FAILED, State.UNSUPPORTED) else "ok",
            values={name: (at + len(name)) % 5 / 4 for name in NAMES},
        )
        for at, state in enumerate(states)
    ]  # fmt: skip
    shards = [
        await write_run(
            tmp_path, f"s{first}", [(job, items[first - 1 : last])], ranges=((first, last),), total=9,
            state=RunState.PARTIAL,
        )
        for first, last in ((1, cut), (cut + 1, 9))
    ]  # fmt: skip
    await merge(shards, into=tmp_path / "checkpoints" / "all", run_id="all")
    whole = await write_run(tmp_path, "whole", [(job, items)], total=9)
    found = []
    for folder in (tmp_path / "checkpoints" / "all", whole):
        async with Reader.open(folder) as reader:
            found.append((await fold(reader)).jobs[0])
    merged, alone = found
    assert_adds_up(merged, 9)
    assert merged.metrics == alone.metrics
    assert (merged.counts, merged.error_kinds, merged.n_planned) == (alone.counts, alone.error_kinds, 9)


# ------------------------------------------------------------------------------ valid or not


def item(number: int, state: State = State.CORRECT, kind: str = "timeout") -> ItemData:
    failed = state in (*FAILED, State.UNSUPPORTED)
    return ItemData(item=f"q{number}", state=state, outcome=kind if failed else "ok", values={"accuracy": 1.0})


async def invalid_reasons(
    workspace: Path,
    items: Sequence[ItemData],
    *,
    rate: float = 0.02,
    planned: int | None = None,
    probes: Sequence[ProbeRow] = (),
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the reasons why a job is INVALID, from the report and from a comparison."""
    folder = await write_run(
        workspace, "r", [(record("p"), items)], planned=planned, more=probes, request={"max_error_rate": rate}
    )
    async with Reader.open(folder) as reader:
        report = (await fold(reader)).jobs[0]
    side = (await sides_of(workspace, [ComparisonTarget.parse("r:p")], benchmark=None))[0][0]
    return report.invalid, side.invalid


def probe(kind: str, *, passed: bool) -> ProbeRow:
    return ProbeRow(lane="lane-p", corpus="c", attempt=1, kind=kind, passed=passed)  # type: ignore[arg-type]


FOREIGN = "an isolation probe found foreign memories in a namespace"
HELD = 'corpus "c" held some memories before this run added any'
SANG = 'corpus "c" returned a memory of another corpus'
VALIDITY: dict[str, tuple[list[ItemData], dict[str, object], tuple[str, ...]]] = {
    "all well": ([item(n) for n in range(50)], {}, ()),
    "exactly at the rate": ([item(n, State.ERROR if n == 0 else State.CORRECT) for n in range(50)], {}, ()),
    "above the rate": (
        [item(n, State.ERROR if n < 2 else State.CORRECT) for n in range(50)],
        {},
        ("2 of 50 items failed (error or not_ready): above the allowed 2%",),
    ),
    "not ready counts too": (
        [item(0, State.NOT_READY, "not_ready"), *(item(n) for n in range(1, 10))],
        {},
        ("1 of 10 items failed (error or not_ready): above the allowed 2%",),
    ),
    "a rate of its own": ([item(0, State.ERROR), item(1)], {"rate": 0.5}, ()),
    "no failure allowed": (
        [item(0, State.ERROR), *(item(n) for n in range(1, 2000))][:100],
        {"rate": 0.0},
        ("1 of 100 items failed (error or not_ready): above the allowed 0%",),
    ),
    "what has not ended is no failure yet": ([item(0)], {"planned": 100}, ()),
    "unsupported and unscored are no failures": ([item(0, State.UNSUPPORTED), item(1, State.UNSCORED)], {}, ()),
    "nothing was planned": ([], {"planned": 0}, ()),
    "a probe found something": ([item(0)], {"probes": [probe("emptiness", passed=False)]}, (f"{FOREIGN}: {HELD}",)),
    "a canary sang": ([item(0)], {"probes": [probe("canary", passed=False)]}, (f"{FOREIGN}: {SANG}",)),
    "a sentinel that was not found is no foreign memory": (
        [item(0)],
        {"probes": [probe("sentinel", passed=False)]},
        (),
    ),
    "a contaminated corpus": ([item(0, State.ERROR, "contaminated"), item(1)], {"rate": 0.5}, (FOREIGN,)),
}


@pytest.mark.parametrize("case", VALIDITY)
async def test_report_and_comparison_agree_on_the_reasons_of_an_invalid_job(tmp_path: Path, case: str) -> None:
    items, more, reasons = VALIDITY[case]
    assert await invalid_reasons(tmp_path, items, **more) == (reasons, reasons)  # type: ignore[arg-type]


async def test_an_invalid_job_has_no_headline_but_keeps_its_metrics(tmp_path: Path) -> None:
    folder = await write_run(tmp_path, "r", [(record("p"), [item(0, State.ERROR), item(1)])])
    async with Reader.open(folder) as reader:
        (job,) = (await fold(reader)).jobs
    assert (job.valid, job.headline) == (False, None)
    assert (job.metrics["accuracy"].value, job.metrics["accuracy"].value_failures_as_zero) == (1.0, 0.5)
    assert (job.error_kinds, job.n_scored) == ({"timeout": 1}, 1)


async def test_the_headline_is_the_first_metric_with_a_value(tmp_path: Path) -> None:
    names = measuring("accuracy", "hit_at_10", "mrr")
    measured = ItemData(
        item="q1", state=State.MEASURED, answer=None, values={"hit_at_10": 1.0, "mrr": 0.5}, verdicts=()
    )
    folder = await write_run(tmp_path, "r", [(record("p", **names), [measured])])
    async with Reader.open(folder) as reader:
        (job,) = (await fold(reader)).jobs
    assert job.headline is not None and job.headline.metric == "hit_at_10"
    assert job.metrics["accuracy"].excluded_reasons == {"measured": 1}
    nothing = await write_run(tmp_path, "s", [(record("p", **names), [])], planned=3)
    async with Reader.open(nothing) as reader:
        (job,) = (await fold(reader)).jobs
    assert job.headline is not None and (job.headline.metric, job.headline.value) == ("accuracy", None)


@pytest.mark.parametrize("epochs", [1, 2])
async def test_pending_items_are_counted_under_their_planned_question_type(tmp_path: Path, epochs: int) -> None:
    job = replace(
        RECORD, epochs=epochs, groups={"hard": ("two", "three")}, selected_types={"one": 4, "two": 2, "three": 1}
    )
    two = {"question_type": "two", "group": "hard"}
    items = [
        replace(item(0), labels={"question_type": "one"}),
        replace(item(1, State.ERROR), labels=two),
        replace(item(2), labels={}),
    ]
    repeated = [replace(one, epoch=epoch) for one in items for epoch in range(1, epochs + 1)]
    folder = await write_run(tmp_path, "r", [(job, repeated)], planned=9)
    async with Reader.open(folder) as reader:
        accuracy = (await fold(reader)).jobs[0].metrics["accuracy"]
    by_type, by_group = (
        {label: (one.n, one.n_failed) for label, one in accuracy.breakdown[dimension].items()}
        for dimension in ("question_type", "group")
    )
    assert by_type == {"one": (1, 3), "two": (0, 2), "three": (0, 1), "(none)": (1, 1)}
    assert by_group == {"hard": (0, 3), "(none)": (2, 4)}
    assert (accuracy.n, accuracy.n_failed) == (2, 7)


async def test_without_planned_types_pending_items_are_counted_under_none(tmp_path: Path) -> None:
    folder = await write_run(tmp_path, "r", [(RECORD, [item(0)])], planned=3)
    async with Reader.open(folder) as reader:
        accuracy = (await fold(reader)).jobs[0].metrics["accuracy"]
    assert {label: one.n_failed for label, one in accuracy.breakdown["question_type"].items()} == {
        "one": 0,
        "(none)": 2,
    }


# ------------------------------------------------------------------------------ what else a fold reads


async def test_max_error_rate_of_the_last_resume_applies(tmp_path: Path) -> None:
    from bench.journal import Journal

    items = [item(0, State.ERROR), item(1)]
    folder = await write_run(tmp_path, "r", [(record("p"), items)], request={"max_error_rate": 0.9})
    async with Journal.resume(folder) as journal:
        await journal.record_resume({"operation": {"max_error_rate": 0.1}})
    async with Reader.open(folder) as reader:
        (job,) = (await fold(reader)).jobs
    assert job.invalid == ("1 of 2 items failed (error or not_ready): above the allowed 10%",)


async def test_calls_of_one_role_in_several_phases_are_summed(tmp_path: Path) -> None:
    embedding = (call("embedding", cost="0.25", tokens=10),)
    one = ItemData(
        item="q1",
        calls={
            Phase.SEARCH: embedding,
            Phase.ANSWER: (call("answering", cost="1", tokens=7),),
            Phase.EVALUATE: (*embedding, call("judge")),
        },
    )
    folder = await write_run(tmp_path, "r", [(record("p"), [one])])
    async with Reader.open(folder) as reader:
        (job,) = (await fold(reader)).jobs
    usage = job.usage
    assert (usage["embedding"].calls, usage["embedding"].cost_usd) == (2, "0.50")
    assert usage["embedding"].usage.input_tokens == 20
    assert (usage["judge"].calls, usage["judge"].unknown_costs) == (1, 1)
    assert {owner: set(roles) for owner, roles in job.spent.items()} == {
        "lane-p": {"embedding"}, "answer-p": {"answering"}, "job-p": {"embedding", "judge"},
    }  # fmt: skip


async def test_isolation_probes_are_counted_by_result(tmp_path: Path) -> None:
    checks = [
        probe("emptiness", passed=True), probe("canary", passed=True), probe("emptiness", passed=False),
        probe("sentinel", passed=True), probe("sentinel", passed=False),
    ]  # fmt: skip
    job_events = [
        Event(kind="not_cleared", scope="lane-p", message="c is still there"),
        Event(kind="not_cleared", scope="lane-other", message="not ours"),
        Event(kind="odd", scope="job-p", message="said of the job"),
        Event(kind="odd", scope="job-p", message="said of the job"),
        Event(kind="quiet", scope="job-p"),
    ]
    request = {"isolation": "full"}
    folder = await write_run(tmp_path, "r", [(record("p"), [item(0)])], more=[*checks, *job_events], request=request)
    async with Reader.open(folder) as reader:
        (job,) = (await fold(reader)).jobs
    proof = job.isolation
    assert (proof.level, proof.probed, proof.passed, proof.failed, proof.sentinels, proof.not_cleared) == (
        "full", 3, 2, 1, 1, 1,
    )  # fmt: skip
    assert job.notes == ("c is still there", "said of the job")


async def test_a_skipped_job_has_a_note_and_an_unknown_dimension_is_rejected(tmp_path: Path) -> None:
    from bench.errors import UsageError

    folder = await write_run(tmp_path, "r", [(record("p", skipped="needs OPENAI_API_KEY"), [])], planned=2)
    async with Reader.open(folder) as reader:
        (job,) = (await fold(reader)).jobs
        assert job.notes == ("needs OPENAI_API_KEY",)
        with pytest.raises(UsageError) as refused:
            await fold(reader, by=("speaker",))
    assert str(refused.value) == 'no item has the dimension "speaker"'
    spoken = await write_run(tmp_path, "s", [(record("p"), [ItemData(item="q", labels={"speaker": "Ann"})])])
    async with Reader.open(spoken) as reader:
        report = await fold(reader, by=("speaker",))
        with pytest.raises(UsageError) as refused:
            await fold(reader, by=("mood",))
    assert set(report.jobs[0].metrics["accuracy"].breakdown) == {"speaker"}
    assert refused.value.hint == "dimensions of this run: none"


async def test_report_job_finds_a_job_by_benchmark_and_provider(tmp_path: Path) -> None:
    from bench.errors import UsageError

    folder = await write_run(tmp_path, "r", [(record("p"), [item(0)]), (record("q"), [item(0)])])
    async with Reader.open(folder) as reader:
        report = await fold(reader)
    assert report.job("facts", "q") is report.jobs[1]
    assert not report.partial
    with pytest.raises(UsageError) as refused:
        report.job("facts", "z")
    assert (str(refused.value), refused.value.hint) == (
        "run r has no job facts x z",
        "list the jobs of the run with: bench results RUN_ID",
    )


@each_row("state", [state for state in RunState if state is not RunState.INTERRUPTED])
async def test_each_state_except_complete_is_partial(tmp_path: Path, state: RunState) -> None:
    folder = await write_run(tmp_path, "r", [(record("p"), [item(0)])], state=state)
    async with Reader.open(folder) as reader:
        report = await fold(reader)
    assert report.partial is (state is not RunState.COMPLETE)


async def test_a_missing_plugin_metric_is_aggregated_as_a_mean_with_a_note(tmp_path: Path) -> None:
    changes = measuring("accuracy")
    metrics = changes["metrics"]
    assert isinstance(metrics, tuple)
    own = replace(metrics[0], name="mine", definition="mine/1", category="custom", lower_is_better=True)
    entries = ("accuracy", {"name": "mine", "method": "custom", "evaluator": "./gone.py:Metric"})
    job = record("p", metrics=(*metrics, own), metric_entries=entries, metric_folder=str(tmp_path))
    items = [replace(item(n), values={"accuracy": 1.0, "mine": float(n)}) for n in range(4)]
    folder = await write_run(tmp_path, "r", [(job, items)])
    async with Reader.open(folder) as reader:
        (found,) = (await fold(reader)).jobs
    assert (found.metrics["mine"].value, found.metrics["mine"].definition) == (1.5, "mine/1")
    assert found.metrics["accuracy"].value == 1.0
    (note,) = found.notes
    assert note.startswith("a plug-in metric cannot be loaded, so it is aggregated as a mean (") and "gone.py" in note


async def test_a_job_without_metrics_that_have_reasons_counts_its_items(tmp_path: Path) -> None:
    for epochs in (1, 2):
        job = record("p", epochs=epochs, **measuring("accuracy"))
        folder = await write_run(tmp_path, f"r{epochs}", [(job, [replace(item(0), reason="no_evidence")])])
        async with Reader.open(folder) as reader:
            (found,) = (await fold(reader)).jobs
        assert total(found.metrics["accuracy"]) == 1


async def test_ended_items_beyond_the_plan_do_not_make_a_count_negative(tmp_path: Path) -> None:
    """More ended items than planned (a merge of runs of other versions) never makes a count negative."""
    folder = await write_run(tmp_path, "r", [(record("p"), [item(n) for n in range(3)])], planned=2)
    async with Reader.open(folder) as reader:
        (job,) = (await fold(reader)).jobs
    assert (job.n_pending, job.metrics["accuracy"].n_failed) == (0, 0)


def test_rows_of_a_test_journal_have_the_key_of_their_job() -> None:
    (entry,) = [row for row in _entries(ItemData(item="q", epoch=2)) if row.key.phase is Phase.EVALUATE]
    assert entry.key == Key(owner="job-p", phase=Phase.EVALUATE, corpus="c", unit="q", epoch=2)


def _entries(one: ItemData) -> list[JournaledPhase]:
    from tests.full_journal import rows_of

    return list(rows_of(record("p"), one))
