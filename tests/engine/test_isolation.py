"""Isolation probes: emptiness, sentinel and canary, with providers of predefined results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets import RenderedMemory
from bench.engine.corpora.anonymizer import AnonymizedCorpus
from bench.engine.corpora.isolation import (
    PROBE_K,
    START_CHARS,
    Sentinel,
    belongs,
    count_found,
    foreign_hits,
    foreign_sample,
    look,
    samples,
    shares_text,
    start_of,
)
from bench.errors import Rejected, Unavailable
from bench.model import Found, Hit, Memory, Query, Space
from tests.rows import each_row

SPACE = Space(namespace="n", run_id="r", benchmark="b", corpus="c", attempt=1)
OWN = ("the first thing that was said", "a longer thing that was said in the middle of it all", "the very last thing")


class FixedResults:
    """A provider whose searches return predefined hits by query text; it records all queries."""

    def __init__(self, found: Mapping[str, Sequence[Hit]] | Exception, *, returned: int | None = None) -> None:
        self.found, self.returned = found, returned
        self.asked: list[Query] = []

    async def search(self, space: Space, query: Query) -> Found:
        assert space is SPACE
        self.asked.append(query)
        if isinstance(self.found, Exception):
            raise self.found
        hits = tuple(self.found.get(query.text, ()))
        return Found(hits=hits, requested=query.k, returned=len(hits) if self.returned is None else self.returned)


class Counting(FixedResults):
    """A provider with predefined results that can also count."""

    counts: Sequence[int] = ()

    async def count(self, space: Space) -> int:
        number, *self.counts = self.counts
        return number


def anonymize(*texts: str) -> AnonymizedCorpus:
    rendered = [
        RenderedMemory(
            memory=Memory(id=f"m{at}", content=text, session_id=f"s{at}"), sessions=(f"s{at}",), turns=(f"t{at}",),
            corpus="c", position=at,
        )
        for at, text in enumerate(texts)
    ]  # fmt: skip
    return AnonymizedCorpus.over("b", "c", rendered)


def hit(text: str, *ids: str) -> Hit:
    return Hit(id="h", content=text, source_ids=ids)


# ------------------------------------------------------------------ queries


@given(st.text(max_size=400))
def test_the_query_of_a_probe_is_the_start_of_the_text(text: str) -> None:
    found = start_of(text)
    assert len(found) <= START_CHARS
    assert text.strip().startswith(found)
    if len(text.strip()) <= START_CHARS:
        assert found == text.strip()


@given(st.lists(st.text(max_size=6), max_size=6))
def test_samples_are_the_last_the_first_and_the_longest_memory_with_text(texts: list[str]) -> None:
    memories = [Memory(id=str(at), content=text) for at, text in enumerate(texts)]
    spoken = [memory for memory in memories if memory.content.strip()]
    chosen = samples(memories)
    assert len({memory.id for memory in chosen}) == len(chosen) <= 3
    if spoken:
        assert chosen[0] is spoken[-1]
        assert spoken[0] in chosen
        assert max(len(memory.content) for memory in spoken) == max(len(memory.content) for memory in chosen)
    else:
        assert chosen == ()


async def test_a_probe_searches_with_k_10_and_an_anonymous_key() -> None:
    provider = FixedResults({})
    await look(provider, SPACE, "x" * 300)  # type: ignore[arg-type]
    (query,) = provider.asked
    assert (query.k, len(query.text)) == (PROBE_K, START_CHARS)
    assert "x" not in query.key


# ------------------------------------------------------------------ emptiness


async def test_emptiness_uses_the_count_of_the_provider() -> None:
    provider = Counting({})
    provider.counts = [7]
    assert await count_found(provider, SPACE, Memory(id="m", content="text")) == 7  # type: ignore[arg-type]
    assert provider.asked == []


@each_row(
    ("hits", "returned", "held"),
    [((), 0, 0), ((), 3, 3), ((hit("anything"),), 1, 1), ((hit("a"), hit("b")), 0, 2)],
)
async def test_without_a_count_emptiness_counts_the_hits_of_a_search(
    hits: Sequence[Hit], returned: int, held: int
) -> None:
    provider = FixedResults({"text": hits}, returned=returned)
    assert await count_found(provider, SPACE, Memory(id="m", content="text")) == held  # type: ignore[arg-type]


async def test_a_rejected_search_means_an_empty_namespace() -> None:
    provider = FixedResults(Rejected("no such collection"))
    assert await count_found(provider, SPACE, Memory(id="m", content="text")) == 0  # type: ignore[arg-type]


async def test_an_unavailable_service_is_not_taken_as_empty() -> None:
    with pytest.raises(Unavailable):
        await count_found(FixedResults(Unavailable("down")), SPACE, Memory(id="m", content="text"))  # type: ignore[arg-type]


# ------------------------------------------------------------------ sentinel


def sentinel(
    provider: FixedResults, *, must_settle: bool = False, anonymized: AnonymizedCorpus | None = None
) -> Sentinel:
    return Sentinel(provider, SPACE, anonymized or anonymize(*OWN), must_settle=must_settle)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", OWN)
async def test_the_sentinel_accepts_any_of_three_memories(text: str) -> None:
    anonymized = anonymize(*OWN)
    ids = {memory.content: memory.id for memory in anonymized.memories}
    assert await sentinel(FixedResults({text: [hit("in other words", ids[text])]}), anonymized=anonymized).found()


@each_row(
    "hits",
    [
        [],
        [hit("in other words", "nobody")],
        [hit("ok")],
        [hit("")],
        [hit("something that was said elsewhere")],
    ],
)
async def test_the_sentinel_rejects_hits_that_map_to_no_memory_of_the_corpus(hits: list[Hit]) -> None:
    provider = FixedResults(dict.fromkeys(OWN, hits))
    assert not await sentinel(provider).found()
    assert [query.text for query in provider.asked] == [OWN[2], OWN[0], OWN[1]]


async def test_the_sentinel_compares_texts_if_hits_have_no_ids() -> None:
    text = f"- {OWN[1].upper().lower()} (noted)"
    assert await sentinel(FixedResults({OWN[1]: [hit(text)]})).found()
    assert await sentinel(FixedResults({OWN[1]: [hit("thing that was said in the middle")]})).found()


async def test_the_sentinel_of_a_corpus_without_text_is_found_at_once() -> None:
    provider = FixedResults({})
    assert await sentinel(provider, anonymized=anonymize("", "  ")).found()
    assert provider.asked == []


async def test_with_must_settle_the_sentinel_needs_the_same_hits_twice() -> None:
    anonymized = anonymize(*OWN)
    own = [hit("x", anonymized.memories[0].id)]
    provider = FixedResults(dict.fromkeys(OWN, own))
    watched = sentinel(provider, must_settle=True, anonymized=anonymized)
    assert not await watched.found()
    provider.found = {key: [*own, replace(own[0], id="h2")] for key in OWN}
    assert not await watched.found(), "the results still changed"
    assert await watched.found()


async def test_with_must_settle_the_sentinel_needs_a_stable_count() -> None:
    anonymized = anonymize(*OWN)
    provider = Counting({key: [hit("x", anonymized.memories[0].id)] for key in OWN})
    provider.counts = [1, 2, 3, 3]
    watched = sentinel(provider, must_settle=True, anonymized=anonymized)
    assert [await watched.found() for _ in range(4)] == [False, False, False, True]


# ------------------------------------------------------------------ canary


def test_the_canary_text_is_not_in_the_corpus_itself() -> None:
    anonymized = anonymize(*OWN)
    shared, foreign = Memory(id="o1", content=OWN[0]), Memory(id="o2", content="what another corpus was text once")
    assert foreign_sample(anonymized, [shared, foreign]) is foreign
    assert foreign_sample(anonymized, [shared]) is None
    assert foreign_sample(anonymized, []) is None


async def test_a_canary_that_finds_own_memories_reports_nothing() -> None:
    anonymized, other = anonymize(*OWN), Memory(id="o", content="what another corpus was text once")
    own = hit(OWN[0], anonymized.memories[0].id)
    assert await foreign_hits(FixedResults({other.content: [own]}), SPACE, anonymized, other) == []  # type: ignore[arg-type]
    assert await foreign_hits(FixedResults({}), SPACE, anonymized, other) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "found",
    [
        hit("what another corpus was text once"),
        hit("it is noted: what another corpus was text once, and more"),
        hit("in other words", "nobody-of-this-corpus"),
    ],
)
async def test_a_canary_reports_hits_with_its_text_or_foreign_ids(found: Hit) -> None:
    anonymized, other = anonymize(*OWN), Memory(id="o", content="what another corpus was text once")
    own = hit(OWN[0], anonymized.memories[0].id)
    assert await foreign_hits(FixedResults({other.content: [own, found]}), SPACE, anonymized, other) == [found]  # type: ignore[arg-type]


# ------------------------------------------------------------------ ownership of hits


@given(st.text(max_size=30), st.text(max_size=30))
def test_shares_text_is_symmetric(one: str, other: str) -> None:
    assert shares_text(one, other) == shares_text(other, one)
    assert shares_text(one, one) == bool(one.strip())


def test_ids_decide_before_texts_whether_a_hit_belongs_to_the_corpus() -> None:
    anonymized = anonymize(*OWN)
    assert belongs(anonymized, hit("entirely else", anonymized.memories[1].id))
    assert not belongs(anonymized, hit(OWN[1], "nobody")), "its id belongs to another corpus"
