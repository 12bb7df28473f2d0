"""T3: any text or number of a provider or a dataset is written as UTF-8 and valid JSON, or is a named error."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from tests.local_server import LocalServers
from tests.scenarios.program import ONE_BY_ONE, bench, clean
from tests.small_world import World

TEXT = "caf\u00e9 \U0001f9e0 line\u2028separator \u202e \u0000nul"
UNUSUAL = f"{TEXT} lone \ud83d end"
NO_UTF8 = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SCORES = {"K0x0": "0.5", "K0x1": "Infinity", "K0x2": "1e400", "K0x3": "NaN", "K0x4": "-Infinity", "K0x5": '"inf"'}
"""the score of the first hit by the item in the query"""


async def unusual_provider(request: web.Request) -> web.Response:
    """Answer a search with one memory of unusual text whose score is not a JSON number."""
    if request.path != "/v1/search":
        return web.json_response({"job_id": "j", "count": 0})
    query = (await request.json())["query"]
    score = next((score for name, score in SCORES.items() if name in query), "1")
    memory = f"The vault {query.split()[-1].rstrip('?')} opens with {UNUSUAL}"
    body = f'{{"results": [{{"id": "m\\ud83d", "memory": {json.dumps(memory)}, "score": {score}}}]}}'
    return web.Response(body=body.encode(), content_type="application/json")


def no_constant(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


def strict_json(text: bytes) -> object:
    """Parse one document as the JSON standard requires: UTF-8, no NaN, no Infinity."""
    return json.loads(text.decode("utf-8"), parse_constant=no_constant)


async def test_T3_unusual_text_and_infinite_scores_are_written_as_utf8_and_json_in_any_locale(tmp_path: Path) -> None:
    World.make(tmp_path, corpora=1, items=7)
    path = tmp_path / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text(encoding="utf-8"))
    row["qa"][0]["a"] = row["qa"][6]["a"] = TEXT
    row["sessions"][0][0]["content"] += " " + TEXT
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    servers = LocalServers()
    variables = {"FAULT_URL": await servers.start(unusual_provider), "HOME": str(tmp_path / "home"), **NO_UTF8}

    printed = tmp_path / "printed"
    printed.mkdir()

    async def call(*commands: list[str]) -> list[bytes]:
        command = [sys.executable, "-c", ONE_BY_ONE, json.dumps(commands), str(printed)]
        done = await anyio.run_process(command, cwd=tmp_path, env=clean(**variables), check=False)
        for path in printed.iterdir():
            assert "Traceback" not in path.read_text(encoding="utf-8")
        assert done.returncode == 0, [path.read_text(encoding="utf-8") for path in printed.glob("*.err")]
        return [(printed / f"{number}.out").read_bytes() for number in range(len(commands))]

    flags = ["--benchmarks", "facts", "--providers", "faulty", "--answering-model", "builtin/extractive"]
    out = tmp_path / "items.parquet"
    receipts = tmp_path / "results/t3/receipts"
    report_commands = (["results", "t3"], ["failures", "t3"], ["status", "t3"], ["list", "runs"])
    _, shown, lines, table, *others = await call(
        ["run", *flags, "--run-id", "t3", "--isolation", "off", "--max-error-rate", "1"],
        *(["export", "t3", "--format", form] for form in ("json", "jsonl", "csv")),
        ["export", "t3", "--format", "parquet", "--output", str(out)],
        ["export", "t3", "--format", "trec", "--output", str(tmp_path / "trec")],
        ["keys", "new"],
        ["sign", "t3"],
        ["verify", str(receipts)],
        *report_commands,
        *([*command, "--json"] for command in report_commands),
    )
    await servers.close()
    check_items(strict_json(shown))  # type: ignore[arg-type]
    check_items([strict_json(line) for line in lines.split(b"\n") if line])  # type: ignore[misc]
    written = list(csv.DictReader(io.StringIO(table.decode("utf-8"), newline="")))
    assert ["lone \\ud83d end" in row["answer"] for row in written] == [True] * 7
    import pyarrow.parquet

    exported = pyarrow.parquet.read_table(out).to_pylist()
    assert ["lone \\ud83d end" in (row["answer"] or "") for row in exported] == [True] * 7
    assert [file.read_text(encoding="utf-8").count("\n") for file in sorted((tmp_path / "trec").iterdir())] == [0, 0]
    assert len(list(receipts.glob("*.json"))) == 1
    for text in others[-len(report_commands) :]:
        strict_json(text)
    for file in (tmp_path / "results").rglob("*.*"):
        if file.suffix in (".json", ".jsonl", ".log"):
            whole = file.read_bytes()
            for document in whole.split(b"\n") if file.suffix != ".json" else [whole]:
                assert not document or strict_json(document) is not None
        elif file.suffix in (".md", ".html"):
            file.read_text(encoding="utf-8")


def check_items(rows: list[dict[str, Any]]) -> None:
    """Check that the unusual text is unchanged and that a score that is not a number is no error of the item."""
    items = {row["item_id"]: row for row in rows}
    for sound in (items["c0q0"], items["c0q6"]):
        assert sound["error"] is None and sound["expected"] == [TEXT]
        assert UNUSUAL in sound["hits"][0]["content"] and UNUSUAL in sound["answer"]
    for item in ("c0q1", "c0q2", "c0q3", "c0q4", "c0q5"):
        assert items[item]["error"] is None and items[item]["hits"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (json.dumps(UNUSUAL), "contains half of a surrogate pair"),
        ("Infinity", "Infinity"),
        ("-Infinity", "Infinity"),
        ("NaN", "NaN"),
        ("1e400", "beyond the range"),
    ],
)
def test_T3_a_dataset_row_with_invalid_text_or_number_is_an_error_with_its_line(
    tmp_path: Path, answer: str, message: str
) -> None:
    world = World.make(tmp_path, corpora=2, items=2)
    path = tmp_path / "datasets" / "facts.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"W1y1"', answer), encoding="utf-8")
    done = bench(world.workspace, "run", "--benchmarks", "facts", "--providers", "bm25", **NO_UTF8)
    assert done.returncode == 2
    stderr = done.stderr.decode("utf-8")
    assert "facts.jsonl:2" in stderr and message in stderr
