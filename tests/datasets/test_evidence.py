"""Evidence and corpora: references are resolved, repaired or flagged, and ids become unique."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets.corpus_builder import build_corpus
from bench.datasets.evidence import split_references
from bench.datasets.history import RawSession
from bench.datasets.rows.row import RowPlace
from bench.datasets.turn_reader import RawTurn
from bench.errors import BenchError
from bench.model import Evidence
from tests.datasets.conftest import Workspace, row, turn
from tests.rows import each_row

PLACE = RowPlace(file="d.json", index=0)


def session(name: str, *turns: RawTurn) -> RawSession:
    return RawSession(id=name, turns=list(turns), place=PLACE, has_own_id=True)


# ------------------------------------------------------------------ corpora


@given(st.lists(st.sampled_from(["a", "b", "a~2", "a~3", "a~2~2"]), max_size=12))
def test_repeated_session_ids_get_unique_names_and_the_first_is_unchanged(ids: list[str]) -> None:
    built = build_corpus("c", [session(name) for name in ids], ())
    names = [found.id for found in built.corpus.sessions]
    assert len(set(names)) == len(ids)
    for name, given_name in zip(names, ids, strict=True):
        assert name == given_name or name.startswith(f"{given_name}~")
    firsts = [at for at, name in enumerate(ids) if name not in ids[:at] and "~" not in name]
    assert all(names[at] == ids[at] for at in firsts)
    assert built.flags.get("session_id_repeated", 0) == sum(a != b for a, b in zip(names, ids, strict=True))


@given(st.lists(st.sampled_from(["D1:1", "D1:2", "D1:1~2", None]), max_size=10))
def test_turn_ids_are_unique_in_the_whole_corpus(ids: list[str | None]) -> None:
    half = len(ids) // 2
    raw = [
        session(f"s{n}", *(RawTurn(id=name, text="x") for name in part))
        for n, part in enumerate((ids[:half], ids[half:]))
    ]
    built = build_corpus("c", raw, ())
    names = [found.id for one in built.corpus.sessions for found in one.turns]
    assert len(set(names)) == len(ids)
    assert list(built.lookup.turns) == names
    assert all(
        name == wanted for name, wanted in zip(names, ids, strict=True) if wanted == "D1:2" and ids.count(wanted) == 1
    )


def test_turns_without_ids_are_numbered_within_their_session() -> None:
    raw = [session("s", RawTurn(id=None, text="a"), RawTurn(id="own", text="b"), RawTurn(id=None, text="c"))] * 2
    built = build_corpus("c", raw, ())
    names = [[found.id for found in one.turns] for one in built.corpus.sessions]
    assert names == [["s#1", "own", "s#3"], ["s~2#1", "own~2", "s~2#3"]]


def test_turns_of_removed_roles_still_count_in_the_numbering() -> None:
    turns = [RawTurn(id=None, text="a", role="user"), RawTurn(id=None, text="b", role="assistant")]
    built = build_corpus("c", [session("s", *turns)], {"user"})
    assert [found.id for found in built.corpus.sessions[0].turns] == ["s#2"]
    assert built.lookup.removed == {"s#1"}
    assert built.lookup.turns == {"s#1": "s", "s#2": "s"}


def test_a_session_with_only_removed_turns_is_flagged_as_empty() -> None:
    built = build_corpus("c", [session("s", RawTurn(id=None, text="a", role="user")), session("t")], {"user"})
    assert built.flags == Counter({"session_empty": 2})


def test_the_size_of_a_corpus_grows_with_its_text() -> None:
    small, large = (build_corpus("c", [session("s", RawTurn(id=None, text="x" * n))], ()).size for n in (10, 1010))
    assert large - small == 1000
    assert build_corpus("c", [], ()).size == 0


# ------------------------------------------------------------------ references


@given(st.integers(0, 999), st.integers(0, 999), st.sampled_from(["", ":"]), st.integers(0, 3), st.integers(0, 3))
def test_dialog_references_are_normalized(session: int, turn: int, colon: str, pad: int, zeros: int) -> None:
    written = f"D{colon}{'0' * pad}{session}:{'0' * zeros}{turn}"
    assert split_references(written) == [f"D{session}:{turn}"]


@given(
    st.lists(st.sampled_from(["D1:1", "D2:03", "D:4:5", "x", "D"]), max_size=5), st.sampled_from([" ", ";", ", ", "; "])
)
def test_a_text_with_several_references_is_split(parts: list[str], joint: str) -> None:
    assert split_references(joint.join(parts)) == [repaired for part in parts for repaired in split_references(part)]


TALK = """
name: talk
version: "1"
data: {type: local, path: ./datasets/talk.json}
schema:
  itemId: id
  question: q
  answer: a
  context: {field: talk, type: object, itemSchema: {speaker: who, text: said, dialogId: key}}
evidence: {turnIdsField: gold%s}
evaluation: {method: exact-match}
metrics: [accuracy]
"""
D = {
    "session_1": [{"who": "A", "said": "one", "key": "D1:1"}, {"who": "B", "said": "two", "key": "D1:2"}],
    "session_2": [{"who": "A", "said": "three", "key": "D2:1"}],
    "session_11": [{"who": "A", "said": "four", "key": "D11:26"}],
}


@each_row(
    ("gold", "turns", "flags"),
    [
        (["D1:1"], ("D1:1",), ()),
        ("D1:1", ("D1:1",), ()),
        (["D11:26", "D1:2", "D1:1"], ("D1:1", "D1:2", "D11:26"), ()),
        (["D1:1", "D1:1", "D1:01"], ("D1:1",), ("evidence_repaired",)),
        (["D:11:26"], ("D11:26",), ("evidence_repaired",)),
        (["D1:1; D2:1"], ("D1:1", "D2:1"), ("evidence_repaired",)),
        (["D1:1 D9:9"], ("D1:1",), ("evidence_repaired", "evidence_unresolved")),
        (["D"], (), ("evidence_unresolved",)),
        (["D9:9", "D1:1"], ("D1:1",), ("evidence_unresolved",)),
        ([], (), ("evidence_missing",)),
        (None, (), ("evidence_missing",)),
        ([None], (), ("evidence_missing",)),
    ],
)
def test_dialog_refs_resolves_repairs_and_flags_references(
    tmp_path: Path, gold: object, turns: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    workspace = Workspace(tmp_path)
    workspace.yaml("talk", TALK % ", parser: dialog_refs")
    workspace.data("talk.json", [{"id": "r", "q": "?", "a": "!", "talk": D, "gold": gold}])
    item = workspace.open("talk").item("r")
    assert (item.evidence.turns, item.flags) == (turns, flags)
    sessions = {"D1:1": "session_1", "D1:2": "session_1", "D2:1": "session_2", "D11:26": "session_11"}
    assert item.evidence.sessions == tuple(dict.fromkeys(sessions[name] for name in turns))


@each_row(
    ("gold", "evidence", "flags"),
    [
        (["D1:2"], Evidence(sessions=("session_1",), turns=("D1:2",)), ()),
        (["session_2"], Evidence(sessions=("session_2",)), ()),
        (["session_2", "D1:1"], Evidence(sessions=("session_1", "session_2"), turns=("D1:1",)), ()),
        (["D:1:2"], Evidence(), ("evidence_unresolved",)),
        (["D1:1; D2:1"], Evidence(), ("evidence_unresolved",)),
        (["", "D1:1"], Evidence(sessions=("session_1",), turns=("D1:1",)), ("evidence_unresolved",)),
    ],
)
def test_the_direct_parser_does_not_repair_references(
    workspace: Workspace, gold: object, evidence: Evidence, flags: tuple[str, ...]
) -> None:
    workspace.yaml("talk", TALK % "")
    workspace.data("talk.json", [{"id": "r", "q": "?", "a": "!", "talk": D, "gold": gold}])
    item = workspace.open("talk").item("r")
    assert (item.evidence, item.flags) == (evidence, flags)


@pytest.mark.parametrize("gold", [{"a": "D1:1"}, [{"id": "D1:1"}]])
def test_a_reference_that_is_neither_text_nor_list_is_an_error(workspace: Workspace, gold: object) -> None:
    workspace.yaml("talk", TALK % "")
    workspace.data("talk.json", [{"id": "r", "q": "?", "a": "!", "talk": D, "gold": gold}])
    with pytest.raises(BenchError, match=r"talk\.json: \[0\]\.gold: gold must be text or a list of texts, not: "):
        workspace.open("talk")


@pytest.mark.parametrize("gold", [[["D1:1"], "D1:2"], {"first": ["D1:1"], "last": [["D1:2"]]}])
def test_references_may_be_nested_in_lists_and_maps(workspace: Workspace, gold: object) -> None:
    workspace.yaml("talk", TALK % "")
    workspace.data("talk.json", [{"id": "r", "q": "?", "a": "!", "talk": D, "gold": gold}])
    assert workspace.open("talk").item("r").evidence.turns == ("D1:1", "D1:2")


# ------------------------------------------------------------------ flags of a chat


def test_an_evidence_session_without_flagged_turn_is_flagged_evidence_turns_missing(chat) -> None:
    sessions = [[turn("a")], [turn("b", has_answer=True)]]
    dataset = chat(row(sessions=sessions), row(id="q2_abs", sessions=sessions))
    assert dataset.item("q1").flags == ("evidence_turns_missing",)
    assert dataset.item("q1").evidence == Evidence(sessions=("s1",))
    assert dataset.item("q2_abs").flags == (), "an abstention item has nothing to miss"
    assert dict(dataset.counts.flags) == {"evidence_turns_missing": 1}


def test_without_references_all_flagged_turns_are_evidence(chat) -> None:
    dataset = chat(row(gold=[], sessions=[[turn("a", has_answer=True)], [turn("b", has_answer=True)]]))
    assert dataset.item("q1").evidence == Evidence(sessions=("s2", "s1"), turns=("s2#1", "s1#1"))
    assert dataset.item("q1").flags == ()


def test_a_turn_flag_of_false_or_null_marks_no_evidence(chat) -> None:
    dataset = chat(row(gold=[], sessions=[[turn("a", has_answer=False)], [turn("b", has_answer=None)]]))
    assert dataset.item("q1").evidence == Evidence()
    assert dataset.item("q1").flags == ("evidence_missing",)


def test_a_flagged_turn_in_a_session_with_a_repeated_id_is_not_evidence(chat) -> None:
    sessions = [[turn("a")], [turn("b", has_answer=True)]]
    dataset = chat(row(ids=["s1", "s1"], dates=["2024-01-01", "2024-01-02"], sessions=sessions))
    assert dataset.item("q1").evidence == Evidence(sessions=("s1",))
    assert dict(dataset.counts.flags) == {"evidence_turns_missing": 1, "session_id_repeated": 1}


def test_without_references_only_the_first_session_of_a_repeated_id_has_evidence_turns(chat) -> None:
    sessions = [[turn("a", has_answer=True)], [turn("b", has_answer=True)]]
    dataset = chat(row(ids=["s1", "s1"], dates=["2024-01-01", "2024-01-02"], sessions=sessions, gold=[]))
    assert dataset.item("q1").evidence == Evidence(sessions=("s1",), turns=("s1#1",))


def test_abstention_items_are_not_flagged_evidence_missing(chat) -> None:
    sessions = [[turn("a")], [turn("b")]]
    dataset = chat(row(gold=[], sessions=sessions), row(id="q2_abs", gold=[], sessions=sessions))
    assert [dataset.item(name).flags for name in ("q1", "q2_abs")] == [("evidence_missing",), ()]


def test_evidence_turns_of_removed_roles_are_dropped_and_flagged(chat) -> None:
    sessions = [[turn("a", has_answer=True), turn("b", "assistant", has_answer=True)], [turn("c", has_answer=True)]]
    extra = "ingestion: {preprocessing: {removeRoles: [user]}}\n"
    dataset = chat(row(sessions=sessions, gold=["s1", "s2"]), extra=extra)
    assert dataset.item("q1").evidence == Evidence(sessions=("s1",), turns=("s1#2",))
    assert dataset.item("q1").flags == ("evidence_removed",)


def test_an_evidence_session_stays_if_one_of_its_turns_is_ingested(workspace: Workspace) -> None:
    """Without turn evidence any turn may contain it, so only a session without turns is removed."""
    workspace.yaml(
        "s",
        'name: s\nversion: "1"\ndata: {type: local, path: ./datasets/s.json}\n'
        "schema: {itemId: id, question: q, answer: a, context: {field: c, type: array, sessionIdField: ids,"
        " itemSchema: {role: role, content: content}}}\nevidence: {sessionIdsField: gold}\n"
        "ingestion: {preprocessing: {removeRoles: [user]}}\nevaluation: {method: exact-match}\nmetrics: [accuracy]\n",
    )
    rows = [{"id": "r", "q": "?", "a": "!", "c": [[turn("x")], [turn("y")], [turn("z"), turn("w", "assistant")]],
             "ids": ["s", "t", "u"], "gold": ["t", "u"]}]  # fmt: skip
    workspace.data("s.json", rows)
    item = workspace.open("s").item("r")
    assert (item.evidence, item.flags) == (Evidence(sessions=("u",)), ("evidence_removed",))


@each_row("gold", list(permutations(["D1:2", "D1:1", "D2:1", "D9:9"]))[::4])
def test_the_order_of_references_does_not_change_the_evidence(workspace: Workspace, gold: tuple[str, ...]) -> None:
    workspace.yaml("talk", TALK % "")
    workspace.data("talk.json", [{"id": "r", "q": "?", "a": "!", "talk": D, "gold": gold}])
    item = workspace.open("talk").item("r")
    assert item.evidence.turns == ("D1:1", "D1:2", "D2:1")
    assert item.flags == ("evidence_unresolved",)
