"""What data loses without an error: dates, copies, ids and quotes that reach no memory are mapped or said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bench
from tests.cli.test_data_shapes import put

SAID = [{"text": "Hello there.", "at": "2024-03-12 21:04"}, {"text": "It is blue.", "at": "2024-03-13 08:00"}]
DATED = "  answer: a\n  context: {field: talk, type: session, itemSchema: {content: text, date: at}}\n"
GROWING = [
    {"id": "1", "conv": "c", "q": "Who built it?", "a": "Ann", "talk": ["Where is it?", "In Norrvik."]},
    {"id": "2", "conv": "c", "q": "When?", "a": "1901", "talk": ["Where is it?", "In Norrvik.", "Who?", "Ann."]},
]
ALIKE = "1 session has the text of a session in another row of the corpus"


def stored(bench: Bench, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bench("describe", name, "--memories", "--json").stdout.splitlines()]


@pytest.mark.parametrize("mode", ["session-based", "incremental", "bulk"])
@pytest.mark.parametrize("header", ["session", "always"])
def test_the_date_of_a_turn_reaches_the_memory_and_the_text_when_asked(bench: Bench, mode: str, header: str) -> None:
    path = put("d", [{"id": "1", "q": "Which?", "a": "blue", "talk": SAID}], DATED)
    config = Path(path).read_text().replace("mode: session-based", f"mode: {mode}, dateHeader: {header}")
    Path(path).write_text(config)
    found = stored(bench, "d")
    days = ["2024-03-12T21:04:00Z", "2024-03-13T08:00:00Z"][: len(found)]
    assert [one["when"] for one in found] == days
    assert [one["content"].startswith(f"{day}\n") for one, day in zip(found, days, strict=True)] == [
        header == "always"
    ] * len(found)


def test_growing_histories_of_one_corpus_are_counted(bench: Bench) -> None:
    schema = "  answer: a\n  context: {field: talk, type: session, itemSchema: {content: $}}\n"
    path = put("g", GROWING, schema, "corpus: {field: conv}\n")
    assert ALIKE in bench("validate", path).stderr
    assert any(ALIKE in note for note in json.loads(bench("describe", "g", "--json").stdout)["notes"])
    assert ALIKE not in bench("validate", put("h", GROWING, schema)).stderr


def test_a_plain_text_of_a_list_takes_the_id_that_is_mapped(bench: Bench) -> None:
    schema = '  answer: a\n  context: {field: talk, type: array, itemSchema: {id: "$keys[-1]", content: $}}\n'
    path = put("i", GROWING, schema, "corpus: {field: conv}\n")
    assert ALIKE not in bench("validate", path).stderr
    assert [one["session"] for one in stored(bench, "i")] == ["0", "1", "2", "3"]


def test_evidence_texts_that_no_memory_holds_are_counted(bench: Bench) -> None:
    rows = [{"id": str(at), "q": f"Q{at}?", "a": "blue", "c": "The key is blue.", "span": span}
            for at, span in enumerate(["key is  blue", "key is blu", "key was blue"])]  # fmt: skip
    schema = "  answer: a\n  context: {field: c, type: string}\n"
    path = put("e", rows, schema, "evidence: {textsField: span}\n")
    told = "1 item has an evidence text that no memory contains exactly"
    assert told in bench("validate", path).stderr


def test_data_of_an_unknown_suffix_names_the_way_out(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "Q.v1.dev").write_text("{}\n")
    assert "ln -s Q.v1.dev Q.v1.dev.jsonl" in bench("new", "benchmark", "m", "--from", "Q.v1.dev", check=2).stderr


def test_an_empty_cell_of_a_turn_names_the_template_that_allows_it(bench: Bench) -> None:
    path = put("t", [{"id": "1", "q": "Which?", "a": "blue", "talk": [*SAID, {"text": None, "at": None}]}], DATED)
    hint = """if this field can be empty, write "${text|default:''}\""""
    assert hint in bench("validate", path, check=2).stderr


def test_a_cut_off_that_hides_part_of_what_its_own_row_brings_is_said(bench: Bench) -> None:
    schema = '  answer: a\n  context: {field: talk, type: array, itemSchema: {id: "$keys[-1]", content: $}}\n'
    rows = [one | {"n": n} for one, n in zip(GROWING, (2, 3), strict=True)]
    path = put("v", rows, schema, "corpus: {field: conv}\nvisibility: {field: n}\n")
    told = "1 item can see fewer sessions than its own row has"
    assert told in bench("validate", path).stderr
    put("v", [rows[0], rows[1] | {"n": 4}], schema, "corpus: {field: conv}\nvisibility: {field: n}\n")
    assert told not in bench("validate", path).stderr
