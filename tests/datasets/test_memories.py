"""What one memory is, what it stands for, and whether the evidence is in it."""

from __future__ import annotations

import pytest

from bench.datasets import coverage_gaps, evidence_level, gold_ids, ids_at_level, memories, ranked_ids, require_coverage
from bench.errors import DataError
from tests.datasets.conftest import row, turn


def contents(dataset, **overrides) -> list[str]:
    return [entry.memory.content for entry in dataset.memories("q1", **overrides)]


def test_the_units(chat) -> None:
    dataset = chat(row())
    session = "2023/05/20 (Sat) 18:10\nuser: My bike is teal.\nassistant: Nice."
    assert contents(dataset) == ["2023/05/19 (Fri) 18:10\nuser: I like glue.", session]
    assert contents(dataset, unit="turn") == ["user: I like glue.", "user: My bike is teal.", "assistant: Nice."]
    assert contents(dataset, unit="corpus") == ["2023/05/19 (Fri) 18:10\nuser: I like glue.\n\n" + session]


@pytest.mark.parametrize(
    ("header", "session", "first_turn"),
    [("always", "2023/05/19 (Fri) 18:10\nuser: I", "2023/05/19"), ("never", "user: I", "user: I")],
)
def test_the_date_header(chat, header, session, first_turn) -> None:
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
def test_a_provider_may_override_the_text(chat, text, expected) -> None:
    assert contents(chat(row()), text=text)[0] == expected


def test_absent_parts_leave_no_punctuation(workspace) -> None:
    workspace.manifest("plain", [{"id": "q1", "content": "fact", "question": "q", "answer": "a"}])
    dataset = workspace.open("plain")
    for text in ("plain", "speaker", "dated", "[${when}] <${speaker}>: ${content}"):
        assert contents(dataset, text=text) == ["fact"]


def test_text_is_never_escaped_or_trimmed(chat) -> None:
    said = '  Tom\'s <b> & "quotes" ${question} \u2028 日本 🚲\n '
    assert f"user: {said}" in contents(chat(row(sessions=[[turn(said)], []])))[0]


def test_escape_html_is_an_alteration(chat) -> None:
    dataset = chat(row(), extra="ingestion: {preprocessing: {escapeHtml: true}}\n")
    assert dataset.config.marks == ("altered",)
    text = chat(row(sessions=[[turn("Tom's <b>")], []]), extra="ingestion: {preprocessing: {escapeHtml: true}}\n")
    assert "Tom&#39;s &lt;b&gt;" in contents(text)[0]


def test_an_empty_session_sends_nothing(chat) -> None:
    dataset = chat(row(sessions=[[turn("x", has_answer=True)], []]))
    assert dataset.counts.memories == len(contents(dataset)) == 1
    assert dataset.counts.flags["session_empty"] == 1


def test_a_session_template_replaces_the_text(chat) -> None:
    extra = "ingestion: {preprocessing: {formatTemplate: '${turns} on ${date|date}: ${session|json}'}}\n"
    assert contents(chat(row(), extra=extra))[0] == '1 on 2023-05-19: [{"role":"user","content":"I like glue."}]'


def test_the_date_filters_know_what_the_date_of_the_file_means(chat) -> None:
    text = "${sessionDate}, ${sessionDate|iso}, ${sessionDate|date}, ${sessionDate|time}, ${sessionDate|upper}"
    dataset = chat(row(), extra=f"ingestion: {{preprocessing: {{formatTemplate: '{text}'}}}}\n")
    file, instant = "2023/05/19 (Fri) 18:10", "2023-05-19T18:10:00Z"
    assert contents(dataset)[0] == f"{file}, {instant}, 2023-05-19, 18:10, {file.upper()}"


def test_a_removed_field_leaves_no_trace_in_a_line(chat) -> None:
    dataset = chat(row(), extra="ingestion: {preprocessing: {removeFields: [role]}}\n")
    assert contents(dataset)[0] == "2023/05/19 (Fri) 18:10\nI like glue."


def test_a_template_without_its_value_is_an_error_before_anything_runs(workspace) -> None:
    workspace.yaml(
        "plain",
        'name: plain\nversion: "1"\ndata: {type: local, path: ./datasets/p.jsonl}\n'
        "schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}\n"
        "ingestion: {preprocessing: {formatTemplate: '${date}'}}\nevaluation: {method: none}\nmetrics: [mrr]\n",
    )
    workspace.data("p.jsonl", '{"id": "1", "q": "q", "a": "a", "c": "c"}')
    with pytest.raises(Exception, match="no value for"):
        workspace.open("plain")


def test_messages_carry_roles_and_times(chat) -> None:
    memory = chat(row()).memories("q1")[1].memory
    assert [(message.role, message.content) for message in memory.messages] == [
        ("user", "My bike is teal."),
        ("assistant", "Nice."),
    ]
    assert memory.when == memory.messages[0].when


def test_the_level_is_turn_only_for_turns_with_turn_evidence(chat) -> None:
    config = chat(row()).config
    assert evidence_level(config, unit="turn", turn_evidence=True) == "turn"
    assert evidence_level(config, unit="session", turn_evidence=True) == "session"
    assert evidence_level(config, unit="turn", turn_evidence=False) == "session"


def test_hits_stand_for_sessions_or_turns(chat) -> None:
    dataset = chat(row())
    glue, bike, nice = dataset.memories("q1", unit="turn")
    assert ids_at_level([bike, nice], "session") == ("s1",)
    assert ids_at_level([bike, glue], "turn") == ("s1#1", "s2#1")
    assert gold_ids(dataset.item("q1"), "turn") == ("s1#1",)
    assert gold_ids(dataset.item("q1"), "session") == ("s1",)


def test_turn_hits_fold_to_sessions_before_the_cut(chat) -> None:
    glue, bike, nice = chat(row()).memories("q1", unit="turn")
    hits = [[bike], [], [nice], [glue]]
    assert ranked_ids(hits, level="session", unit="turn", k=3) == [("s1",), (), ("s2",)]
    assert ranked_ids(hits, level="turn", unit="turn", k=3) == [("s1#1",), (), ("s1#2",)]


def test_an_abstention_item_has_no_gold_unless_retrieval_is_scored(chat) -> None:
    item = chat(row(id="q1_abs")).item("q1_abs")
    assert gold_ids(item, "session") == ()
    assert gold_ids(item, "session", score_retrieval=True) == ("s1",)


def test_coverage_sees_a_missing_caption(chat) -> None:
    dataset = chat(row())
    item, corpus = dataset.item("q1"), dataset.corpus("q1")
    sent = [entry.memory.content for entry in memories(dataset.config, corpus)]
    assert coverage_gaps([item], corpus, sent) == []
    gaps = coverage_gaps([item], corpus, [text.replace("teal", "green") for text in sent])
    assert [(gap.item, gap.turn) for gap in gaps] == [("q1", "s1#1")]
    with pytest.raises(DataError, match=r"q1 \(s1#1\)"):
        require_coverage(gaps, benchmark="chat")
    require_coverage([], benchmark="chat")
