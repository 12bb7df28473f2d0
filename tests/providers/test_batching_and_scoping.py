"""Splitting memories into pieces and batches, and names of namespaces."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from bench.config.provider.config import ProviderConfig
from bench.model import Memory
from bench.providers import Batching
from bench.providers.batching import batches, pieces, split_text, whole_id
from bench.providers.namespaces import namespace
from tests.providers.declared import declared

contents = st.lists(st.text(max_size=40), max_size=12)


def memories(texts: list[str]) -> list[Memory]:
    return [Memory(id=f"m{index}", content=text) for index, text in enumerate(texts)]


@given(
    texts=contents,
    items=st.none() | st.integers(1, 5),
    octets=st.none() | st.integers(1, 60),
    wanted=st.none() | st.integers(1, 5),
)
def test_batches_contain_every_memory_in_order_within_the_limits(
    texts: list[str], items: int | None, octets: int | None, wanted: int | None
) -> None:
    given_ = memories(texts)
    found = list(batches(given_, Batching(max_items=items, max_bytes=octets), wanted=wanted))
    assert [memory for batch in found for memory in batch] == given_
    for batch in found:
        assert 0 < len(batch) <= min(items or 99, wanted or items or 1)
        assert (
            len(batch) == 1
            or octets is None
            or sum(len(one.content.encode("utf-8", "replace")) for one in batch) <= octets
        )


@given(text=st.text(max_size=300), size=st.integers(1, 50))
def test_pieces_without_overlap_join_to_the_text(text: str, size: int) -> None:
    found = split_text(text, size)
    assert "".join(found) == text
    assert all(len(piece) <= size for piece in found)


@given(text=st.text(max_size=200), size=st.integers(2, 40), overlap=st.integers(0, 20))
def test_pieces_with_overlap_reach_the_end_within_their_size(text: str, size: int, overlap: int) -> None:
    found = split_text(text, size, min(overlap, size - 1))
    assert all(len(piece) <= size for piece in found)
    assert found[-1] == text[len(text) - len(found[-1]) :]


def test_split_text_prefers_paragraphs_then_sentences_then_words() -> None:
    assert split_text("One two. Three.\n\nFour five six.", 24) == ["One two. Three.\n\n", "Four five six."]
    assert split_text("One two three four. Five six", 24) == ["One two three four. ", "Five six"]
    assert split_text("alpha beta gamma delta", 12) == ["alpha beta ", "gamma delta"]


def test_pieces_are_numbered_and_whole_id_returns_the_memory_id() -> None:
    long = Memory(id="a", content="x" * 25, role="user")
    found = list(pieces([long, Memory(id="b", content="y")], Batching(split_chars=10)))
    assert [memory.id for memory in found] == ["a#0", "a#1", "a#2", "b"]
    assert {whole_id(memory.id) for memory in found} == {"a", "b"}
    assert found[0].role == "user"
    assert whole_id("odd#name") == "odd#name"


def name(config: ProviderConfig, **changes: object) -> str:
    values: dict[str, object] = {"journal": "j1", "run_id": "r1", "benchmark": "locomo"}
    values |= {"lane": "l", "corpus": "c", "attempt": 1}
    return namespace(config, **{**values, **changes})  # type: ignore[arg-type]


def test_a_namespace_has_a_readable_prefix_and_a_hash() -> None:
    config = declared({})
    assert re.fullmatch(r"bench-locomo-r1-[0-9a-f]{16}", name(config))
    assert name(config) == name(config)
    changed = ({"journal": "j2"}, {"run_id": "r2"}, {"lane": "m"}, {"corpus": "d"}, {"attempt": 2})
    assert len({name(config), *(name(config, **change) for change in changed)}) == 6


def test_a_namespace_without_journal_id_is_the_same_as_in_earlier_versions() -> None:
    assert name(declared({}), journal="") == "bench-locomo-r1-0b7501176c3d0c95"


def test_a_namespace_follows_runIdFormat_and_sanitize() -> None:
    config = declared({"scoping.runIdFormat": "T-${corpusId}-${attempt}"})
    assert name(config, corpus="conv 26/ü").startswith("T-conv-26---1-")
    strict = declared({"scoping.sanitize": {"allowed": "a-z0-9_", "replace": "_", "max_length": 24, "lowercase": True}})
    assert re.fullmatch(r"[a-z0-9_]{24}", name(strict))


@given(prefix=st.text(max_size=80), length=st.integers(24, 90))
def test_a_namespace_is_within_max_length_and_ends_with_its_hash(prefix: str, length: int) -> None:
    config = declared({"scoping.sanitize": {"max_length": length}})
    first, second = name(config, benchmark=prefix), name(config, benchmark=prefix, corpus="other")
    assert len(first) <= length
    assert re.fullmatch(r"[A-Za-z0-9._-]+", first)
    assert first[-16:] != second[-16:]
