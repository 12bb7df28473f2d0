"""Memories in every unit and form: their texts, the ids of hits, and evidence coverage."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.catalog import Catalog
from bench.config.template import iso_utc
from bench.datasets import Dataset, Selection, coverage_gaps, ids_at_level, memories, ranked_ids, require_coverage
from bench.datasets.dataset_json import describe, item_lines, memory_lines
from bench.datasets.dates import DateReader
from bench.datasets.evidence import CoverageGap
from bench.datasets.memories import RenderedMemory
from bench.errors import DataError, UsageError
from bench.model import Corpus, Evidence, Item, Memory, Session, Turn
from bench.visible_text import is_blank
from tests.datasets.conftest import CHAT, Workspace, row, turn

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkConfig:
    """Return a config with defaults."""
    workspace = Workspace(tmp_path_factory.mktemp("plain"))
    workspace.yaml("chat", CHAT.format(name="chat"))
    return Catalog.load(workspace.root).benchmark("chat")


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    """Return corpora of up to three sessions of up to three turns."""
    sessions = []
    for number in range(draw(st.integers(0, 3))):
        texts = draw(st.lists(TEXTS, max_size=3))
        turns = tuple(Turn(id=f"s{number}#{at}", text=text, role="user") for at, text in enumerate(texts, 1))
        when = DateReader("UTC").read(f"2024-01-0{number + 1}")
        sessions.append(Session(id=f"s{number}", turns=turns, when=when, date_text=f"2024-01-0{number + 1}"))
    return Corpus(id="c", sessions=tuple(sessions))


@given(corpora())
def test_every_unit_contains_each_nonblank_turn_once_and_in_order(plain: BenchmarkConfig, corpus: Corpus) -> None:
    turns = [turn.id for session in corpus.sessions for turn in session.turns if not is_blank(turn.text)]
    for unit in ("turn", "session", "corpus"):
        rendered = memories(plain, corpus, unit=unit)
        assert [name for entry in rendered for name in entry.turns] == turns
        assert [entry.position for entry in rendered] == list(range(1, len(rendered) + 1))
        assert all(entry.corpus == "c" and entry.turns for entry in rendered)


@given(corpora())
def test_every_unit_contains_the_full_text_of_each_turn(plain: BenchmarkConfig, corpus: Corpus) -> None:
    wanted = [turn for session in corpus.sessions for turn in session.turns if not is_blank(turn.text)]
    item = Item(id="i", position=1, corpus="c", question="?", evidence=Evidence(turns=tuple(one.id for one in wanted)))
    for unit in ("turn", "session", "corpus"):
        sent = [entry.memory.content for entry in memories(plain, corpus, unit=unit)]
        assert coverage_gaps([item], corpus, sent) == []


@given(corpora())
def test_a_corpus_text_joins_its_sessions_and_a_session_joins_its_turns(plain: BenchmarkConfig, corpus: Corpus) -> None:
    sessions = [entry.memory.content for entry in memories(plain, corpus, unit="session")]
    whole = [entry.memory.content for entry in memories(plain, corpus, unit="corpus")]
    assert whole == (["\n\n".join(sessions)] if sessions else [])
    lines = {entry.turns[0]: entry.memory.content for entry in memories(plain, corpus, unit="turn")}
    for entry in memories(plain, corpus, unit="session"):
        body = "\n".join(lines[name] for name in entry.turns)
        assert entry.memory.content.partition("\n")[2] == body


def test_a_corpus_of_one_session_has_its_date_and_metadata(plain: BenchmarkConfig) -> None:
    when = DateReader("UTC").read("2024-01-01")
    turns = (Turn(id="s#1", text="x"),)
    one = Session(id="s", turns=turns, when=when, metadata={"src": "a"})
    (memory,) = (entry.memory for entry in memories(plain, Corpus(id="c", sessions=(one,)), unit="corpus"))
    assert (memory.id, memory.session_id, memory.when, memory.metadata) == ("c", "s", when, {"src": "a"})
    two = Session(id="t", turns=(Turn(id="t#1", text="y"),), when=when, metadata={"src": "b"})
    (memory,) = (entry.memory for entry in memories(plain, Corpus(id="c", sessions=(one, two)), unit="corpus"))
    assert (memory.session_id, memory.when, memory.metadata) == (None, None, {})


def test_the_time_of_a_turn_overrides_the_time_of_its_session(plain: BenchmarkConfig) -> None:
    read = DateReader("UTC").read
    turns = (Turn(id="a", text="x", when=read("2024-01-01T10:00")), Turn(id="b", text="y"))
    corpus = Corpus(id="c", sessions=(Session(id="s", turns=turns, when=read("2024-01-01")),))
    found = [entry.memory for entry in memories(plain, corpus, unit="turn")]
    assert [memory.when and iso_utc(memory.when) for memory in found] == [
        "2024-01-01T10:00:00Z",
        "2024-01-01T00:00:00Z",
    ]
    assert [message.when for memory in found for message in memory.messages] == [memory.when for memory in found]
    dated = [entry.memory.content for entry in memories(plain, corpus, unit="turn", text="dated")]
    assert dated == ["[2024-01-01 10:00] x", "[2024-01-01 00:00] y"]


@pytest.mark.parametrize(
    ("spoken", "line", "message"),
    [
        (Turn(id="t", text="x"), "x", "x"),
        (Turn(id="t", text="x", role="user"), "user: x", "x"),
        (Turn(id="t", text="x", speaker="Ann"), "Ann: x", "Ann: x"),
        (Turn(id="t", text="x", role="user", speaker="Ann"), "Ann: x", "Ann: x"),
        (Turn(id="t", text="x", caption="a cat"), "x [shares a cat]", "x [shares a cat]"),
        (Turn(id="t", text="", speaker="Ann", caption="a cat"), "Ann:  [shares a cat]", "Ann:  [shares a cat]"),
    ],
)
def test_a_turn_has_a_line_and_a_message(plain: BenchmarkConfig, spoken: Turn, line: str, message: str) -> None:
    corpus = Corpus(id="c", sessions=(Session(id="s", turns=(spoken,)),))
    (entry,) = memories(plain, corpus, unit="turn")
    assert entry.memory.content == line
    assert [one.content for one in entry.memory.messages] == [message]


@pytest.mark.parametrize(
    ("formatter", "dialogue", "content"),
    [
        ("conversation", None, "Ann: one\nBo: two [shares a cat]"),
        ("raw", None, "one\ntwo [shares a cat]"),
        (
            "json",
            None,
            '[{"speaker":"Ann","content":"one"},{"speaker":"Bo","content":"two [shares a cat]"}]',
        ),
        ("conversation", "speaker_text", "Ann: one\nBo: two [shares a cat]"),
    ],
)
def test_content_formatter_sets_the_form_of_a_session(
    workspace: Workspace, formatter: str, dialogue: str | None, content: str
) -> None:
    talk = [[{"speaker": "Ann", "text": "one"}, {"speaker": "Bo", "text": "two", "caption": "a cat"}]]
    ingestion = {"strategy": "session-based", "sessions_field": "talk", "content_formatter": formatter}
    if dialogue is not None:
        ingestion["dialogue_content_formatter"] = dialogue
    workspace.manifest("m", [{"id": "r", "talk": talk, "question": "?", "answer": "!"}], ingestion=ingestion)
    (entry,) = workspace.open("m").memories("r")
    assert entry.memory.content == content


def test_metadata_of_a_row_is_available_in_formatTemplate(workspace: Workspace) -> None:
    text = CHAT.format(name="chat").replace("questionDate: asked}", "questionDate: asked, mood: mood}")
    workspace.yaml("chat", text + "ingestion: {preprocessing: {formatTemplate: \"${metadata.mood|default:'calm'}\"}}\n")
    workspace.data("chat.json", [row(mood="grim"), row(id="q2")])
    dataset = workspace.open("chat")
    assert [dataset.memories(name)[0].memory.content for name in ("q1", "q2")] == ["grim", "calm"]


# ------------------------------------------------------------------ what a hit stands for


def entry(name: str, sessions: tuple[str, ...], turns: tuple[str, ...]) -> RenderedMemory:
    return RenderedMemory(memory=Memory(id=name, content=""), sessions=sessions, turns=turns, corpus="c", position=1)


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), max_size=2), max_size=8))
def test_ranked_ids_names_each_session_once_in_order(hits: list[list[str]]) -> None:
    slots = [[entry(name, (name,), (f"{name}#1",)) for name in names] for names in hits]
    folded = ranked_ids(slots, level="session", unit="turn")
    named = [name for slot in folded for name in slot]
    assert named == list(dict.fromkeys(name for names in hits for name in names))
    assert sum(not slot for slot in folded) == sum(not names for names in hits), "what is unmapped keeps its slot"


def test_ids_at_level_lists_each_id_of_several_memories_once() -> None:
    one, two = entry("m", ("s",), ("s#1", "s#2")), entry("n", ("s", "t"), ("s#2", "t#1"))
    assert ids_at_level([one, two], "session") == ("s", "t")
    assert ids_at_level([one, two], "turn") == ("s#1", "s#2", "t#1")
    assert ids_at_level([], "turn") == ()


def test_ranked_ids_does_not_group_session_memories() -> None:
    one = entry("m", ("s",), ("s#1",))
    assert ranked_ids([[one], [one]], level="session", unit="session") == [("s",), ("s",)]


# ------------------------------------------------------------------ coverage


@pytest.mark.parametrize("text", ['a "quoted" word', "two\nlines", "tab\there", "back\\slash", "日本 🚲"])
def test_JSON_escaped_text_counts_as_sent(plain: BenchmarkConfig, text: str) -> None:
    corpus = Corpus(id="c", sessions=(Session(id="s", turns=(Turn(id="t", text=text),)),))
    item = Item(id="i", position=1, corpus="c", question="?", evidence=Evidence(turns=("t",)))
    assert coverage_gaps([item], corpus, [json.dumps({"text": text}, ensure_ascii=False)]) == []
    assert coverage_gaps([item], corpus, ["something else"]) == [CoverageGap(item="i", turn="t", text=text)]


def test_text_and_caption_must_be_sent_and_blank_text_need_not() -> None:
    def gaps(spoken: Turn, *sent: str) -> list[CoverageGap]:
        corpus = Corpus(id="c", sessions=(Session(id="s", turns=(spoken,)),))
        item = Item(id="i", position=1, corpus="c", question="?", evidence=Evidence(turns=(spoken.id,)))
        return coverage_gaps([item], corpus, sent)

    both = Turn(id="t", text="look", caption="a cat")
    assert gaps(both, "look [shares a cat]") == []
    assert gaps(both, "look") == [CoverageGap(item="i", turn="t", text="a cat")]
    assert gaps(both, "a cat") == [CoverageGap(item="i", turn="t", text="look")]
    assert gaps(Turn(id="t", text=" \n", caption="a cat"), "a cat") == []
    assert gaps(Turn(id="t", text="look at", caption=None), "look", "at") == [
        CoverageGap(item="i", turn="t", text="look at")
    ]


def test_an_evidence_turn_outside_the_corpus_is_a_gap_of_each_item() -> None:
    items = [Item(id=name, position=1, corpus="c", question="?", evidence=Evidence(turns=("t",))) for name in "ab"]
    gaps = coverage_gaps(items, Corpus(id="c", sessions=()), ["x"])
    assert gaps == [CoverageGap(item=name, turn="t", text="(not ingested)") for name in "ab"]


def test_require_coverage_lists_twenty_gaps_and_counts_the_rest() -> None:
    gaps = [CoverageGap(item=f"i{n // 2}", turn=f"t{n}", text="x") for n in range(23)]
    with pytest.raises(DataError) as caught:
        require_coverage(gaps, benchmark="b", where="b.yaml:1:1")
    text = str(caught.value)
    assert text.startswith(
        "b.yaml:1:1: b: the evidence of 12 items is missing in the texts that providers would receive: "
        "i0 (t0), i0 (t1), "
    )
    assert text.endswith("i9 (t19) and 3 more")
    assert caught.value.hint == "map the field that contains the evidence, such as a caption, or correct formatTemplate"


# ------------------------------------------------------------------ describe


def two(chat) -> Dataset:
    return chat(row(), row(id="q2", kind="time"), row(id="q3", sessions=[[turn("x")], []]))


def test_item_lines_yields_the_selected_items(chat) -> None:
    dataset = two(chat)
    assert [line["id"] for line in item_lines(dataset)] == ["q1", "q2", "q3"]
    assert [line["position"] for line in item_lines(dataset, Selection(start=2))] == [2, 3]
    (line,) = item_lines(dataset, Selection(question_types=("time",)))
    assert line == {
        "position": 2,
        "id": "q2",
        "corpus": "q2",
        "question": "What colour?",
        "answers": ["teal"],
        "question_type": "time",
        "question_date": "2023-06-01T10:00:00Z",
        "abstention": False,
        "evidence": {"sessions": ["s1"], "turns": ["s1#1"]},
        "flags": [],
    }


def test_memory_lines_yields_each_selected_corpus_once(workspace: Workspace) -> None:
    ingestion = {"strategy": "simple", "content_field": "c", "corpus_field": "s"}
    rows = [{"id": name, "s": shelf, "c": name, "question": "q", "answer": "1"} for name, shelf in ("ax", "bx", "cy")]
    workspace.manifest("shelf", rows, ingestion=ingestion)
    dataset = workspace.open("shelf")
    assert [line["content"] for line in memory_lines(dataset)] == ["a", "b", "c"]
    assert [line["content"] for line in memory_lines(dataset, Selection(start=1, end=2))] == ["a", "b"]
    assert list(memory_lines(dataset, Selection(items=("c",)))) == [
        {"corpus": "y", "position": 1, "session": "c", "turns": ["c#1"], "when": None, "content": "c"}
    ]
    assert [ref.id for ref in dataset.items_of("x")] == ["a", "b"]


def test_a_memory_of_several_sessions_has_no_session(chat) -> None:
    lines = [entry.as_json() for entry in two(chat).memories("q1", unit="corpus")]
    assert [(line["session"], line["turns"], line["when"]) for line in lines] == [
        (None, ["s2#1", "s1#1", "s1#2"], None)
    ]


@pytest.mark.parametrize("what", ["item", "corpus"])
def test_an_unknown_item_or_corpus_is_refused_with_a_hint(chat, what: str) -> None:
    dataset = two(chat)
    with pytest.raises(UsageError) as caught:
        dataset.item("q9") if what == "item" else dataset.corpus("q9")
    assert str(caught.value) == f'chat has no {what} "q9"'
    assert caught.value.hint == "list the ids with: bench describe chat --items"
    assert list(dataset.items_of("q9")) == []


def test_groups_count_the_items_of_their_types(chat) -> None:
    dataset = chat(
        row(), row(id="q2", kind="time"), row(id="q3", kind=None), extra="groups: {g: [fact, time], h: [time]}\n"
    )
    assert dataset.groups == {"g": 2, "h": 1}
    assert dict(dataset.counts.question_types) == {"fact": 1, "time": 1}


def test_a_dataset_has_its_path_size_and_evidence_flags(chat) -> None:
    dataset = two(chat)
    assert (dataset.path.name, dataset.name) == ("chat.json", "chat")
    assert describe(dataset)["items"] == len(dataset) == 3
    assert dataset.has_evidence and dataset.turn_evidence
    assert not chat(row(gold=[], sessions=[[turn("x")], []])).has_evidence
