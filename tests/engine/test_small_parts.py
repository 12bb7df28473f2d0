"""Small parts of the engine: context, anonymizer, corpus state and work queue."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
from hypothesis import example, given
from hypothesis import strategies as st

from bench.datasets import RenderedMemory
from bench.engine.corpora.anonymizer import AnonymizedCorpus, opaque_id
from bench.engine.corpora.corpus_state import CorpusState, Step
from bench.engine.corpora.isolation import shares_text, start_of
from bench.engine.items.answer import fill_context
from bench.engine.items.phase_results import AnswerResult, SearchResult
from bench.engine.work_queue import WorkQueue
from bench.journal import CorpusKind, CorpusRow, JournaledPhase, Key
from bench.model import Completion, Hit, Memory, Phase, Usage
from bench.tokens import count_tokens, token_quarters
from tests.rows import each_row

TEXTS = st.lists(st.text(max_size=60), max_size=8)


def hits_of(texts: list[str]) -> list[Hit]:
    return [Hit(id=str(at), content=text) for at, text in enumerate(texts)]


@given(TEXTS, st.integers(1, 40))
@example(["Lund", "Oslo"], 2)
def test_a_context_never_exceeds_its_budget_and_is_a_prefix_of_the_hits(texts: list[str], budget: int) -> None:
    context = fill_context(hits_of(texts), budget_tokens=budget, dated=False)
    assert context.tokens <= budget
    assert token_quarters(context.text) <= budget * 4
    assert list(context.texts[1:]) == texts[1 : len(context.texts)]


@given(TEXTS)
def test_with_a_large_budget_the_context_has_all_hits(texts: list[str]) -> None:
    assert fill_context(hits_of(texts), budget_tokens=10_000, dated=False).texts == tuple(texts)


def test_the_date_of_a_hit_is_added_only_if_the_text_has_none() -> None:
    hit = Hit(id="1", content="tea", when=datetime(2024, 5, 1, 9, 30, tzinfo=UTC))
    assert fill_context([hit], budget_tokens=100, dated=True).text == "[2024-05-01 09:30] tea"
    assert fill_context([hit], budget_tokens=100, dated=False).text == "tea"


def test_count_tokens_is_a_quarter_of_the_characters_rounded_up() -> None:
    assert [count_tokens("x" * n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]


def anonymize(*ids: str) -> AnonymizedCorpus:
    rendered = [
        RenderedMemory(
            memory=Memory(id=name, content=f"text of {name}", session_id=name),
            sessions=(name,),
            turns=(f"{name}#1",),
            corpus="answer_corpus",
            position=at,
        )
        for at, name in enumerate(ids, 1)
    ]
    return AnonymizedCorpus.over("b", "answer_corpus", rendered)


def test_anonymized_ids_do_not_contain_dataset_ids() -> None:
    anonymized = anonymize("answer_1", "answer_2")
    shown = repr([(memory.id, memory.session_id) for memory in anonymized.memories])
    assert "answer" not in shown
    assert [one.sessions for one in anonymized.sources([memory.id for memory in anonymized.memories])] == [
        ("answer_1",),
        ("answer_2",),
    ]


def test_chunk_ids_map_to_their_memory_and_unknown_ids_to_none() -> None:
    anonymized = anonymize("a", "b")
    first = anonymized.memories[0].id
    assert [one.sessions for one in anonymized.sources([f"{first}#3", f"{first}#0", "other"])] == [("a",)]
    assert not anonymized.knows(["other"])


@given(st.text(), st.text())
def test_opaque_ids_are_equal_only_for_equal_names(one: str, other: str) -> None:
    assert (opaque_id("m", one) == opaque_id("m", other)) == (one == other)


def rows(*kinds: CorpusKind, attempt: int = 1, clean: bool = False) -> list[CorpusRow]:
    return [
        CorpusRow(lane="l", corpus="c", attempt=attempt, kind=kind, data={"batch": at, "clean": clean})
        for at, kind in enumerate(kinds)
    ]


K = CorpusKind


@each_row(
    ("known", "step"),
    [
        ([], Step.BEGIN),
        (rows(K.INTENT), Step.DOUBT),
        (rows(K.INTENT, K.BATCH), Step.DOUBT),
        (rows(K.BATCH, K.CLEAN_STOP), Step.CONTINUE),
        (rows(K.BATCH, K.FAILED, clean=True), Step.CONTINUE),
        (rows(K.BATCH, K.FAILED), Step.RESET),
        (rows(K.BATCH, K.INGESTED), Step.WAIT),
        (rows(K.INGESTED, K.FAILED, clean=True), Step.WAIT),
        (rows(K.INGESTED, K.FAILED), Step.RESET),
        (rows(K.INGESTED, K.READY), Step.USE),
        (rows(K.INGESTED, K.READY, K.CLEARED), Step.RESET),
        ([*rows(K.READY), *rows(K.INTENT, attempt=2)], Step.DOUBT),
    ],
)
def test_the_next_step_of_a_corpus_follows_from_its_journal_rows(known: list[CorpusRow], step: Step) -> None:
    assert CorpusState.of(known).next_step(durability="service", resumed=True) is step


def test_a_ready_corpus_in_process_memory_is_reset_on_resume() -> None:
    history = CorpusState.of(rows(K.INGESTED, K.READY))
    assert history.next_step(durability="process", resumed=True) is Step.RESET
    assert history.next_step(durability="process", resumed=False) is Step.USE


async def test_a_work_queue_returns_each_item_once_and_ends() -> None:
    queue: WorkQueue[str, int] = WorkQueue(bound=2)
    taken: list[tuple[str, int]] = []

    async def give() -> None:
        for name in "abcdef":
            await queue.put(name, iter(range(3)))
        queue.close()

    async def take() -> None:
        while (work := await queue.take()) is not None:
            taken.append(work)
            await anyio.sleep(0)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(give)
        for _ in range(4):
            tasks.start_soon(take)
    assert sorted(taken) == [(name, number) for name in "abcdef" for number in range(3)]


async def test_a_full_work_queue_makes_producers_wait() -> None:
    queue: WorkQueue[str, int] = WorkQueue(bound=1)
    await queue.put("a", iter([1]))
    with anyio.move_on_after(0.05) as waited:
        await queue.put("b", iter([1]))
    assert waited.cancelled_caught


def test_the_start_of_a_text_is_cut_at_a_word() -> None:
    assert start_of("word " * 100).split() == ["word"] * 39
    assert len(start_of("x" * 500)) == 200


def test_short_common_texts_do_not_count_as_shared() -> None:
    assert not shares_text("ok", "this is ok as it is")
    assert shares_text("the vault opens with seven", "He answer: the vault opens with seven.")


def test_search_and_answer_results_are_unchanged_by_the_journal() -> None:
    when = datetime(2024, 1, 1, tzinfo=UTC)
    hits = (Hit(id="h", content="c", score=0.5, when=when, chunks=("x",), metadata={"a": 1}), Hit(id="i", content="d"))
    found = SearchResult(hits=hits, retrieved=(("s",), ()), requested=2, returned=5, unmapped=1, flags=("unmapped",))
    key = Key(owner="l", phase=Phase.SEARCH, corpus="c", unit="q")
    entry = JournaledPhase(key=key, data=found.data, measured=found.measured, payloads=found.payloads)
    assert SearchResult.of(entry) == found
    assert SearchResult.of(JournaledPhase(key=key, data=found.data)) is None
    reply = Completion(text="t", model="m", usage=Usage(input_tokens=5, output_tokens=2), flags=("cached",))
    answer = AnswerResult(reply=reply, context_hits=1, prompt="default", prompt_sha256="0")
    assert AnswerResult.of(JournaledPhase(key=key, data=answer.data, measured=answer.measured)) == answer
