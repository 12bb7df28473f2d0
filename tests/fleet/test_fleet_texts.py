"""Texts arrive unchanged through each shipped config, and rules of the config format that these need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.model import Memory, Space
from bench.providers import Finishes, Prepares
from tests.fakes.frame import Fake
from tests.fleet.fleet import FAKES, opened_at
from tests.laws import examples
from tests.providers.declared import playing

TEXTS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60)
WORDS = TEXTS.filter(lambda text: bool(text.strip()))


def held(fake: Fake) -> set[str]:
    """Return all texts that a fake has stored."""
    docs = [doc for space in fake.shelf.spaces.values() for doc in space.values()]
    docs += [doc for waiting in getattr(fake, "buffered", {}).values() for doc in waiting]
    return {doc.content or str(doc.metadata.get("content")) for doc in docs}


@pytest.mark.parametrize("name", sorted(FAKES))
@settings(max_examples=examples(4), suppress_health_check=list(HealthCheck))
@given(texts=st.lists(WORDS, min_size=1, max_size=6, unique=True))
async def test_each_config_sends_any_text_unchanged(name: str, texts: list[str], tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path) as provider:
        space = Space(namespace="Bench_n", run_id="r", benchmark="b", corpus="c")
        if isinstance(provider, Prepares):
            captures = await provider.prepare(space)
            space = Space(namespace="Bench_n", run_id="r", benchmark="b", corpus="c", captures=captures)
        for index, text in enumerate(texts):
            ingested = await provider.ingest(space, [Memory(id=f"m{index}", content=text)])
        if isinstance(provider, Finishes):
            await provider.finish(_with(space, ingested.captures), ingested)
        assert set(texts) <= held(fake)


def _with(space: Space, more: Mapping[str, object]) -> Space:
    return Space(namespace="Bench_n", run_id="r", benchmark="b", corpus="c", captures={**space.captures, **more})


async def test_several_ids_of_one_memory_map_to_its_id() -> None:
    """Services that extract return several ids for one memory."""
    changes = {"endpoints.add.response": {"id_map": {"name": "parts", "key": "$.made[*].id", "value": "sent"}}}
    async with playing(changes, {"POST /add": {"made": [{"id": "x1"}, {"id": "x2"}]}}) as acme:
        got = await acme.add("Ana moved and sings.")
    assert got.captures["parts"] == {"x1": "m0", "x2": "m0"}
    assert got.ids == {"m0": ("x1", "x2")}


async def test_uuids_made_by_bench_map_to_the_memory_and_are_sent_by_clear() -> None:
    changes = {
        "endpoints.add.body": {"id": "$.uuid", "text": "$.content"},
        "endpoints.add.response": {"id_map": {"name": "own", "key": "uuid", "value": "sent"}},
        "endpoints.clear": {"method": "POST", "path": "/drop", "body": {"ids": "$.ids"}},
    }
    async with playing(changes) as acme:
        await acme.add("Ana")
        sent = acme.body("POST /add")
        await acme.provider.clear(acme.space)
        assert isinstance(sent, dict)
        assert acme.space.captures["own"] == {sent["id"]: "m0"}
        assert acme.body("POST /drop") == {"ids": [sent["id"]]}


async def test_error_when_applies_only_to_successful_responses() -> None:
    """A 404 in ``treat_as_ok`` may have a body that reports an error."""
    changes = {"errors": {"error_when": [{"path": "$.errno", "not_equals": 0}]}}
    async with playing(changes, {"DELETE /users/ns%2F1%20%C3%BC": (404, {"errno": 404})}) as acme:
        assert await acme.provider.clear(acme.space) is None
