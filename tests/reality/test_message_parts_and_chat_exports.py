"""Messages in parts are ingested completely, and chat exports are read or refused with the reason."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bench

QUESTION = {"id": "q1", "question": "What is the code of the shed?", "answer": "4711"}
NODE = {"children": [], "message": None}


def write(folder: Path, files: Mapping[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, tree in files.items():
        (folder / name).write_text(tree if isinstance(tree, str) else json.dumps(tree), encoding="utf-8")


def memories(bench: Bench, data: str) -> list[dict[str, Any]]:
    bench("new", "benchmark", "sheds", "--from", data)
    bench("validate", "configs/benchmarks/sheds.yaml")
    lines = bench("describe", "sheds", "--memories").stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def message(at: int, role: str, *parts: object) -> dict[str, Any]:
    when = None if role == "system" else 1709370900.5 + at
    return {"id": f"m{at}", "author": {"role": role}, "create_time": when, "content": {"parts": list(parts)}}


def test_all_text_parts_of_a_message_are_ingested(bench: Bench, tmp_path: Path) -> None:
    parts = [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "The code is 4711."},
    ]
    row = {**QUESTION, "messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": parts[:1]}]}
    write(tmp_path / "data", {"d.json": [row]})
    assert [one["content"] for one in memories(bench, "data/d.json")] == [
        "user: Look.\nThe code is 4711.",
        "assistant: Look.",
    ]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("${$.parts[*].text|join:' '}", "a b"),
        ("${$.parts[*].text|default:'x'|join:' '}", "a b"),
        ("${$.none[*].text|default:'x'|join:' '}", "x"),
        ("${$.parts[*].text}", "a"),
        ("${lists|join:'-'}", '1-{"k":"v"}'),
        ("${$.parts[0]} ${flag}", '{"text":"a"} true'),
    ],
)
def test_a_template_joins_all_values_and_shows_objects_as_json(
    template: str, text: str, bench: Bench, tmp_path: Path
) -> None:
    turn = {"parts": [{"text": "a"}, {"image": 1}, {"text": "b"}], "lists": [1, None, {"k": "v"}], "flag": True}
    write(tmp_path, {"d.jsonl": json.dumps({**QUESTION, "turns": [turn]})})
    config = f"""
name: sheds
version: "1"
data: {{type: local, path: ./d.jsonl}}
schema:
  itemId: id
  question: question
  answer: answer
  context: {{field: turns, type: session, itemSchema: {{content: {json.dumps(template)}}}}}
ingestion: {{mode: incremental}}
evaluation: {{method: contains}}
metrics: [accuracy]
"""
    write(tmp_path / "configs/benchmarks", {"sheds.yaml": config})
    assert json.loads(bench("describe", "sheds", "--memories").stdout)["content"] == text


def test_a_telegram_export_keeps_bold_words_and_names(bench: Bench, tmp_path: Path) -> None:
    day = "2024-03-02T09:15:0"
    bold = [{"type": "plain", "text": "The code is "}, {"type": "bold", "text": "4711"}]
    chat = {"name": "Nora", "type": "personal_chat", "id": 5, "messages": [
        {"id": 1, "type": "service", "date": f"{day}0", "actor": "Nora", "text": "", "text_entities": []},
        {"id": 2, "type": "message", "date": f"{day}1", "from": "Nora", "text": ["The code is ", bold[1]],
         "text_entities": bold},
        {"id": 3, "type": "message", "date": f"{day}2", "from": "Karl", "text": "Thanks!",
         "text_entities": [{"type": "plain", "text": "Thanks!"}]},
    ]}  # fmt: skip
    write(tmp_path / "data", {"result.json": chat, "questions.json": [{**QUESTION, "evidence": [2]}]})
    assert [one["content"] for one in memories(bench, "data")] == ["Nora: The code is 4711", "Karl: Thanks!"]


@pytest.mark.parametrize("first", [0, 1])
def test_a_telegram_export_without_text_entities_keeps_every_text(bench: Bench, tmp_path: Path, first: int) -> None:
    texts = ["The code is 4711.", ["The ", {"type": "bold", "text": "key"}, " is blue."], ""]
    people = [{"from": "Nora"}, {"from": "Karl"}, {"from": "Nora", "photo": "p.jpg"}, {"actor": "Nora"}]
    sent = [{"id": 7 + at, "date": f"2024-03-02T09:15:0{at}", "text": text, **who}
            for at, (text, who) in enumerate(zip([*texts, ""], people, strict=True))]  # fmt: skip
    chat = {"name": "Nora", "id": 5, "messages": [sent[first], *sent[:first], *sent[first + 1 :]]}
    write(tmp_path / "data", {"result.json": chat, "questions.json": [{**QUESTION, "evidence": [7]}]})
    assert {one["content"] for one in memories(bench, "data")} == {"Nora: The code is 4711.", "Karl: The key is blue."}
    assert "2 turns are blank" in bench("validate", "configs/benchmarks/sheds.yaml").stderr


@pytest.mark.parametrize("order", [1, -1])
def test_a_message_is_read_as_a_text_or_as_parts(bench: Bench, tmp_path: Path, order: int) -> None:
    parts = [{"type": "text", "text": "It is"}, {"type": "image_url", "image_url": {"url": "x"}},
             {"type": "text", "text": "blue."}]  # fmt: skip
    sent = [{"role": "user", "content": "The code is 4711."}, {"role": "assistant", "content": parts}]
    write(tmp_path / "data", {"d.json": [{**QUESTION, "messages": sent[::order]}]})
    shown = ["user: The code is 4711.", "assistant: It is\nblue."]
    assert [one["content"] for one in memories(bench, "data/d.json")] == shown[::order]


def test_a_chatgpt_export_has_dates_and_its_branches_are_noted(bench: Bench, tmp_path: Path) -> None:
    mapping = {
        "r": {**NODE, "children": ["a"]},
        "a": {"children": ["b", "c"], "message": message(0, "system", "")},
        "b": {"children": [], "message": message(1, "user", "The code is 1111.")},
        "c": {"children": [], "message": message(2, "user", {"asset": "x"}, "The code is 4711.", None)},
    }
    talks = [{"title": "Shed", "conversation_id": f"c{at}", "mapping": mapping} for at in range(2)]
    write(
        tmp_path / "data",
        {"conversations.json": talks, "questions.json": [{**QUESTION, "conversation_id": "c1"}]},
    )
    found = bench("new", "benchmark", "sheds", "--from", "data")
    assert "some messages have several replies" in found.stderr
    shown = [json.loads(line) for line in bench("describe", "sheds", "--memories").stdout.splitlines()]
    assert [one["content"] for one in shown] == ["user: The code is 1111.", 'user: {"asset":"x"}The code is 4711.']
    assert [one["when"] for one in shown] == ["2024-03-02T09:15:01Z", "2024-03-02T09:15:02Z"]


@pytest.mark.parametrize("count", [1, 3])
def test_a_chatgpt_export_is_read_with_questions_that_name_no_conversation(
    bench: Bench, tmp_path: Path, count: int
) -> None:
    mapping = {
        "r": {**NODE, "id": "r", "parent": None, "children": ["a"]},
        "a": {"id": "a", "parent": "r", "children": ["b"], "message": message(1, "user", "The code is 4711.")},
        "b": {"id": "b", "parent": "a", "children": [], "message": message(2, "assistant", "Noted.")},
    }
    talks = [{"title": f"Shed {at}", "create_time": 1709370900.5, "mapping": mapping, "current_node": "b",
              "conversation_id": f"c{at}", "id": f"c{at}"} for at in range(count)]  # fmt: skip
    write(tmp_path / "data", {"conversations.json": talks, "questions.json": [QUESTION, {**QUESTION, "id": "q2"}]})
    texts = "\n".join(one["content"] for one in memories(bench, "data"))
    assert texts.count("user: The code is 4711.") == texts.count("assistant: Noted.") == count
    assert "Shed" not in texts


def test_a_chat_export_with_a_single_conversation_is_read(bench: Bench, tmp_path: Path) -> None:
    messages = [{"uuid": "m1", "sender": "human", "text": "The code is 4711.", "created_at": "2024-03-02T09:15:00Z"}]
    talk = {"uuid": "u1", "name": "Shed", "created_at": "2024-03-02T09:15:00Z", "chat_messages": messages}
    write(tmp_path / "data", {"conversations.json": [talk], "questions.json": [QUESTION]})
    assert [one["content"] for one in memories(bench, "data")] == ["2024-03-02T09:15:00Z\nhuman: The code is 4711."]


def test_the_tokens_of_a_text_are_not_ingested_as_memories(bench: Bench, tmp_path: Path) -> None:
    story = {"text": "Nora lived in Lund.", "summary": {"text": "On Nora.", "tokens": ["On", "Nora", "."]}}
    row = {"document": {"id": "d1", **story}, "question": {"text": "Where did Nora live?", "tokens": ["Where", "?"]},
           "answers": [{"text": "Lund", "tokens": ["Lund"]}]}  # fmt: skip
    write(tmp_path / "data", {"d.jsonl": json.dumps(row) + "\n" + json.dumps(row)})
    assert {one["content"] for one in memories(bench, "data/d.jsonl")} == {"Nora lived in Lund."}


def test_a_folder_with_unreadable_files_is_refused_with_the_reason(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path / "data", {"questions.csv": "id;question;answer\nq1;What?;4711\n", "chat.txt": "Nora: 4711"})
    done = bench("new", "benchmark", "sheds", "--from", "data", check=2)
    assert "questions.csv is not used" in done.stderr and "the header has one field only" in done.stderr


def test_a_full_disk_before_the_first_row_is_an_error_and_starts_no_run(
    bench: Bench, tmp_path: Path, environment: dict[str, str]
) -> None:
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000));"
        "from bench.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", limited, "run", "demo", "bm25", "--limit", "4", "--run-id", "r"]
    Path(__file__).touch()  # git status would refresh its index, and the disk is full
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # no truncated bytecode is left
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    named = subprocess.run(
        ["git", "rev-parse", "--path-format=absolute", "--git-path", "index.lock"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert named.returncode or not Path(named.stdout.strip()).exists()
    assert "error: the disk is full; the run was not started" in done.stderr
    assert "make room, then repeat the command" in done.stderr
    assert not [*tmp_path.glob("checkpoints/*")]
