"""Data of many shapes: what ``bench validate`` rejects, joins and reports, and what ``bench new`` maps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Bench

HOTPOT = {
    "id": "5a1", "question": "Where was she born?", "answer": "Kalmar", "type": "bridge",
    "supporting_facts": {"title": ["Elin Strand"], "sent_id": [0]},
    "context": {"title": ["Norrvik", "Elin Strand"], "sentences": [["It is red."], ["She was born in Kalmar."]]},
}  # fmt: skip
TALK = [[{"role": "user", "content": "The key is blue."}], [{"role": "user", "content": "The cat is grey."}]]
CONFIG = """name: {name}
version: "1"
data: {{type: local, path: ./datasets/{name}.jsonl}}
schema:
  itemId: id
  question: q
{schema}ingestion: {{mode: session-based}}
evaluation: {{method: {method}}}
metrics: [accuracy]
{extra}"""
CHAT = "  context: {field: talk, type: array, sessionIdField: ids}\n  answer: a\n"


def put(
    name: str, rows: Sequence[Mapping[str, object]], schema: str = CHAT, extra: str = "", method: str = "contains"
) -> str:
    """Write data and config into the workspace and return the path of the config."""
    for folder in ("datasets", "configs/benchmarks"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    Path(f"datasets/{name}.jsonl").write_text(text, encoding="utf-8")
    path = Path(f"configs/benchmarks/{name}.yaml")
    path.write_text(CONFIG.format(name=name, schema=schema, extra=extra, method=method), encoding="utf-8")
    return str(path)


def row(number: int, **changes: object) -> dict[str, object]:
    return {"id": f"r{number}", "q": "Which?", "a": "blue", "talk": TALK, "ids": ["s1", "s2"], "c": "x"} | changes


# ------------------------------------------------------------------- items


@pytest.mark.parametrize(
    ("flags", "file", "expected"),
    [
        ((), {"items": ["a b"]}, ["a b"]),
        ((), {"items": ["a,b"]}, ["a,b"]),
        ((), {"items": "a, a b"}, ["a", "b"]),
        (("--items", "a b"), {}, ["a b"]),
        (("--items", "a", "b"), {}, ["a", "b"]),
        (("--items", "b,c", "a,b"), {}, ["b", "c", "a,b"]),
        (("--items-of", "a b"), {}, ["a b"]),
    ],
)
def test_an_item_id_may_contain_spaces_and_commas(
    bench: Bench, flags: Sequence[str], file: Mapping[str, object], expected: Sequence[str]
) -> None:
    put("ids", [row(0, id=name) for name in ("a", "b", "c", "a b", "a,b")])
    Path("run.yaml").write_text(json.dumps({"benchmarks": ["ids"], "providers": ["bm25"], **file}), encoding="utf-8")
    bench("run", "-c", "run.yaml", "--run-id", "r", "--answering-model", "none", *flags)
    assert {json.loads(line)["item_id"] for line in bench("export", "r").stdout.splitlines()} == set(expected)


# ------------------------------------------------------------------- histories


def test_validate_and_run_reject_a_row_without_memories(bench: Bench) -> None:
    schema = "  context: {field: context, type: object}\n  answer: answer\n"
    path = put("hotpot", [HOTPOT | {"q": "?"}], schema)
    for command in (("validate", path), ("run", "--benchmarks", "hotpot", "--providers", "bm25", "--run-id", "h")):
        output = bench(*command, check=2)
        assert 'context has title, sentences; none matches sessionPattern "session_*" (row 5a1)' in output.stderr
        assert "$.context.sentences" in output.stderr


def test_new_maps_parallel_lists_and_their_evidence(bench: Bench) -> None:
    Path("hotpot.json").write_text(json.dumps([HOTPOT]), encoding="utf-8")
    bench("new", "benchmark", "hotpot", "--from", "hotpot.json")
    bench("validate", "configs/benchmarks/hotpot.yaml")
    assert json.loads(bench("describe", "hotpot", "--json").stdout)["memories"] == 2
    (item,) = map(json.loads, bench("describe", "hotpot", "--items", "--json").stdout.splitlines())
    assert item["evidence"]["turns"] == ["Elin Strand"]


def test_a_conversation_that_several_rows_repeat_is_ingested_once(bench: Bench) -> None:
    path = put("same", [row(1), row(2), row(3, talk=TALK[:1], ids=["s1"])], extra="corpus: {field: c}\n")
    output = bench("validate", path)
    assert "3 sessions occur again in other rows of their corpus and are ingested once" in output.stdout + output.stderr
    found = json.loads(bench("describe", "same", "--json").stdout)
    assert (found["items"], found["sessions"], found["memories"]) == (3, 2, 2)
    assert found["flags"] == {"session_joined": 3}


def test_two_different_sessions_with_the_same_id_are_rejected_with_both_rows(bench: Bench) -> None:
    path = put("other", [row(1), row(2, talk=[TALK[1], TALK[0]])], extra="corpus: {field: c}\n")
    output = bench("validate", path, check=2).stderr
    assert 'has a session "s1" of corpus "x"' in output
    assert "other.jsonl:1 (row r1)" in output
    assert "other.jsonl:2" in output


def test_flags_and_ids_of_a_row_apply_to_that_row_only(bench: Bench) -> None:
    """Rows of one corpus without session ids: the same text is one memory, and evidence follows the ids of each row."""
    flagged = [[{"role": "user", "content": "The key is blue.", "gold": True}], TALK[1]]
    other = [TALK[0], [{"role": "user", "content": "The cat is grey.", "gold": True}]]
    schema = "  context: {field: talk, type: array}\n  answer: a\n"
    put("flags", [row(1, talk=flagged), row(2, talk=other)], schema, "corpus: {field: c}\nevidence: {turnFlag: gold}\n")
    one, two = map(json.loads, bench("describe", "flags", "--items", "--json").stdout.splitlines())
    assert (one["evidence"]["sessions"], two["evidence"]["sessions"]) == (["session_1"], ["session_2"])


# ------------------------------------------------------------------ abstention


@pytest.mark.parametrize(
    ("value", "rule", "abstains"),
    [
        (False, "{field: answerable, equals: false}", True),
        ("False", "{field: answerable, equals: false}", True),
        (0, "{field: answerable, equals: false}", True),
        ("yes", "{field: answerable, equals: false}", False),
        ("yes", "{field: unanswerable}", True),
        ("no", "{field: unanswerable}", False),
        ("none found", "{field: unanswerable, equals: none found}", True),
    ],
)
def test_an_abstention_field_is_read_as_its_rule_defines(
    bench: Bench, value: object, rule: str, abstains: bool
) -> None:
    put("flag", [row(1, answerable=value, unanswerable=value)], extra=f"abstention: {rule}\n")
    assert json.loads(bench("describe", "flag", "--items", "--json").stdout)["abstention"] is abstains


def test_an_abstention_field_named_answerable_needs_equals_false(bench: Bench) -> None:
    path = put("inverted", [row(1, answerable=True)], extra="abstention: {field: answerable}\n")
    output = bench("validate", path, check=2).stderr
    assert 'abstention.field "answerable" seems to be true for items that have an answer' in output
    assert "equals: false" in output


def test_an_abstention_value_that_is_not_a_boolean_is_rejected(bench: Bench) -> None:
    path = put("odd", [row(1, mark="maybe")], extra="abstention: {field: mark}\n")
    assert 'mark is neither true nor false: "maybe"' in bench("validate", path, check=2).stderr


# ------------------------------------------------------- answers, choices, dates


def test_answers_and_choices_accept_lists_of_fields_and_reject_null_choices(bench: Bench) -> None:
    put("alias", [row(1, more=["azure", "navy"])], CHAT.replace("answer: a", "answer: [a, more]"))
    assert json.loads(bench("describe", "alias", "--items", "--json").stdout)["answers"] == ["blue", "azure", "navy"]
    schema = "  context: {field: c, type: string}\n  choices: [A, B]\n  choiceAnswer: right\n"
    bench("validate", put("mc", [row(1, A="red", B="blue", right="B")], schema, method="mcq"))
    path = put("gap", [row(1, A=None, B="blue", right="B")], schema, method="mcq")
    assert "A is null (row r1)" in bench("validate", path, check=2).stderr
    listed = schema.replace("[A, B]", "options")
    path = put("hole", [row(1, options=["red", None, "blue"], right="B")], listed, method="mcq")
    assert "options[1] is null (row r1)" in bench("validate", path, check=2).stderr


@pytest.mark.parametrize("when", [1709366400, "1709366400", 1709366400000, "1709366400000", 1709366400.0])
def test_unix_seconds_and_milliseconds_are_read_as_dates(bench: Bench, when: object) -> None:
    schema = CHAT.replace("ids}", "ids, dateField: at}")
    put("epoch", [row(1, at=[when, when])], schema)
    lines = [json.loads(line) for line in bench("describe", "epoch", "--memories", "--json").stdout.splitlines()]
    assert {line["when"] for line in lines} == {"2024-03-02T08:00:00Z"}


def test_a_turn_without_a_date_is_counted_and_ingested(bench: Bench) -> None:
    talk = [[{"role": "user", "content": "x", "at": "2024-01-01"}, {"role": "user", "content": "y", "at": None}]]
    schema = "  answer: a\n  context:\n    field: talk\n    type: array\n"
    schema += "    itemSchema: {content: content, role: role, date: at}\n"
    output = bench("validate", put("turns", [row(1, talk=talk)], schema))
    assert "1 turn has no date and is ingested without a date" in output.stdout + output.stderr


# -------------------------------------------------------------------- messages


def test_a_nested_field_without_its_root_gets_a_hint_with_the_whole_path(bench: Bench) -> None:
    path = put("dots", [row(1, meta={"answer": "blue"})], CHAT.replace("answer: a", "answer: meta.answer"))
    assert 'write "$.meta.answer"' in bench("validate", path, check=2).stderr
    path = put("note", [row(1, meta={"kind": "x"})], CHAT + "  metadata: {kind: meta.kind}\n")
    output = bench("validate", path)
    assert 'write "$.meta.kind"' in output.stdout + output.stderr


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (b'{"id": "r1", "id": "r2"}\n', ["m.jsonl:1", 'the key "id" occurs twice']),
        (b'{"id": "r1", "q": NaN}\n', ["m.jsonl:1", "NaN is not JSON"]),
        (b'{"id": "r1",}\n', ["m.jsonl:1", "malformed"]),
        ('{"id": "r1"}\n'.encode("utf-16"), ["m.jsonl", "not UTF-8"]),
        ('{"id": "caf\xe9"}\n'.encode("cp1252"), ["m.jsonl:1", "not UTF-8"]),
        (b'{"id": "r1", "q": "  ", "a": "x", "talk": ["y"], "ids": ["s"]}\n', ["m.jsonl:1", "q is empty (row r1)"]),
        (b'{"id": "r1", "q": "?", "a": null, "talk": ["y"], "ids": ["s"]}\n', ["m.jsonl:1", "a is missing"]),
        (b'{"id": 1, "q": "?", "a": "x", "talk": ["y"], "ids": ["s"]}\n'
         b'{"id": "1", "q": "?", "a": "x", "talk": ["y"], "ids": ["s"]}\n',
         ["m.jsonl:2", 'item id "1" occurs twice: datasets/m.jsonl:1 and datasets/m.jsonl:2']),
    ],
)  # fmt: skip
def test_a_malformed_data_file_is_rejected_with_its_line(bench: Bench, raw: bytes, parts: list[str]) -> None:
    path = put("m", [])
    Path("datasets/m.jsonl").write_bytes(raw)
    output = bench("validate", path, check=2).stderr
    assert all(part in output for part in parts), output


def test_evidence_that_matches_no_session_or_turn_is_counted(bench: Bench) -> None:
    path = put("lost", [row(1, gold=["S1"]), row(2, gold=["s1"])], extra="evidence: {sessionIdsField: gold}\n")
    output = bench("validate", path)
    assert "1 item has evidence that is neither a session nor a turn of the history" in output.stdout + output.stderr
    assert '"S1" of item "r1"' in output.stdout + output.stderr


# ------------------------------------------------------------------- bench new

SESSIONS = [{"session_id": "s1", "date": "2024-01-01", "turns": [{"speaker": "A", "text": "hi", "has_answer": True}]}]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([{"id": "q_abs", "question": "?", "answer": "x", "sessions": SESSIONS, "answer_session_ids": ["s1"]}],
         ["field: $.sessions[*]", 'session: {id: session_id, turns: "$.turns[*]", date: date}',
          "evidence: {turnFlag: has_answer, sessionIdsField: answer_session_ids}", "abstention: {idPattern: _abs$}"]),
        ([{"id": "1", "paragraphs": [{"idx": 0, "title": "T", "paragraph_text": "P is it.", "is_supporting": True}],
           "question": "?", "answer": "P", "answer_aliases": ["p"], "answerable": True}],
         ["answer: [answer, answer_aliases]", "abstention: {field: answerable, equals: false}",
          "evidence: {turnFlag: is_supporting}", "content: paragraph_text"]),
        ([{"_id": "1", "context": "C", "question": "?", "choice_A": "oak", "choice_B": "elm", "answer": "A"}],
         ["choices: [choice_A, choice_B]", "choiceAnswer: answer", "method: mcq"]),
        ([{"id": n, "conversation_id": "c", "conversation": {"session_1": [{"speaker": "A", "text": "hi"}]},
           "question": "?", "answer": "x"} for n in "12"], ["corpus: {field: conversation_id}"]),
        ([{"id": "1", "log": {"day_1": [{"role": "user", "content": "x"}]}, "question": "?", "answer": "x"}],
         ['sessionPattern: "day_*"']),
        ([{"id": "1", "context": "C", "questions": ["?"], "answers": ["x"]}],
         ['{"zip": {"question": "questions", "answer": "answers"}}', "questionField: question"]),
        ([{"id": "1", "context": [["T", ["x"]]], "question": "?", "answer": "x"}],
         ['id: "$[0]"', "content: \"${$[0]}: ${$[1]|join:''}\""]),
        ([{"id": "1", "context": "[{'role': 'user', 'content': 'x'}]", "question": "?", "answer": "x"}],
         ['{"decode": "context"}']),
    ],
)  # fmt: skip
def test_new_maps_the_fields_of_known_data_shapes(bench: Bench, rows: list[object], lines: list[str]) -> None:
    Path("data.json").write_text(json.dumps(rows), encoding="utf-8")
    bench("new", "benchmark", "mine", "--from", "data.json")
    text = Path("configs/benchmarks/mine.yaml").read_text(encoding="utf-8")
    assert [line for line in lines if line not in text] == []
    bench("validate", "configs/benchmarks/mine.yaml")


def test_new_reports_fields_that_it_cannot_map_and_never_maps_gold_as_content(bench: Bench) -> None:
    row = {"id": "1", "evidence": ["The long gold text."], "question": "?", "answer": "x"}
    Path("data.json").write_text(json.dumps([row]), encoding="utf-8")
    done = bench("new", "benchmark", "mine", "--from", "data.json")
    assert '"evidence" seems to contain' in done.stdout + done.stderr
    assert "field: evidence" not in Path("configs/benchmarks/mine.yaml").read_text(encoding="utf-8")
