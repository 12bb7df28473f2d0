"""Ingest of one corpus: unknown outcomes, rejections, restarts, waiting, and its journal rows."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from bench.engine import Outcome
from bench.journal import Reader, RunState
from bench.model import State
from bench.report import fold
from bench.report.status import run_status
from tests.engine.scripted_store import ScriptedStore
from tests.small_world import World

FLAGS: dict[str, object] = {"providers": "scripted", "run_id": "r", "cleanup": "never", "max_error_rate": 1}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One corpus of four sessions, a batch each; four questions."""
    return World.make(tmp_path, corpora=1, items=4, sessions=4)


async def run(world: World, **flags: object) -> Outcome:
    return await world.run(**{**FLAGS, **flags})


def steps(world: World) -> list[tuple[int, str, str]]:
    """Return the journal rows of the corpus: (attempt, kind, outcome)."""
    return world.query("r", "select attempt, kind, outcome from corpus_row order by attempt, seq")


def kinds(world: World, attempt: int = 1) -> list[str]:
    return [kind for number, kind, _ in steps(world) if number == attempt]


def texts(store: ScriptedStore) -> list[list[str]]:
    """Return the sent batches as numbers of their memories."""
    known: dict[str, str] = {}
    return [[known.setdefault(name, str(len(known))) for name in call["ids"]] for call in store.calls("ingest")]


async def test_a_corpus_is_probed_ingested_and_waited_for(world: World) -> None:
    store = ScriptedStore.install(world)
    outcome = await run(world, answering_model="builtin/extractive")
    assert outcome.jobs[0].states == {State.CORRECT: 4}
    assert kinds(world) == ["intent", *["intent", "batch"] * 4, "ingested", "ready"]
    assert [call["call"] for call in store.calls()][:6] == ["count", "ingest", "ingest", "ingest", "ingest", "ready"]
    assert world.query("r", "select kind, passed from probe") == [("emptiness", 1), ("sentinel", 1)]


@pytest.mark.parametrize(("rule", "intents"), [("reset", 5), ("probe", 4), ("repeat", 4)])
async def test_each_batch_has_an_intent_row_and_with_reset_also_the_corpus(
    world: World, rule: str, intents: int
) -> None:
    ScriptedStore.install(world, on_unknown=rule)
    await run(world)
    assert kinds(world).count("intent") == intents


# ------------------------------------------------------------------ a batch with unknown outcome


@pytest.mark.parametrize("effect", [True, False])
async def test_reset_clears_and_ingests_again_if_neither_count_nor_search_decides(world: World, effect: bool) -> None:
    store = ScriptedStore.install(world, on_unknown="reset", counts=False)
    store.fails("ingest", at=2, error="Unavailable", effect=effect)
    store.fails("search", at=1, error="Rejected")
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    assert texts(store) == [["0"], ["1"], ["2"], ["0"], ["1"], ["2"], ["3"]]
    first, second = dict.fromkeys(call["namespace"] for call in store.calls("ingest"))
    assert [call["namespace"] for call in store.calls("clear")] == [first]
    assert {name: len(held) for name, held in store.held.items()} == {second: 4}
    assert kinds(world, 1) == ["intent", "intent", "batch", "intent", "batch", "intent", "intent", "cleared"]
    assert kinds(world, 2) == ["intent", *["intent", "batch"] * 4, "ingested", "ready"]
    assert world.query("r", "select message from event where kind = 'corpus_reset'") == [
        (
            "c0: attempt 1 abandoned: scripted cannot tell whether an add was stored; everything is ingested again, "
            "including 2 acknowledged memories",
        )
    ]


async def test_a_batch_that_a_search_finds_by_its_ids_is_not_sent_again(world: World) -> None:
    store = ScriptedStore.install(world, counts=False)
    store.fails("ingest", at=2, error="Unavailable", effect=True)
    assert (await run(world)).jobs[0].states == {State.MEASURED: 4}
    assert texts(store) == [["0"], ["1"], ["2"], ["3"]]
    assert store.calls("clear") == []


@pytest.mark.parametrize("rule", ["probe", "reset"])
@pytest.mark.parametrize(("effect", "sent"), [(True, ["0", "1", "2", "3"]), (False, ["0", "1", "2", "2", "3"])])
async def test_a_count_decides_whether_a_batch_was_stored(
    world: World, effect: bool, sent: list[str], rule: str
) -> None:
    store = ScriptedStore.install(world, on_unknown=rule)
    store.fails("ingest", at=2, error="Unavailable", effect=effect)
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    assert [name for batch in texts(store) for name in batch] == sent
    assert [len(held) for held in store.held.values()] == [4]
    found = world.query("r", "select data from corpus_row where json_extract(data, '$.found_stored')")
    assert len(found) == effect


async def test_probe_that_can_neither_count_nor_search_ingests_again(world: World) -> None:
    store = ScriptedStore.install(world, on_unknown="probe", counts=False)
    store.fails("ingest", at=1, error="Unavailable", effect=True)
    store.fails("search", at=1, error="Rejected")
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    assert texts(store) == [["0"], ["1"], ["0"], ["1"], ["2"], ["3"]]
    assert [len(held) for held in store.held.values()] == [4]


async def test_probe_with_an_unexpected_count_ingests_again(world: World) -> None:
    store = ScriptedStore.install(world, on_unknown="probe")
    store.fails("ingest", at=1, error="Unavailable", effect=True)
    store.fails("count", at=1, error="Rejected")
    store.fails("search", at=0, error="Rejected")
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    assert [attempt for attempt, kind, _ in steps(world) if kind == "ingested"] == [2]


async def test_repeat_sends_the_batch_again(world: World) -> None:
    store = ScriptedStore.install(world, on_unknown="repeat")
    store.fails("ingest", at=2, error="Unavailable")
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    assert texts(store) == [["0"], ["1"], ["2"], ["2"], ["3"]]
    assert store.calls("clear") == []


@pytest.mark.parametrize("rule", ["reset", "probe", "repeat"])
async def test_an_unknown_outcome_is_retried_maxRetries_times(world: World, rule: str) -> None:
    store = ScriptedStore.install(world, on_unknown=rule)
    store.fails("ingest", at=None, error="Unavailable")
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.ERROR: 4}
    assert len(store.calls("ingest")) == 3, "once, plus maxRetries repeats"
    assert steps(world)[-1][1:] == ("failed", "unavailable")
    kind = world.query("r", "select distinct outcome from phase")
    assert kind == [("unavailable",)]
    store.heal()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 4}
    assert [len(held) for held in store.held.values()] == [4]


@pytest.mark.parametrize(("rule", "attempt"), [("reset", 1), ("probe", 1), ("repeat", 1)])
async def test_an_unknown_outcome_of_an_earlier_run_is_resolved_by_the_rule_on_resume(
    world: World, rule: str, attempt: int
) -> None:
    store = ScriptedStore.install(world, on_unknown=rule)
    store.fails("ingest", at=None, error="Unavailable")
    await run(world)
    sent = len(store.calls("ingest"))
    store.heal()
    await world.resume("r")
    assert steps(world)[-1][:2] == (attempt, "ready")
    assert len(store.calls("ingest")) - sent == 4, "no batch was stored"


# ------------------------------------------------------------------ a rejected batch


@pytest.mark.parametrize("error", ["Rejected", "AuthError", "QuotaError", "RateLimited"])
async def test_a_rejected_batch_is_sent_first_on_resume(world: World, error: str) -> None:
    store = ScriptedStore.install(world)
    store.fails("ingest", at=2, error=error)
    first = await run(world)
    assert first.jobs[0].states == {State.ERROR: 4}
    assert (first.status is RunState.STOPPED) == (error in ("AuthError", "QuotaError"))
    store.heal()
    outcome = await world.resume("r")
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    assert texts(store) == [["0"], ["1"], ["2"], ["2"], ["3"]]
    assert kinds(world, 1)[-3:] == ["batch", "ingested", "ready"]


async def test_after_IngestFailed_a_resume_ingests_the_corpus_again(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("ingest", at=2, error="IngestFailed", effect=True)
    assert (await run(world)).jobs[0].states == {State.ERROR: 4}
    store.heal()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 4}
    assert texts(store)[3:] == [["0"], ["1"], ["2"], ["3"]]
    assert [len(held) for held in store.held.values()] == [4]


@pytest.mark.parametrize("error", ["MappingError", "PluginFault"])
async def test_an_unreadable_response_makes_only_its_batch_unknown(world: World, error: str) -> None:
    store = ScriptedStore.install(world)
    store.fails("ingest", at=2, error=error, effect=True)
    assert (await run(world)).jobs[0].states == {State.ERROR: 4}
    store.heal()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 4}
    assert texts(store) == [["0"], ["1"], ["2"], ["3"]]


@pytest.mark.parametrize("rule", ["probe", "repeat"])
async def test_a_failed_batch_whose_calls_are_in_the_journal_is_not_counted_again_by_a_resume(
    world: World, rule: str
) -> None:
    store = ScriptedStore.install(world, on_unknown=rule)
    store.fails("ingest", at=None, error="Unavailable", effect=True)
    assert (await run(world)).jobs[0].states == {State.ERROR: 4}
    assert world.query("r", "select count(*) from corpus_row where kind = 'intent'") != [(0,)]
    store.heal()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 4}
    assert world.query("r", "select count(*) from call where outcome = 'lost'") == [(0,)]


async def test_a_namespace_that_cannot_be_counted_is_not_used(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("count", at=0, error="Rejected")
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.ERROR: 4}
    assert store.calls("ingest") == []
    store.heal()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 4}


# ------------------------------------------------------------------ the index


async def test_after_a_failed_index_a_resume_ingests_the_corpus_again(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("ready", at=0, error="IngestFailed")
    assert (await run(world)).jobs[0].states == {State.ERROR: 4}
    assert world.query("r", "select distinct outcome from phase") == [("ingest_failed",)]
    store.heal()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 4}
    assert len(store.calls("ingest")) == 8


@pytest.mark.parametrize("error", ["Unavailable", "NotReady", "RateLimited"])
async def test_after_a_timeout_of_the_index_a_resume_only_waits_again(world: World, error: str) -> None:
    store = ScriptedStore.install(world)
    store.fails("ready", at=0, error=error)
    first = await run(world)
    assert first.jobs[0].states == {State.NOT_READY if error == "NotReady" else State.ERROR: 4}
    store.heal()
    store.forget_calls()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 4}
    assert store.calls("ingest") == []
    assert len(store.calls("ready")) == 1
    (asked,) = store.calls("ready")
    assert len(asked["ids"]) == 4, "with the ids of all earlier batches"


@pytest.mark.parametrize("by", ["sentinel", "status"])
async def test_a_corpus_that_is_never_found_is_not_ready_after_the_timeout(world: World, by: str) -> None:
    store = ScriptedStore.install(world, wait=f'by="{by}", interval_s=0.01, timeout_s=0.4')
    store.fails("ingest", at=None, error="")
    outcome = await run(world)
    assert (outcome.jobs[0].states, outcome.exit_code) == ({State.NOT_READY: 4}, 0)
    assert world.query("r", "select distinct text from message") == [
        ("c0 was not searchable 0.4 s after its last add: searches for its memories found nothing",)
    ]
    assert len(store.calls("ready")) >= 2, "its status call always reported ready"


async def test_with_wait_sentinel_the_count_must_be_stable(world: World) -> None:
    store = ScriptedStore.install(world, wait='by="sentinel", interval_s=0.01, timeout_s=5')
    assert (await run(world)).jobs[0].states == {State.MEASURED: 4}
    before_first_question = [call["call"] for call in store.calls()]
    assert before_first_question[5:11] == ["ready", "search", "count", "ready", "search", "count"]


# ------------------------------------------------------------------ state of an earlier process


async def test_a_run_that_ended_after_ingest_resumes_at_the_index(world: World) -> None:
    store = ScriptedStore.install(world)
    outcome = await run(world, phases="ingest")
    assert (outcome.status, kinds(world)[-1]) == (RunState.PARTIAL, "ingested")
    assert store.calls("ready") == []
    outcome = await world.resume("r", phases="ingest,index,search,answer,evaluate")
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    assert len(store.calls("ingest")) == 4


async def test_a_corpus_that_the_service_lost_is_not_ready_and_ingested_again_on_resume(world: World) -> None:
    store = ScriptedStore.install(world)
    await run(world, phases="ingest,index")
    (store.folder / "store.json").write_text("{}")
    lost = await world.resume("r", phases="ingest,index,search,answer,evaluate", concurrency=1)
    assert State.MEASURED not in lost.jobs[0].states
    assert lost.jobs[0].states[State.NOT_READY] == 4
    found = await world.resume("r", phases="ingest,index,search,answer,evaluate")
    assert found.jobs[0].states == {State.MEASURED: 4}
    assert kinds(world, 1)[-2:] == ["failed", "cleared"]
    assert kinds(world, 2)[-1] == "ready"


async def test_a_resume_does_not_wait_for_an_ingested_corpus_if_the_service_has_lost_a_ready_one(
    tmp_path: Path,
) -> None:
    """As in a copy of a workspace whose original run has ended and cleared its namespaces."""
    world = World.make(tmp_path, corpora=2, items=4, sessions=4)
    store = ScriptedStore.install(world, wait='by="sentinel", interval_s=0.01, timeout_s=600')
    await run(world, phases="ingest,index")
    (store.folder / "store.json").write_text("{}")
    with closing(sqlite3.connect(world.workspace / "checkpoints/r/journal.sqlite")) as journal, journal:
        journal.execute("DELETE FROM corpus_row WHERE corpus = 'c1' AND kind = 'ready'")  # as after a kill in the wait
    phases = "ingest,index,search,answer,evaluate"
    with anyio.fail_after(60):
        lost = await world.resume("r", phases=phases)
    assert lost.jobs[0].states[State.NOT_READY] == 8
    for corpus in ("c0", "c1"):
        text = f"nothing of {corpus} is found at scripted any more: the service has lost it since the ingest; "
        assert world.query("r", f"select text from message where text like 'nothing of {corpus}%'") == [
            (f"{text}the next resume ingests it again",)
        ]
    assert (await world.resume("r", phases=phases)).jobs[0].states == {State.MEASURED: 8}


async def test_a_resumed_wait_that_fails_says_since_when_it_waited(world: World) -> None:
    store = ScriptedStore.install(world, wait='by="sentinel", interval_s=0.01, timeout_s=0.4')
    await run(world, phases="ingest")
    (store.folder / "store.json").write_text("{}")
    assert (await world.resume("r", phases="ingest,index,search")).jobs[0].states == {State.NOT_READY: 4}
    assert world.query("r", "select distinct text from message") == [
        ("c0 was not searchable 0.4 s after the resume: searches for its memories found nothing",)
    ]


async def test_the_error_about_a_lost_corpus_says_that_the_next_resume_ingests_it_again(world: World) -> None:
    store = ScriptedStore.install(world)
    await run(world, phases="ingest,index")
    (store.folder / "store.json").write_text("{}")
    await world.resume("r", phases="ingest,index,search,answer,evaluate", concurrency=1)
    lost = "nothing of c0 is found at scripted any more: the service has lost it since the ingest; "
    assert world.query("r", "select text from message where text like 'nothing%'") == [
        (f"{lost}the next resume ingests it again",)
    ]
    await world.resume("r")
    assert await notes(world) == [
        "c0: attempt 1 abandoned; everything is ingested again, including 4 acknowledged memories"
    ]


async def test_the_status_counts_how_corpora_and_items_ended_last_and_no_earlier_attempts(world: World) -> None:
    async def phases() -> object:
        return (await run_status(world.workspace / "checkpoints/r")).phases

    store = ScriptedStore.install(world)
    store.fails("ingest", at=None, error="Rejected")
    await run(world, circuit_breaker=False, answering_model="builtin/extractive")
    assert await phases() == {"ingest": {"rejected": 1}}, "nothing was searched or evaluated"
    store.heal()
    await world.resume("r")
    ended = {"ingest": {"ok": 1}, "index": {"ok": 1}}
    assert await phases() == {**ended, **{key: {"ok": 4} for key in ("search", "answer", "evaluate")}}


async def test_the_status_of_a_run_whose_memories_were_lost_counts_a_corpus_once(world: World) -> None:
    store = ScriptedStore.install(world)
    await run(world, phases="ingest,index")
    (store.folder / "store.json").write_text("{}")
    flags = {"phases": "ingest,index,search,answer,evaluate"}
    await world.resume("r", **flags)
    status = await run_status(world.workspace / "checkpoints/r")
    assert status.phases == {"ingest": {"ok": 1}, "index": {"not_ready": 1}, "search": {"not_ready": 4}}
    await world.resume("r", **flags)
    status = await run_status(world.workspace / "checkpoints/r")
    assert status.phases == {
        "ingest": {"ok": 1}, "index": {"ok": 1}, "search": {"ok": 4}, "evaluate": {"ok": 4},
    }  # fmt: skip


async def notes(world: World) -> list[str]:
    """Return the notes of the report on stops and on abandoned attempts."""
    async with Reader.open(world.workspace / "checkpoints/r") as reader:
        (job,) = (await fold(reader)).jobs
    return [note for note in job.notes if "planned fault" in note or "abandoned" in note]


async def test_a_repaired_stop_and_an_attempt_that_stored_nothing_leave_no_note(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=3, items=4, sessions=4)
    store = ScriptedStore.install(world)
    store.fails("count", at=None, error="AuthError")
    assert (await run(world)).status is RunState.STOPPED
    assert "planned fault" in await notes(world)
    store.heal()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 12}
    assert await notes(world) == []


async def test_corpora_that_are_ingested_again_are_one_note(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=3, items=4, sessions=4)
    ScriptedStore.install(world, durability="process")
    await run(world, phases="ingest,index")
    await world.resume("r", phases="ingest,index,search,answer,evaluate")
    assert await notes(world) == ["an ingest was abandoned and begun again 3 times, including 12 acknowledged memories"]


async def test_a_store_in_process_memory_is_ingested_again_on_resume(world: World) -> None:
    store = ScriptedStore.install(world, durability="process")
    await run(world, phases="ingest,index")
    await world.resume("r", phases="ingest,index,search,answer,evaluate")
    assert len(store.calls("ingest")) == 8
    assert kinds(world, 2)[-1] == "ready"


async def test_a_provider_that_cannot_clear_is_never_asked_to_clear(world: World) -> None:
    store = ScriptedStore.install(world, clears=False)
    store.fails("ingest", at=1, error="Unavailable")
    outcome = await run(world, cleanup="corpus")
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    assert store.calls("clear") == []
    assert "cleared" not in kinds(world, 1)


# ------------------------------------------------------------------ circuit breaker and foreign memories


async def test_twenty_empty_searches_stop_a_job_unless_the_circuit_breaker_is_off(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=30)
    ScriptedStore.install(world)
    text = (world.workspace / "configs/providers/scripted.py").read_text()
    blind = text.replace("hits=hits, requested=query.k, returned=len(found)", "hits=(), requested=query.k, returned=0")
    world.write("configs/providers/scripted.py", blind)
    message = "the first 20 searches of scripted found nothing: check scoping and index in its config"
    stopped = await run(world, isolation="off", concurrency=1)
    assert (stopped.status, stopped.exit_code, stopped.message) == (RunState.STOPPED, 3, message)
    assert stopped.jobs[0].states == {State.MEASURED: 19}, "the twentieth search stopped it"
    assert stopped.jobs[0].stopped == message
    assert world.query("r", "select kind, scope from event where message like '%found nothing%'") == [
        ("job_stopped_circuit_breaker", "facts/scripted|none|none")
    ]
    whole = await run(world, isolation="off", circuit_breaker=False, run_id="s")
    assert (whole.status, whole.jobs[0].states) == (RunState.COMPLETE, {State.MEASURED: 30})
    assert world.query("s", "select kind, scope from event where message like '%found nothing%'") == [
        ("nothing_found", "facts/scripted")
    ]


async def test_one_hit_among_the_first_twenty_searches_keeps_the_job_running(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=30)
    ScriptedStore.install(world)
    text = (world.workspace / "configs/providers/scripted.py").read_text()
    once = text.replace("hits=hits, requested", 'hits=hits if "K0x0?" in query.text else (), requested')
    world.write("configs/providers/scripted.py", once)
    outcome = await run(world, isolation="off", concurrency=1)
    assert (outcome.status, outcome.jobs[0].states) == (RunState.COMPLETE, {State.MEASURED: 30})


async def test_a_namespace_with_memories_before_ingest_is_contaminated(world: World) -> None:
    store = ScriptedStore.install(world)
    text = (world.workspace / "configs/providers/scripted.py").read_text()
    world.write(
        "configs/providers/scripted.py",
        text.replace("return len(self.stored().get(space.namespace, []))", "return 3 + len(self.stored())"),
    )
    outcome = await run(world, max_error_rate=0)
    assert (outcome.jobs[0].states, outcome.exit_code) == ({State.ERROR: 4}, 4)
    assert store.calls("ingest") == []
    ((message,),) = world.query("r", "select text from message")
    assert message.endswith(" held 3 memories before this run added any")
    held = "select kind, passed, json_extract(data, '$.held') from probe"
    assert world.query("r", held) == [("emptiness", 0, 3)]


async def test_a_canary_detects_corpora_that_share_one_store(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=2, items=2)
    ScriptedStore.install(world)
    text = (world.workspace / "configs/providers/scripted.py").read_text()
    shared = text.replace(
        "held = self.stored().get(space.namespace, [])",
        "held = [one for every in self.stored().values() for one in every]",
    )
    world.write("configs/providers/scripted.py", shared)
    outcome = await run(world, isolation="full", ingest_concurrency=1, concurrency=1)
    assert not outcome.jobs[0].valid
    assert outcome.exit_code == 4
    looks = world.query("r", "select corpus, kind, passed from probe order by id")
    assert [one for one in looks if one[1] != "sentinel"] == [
        ("c0", "emptiness", 1), ("c1", "emptiness", 1), ("c1", "canary", 0),
    ], "a count of its own namespace finds nothing"  # fmt: skip
    clean = await run(world, isolation="off", run_id="s")
    assert clean.jobs[0].valid
    assert world.query("s", "select count(*) from probe") == [(0,)]


@pytest.mark.parametrize("isolation", ["off", "probe", "full"])
async def test_only_the_probes_of_the_isolation_level_are_made(world: World, isolation: str) -> None:
    ScriptedStore.install(world)
    assert (await run(world, isolation=isolation)).jobs[0].states == {State.MEASURED: 4}
    wanted = {"off": [], "probe": ["emptiness", "sentinel"], "full": ["emptiness", "sentinel"]}[isolation]
    assert [kind for (kind,) in world.query("r", "select kind from probe")] == wanted, (
        "with one corpus there is no canary"
    )


async def test_a_status_call_is_repeated_until_it_reports_ready(world: World) -> None:
    store = ScriptedStore.install(world, wait='by="status", interval_s=0.01, timeout_s=20')
    text = (world.workspace / "configs/providers/scripted.py").read_text()
    slow = text.replace(
        'return Readiness(state="ready")',
        'n = sum("ready" in one for one in (HERE / "calls.jsonl").read_text().splitlines())\n'
        '        return Readiness(state="ready" if n >= 4 else "pending", captures={"round": n})',
    )
    world.write("configs/providers/scripted.py", slow)
    assert (await run(world)).jobs[0].states == {State.MEASURED: 4}
    assert len(store.calls("ready")) == 4
    ((data, times),) = world.query("r", "select data, times from corpus_row where kind = 'ready'")
    assert '"captures":' in data
    assert {"index", "searchable"} <= set(json.loads(times))


@pytest.mark.parametrize("detail", ["", "the queue is gone"])
async def test_an_index_that_reports_failed_makes_its_items_errors(world: World, detail: str) -> None:
    ScriptedStore.install(world)
    text = (world.workspace / "configs/providers/scripted.py").read_text()
    failing = text.replace('Readiness(state="ready")', f'Readiness(state="failed", detail={detail!r})')
    world.write("configs/providers/scripted.py", failing)
    assert (await run(world)).jobs[0].states == {State.ERROR: 4}
    assert world.query("r", "select text from message") == [(detail or "the provider reports that indexing c0 failed",)]
