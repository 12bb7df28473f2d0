"""Data that would be lost without an error: dates, copies, ids and evidence texts are mapped or reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bench
from tests.cli.test_data_shapes import put

TURNS = [{"text": "Hello there.", "at": "2024-03-12 21:04"}, {"text": "It is blue.", "at": "2024-03-13 08:00"}]
DATED = "  answer: a\n  context: {field: talk, type: session, itemSchema: {content: text, date: at}}\n"
GROWING = [
    {"id": "1", "conv": "c", "q": "Who built it?", "a": "Ann", "talk": ["Where is it?", "In Norrvik."]},
    {"id": "2", "conv": "c", "q": "When?", "a": "1901", "talk": ["Where is it?", "In Norrvik.", "Who?", "Ann."]},
]
SAME_TEXT = "1 session contains a text that another row of the corpus also has"


def stored(bench: Bench, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bench("describe", name, "--memories", "--json").stdout.splitlines()]


@pytest.mark.parametrize("mode", ["session-based", "incremental", "bulk"])
@pytest.mark.parametrize("header", ["session", "always"])
def test_the_date_of_a_turn_is_stored_and_with_dateHeader_always_also_in_the_text(
    bench: Bench, mode: str, header: str
) -> None:
    path = put("d", [{"id": "1", "q": "Which?", "a": "blue", "talk": TURNS}], DATED)
    config = Path(path).read_text().replace("mode: session-based", f"mode: {mode}, dateHeader: {header}")
    Path(path).write_text(config)
    found = stored(bench, "d")
    days = ["2024-03-12T21:04:00Z", "2024-03-13T08:00:00Z"][: len(found)]
    assert [one["when"] for one in found] == days
    assert [one["content"].startswith(f"{day}\n") for one, day in zip(found, days, strict=True)] == [
        header == "always"
    ] * len(found)


def test_sessions_with_the_text_of_another_row_of_the_corpus_are_counted(bench: Bench) -> None:
    schema = "  answer: a\n  context: {field: talk, type: session, itemSchema: {content: $}}\n"
    path = put("g", GROWING, schema, "corpus: {field: conv}\n")
    assert SAME_TEXT in bench("validate", path).stderr
    assert any(SAME_TEXT in note for note in json.loads(bench("describe", "g", "--json").stdout)["notes"])
    assert SAME_TEXT not in bench("validate", put("h", GROWING, schema)).stderr


def test_texts_in_a_list_take_the_session_id_that_is_mapped(bench: Bench) -> None:
    schema = '  answer: a\n  context: {field: talk, type: array, itemSchema: {id: "$keys[-1]", content: $}}\n'
    path = put("i", GROWING, schema, "corpus: {field: conv}\n")
    assert SAME_TEXT not in bench("validate", path).stderr
    assert [one["session"] for one in stored(bench, "i")] == ["0", "1", "2", "3"]


def test_evidence_texts_that_no_memory_contains_are_counted(bench: Bench) -> None:
    rows = [{"id": str(at), "q": f"Q{at}?", "a": "blue", "c": "The key is blue.", "span": span}
            for at, span in enumerate(["key is  blue", "key is blu", "key was blue"])]  # fmt: skip
    schema = "  answer: a\n  context: {field: c, type: string}\n"
    path = put("e", rows, schema, "evidence: {textsField: span}\n")
    output = "1 item has an evidence text that no memory contains exactly"
    assert output in bench("validate", path).stderr


def test_new_hints_at_a_symbolic_link_for_an_unknown_file_suffix(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "Q.v1.dev").write_text("{}\n")
    assert "ln -s Q.v1.dev Q.v1.dev.jsonl" in bench("new", "benchmark", "m", "--from", "Q.v1.dev", check=2).stderr


def test_an_empty_turn_is_rejected_with_a_template_that_allows_it(bench: Bench) -> None:
    path = put("t", [{"id": "1", "q": "Which?", "a": "blue", "talk": [*TURNS, {"text": None, "at": None}]}], DATED)
    hint = """if this field can be empty, write "${text|default:''}\""""
    assert hint in bench("validate", path, check=2).stderr


def test_items_that_can_see_fewer_sessions_than_their_own_row_has_are_counted(bench: Bench) -> None:
    schema = '  answer: a\n  context: {field: talk, type: array, itemSchema: {id: "$keys[-1]", content: $}}\n'
    rows = [one | {"n": n} for one, n in zip(GROWING, (2, 3), strict=True)]
    path = put("v", rows, schema, "corpus: {field: conv}\nvisibility: {field: n}\n")
    output = "1 item can see fewer sessions than its own row has"
    assert output in bench("validate", path).stderr
    put("v", [rows[0], rows[1] | {"n": 4}], schema, "corpus: {field: conv}\nvisibility: {field: n}\n")
    assert output not in bench("validate", path).stderr
