"""Three looks that keep corpora apart, each at a provider that shows what it is told to show."""

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


class Shows:
    """A provider whose searches give what a table of texts says; every query is kept."""

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


class Counting(Shows):
    """One that can also count."""

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


# ------------------------------------------------------------------ what is looked for


@given(st.text(max_size=400))
def test_a_look_asks_for_whole_words_from_the_start(text: str) -> None:
    found = start_of(text)
    assert len(found) <= START_CHARS
    assert text.strip().startswith(found)
    if len(text.strip()) <= START_CHARS:
        assert found == text.strip()


@given(st.lists(st.text(max_size=6), max_size=6))
def test_a_sample_is_the_last_the_first_and_the_longest_with_text(texts: list[str]) -> None:
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


async def test_a_look_is_of_ten_hits_and_its_key_shows_nothing() -> None:
    provider = Shows({})
    await look(provider, SPACE, "x" * 300)  # type: ignore[arg-type]
    (query,) = provider.asked
    assert (query.k, len(query.text)) == (PROBE_K, START_CHARS)
    assert "x" not in query.key


# ------------------------------------------------------------------ emptiness


async def test_a_count_says_what_a_namespace_holds() -> None:
    provider = Counting({})
    provider.counts = [7]
    assert await count_found(provider, SPACE, Memory(id="m", content="text")) == 7  # type: ignore[arg-type]
    assert provider.asked == []


@each_row(
    ("hits", "returned", "held"),
    [((), 0, 0), ((), 3, 3), ((hit("anything"),), 1, 1), ((hit("a"), hit("b")), 0, 2)],
)
async def test_without_a_count_any_hit_counts_mapped_or_not(hits: Sequence[Hit], returned: int, held: int) -> None:
    provider = Shows({"text": hits}, returned=returned)
    assert await count_found(provider, SPACE, Memory(id="m", content="text")) == held  # type: ignore[arg-type]


async def test_a_namespace_that_does_not_exist_holds_nothing() -> None:
    provider = Shows(Rejected("no such collection"))
    assert await count_found(provider, SPACE, Memory(id="m", content="text")) == 0  # type: ignore[arg-type]


async def test_a_service_that_is_down_has_not_said_that_it_is_empty() -> None:
    with pytest.raises(Unavailable):
        await count_found(Shows(Unavailable("down")), SPACE, Memory(id="m", content="text"))  # type: ignore[arg-type]


# ------------------------------------------------------------------ sentinel


def sentinel(provider: Shows, *, must_settle: bool = False, anonymized: AnonymizedCorpus | None = None) -> Sentinel:
    return Sentinel(provider, SPACE, anonymized or anonymize(*OWN), must_settle=must_settle)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", OWN)
async def test_any_of_the_three_may_be_found(text: str) -> None:
    anonymized = anonymize(*OWN)
    ids = {memory.content: memory.id for memory in anonymized.memories}
    assert await sentinel(Shows({text: [hit("in other words", ids[text])]}), anonymized=anonymized).found()


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
async def test_what_maps_to_no_memory_of_the_corpus_is_not_found(hits: list[Hit]) -> None:
    provider = Shows(dict.fromkeys(OWN, hits))
    assert not await sentinel(provider).found()
    assert [query.text for query in provider.asked] == [OWN[2], OWN[0], OWN[1]]


async def test_without_ids_the_text_tells() -> None:
    told = f"- {OWN[1].upper().lower()} (noted)"
    assert await sentinel(Shows({OWN[1]: [hit(told)]})).found()
    assert await sentinel(Shows({OWN[1]: [hit("thing that was said in the middle")]})).found()


async def test_a_corpus_without_text_is_found_at_once() -> None:
    provider = Shows({})
    assert await sentinel(provider, anonymized=anonymize("", "  ")).found()
    assert provider.asked == []


async def test_where_only_a_read_tells_the_same_must_come_twice() -> None:
    anonymized = anonymize(*OWN)
    own = [hit("x", anonymized.memories[0].id)]
    provider = Shows(dict.fromkeys(OWN, own))
    watched = sentinel(provider, must_settle=True, anonymized=anonymized)
    assert not await watched.found()
    provider.found = {key: [*own, replace(own[0], id="h2")] for key in OWN}
    assert not await watched.found(), "one more came meanwhile"
    assert await watched.found()


async def test_a_count_must_stand_still_where_there_is_one() -> None:
    anonymized = anonymize(*OWN)
    provider = Counting({key: [hit("x", anonymized.memories[0].id)] for key in OWN})
    provider.counts = [1, 2, 3, 3]
    watched = sentinel(provider, must_settle=True, anonymized=anonymized)
    assert [await watched.found() for _ in range(4)] == [False, False, False, True]


# ------------------------------------------------------------------ canary


def test_the_text_of_a_canary_is_one_that_the_corpus_does_not_hold_itself() -> None:
    anonymized = anonymize(*OWN)
    shared, foreign = Memory(id="o1", content=OWN[0]), Memory(id="o2", content="what another corpus was told once")
    assert foreign_sample(anonymized, [shared, foreign]) is foreign
    assert foreign_sample(anonymized, [shared]) is None
    assert foreign_sample(anonymized, []) is None


async def test_a_canary_that_finds_only_own_memories_found_no_stranger() -> None:
    anonymized, other = anonymize(*OWN), Memory(id="o", content="what another corpus was told once")
    own = hit(OWN[0], anonymized.memories[0].id)
    assert await foreign_hits(Shows({other.content: [own]}), SPACE, anonymized, other) == []  # type: ignore[arg-type]
    assert await foreign_hits(Shows({}), SPACE, anonymized, other) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "found",
    [
        hit("what another corpus was told once"),
        hit("it is noted: what another corpus was told once, and more"),
        hit("in other words", "nobody-of-this-corpus"),
    ],
)
async def test_a_canary_that_is_found_or_maps_to_nobody_here_is_a_stranger(found: Hit) -> None:
    anonymized, other = anonymize(*OWN), Memory(id="o", content="what another corpus was told once")
    own = hit(OWN[0], anonymized.memories[0].id)
    assert await foreign_hits(Shows({other.content: [own, found]}), SPACE, anonymized, other) == [found]  # type: ignore[arg-type]


# ------------------------------------------------------------------ whose is it


@given(st.text(max_size=30), st.text(max_size=30))
def test_two_texts_share_in_either_order(one: str, other: str) -> None:
    assert shares_text(one, other) == shares_text(other, one)
    assert shares_text(one, one) == bool(one.strip())


def test_ids_go_before_texts() -> None:
    anonymized = anonymize(*OWN)
    assert belongs(anonymized, hit("entirely else", anonymized.memories[1].id))
    assert not belongs(anonymized, hit(OWN[1], "nobody")), "it says itself that it is another's"
