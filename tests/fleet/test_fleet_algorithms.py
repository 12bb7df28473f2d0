"""aqrag, contextual-retrieval and openrouter-rag: contract, algorithm and storage."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import ConfigError
from bench.http import recording
from bench.model import Memory, Model, Query, Space
from bench.models import open_model
from bench.providers import Counts, Deletes, Provider, ProviderContext, open_provider
from bench.providers.aqrag import questions
from bench.providers.doctor import examine
from bench.providers.rag.chunks import SENTENCE, bm25, chunks, rank_fusion, ranked, split_after, weighted_sum
from bench.providers.rag.provider import Rag
from bench.providers.rag.settings import Chunking
from tests.contract.running import context_for
from tests.fakes.embeddings import Embeddings, embedding
from tests.fakes.frame import SECRET
from tests.fleet.fleet import CONFIGS

SPACE = Space(namespace="ns/1", run_id="r", benchmark="b", corpus="c")
NAMES = ["aqrag", "contextual-retrieval", "openrouter-rag"]
WHEN = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def shipped(name: str, changes: Mapping[str, object] | None = None) -> ProviderConfig:
    tree = json.loads(json.dumps(Source.read(CONFIGS / f"{name}.yaml").tree, default=str))
    tree["client_embeddings"] = {"model": "openai/words"}
    for block, values in (changes or {}).items():
        tree["local"][block] = values
    return load_provider(Source.parse(json.dumps(tree), CONFIGS / f"{name}.yaml"))


@asynccontextmanager
async def context_of(
    config: ProviderConfig, folder: Path, reply: Callable[[str], str], **more: str
) -> AsyncIterator[ProviderContext]:
    async with Embeddings(reply).running() as fake:
        variables = {**fake.environment(), **more}
        async with context_for(config, folder, variables) as context:

            async def model(name: str) -> Model:
                return open_model(name, http=context.http, environment=context.environment, role="provider")

            yield replace(context, open_model=model)


@asynccontextmanager
async def opened(
    config: ProviderConfig, folder: Path, reply: Callable[[str], str] = lambda asked: "[]", **more: str
) -> AsyncIterator[Provider]:
    async with context_of(config, folder, reply, **more) as context, open_provider(config, context) as provider:
        yield provider


def reply_of_a_good_model(asked: str) -> str:
    """Return what a good model answers to both prompts."""
    return json.dumps({"questions": [f"What about {asked.split()[-5]}?"]}) if "questions" in asked else "In May."


@pytest.mark.parametrize("name", NAMES)
async def test_algorithm_fulfills_the_contract(name: str, tmp_path: Path) -> None:
    config = shipped(name)
    async with context_of(config, tmp_path, reply_of_a_good_model) as context:
        report = await examine(config, context)
    assert [f"{one.name}: {one.detail}" for one in report.checks if one.outcome != "pass"] == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", NAMES)
async def test_algorithm_fulfills_the_contract_in_postgres(name: str, postgres_url: str, tmp_path: Path) -> None:
    config = shipped(name, {"database": {"type": "postgres", "connectionString": "${DATABASE_URL}"}})
    async with context_of(config, tmp_path, reply_of_a_good_model, DATABASE_URL=postgres_url) as context:
        report = await examine(config, context)
    assert [f"{one.name}: {one.detail}" for one in report.checks if one.outcome != "pass"] == []


async def test_aqrag_finds_a_chunk_by_its_generated_questions(tmp_path: Path) -> None:
    def reply(asked: str) -> str:
        about = "allergies" if "peanuts" in asked.partition("<text>")[2] else "housing"
        return json.dumps({"questions": [f"Which {about} are known?"]})

    memories = [Memory(id="m1", content="Ana moved to Lisbon."), Memory(id="m2", content="Bruno avoids peanuts.")]
    async with opened(shipped("aqrag"), tmp_path, reply) as provider:
        await provider.ingest(SPACE, memories)
        found = await provider.search(SPACE, Query(text="Which allergies are known?", k=2))
    assert [hit.source_ids for hit in found.hits] == [("m2",), ("m1",)]
    assert found.hits[0].score == pytest.approx(0.5, abs=1e-6), (
        "half of the score of the best question, none of the chunk"
    )


@pytest.mark.parametrize("message", ["no list", '{"questions": [1, 2]}', "[]", '{"questions": "one"}'])
async def test_aqrag_flags_a_chunk_without_usable_questions_and_still_finds_it(message: str, tmp_path: Path) -> None:
    async with opened(shipped("aqrag"), tmp_path, lambda asked: message) as provider:
        ingested = await provider.ingest(SPACE, [Memory(id="m1", content="Ana moved to Lisbon.")])
        found = await provider.search(SPACE, Query(text="Ana moved to Lisbon.", k=1))
    assert ingested.captures == {"flagged_chunks": [1]}
    assert found.hits[0].score == pytest.approx(1.0, abs=1e-6)


def test_questions_accepts_only_a_json_list_of_texts() -> None:
    assert questions('["a?", " a? ", "b?", ""]') == ("a?", "b?")
    assert questions('{"questions": ["a?"]}') == ("a?",)
    assert questions('Here: ["a?"]') == ()


async def test_model_calls_during_ingest_are_recorded_with_their_usage(tmp_path: Path) -> None:
    with recording() as calls:
        async with opened(shipped("aqrag"), tmp_path, reply_of_a_good_model) as provider:
            await provider.ingest(SPACE, [Memory(id="m1", content="Ana moved to Lisbon in May because of work.")])
    spent = [call for call in calls if call.usage is not None and call.role == "provider"]
    assert len(spent) == 1 and spent[0].usage is not None and spent[0].usage.input_tokens == 10


async def test_contextual_retrieval_indexes_the_context_but_does_not_return_it_as_content(tmp_path: Path) -> None:
    config = shipped("contextual-retrieval")
    async with opened(config, tmp_path, lambda asked: "About harbours and ships.") as provider:
        await provider.ingest(SPACE, [Memory(id="m1", content="It opens at nine.", when=WHEN)])
        found = await provider.search(SPACE, Query(text="ships", k=1))
    assert [(hit.content, hit.when) for hit in found.hits] == [("It opens at nine.", WHEN)]
    assert found.hits[0].metadata == {"context": "About harbours and ships."}


async def test_the_prompt_of_each_chunk_contains_the_whole_document(tmp_path: Path) -> None:
    seen: list[str] = []
    config = shipped("contextual-retrieval", {"chunking": {"size": 10, "overlap": 0, "strategy": "paragraph"}})
    text = "First paragraph about Ana.\n\nSecond paragraph about Bruno."

    def reply(asked: str) -> str:
        seen.append(asked)
        return "place"

    async with opened(config, tmp_path, reply) as provider:
        await provider.ingest(SPACE, [Memory(id="m1", content=text)])
    assert len(seen) == 2 and all(text in one for one in seen)


@pytest.mark.parametrize(("strategy", "first"), [("vector", "m1"), ("weighted", "m1"), ("rrf", "m1")])
async def test_each_retrieval_strategy_ranks_by_relevance_with_scores(
    strategy: str, first: str, tmp_path: Path
) -> None:
    config = shipped("openrouter-rag", {"retrieval": {"strategy": strategy}})
    memories = [Memory(id="m1", content="Ana moved to Lisbon."), Memory(id="m2", content="Bruno avoids peanuts.")]
    async with opened(config, tmp_path) as provider:
        await provider.ingest(SPACE, memories)
        found = await provider.search(SPACE, Query(text="Who moved to Lisbon?", k=5))
    assert found.hits[0].source_ids == (first,)
    assert all(hit.score is not None for hit in found.hits)


async def test_maxResults_limits_hits_below_k(tmp_path: Path) -> None:
    config = shipped("openrouter-rag", {"retrieval": {"strategy": "vector", "maxResults": 1}})
    async with opened(config, tmp_path) as provider:
        await provider.ingest(SPACE, [Memory(id=f"m{i}", content=f"Ana {i}") for i in range(3)])
        assert len((await provider.search(SPACE, Query(text="Ana", k=3))).hits) == 1


async def test_chunks_of_a_memory_have_its_id_and_are_replaced_and_deleted_with_it(tmp_path: Path) -> None:
    config = shipped("openrouter-rag", {"chunking": {"size": 10, "overlap": 0, "strategy": "fixed"}})
    long = "Ana moved to Lisbon. Bruno avoids peanuts. Carla adopted a cat. Dmitri repairs clocks."
    async with opened(config, tmp_path) as provider:
        assert isinstance(provider, Counts) and isinstance(provider, Deletes)
        await provider.ingest(SPACE, [Memory(id="m1", content=long), Memory(id="m2", content="Ana sings.")])
        hits = (await provider.search(SPACE, Query(text="cat", k=10))).hits
        assert {hit.source_ids for hit in hits} == {("m1",), ("m2",)} and "cat" in hits[0].content
        await provider.ingest(SPACE, [Memory(id="m1", content="Short.")])
        assert len((await provider.search(SPACE, Query(text="x", k=10))).hits) == 2
        await provider.delete(SPACE, ["m1"])
        assert await provider.count(SPACE) == 1


async def test_stored_chunks_survive_a_restart_and_an_incomplete_last_line(tmp_path: Path) -> None:
    config = shipped("openrouter-rag")
    async with opened(config, tmp_path) as provider:
        await provider.ingest(SPACE, [Memory(id="m1", content="Ana\u2028moved \ud83d to Lisbon.", session_id="s1")])
        assert provider.durability == "file"
    (file,) = tmp_path.rglob("*.jsonl")
    with file.open("ab") as torn:
        torn.write(b'{"id": "m2#0", "mem')
    async with opened(config, tmp_path) as provider:
        await provider.ingest(SPACE, [Memory(id="m3", content="Bruno")])
    async with opened(config, tmp_path) as provider:
        found = await provider.search(SPACE, Query(text="Lisbon", k=5))
    assert [hit.source_ids for hit in found.hits] == [("m1",), ("m3",)]
    assert found.hits[0].content == "Ana\u2028moved \ud83d to Lisbon."


def test_an_unknown_setting_of_an_algorithm_is_rejected_with_its_line(tmp_path: Path) -> None:
    text = (CONFIGS / "aqrag.yaml").read_text(encoding="utf-8").replace("questionsPerChunk", "questionPerChunk")
    config = load_provider(Source.parse(text, tmp_path / "aqrag.yaml"))
    from bench.providers.adapters import local_of
    from bench.providers.rag.settings import RagLocal

    with pytest.raises(ConfigError, match=r"aqrag\.yaml:\d+:\d+.*questionPerChunk.*questions?_?[pP]er_?[cC]hunk"):
        local_of(config, RagLocal)


def test_the_embedding_block_of_older_configs_sets_the_embedding_model(tmp_path: Path) -> None:
    text = (CONFIGS / "aqrag.yaml").read_text(encoding="utf-8")
    text = text.replace("client_embeddings: {model: openai/text-embedding-3-small}\n", "")
    own = "  embedding: {provider: google, model: gemini-embedding-001, dimensions: 1536}\n"
    text = text.replace("local:\n", f"local:\n{own}")
    config = load_provider(Source.parse(text, tmp_path / "aqrag.yaml"))
    found = config.client_embeddings
    assert found is not None and (found.model, found.dimensions) == ("google/gemini-embedding-001", 1536)


async def test_a_missing_key_of_the_enhancement_model_is_an_error_at_the_start(tmp_path: Path) -> None:
    config = shipped("aqrag", {"enhancement": {"model": "anthropic/claude-3-5-haiku"}})
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        async with opened(config, tmp_path):
            pass


async def test_without_enhancement_no_model_is_opened(tmp_path: Path) -> None:
    config = shipped("aqrag", {"enhancement": {"enabled": False, "model": "anthropic/none"}})
    async with opened(config, tmp_path) as provider:
        assert isinstance(provider, Rag) and provider.model is None
        await provider.ingest(SPACE, [Memory(id="m1", content="Ana")])


# --------------------------------------------------------------- chunking and ranking


async def embed(texts: object) -> list[tuple[float, ...]]:
    assert isinstance(texts, list)
    return [tuple(embedding(text)) for text in texts]


@given(
    st.text(alphabet="ab .\n", max_size=400),
    st.integers(1, 40),
    st.sampled_from(["fixed", "paragraph", "semantic"]),
)
async def test_chunks_join_to_the_text_and_are_at_most_four_times_their_size(
    text: str, size: int, strategy: str
) -> None:
    found = await chunks(text, Chunking(size=size, overlap=0, strategy=strategy), embed)  # type: ignore[arg-type]
    assert "".join(found) == text
    assert all(len(one) <= size * 4 for one in found)


async def test_paragraph_chunks_split_between_paragraphs() -> None:
    text = "First one.\n\nSecond one.\n\nThird one is here."
    found = await chunks(text, Chunking(size=7, overlap=0, strategy="paragraph"), embed)
    assert found == ["First one.\n\nSecond one.\n\n", "Third one is here."]


async def test_semantic_chunks_start_at_a_new_subject() -> None:
    text = "The cat sleeps. The cat eats. The cat plays. Interest rates rose. Interest rates fell. Interest rates held."
    found = await chunks(text, Chunking(size=25, overlap=0, strategy="semantic"), embed)
    assert [one.strip() for one in found] == [text[:44], text[45:]]


def test_split_after_splits_sentences_without_loss() -> None:
    text = "One. Two!  Three?\nFour"
    assert "".join(split_after(text, SENTENCE)) == text and len(split_after(text, SENTENCE)) == 4


def test_bm25_ranks_rare_words_higher_and_omits_texts_without_a_match() -> None:
    texts = {"a": "the cat and the dog", "b": "the the the", "c": "nothing here"}
    scores = bm25("the cat", texts)
    assert ranked(scores) == ["a", "b"] and "c" not in scores


def test_rank_fusion_adds_reciprocal_ranks() -> None:
    scores = rank_fusion({"a": 0.9, "b": 0.1}, {"b": 5.0})
    assert scores == {"a": 1 / 61, "b": 1 / 62 + 1 / 61}


def test_weighted_sum_uses_only_the_first_score_of_a_text_missing_in_the_second() -> None:
    assert weighted_sum({"a": 0.4, "b": 0.8}, {"a": 1.0}, (0.5, 0.5)) == {"a": 0.7, "b": 0.8}


def test_the_config_contains_no_key_of_the_fake() -> None:
    assert SECRET not in (CONFIGS / "aqrag.yaml").read_text(encoding="utf-8")
