"""A turn without visible text is not ingested, in any format of the history, and is counted in a note."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.visible_text import is_blank
from tests.cli.conftest import Bench
from tests.rows import each_row

HEAD = """
name: trips
version: "1"
data: {type: local, path: ./trips.json}
evaluation: {method: contains}
metrics: [accuracy, hit_at_5]
"""
LISTED = """
schema:
  {itemId: id, question: q, answer: a,
   context: {field: history, type: array, itemSchema: {role: $.role, content: $.content, id: $.id}}}
evidence: {turnIdsField: gold, parser: direct}
"""
KEYED = """
schema:
  {itemId: id, question: q, answer: a,
   context: {field: history, type: object, itemSchema: {role: $.role, content: $.content, id: $.id}}}
evidence: {turnIdsField: gold, parser: direct}
"""
TEXT = "schema: {itemId: id, question: q, answer: a, context: {field: history, type: string}}\n"
TEXTS = "schema: {itemId: id, question: q, answer: a, context: {field: history, type: array}}\n"
SHARED = "schema: {itemId: id, question: q, answer: a, context: {field: history, type: string}}\ncorpus: {field: c}\n"

RUN = ("--benchmarks", "trips", "--providers", "bm25", "--answering-model", "builtin/extractive")
BLANK = " \u200b\n"
SPOKEN = {"role": "user", "content": "The 9:05 goes to Lund.", "id": "t1"}
SILENT = {"role": "user", "content": BLANK, "id": "t2"}


def row(history: object, **more: object) -> dict[str, object]:
    return {"id": "q1", "q": "Which goes to Lund?", "a": "9:05", "history": history, "gold": ["t1"], **more}


def write(folder: Path, schema: str, rows: list[dict[str, object]]) -> str:
    (folder / "trips.json").write_text(json.dumps(rows), encoding="utf-8")
    config = folder / "configs" / "benchmarks" / "trips.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(HEAD + schema, encoding="utf-8")
    return str(config)


IN_A_LIST = [row([[SPOKEN, SILENT], [SILENT | {"id": "t3"}]])]
BY_KEY = [row({"session_1": [SPOKEN, SILENT], "session_2": [SILENT | {"id": "t3"}]})]
AS_TEXTS = [row([SPOKEN["content"], BLANK, "\ufeff"])]
IN_ROWS = [row(SPOKEN["content"], c="x"), row(BLANK, c="x", id="q2"), row("\u3164", c="x", id="q3")]


@pytest.mark.parametrize(
    ("schema", "rows", "unit"),
    [
        (LISTED, IN_A_LIST, "session-based"),
        (LISTED, IN_A_LIST, "incremental"),
        (LISTED, IN_A_LIST, "bulk"),
        (KEYED, BY_KEY, "bulk"),
        (TEXTS, AS_TEXTS, "incremental"),
        (SHARED, IN_ROWS, "session-based"),
        (SHARED, IN_ROWS, "bulk"),
    ],
)
def test_blank_turns_are_not_ingested_and_are_noted(
    schema: str, rows: list[dict[str, object]], unit: str, tmp_path: Path, bench: Bench
) -> None:
    path = write(tmp_path, schema + f"ingestion: {{mode: {unit}}}\n", rows)
    note = "2 turns are blank (only white space or hidden characters) and not ingested"
    assert note in bench("validate", path).stderr + bench("validate", path).stdout
    (memory,) = bench("describe", "trips", "--memories", "--json").stdout.splitlines()
    assert "9:05" in memory and BLANK not in json.loads(memory)["content"]
    assert note in json.loads(bench("plan", "--benchmarks", "trips", "--providers", "bm25", "--json").stdout)["notes"]
    bench("run", *RUN, "--run-id", "r")
    assert note in bench("results", "r").stdout
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert note in job["notes"] and job["metrics"]["accuracy"]["value"] == 1.0


@pytest.mark.parametrize(
    ("schema", "history"),
    [(LISTED, [[SILENT]]), (KEYED, {"session_1": [SILENT]}), (TEXT, BLANK), (TEXTS, [BLANK, ""])],
)
def test_a_history_of_blank_turns_only_is_an_error(schema: str, history: object, tmp_path: Path, bench: Bench) -> None:
    path = write(tmp_path, schema, [row(history, gold=[])])
    done = bench("validate", path, check=None)
    assert done.returncode == 2 and "history contains no memory" in done.stderr and "q1" in done.stderr


def test_an_item_whose_evidence_is_a_blank_turn_has_no_retrieval_score(tmp_path: Path, bench: Bench) -> None:
    path = write(tmp_path, LISTED + "ingestion: {mode: incremental}\n", [row([[SPOKEN, SILENT]], gold=["t2"])])
    done = bench("validate", path)
    assert '"t2" of item "q1"' in done.stdout + done.stderr
    bench("run", *RUN, "--run-id", "r")
    assert '"t2" of item "q1"' in bench("results", "r").stdout.replace("\n", " ")
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert job["metrics"]["hit_at_5"]["n"] == 0


@each_row("text", ["", " \t\n", "\u200b", "\ufeff", "\u2800", "\u3164", "\u3000", "\u00ad\u200d", "\ufe0f"])
def test_white_space_and_hidden_characters_are_blank(text: str) -> None:
    assert is_blank(text) and not is_blank(f"{text}.") and not is_blank(f"{text}水")
