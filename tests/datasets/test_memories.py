"""Rendered memories: their text, their sessions and turns, and whether they contain the evidence."""

from __future__ import annotations

import pytest

from bench.datasets import coverage_gaps, evidence_level, gold_ids, ids_at_level, memories, ranked_ids, require_coverage
from bench.errors import DataError
from tests.datasets.conftest import row, turn


def contents(dataset, **overrides) -> list[str]:
    return [entry.memory.content for entry in dataset.memories("q1", **overrides)]


def test_memories_are_rendered_by_session_turn_and_corpus(chat) -> None:
    dataset = chat(row())
    session = "2023/05/20 (Sat) 18:10\nuser: My bike is teal.\nassistant: Nice."
    assert contents(dataset) == ["2023/05/19 (Fri) 18:10\nuser: I like glue.", session]
    assert contents(dataset, unit="turn") == ["user: I like glue.", "user: My bike is teal.", "assistant: Nice."]
    assert contents(dataset, unit="corpus") == ["2023/05/19 (Fri) 18:10\nuser: I like glue.\n\n" + session]


@pytest.mark.parametrize(
    ("header", "session", "first_turn"),
    [("always", "2023/05/19 (Fri) 18:10\nuser: I", "2023/05/19"), ("never", "user: I", "user: I")],
)
def test_dateHeader_controls_the_date_line_of_sessions_and_turns(chat, header, session, first_turn) -> None:
    dataset = chat(row(), extra=f"ingestion: {{dateHeader: {header}}}\n")
    assert contents(dataset)[0].startswith(session)
    assert contents(dataset, unit="turn")[0].startswith(first_turn)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "I like glue."),
        ("speaker", "user: I like glue."),
        ("dated", "[2023-05-19 18:10] user: I like glue."),
        ("<${when}> ${content} (${speaker})", "<2023-05-19 18:10> I like glue. (user)"),
    ],
)
def test_the_text_option_overrides_the_rendered_text(chat, text, expected) -> None:
    assert contents(chat(row()), text=text)[0] == expected


def test_missing_speaker_and_date_leave_no_punctuation(workspace) -> None:
    workspace.manifest("plain", [{"id": "q1", "content": "fact", "question": "q", "answer": "a"}])
    dataset = workspace.open("plain")
    for text in ("plain", "speaker", "dated", "[${when}] <${speaker}>: ${content}"):
        assert contents(dataset, text=text) == ["fact"]


def test_memory_text_is_not_escaped_or_trimmed(chat) -> None:
    text = '  Tom\'s <b> & "quotes" ${question} \u2028 日本 🚲\n '
    assert f"user: {text}" in contents(chat(row(sessions=[[turn(text)], []])))[0]


def test_escapeHtml_escapes_the_text_and_marks_the_run_altered(chat) -> None:
    dataset = chat(row(), extra="ingestion: {preprocessing: {escapeHtml: true}}\n")
    assert dataset.config.marks == ("altered",)
    text = chat(row(sessions=[[turn("Tom's <b>")], []]), extra="ingestion: {preprocessing: {escapeHtml: true}}\n")
    assert "Tom&#39;s &lt;b&gt;" in contents(text)[0]


def test_an_empty_session_gives_no_memory(chat) -> None:
    dataset = chat(row(sessions=[[turn("x", has_answer=True)], []]))
    assert dataset.counts.memories == len(contents(dataset)) == 1
    assert dataset.counts.flags["session_empty"] == 1


def test_formatTemplate_replaces_the_text_of_a_session(chat) -> None:
    extra = "ingestion: {preprocessing: {formatTemplate: '${turns} on ${date|date}: ${session|json}'}}\n"
    assert contents(chat(row(), extra=extra))[0] == '1 on 2023-05-19: [{"role":"user","content":"I like glue."}]'


def test_sessionDate_has_the_original_text_and_supports_date_filters(chat) -> None:
    text = "${sessionDate}, ${sessionDate|iso}, ${sessionDate|date}, ${sessionDate|time}, ${sessionDate|upper}"
    dataset = chat(row(), extra=f"ingestion: {{preprocessing: {{formatTemplate: '{text}'}}}}\n")
    file, instant = "2023/05/19 (Fri) 18:10", "2023-05-19T18:10:00Z"
    assert contents(dataset)[0] == f"{file}, {instant}, 2023-05-19, 18:10, {file.upper()}"


def test_a_removed_role_field_is_not_rendered(chat) -> None:
    dataset = chat(row(), extra="ingestion: {preprocessing: {removeFields: [role]}}\n")
    assert contents(dataset)[0] == "2023/05/19 (Fri) 18:10\nI like glue."


def test_a_formatTemplate_without_value_fails_when_the_dataset_opens(workspace) -> None:
    workspace.yaml(
        "plain",
        'name: plain\nversion: "1"\ndata: {type: local, path: ./datasets/p.jsonl}\n'
        "schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}\n"
        "ingestion: {preprocessing: {formatTemplate: '${date}'}}\nevaluation: {method: none}\nmetrics: [mrr]\n",
    )
    workspace.data("p.jsonl", '{"id": "1", "q": "q", "a": "a", "c": "c"}')
    with pytest.raises(Exception, match="no value for"):
        workspace.open("plain")


def test_messages_have_roles_and_times(chat) -> None:
    memory = chat(row()).memories("q1")[1].memory
    assert [(message.role, message.content) for message in memory.messages] == [
        ("user", "My bike is teal."),
        ("assistant", "Nice."),
    ]
    assert memory.when == memory.messages[0].when


def test_evidence_level_is_turn_only_for_turns_with_turn_evidence(chat) -> None:
    config = chat(row()).config
    assert evidence_level(config, unit="turn", turn_evidence=True) == "turn"
    assert evidence_level(config, unit="session", turn_evidence=True) == "session"
    assert evidence_level(config, unit="turn", turn_evidence=False) == "session"


def test_ids_at_level_maps_hits_to_sessions_or_turns(chat) -> None:
    dataset = chat(row())
    glue, bike, nice = dataset.memories("q1", unit="turn")
    assert ids_at_level([bike, nice], "session") == ("s1",)
    assert ids_at_level([bike, glue], "turn") == ("s1#1", "s2#1")
    assert gold_ids(dataset.item("q1"), "turn") == ("s1#1",)
    assert gold_ids(dataset.item("q1"), "session") == ("s1",)


def test_turn_hits_are_grouped_by_session_(chat) -> None:
    glue, bike, nice = chat(row()).memories("q1", unit="turn")
    hits = [[bike], [], [nice], [glue]]
    assert ranked_ids(hits, level="session", unit="turn") == [("s1",), (), ("s2",)]
    assert ranked_ids(hits, level="turn", unit="turn") == [("s1#1",), (), ("s1#2",), ("s2#1",)]


def test_an_abstention_item_has_no_gold_unless_score_retrieval_is_set(chat) -> None:
    item = chat(row(id="q1_abs")).item("q1_abs")
    assert gold_ids(item, "session") == ()
    assert gold_ids(item, "session", score_retrieval=True) == ("s1",)


def test_coverage_gaps_reports_an_evidence_text_that_was_not_sent(chat) -> None:
    dataset = chat(row())
    item, corpus = dataset.item("q1"), dataset.corpus("q1")
    sent = [entry.memory.content for entry in memories(dataset.config, corpus)]
    assert coverage_gaps([item], corpus, sent) == []
    gaps = coverage_gaps([item], corpus, [text.replace("teal", "green") for text in sent])
    assert [(gap.item, gap.turn) for gap in gaps] == [("q1", "s1#1")]
    with pytest.raises(DataError, match=r"q1 \(s1#1\)"):
        require_coverage(gaps, benchmark="chat")
    require_coverage([], benchmark="chat")
