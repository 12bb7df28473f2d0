"""A hit of another namespace is proof of a leak: the job is INVALID at the default, and both corpora are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from bench.engine.corpora.anonymizer import AnonymizedCorpus
from bench.engine.corpora.isolation import MOST_KEYS, CorpusNamespace, FirstWriteOrder, Ownership
from bench.journal import Reader
from bench.model import Hit, Memory
from bench.report import fold, results_json
from bench.report.tables import overview
from tests.rows import each_row
from tests.small_world import PROVIDER, World

Worlds = Callable[..., World]
NO_IDS = PROVIDER.replace('scoreField: "$.score"}', 'scoreField: "$.score", id_from: none}')


async def reported(world: World, run_id: str) -> tuple[dict[str, Any], str]:
    """Return the job of ``results --json``, and the notes below the tables."""
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        report = await fold(reader)
    (job,) = results_json(report)["jobs"]  # type: ignore[misc]
    return job, "\n".join(note for grid in overview(report) for note in grid.notes)


@pytest.mark.parametrize("base", [PROVIDER, NO_IDS])
async def test_a_hit_of_another_corpus_makes_the_job_invalid_and_names_both(world_of: Worlds, base: str) -> None:
    world = world_of("search:leak:n=3", corpora=2, items=4)
    world.provider("faulty", base=base)
    outcome = await world.run(providers="faulty", run_id="r")
    assert outcome.exit_code == 4
    job, notes = await reported(world, "r")
    assert job["valid"] is False and job["isolation"]["failed"] > 0
    namespaces = {name for (name,) in world.query("r", "select json_extract(data, '$.namespace') from probe")}
    assert len(namespaces) == 2
    for text in (notes, outcome.jobs[0].invalid or "", job["isolation"]["leaks"][0]):
        assert all(name in text for name in ('corpus "c0"', 'corpus "c1"', *namespaces))


async def test_unmapped_hits_of_the_same_namespace_do_not_make_a_job_invalid(world_of: Worlds) -> None:
    world = world_of("search:over:n=6,pad=1", corpora=2, items=4)
    outcome = await world.run(providers="faulty", run_id="r")
    job, notes = await reported(world, "r")
    assert outcome.exit_code == 0 and job["valid"] is True
    hits, unmapped = job["isolation"]["hits"], job["isolation"]["unmapped_hits"]
    stored = world.query("r", "select sum(json_extract(data, '$.unmapped')) from entry")
    assert 0 < unmapped < hits and stored == [(unmapped,)]
    assert f"{unmapped} of {hits} hits" in notes and "id_from" in notes


async def test_hits_that_are_cut_because_they_exceed_k_are_not_counted_as_unmapped(world_of: Worlds) -> None:
    world = world_of("search:over:n=30,pad=1", corpora=2, items=4)  # 3 memories, then 27 texts without an id
    await world.run(providers="faulty", run_id="r")
    job, notes = await reported(world, "r")
    assert (job["isolation"]["hits"], job["isolation"]["unmapped_hits"]) == (8 * 10, 8 * 7)
    assert "56 of 80 hits (70%) map to no memory" in notes


async def test_no_other_corpus_is_probed_before_the_first_one_was_written(world_of: Worlds) -> None:
    world = world_of("add:latency:ms=60", corpora=3, items=3)
    outcome = await world.run(providers="faulty", run_id="r")
    assert outcome.exit_code == 0
    timeline = world.control("timeline?provider=default")
    first_add = min(end for _, end, endpoint, *_ in timeline if endpoint == "add")
    probes = sorted(start for start, _, endpoint, *_ in timeline if endpoint == "list")
    assert sum(start < first_add for start in probes) == 1 < len(probes)


async def test_when_the_first_corpus_fails_the_next_one_may_write_first() -> None:
    order = FirstWriteOrder()
    await order.wait_for_turn("a")
    with anyio.move_on_after(0.01) as waiting:
        await order.wait_for_turn("b")
    assert waiting.cancelled_caught, "one corpus goes first"
    order.leave("a")
    with anyio.fail_after(60):
        await order.wait_for_turn("b")
        order.done()
        await order.wait_for_turn("c")


def anonymized(corpus: str, *texts: str) -> AnonymizedCorpus:
    """A corpus of these memories."""
    memories = tuple(Memory(id=f"m{corpus}{number}", content=text) for number, text in enumerate(texts))
    return AnonymizedCorpus(memories=memories, _rendered={memory.id: None for memory in memories})  # type: ignore[misc]


def place(corpus: str) -> CorpusNamespace:
    return CorpusNamespace(benchmark="b", corpus=corpus, namespace=f"ns-{corpus}")


SHARED = "Thank you very much, that was a great help to me."
OWN = "The boat in Lisbon harbour is painted green and white."
OTHERS = "The violin stands behind the door of the blue kitchen."


@each_row(
    ("hit", "leaks"),
    [
        (Hit(id="1", content="x", source_ids=("mb0",)), True),
        (Hit(id="1", content="x", source_ids=("ma0", "mb0")), True),
        (Hit(id="mb1#3", content="x"), True),
        (Hit(id="1", content="x", marks=("ns-b",)), True),
        (Hit(id="1", content="x", metadata={"user_id": "ns-b"}), True),
        (Hit(id="1", content=f" {OTHERS}\n"), True),
        (Hit(id="b-0123456789abcdef", content="x"), True),
        (Hit(id="1", content="x", source_ids=("ma0",), metadata={"user_id": "ns-b"}), False),
        (Hit(id="1", content=SHARED), False),
        (Hit(id="1", content=OWN), False),
        (Hit(id="1", content="A fact that the service derived from a conversation."), False),
        (Hit(id="a-0123456789abcdef", content="x"), False),
    ],
)
def test_a_hit_is_a_leak_only_with_an_id_tag_or_text_of_another_corpus(hit: Hit, leaks: bool) -> None:
    known, own = Ownership(), anonymized("a", OWN, SHARED)
    known.register(place("a"), own)
    known.register(place("b"), anonymized("b", OTHERS, SHARED))
    known.register_given(place("a"), {"ma0": ["a-0123456789abcdef"]})
    known.register_given(place("b"), {"mb0": ["b-0123456789abcdef"]})
    found = known.owner_of(hit, place("a"), own)
    assert (found == place("b")) is leaks and (found is None) is not leaks


def test_a_text_inside_a_longer_memory_of_the_corpus_is_not_a_leak() -> None:
    known, own = Ownership(), anonymized("a", f"Ana said: {OTHERS} And then she left.")
    known.register(place("a"), own)
    known.register(place("b"), anonymized("b", OTHERS))
    assert known.owner_of(Hit(id="1", content=OTHERS), place("a"), own) is None


def test_ids_that_repeat_in_every_namespace_are_not_proof_of_a_leak() -> None:
    known, own = Ownership(), anonymized("a", OWN)
    known.register(place("a"), own)
    known.register_given(place("a"), {"ma0": ["memory-0000000000001"]})
    known.register_given(place("b"), {"mb0": ["memory-0000000000001"], "mb1": ["memory-0000000000002"]})
    assert known.owner_of(Hit(id="memory-0000000000002", content="derived"), place("a"), own) is None


def test_ownership_stores_at_most_most_keys_and_finds_the_newest_corpus() -> None:
    known = Ownership()
    for number in range(MOST_KEYS // 1000 + 20):
        known.register(place(f"c{number}"), anonymized(f"c{number}-", *map(str, range(1000))))
    assert len(known._owners) == MOST_KEYS
    last = place(f"c{MOST_KEYS // 1000 + 19}")
    found = known.owner_of(Hit(id="1", content="x", marks=(f"m{last.corpus}-7",)), place("other"), anonymized("other"))
    assert found == last
