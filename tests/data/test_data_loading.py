"""The shipped configs load the shipped files completely."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.datasets import Dataset, open_benchmark
from bench.errors import DataError
from bench.metrics import resolve
from tests.data.demo_text import Conversation, answers, evidence, line

SHIPPED = ("demo", "demo-deletion", "rag-template", "legal-rag", "financial-rag", "code-rag")
Open = Callable[[str], Dataset]


@pytest.fixture(scope="module")
def opened(root: Path) -> Open:
    catalog, known = Catalog.load(root), {}

    def load(name: str) -> Dataset:
        if name not in known:
            known[name] = open_benchmark(catalog.benchmark(name), root)
        return known[name]

    return load


@pytest.mark.parametrize(
    ("name", "items", "corpora", "memories"),
    [
        ("demo", 160, 8, 576),
        ("demo-deletion", 10, 2, 10),
        ("rag-template", 20, 1, 30),
        ("legal-rag", 20, 1, 25),
        ("financial-rag", 20, 1, 25),
        ("code-rag", 20, 1, 24),
    ],
)
def test_a_shipped_benchmark_has_its_items_and_memories(
    opened: Open, name: str, items: int, corpora: int, memories: int
) -> None:
    counts = opened(name).counts
    assert (counts.items, counts.corpora, counts.memories) == (items, corpora, memories)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_evidence_has_no_flags(opened: Open, name: str) -> None:
    assert not [flag for flag, n in opened(name).counts.flags.items() if n and flag.startswith("evidence")]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_evidence_turn_is_sent(opened: Open, name: str) -> None:
    dataset = opened(name)
    assert not [gap for corpus in dataset.corpora() for gap in dataset.coverage_gaps(corpus)]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_metric_of_a_shipped_config_resolves(opened: Open, name: str) -> None:
    assert opened(name).config.metrics
    for metric in opened(name).config.metrics:
        assert isinstance(metric, str)
        assert resolve(metric).definition


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_benchmarks_have_license_and_tags_and_no_marks(opened: Open, name: str) -> None:
    config = opened(name).config
    assert config.license == "CC0-1.0"
    assert {"built-in", "keyless"} <= set(config.tags)
    assert config.marks == ()


def test_rag_template_is_found_by_its_long_name(root: Path) -> None:
    assert Catalog.load(root).benchmark("RAG-template-benchmark").name == "rag-template"


def test_demo_items_equal_the_rows_of_the_file(opened: Open, conversations: list[Conversation]) -> None:
    dataset = opened("demo")
    for talk in conversations:
        for question in talk.questions:
            item = dataset.item(str(question["id"]))
            assert (item.corpus, item.question, item.question_type) == (talk.id, question["question"], question["type"])
            assert list(item.answers) == answers(question)
            assert set(item.evidence.turns) == set(evidence(question))
            assert list(item.rubric) == question["rubric"]
            assert item.abstention == (question["type"] == "abstention")
            assert item.question_date is not None


def test_demo_sessions_are_sorted_by_time(opened: Open, conversations: list[Conversation]) -> None:
    dataset = opened("demo")
    for talk in conversations:
        sessions = dataset.corpus(talk.id).sessions
        assert [session.when.replace(tzinfo=None) for session in sessions if session.when] == sorted(talk.instants)


def test_the_second_session_of_a_repeated_id_is_renamed(opened: Open) -> None:
    dataset = opened("demo")
    assert [s.id for s in dataset.corpus("jonas").sessions if s.id.startswith("a8")] == ["a8", "a8~2"]
    item = next(dataset.item(ref) for ref in dataset.items() if "six coffees" in dataset.item(ref).question)
    assert item.evidence.sessions == ("a8", "a8~2")


def test_demo_memories_are_turns_with_speaker_and_caption(opened: Open, conversations: list[Conversation]) -> None:
    dataset = opened("demo")
    for talk in conversations:
        sent = {memory.memory.content for memory in dataset.memories(talk.id)}
        assert sent == {line(turn) for turn in talk.turns.values()}


def test_a_report_passage_without_question_is_ingested_but_not_an_item(opened: Open) -> None:
    dataset = opened("financial-rag")
    (corpus,) = dataset.corpora()
    sessions = {session.id for session in dataset.corpus(corpus).sessions}
    items = {ref.id for ref in dataset.items()}
    assert sessions - items == {"P05", "P10", "P15", "P20", "P25"}


def test_every_deletion_names_a_note_of_its_corpus(opened: Open) -> None:
    dataset = opened("demo-deletion")
    for ref in dataset.items():
        item = dataset.item(ref)
        assert item.deletion is not None
        assert item.deletion.target in {session.id for session in dataset.corpus(ref.corpus).sessions}
        assert item.deletion.deleted_content
        assert item.question == item.deletion.verify_query


RULES = """
name: notes
version: "1"
data: {type: local, path: ./notes.jsonl, format: jsonl}
schema: {itemId: id, question: q, answer: a, context: {field: text, type: string}}
corpus: {field: shelf}
evaluation: {method: contains}
metrics: [accuracy]
"""


@pytest.mark.parametrize("question", ["null", '"  "'])
def test_only_an_empty_question_in_a_shared_corpus_is_a_document(tmp_path: Path, question: str) -> None:
    (tmp_path / "notes.yaml").write_text(RULES)
    rows = ['{"id": "1", "shelf": "s", "text": "Tea.", "q": "What?", "a": "Tea"}']
    rows.append('{"id": "2", "shelf": "s", "text": "Coffee.", "q": "", "a": null}')
    (tmp_path / "notes.jsonl").write_text("\n".join(rows))
    config = Catalog.load(tmp_path).read_benchmark(tmp_path / "notes.yaml")
    dataset = open_benchmark(config, tmp_path)
    assert [ref.id for ref in dataset.items()] == ["1"]
    assert [memory.memory.content for memory in dataset.memories("s")] == ["Tea.", "Coffee."]

    rows[1] = rows[1].replace('"q": ""', f'"q": {question}')
    (tmp_path / "notes.jsonl").write_text("\n".join(rows))
    with pytest.raises(DataError):
        open_benchmark(config, tmp_path)
