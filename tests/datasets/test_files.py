"""Rows, digests and the index: streaming, memory use, and reading a row again by offset."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from bench.config.catalog import Catalog
from bench.datasets import Selection, open_benchmark
from bench.datasets.draft.config_draft import draft_benchmark
from bench.datasets.rows.data_file import ContentDigest, canonical
from bench.datasets.rows.index import IdTable
from bench.datasets.rows.row import loads_lenient
from bench.datasets.rows.row_reader import RowFile
from bench.datasets.validation import validate_benchmark
from bench.errors import UsageError
from tests.datasets.conftest import Workspace

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
ROWS = st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), min_size=1, max_size=6)


@given(ROWS, st.sampled_from([None, 1, 4]), st.booleans())
def test_each_row_of_a_JSON_array_can_be_read_again_by_offset(rows, indent, bom) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        text = json.dumps(rows, indent=indent, ensure_ascii=indent is None)
        path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())
        file = RowFile.open(path, "json")
        seen = list(file)
        assert [row.error for row in seen] == [None] * len(rows)
        assert [file.read(row.offset, row.length)[1] for row in seen] == rows


def test_JSONL_lines_and_CSV_records_can_be_read_again_by_offset(tmp_path: Path) -> None:
    lines = tmp_path / "x.jsonl"
    lines.write_bytes('\ufeff{"a": "é"}\r\n\n{"a": "日本"}'.encode())
    table = tmp_path / "x.csv"
    table.write_bytes('\ufeffa,b\r\n"x\r\ny",1\r\n\r\n"q ""z""",2'.encode())
    for path, kind, expected in (
        (lines, "jsonl", [{"a": "é"}, {"a": "日本"}]),
        (table, "csv", [{"a": "x\r\ny", "b": "1"}, {"a": 'q "z"', "b": "2"}]),
    ):
        file = RowFile.open(path, kind)
        rows = list(file)
        assert [row.values for row in rows] == expected
        assert [file.read(row.offset, row.length)[1] for row in rows] == expected


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5))
def test_the_canonical_form_of_a_row_follows_RFC_8785(row) -> None:
    assert canonical(row) == rfc8785.dumps(row)


def test_content_sha256_ignores_white_space_but_not_order() -> None:
    def digest(*texts: str) -> str:
        folded = ContentDigest()
        for text in texts:
            folded.add(loads_lenient(text.encode()))
        return folded.hexdigest()

    one = digest('{"a": 1.50, "b": "x"}', "{}")
    assert one == digest('{ "b":"x",\n "a":1.5 }', "{}")
    assert one != digest("{}", '{"a": 1.50, "b": "x"}')
    by_hand = b"".join(hashlib.sha256(text).digest() for text in (b'{"a":1.5,"b":"x"}', b"{}"))
    assert one == hashlib.sha256(by_hand).hexdigest()


@given(st.lists(st.text(max_size=6)))
def test_IdTable_numbers_distinct_texts_in_order(texts: list[str]) -> None:
    table = IdTable()
    added = [table.add(text) for text in texts]
    distinct = list(dict.fromkeys(texts))
    assert list(table) == distinct
    assert [table.find(text) for text in distinct] == list(range(len(distinct)))
    assert [index for index in added if index is not None] == list(range(len(distinct)))


def _many(workspace: Workspace, count: int) -> str:
    rows = ({"id": f"item-{n:06d}", "content": f"fact {n}", "question": "q", "answer": "a"} for n in range(count))
    path = workspace.manifest("many")
    with (path.parent / "data.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return "many"


def test_m1_the_index_needs_fewer_than_80_bytes_per_item(workspace: Workspace) -> None:
    kept = []
    for count in (200, 500):
        config = workspace.config(_many(workspace, count))
        tracemalloc.start()
        try:
            dataset = open_benchmark(config, workspace.root)
            kept.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert len(dataset) == count
        del dataset
    assert (kept[1] - kept[0]) / 300 < 80


@pytest.mark.parametrize("rows", [1_500, pytest.param(9_500, marks=pytest.mark.long)])
def test_m1_a_large_file_loads_in_bounded_memory(workspace: Workspace, rows: int) -> None:
    path = workspace.manifest("large")
    words = "lorem ipsum dolor sit amet " * 1200
    with (path.parent / "data.jsonl").open("w", encoding="utf-8") as file:
        for n in range(rows):
            row = {"id": f"r{n}", "content": f"{n} {words}", "question": "q", "answer": "a"}
            file.write(json.dumps(row) + "\n")
    size_kb = (path.parent / "data.jsonl").stat().st_size // 1000
    script = (
        "import re, sys; from pathlib import Path; from bench.config.catalog import Catalog;"
        "from bench.datasets import Selection, open_benchmark;"
        "root = Path(sys.argv[1]); data = open_benchmark(Catalog.load(root).benchmark('large'), root);"
        "refs = list(data.items(Selection(start=1401, end=1450)));"
        "[(data.item(ref), data.memories(ref.corpus)) for ref in refs];"
        # VmHWM, not ru_maxrss: that one begins with the size of the process that started this one
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(workspace.root)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < min(200_000, 60_000 + size_kb)


def test_opening_a_local_file_writes_no_file_next_to_it(workspace: Workspace) -> None:
    path = workspace.manifest("notes", [{"id": "1", "content": "c", "question": "q", "answer": "a"}])
    workspace.open("notes")
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["data.jsonl", "manifest.json"]


def test_r6_a_repeated_question_is_two_items(workspace: Workspace) -> None:
    row = {"content": "c", "question": "same", "answer": "a"}
    workspace.manifest("twice", [{"id": "1", **row}, {"id": "2", **row}])
    dataset = workspace.open("twice")
    assert [dataset.item(ref).question for ref in dataset.items()] == ["same", "same"]


def test_c6_a_missing_data_file_error_names_the_download_command(workspace: Workspace) -> None:
    catalog = Catalog.load(workspace.root)
    with pytest.raises(Exception, match="is missing:") as caught:
        open_benchmark(catalog.benchmark("longmemeval"), workspace.root)
    assert "bench download longmemeval" in str(getattr(caught.value, "hint", ""))
    report = validate_benchmark(catalog.find("benchmarks", "longmemeval").path, catalog)
    assert report.ok and any("not on disk" in note for note in report.notes)


def test_k2_validate_reports_a_missing_evaluator_file(workspace: Workspace) -> None:
    path = workspace.yaml(
        "custom",
        'name: custom\nversion: "1"\ndata: {type: local, path: ./d.jsonl}\n'
        "schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}\n"
        "evaluation: {method: custom, customEvaluator: './judge.py:Judge'}\nmetrics: [accuracy]\n",
    )
    (path.parent / "d.jsonl").write_text('{"id": "1", "q": "q", "a": "a", "c": "c"}\n')
    report = validate_benchmark(path, Catalog.load(workspace.root))
    assert [str(error) for error in report.errors] == [f'{path}:5:30: "./judge.py" is not there']
    (path.parent / "judge.py").write_text("class Judge: ...\n")
    assert validate_benchmark(path, Catalog.load(workspace.root)).ok


def test_a_missing_local_file_is_an_error_unless_localPath_is_set(workspace: Workspace) -> None:
    text = (
        'name: gone\nversion: "1"\ndata: {type: local, path: ./d.jsonl}\n'
        "schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}\n"
        "evaluation: {method: exact-match}\nmetrics: [accuracy]\n"
    )
    path = workspace.yaml("gone", text)
    report = validate_benchmark(path, Catalog.load(workspace.root))
    assert [str(error) for error in report.errors] == [f'{path}:3:21: the data file "./d.jsonl" is not there']
    path.write_text(text.replace("./d.jsonl}", "./d.jsonl, localPath: ./d.jsonl}"))
    report = validate_benchmark(path, Catalog.load(workspace.root))
    assert report.ok and report.notes == ("the data is not on disk: bench download gone --from FILE",)


@pytest.mark.parametrize(
    "row",
    [
        {"id": "1", "content": "c", "question": "q", "answer": "a"},
        {"question_id": "1", "haystack_sessions": [[{"role": "user", "content": "x"}]],
         "haystack_dates": ["2024-01-01"], "haystack_session_ids": ["s"],
         "question": "q", "answer": 5, "question_type": "t"},
        {"sample_id": "1", "conversation": {"session_1": [{"speaker": "A", "text": "x", "dia_id": "D1:1"}]},
         "qa": [{"question": "q", "answer": "a", "evidence": ["D1:1"], "category": 1}]},
        {"uid": "1", "items": [{"id": "x", "content": "c"}], "query": "q"},
    ],
)  # fmt: skip
def test_a_drafted_config_of_each_common_shape_validates(workspace: Workspace, row) -> None:
    data = workspace.root / "datasets" / "mine.json"
    data.parent.mkdir()
    data.write_text(json.dumps([row]), encoding="utf-8")
    started = draft_benchmark("mine", data, workspace.root)
    started.path.parent.mkdir(parents=True)
    started.path.write_text(started.text, encoding="utf-8")
    report = validate_benchmark(started.path, Catalog.load(workspace.root))
    assert report.ok, [str(error) for error in report.errors]
    assert len(list(workspace.open("mine").items(Selection(limit=5)))) == 1
    with pytest.raises(UsageError, match=r"configs/benchmarks/mine\.yaml exists already"):
        draft_benchmark("mine", data, workspace.root)


def test_a_draft_without_data_contains_example_data_that_loads(workspace: Workspace) -> None:
    started = draft_benchmark("fresh", None, workspace.root)
    for path, text in started.files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert workspace.open("fresh").counts.items == 2
