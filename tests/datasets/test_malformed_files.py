"""Malformed, compressed and wrongly encoded data files: the error names place, reason and correction."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench.datasets.rows.json_array import DEEPEST
from bench.datasets.rows.row_reader import RowFile
from bench.errors import BenchError, DataError
from tests.datasets.conftest import Workspace
from tests.rows import each_row

ROW = '{"id": "1", "q": "Q?", "a": "A", "c": "C"}'
TWO = '{"id": "2", "q": "Q?", "a": "A", "c": "C"}'
UTF8 = "save the file as UTF-8"
CORRECT = "correct or remove the row"
ROWS = "check the file and its format"
OBJECT = "make each row an object of fields"
FLAT = "flatten the row"
LARGE = "write it as text"

TABLE = """
name: table
version: "1"
data: {{type: local, path: ./datasets/{file}}}
schema: {{itemId: id, question: q, answer: a, context: {{field: c, type: string}}}}
evaluation: {{method: exact-match}}
metrics: [accuracy]
"""


def refusal(workspace: Workspace, file: str, data: bytes) -> tuple[str, str]:
    """Return the message and hint of opening this file as a benchmark, without the folder."""
    workspace.yaml("table", TABLE.format(file=file))
    path = workspace.root / "datasets" / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    with pytest.raises(BenchError) as caught:
        workspace.open("table")
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{path.parent}/", ""), caught.value.hint


@each_row(
    ("data", "text", "hint"),
    [
        ("", "x.json: there are no rows", ROWS),
        ("\ufeff", "x.json: there are no rows", ROWS),
        (" \n\t ", "x.json: there are no rows", ROWS),
        ("[]", "x.json: there are no rows", ROWS),
        ("\ufeff[ ]\n", "x.json: there are no rows", ROWS),
        ("5", "x.json: [0]: row is not an object: 5", OBJECT),
        ('"text"', 'x.json: [0]: row is not an object: "text"', OBJECT),
        ("null", "x.json: [0]: row is not an object: null", OBJECT),
        ("[null]", "x.json: [0]: row is not an object: null", OBJECT),
        (f"[{ROW}, 1]", "x.json: [1]: row is not an object: 1", OBJECT),
        (f"[1, {ROW}]", "x.json: [0]: row is not an object: 1", OBJECT),
        (f"[[{ROW}]]", "x.json: [0]: row is not an object: a list", OBJECT),
        (f"[{ROW}", "x.json: [1]: row is malformed: premature EOF", CORRECT),
        (f"[{ROW},", "x.json: [1]: row is malformed: premature EOF", CORRECT),
        (f"[{ROW}, {TWO[:-3]}", "x.json: [1]: row is malformed: premature EOF", CORRECT),
        (f"[{ROW},]", "x.json: [1]: row is malformed: unallowed token at this point in JSON text", CORRECT),
        (f"[{ROW} {TWO}]", "x.json: [1]: row is malformed: after array element, I expect ',' or ']'", CORRECT),
        (f"[{ROW}] {ROW}", "x.json: [1]: row is malformed: trailing garbage", CORRECT),
        ("[{'id': 1}]", "x.json: [0]: row is malformed: lexical error: invalid char in json text.", CORRECT),
        ('[{"id": NaN}]', "x.json: [0]: row is malformed: lexical error: invalid char in json text.", CORRECT),
        ("{", "x.json: [0]: row is malformed: Expecting property name enclosed in double quotes", CORRECT),
        (
            f"{ROW}\n{TWO}\n",
            "x.json: [0]: row is malformed: Extra data",
            "set data.format to jsonl if the file has one row per line",
        ),
    ],
)
def test_a_malformed_JSON_file_is_refused_with_its_row_and_reason(
    tmp_path: Path, data: str, text: str, hint: str
) -> None:
    workspace = Workspace(tmp_path)
    assert refusal(workspace, "x.json", data.encode()) == (text, hint)


@each_row(
    ("data", "text", "hint"),
    [
        ("", "x.jsonl: there are no rows", ROWS),
        ("\ufeff\n\r\n  \n", "x.jsonl: there are no rows", ROWS),
        (f"{ROW}\n{TWO[:20]}", "x.jsonl:2: row is malformed: Unterminated string starting at", CORRECT),
        (f"{ROW}\n\n{TWO},", "x.jsonl:3: row is malformed: Extra data", CORRECT),
        (f"{ROW}\r\n5\r\n", "x.jsonl:2: row is not an object: 5", OBJECT),
        (f"{ROW}{TWO}", "x.jsonl:1: row is malformed: Extra data", CORRECT),
        (f"{ROW}\r{TWO}", "x.jsonl:1: row is malformed: Extra data", CORRECT),
        (ROW.replace('"C"', "-Infinity"), "x.jsonl:1: row is malformed: -Infinity is not JSON", CORRECT),
        (ROW.replace("C", "C\tC"), "x.jsonl:1: row is malformed: Invalid control character at", CORRECT),
        ("\0\0", "x.jsonl:1: row is malformed: Expecting value", CORRECT),
        (
            f"[{ROW}]",
            "x.jsonl:1: row is the start of a JSON array; expected one object",
            "set data.format to json, or write one row per line",
        ),
        (
            f"\n [\n{ROW},\n",
            "x.jsonl:2: row is the start of a JSON array; expected one object",
            "set data.format to json, or write one row per line",
        ),
    ],
)
def test_a_malformed_JSONL_line_is_refused_with_its_line_number(
    tmp_path: Path, data: str, text: str, hint: str
) -> None:
    workspace = Workspace(tmp_path)
    assert refusal(workspace, "x.jsonl", data.encode()) == (text, hint)


HEAD = "id,q,a,c\n"
COMMA = "put a field in quotes if it contains a comma or a line end"


@each_row(
    ("data", "text", "hint"),
    [
        ("", "x.csv: there are no rows", ROWS),
        (HEAD, "x.csv: there are no rows", ROWS),
        (f"{HEAD}\n\n", "x.csv: there are no rows", ROWS),
        ("\ufeff", "x.csv:1: the header line is empty", "write the names of the fields in the first line"),
        (f"\n{HEAD}1,Q,A,C\n", "x.csv:1: the header line is empty", "write the names of the fields in the first line"),
        (",,\n1,2,3\n", 'x.csv:1: the header names "" twice', "rename a column"),
        ("id,q,a,q\n", 'x.csv:1: the header names "q" twice', "rename a column"),
        ("id;q;a\n1;2;3\n", 'x.csv:1: the header has one field only, "id;q;a"', "separate the fields with commas"),
        ("id\tq\n1\t2\n", 'x.csv:1: the header has one field only, "id\tq"', "separate the fields with commas"),
        (
            "id,q,a,c\r1,Q,A,C\r",
            "x.csv:1: the header cannot be read: new-line character seen in unquoted field",
            "end each line with a line feed, and close every quote",
        ),
        (
            '"id,q\n',
            "x.csv:1: the header cannot be read: unexpected end of data",
            "end each line with a line feed, and close every quote",
        ),
        (f"{HEAD}1,Q,A\n", "x.csv:2: row has 3 fields, but the header has 4", COMMA),
        (f"{HEAD}1,Q,A,C,D\n", "x.csv:2: row has 5 fields, but the header has 4", COMMA),
        (f'{HEAD}1,Q,A,"two\nlines"\n2,Q\n', "x.csv:4: row has 2 fields, but the header has 4", COMMA),
        (f'{HEAD}1,Q,A,"C\n', "x.csv:2: row is malformed: unexpected end of data", CORRECT),
        (f'{HEAD}1,Q,A,"C"C\n', "x.csv:2: row is malformed: ',' expected after '\"'", CORRECT),
        ("id,q,a\n1,Q,A\n", "x.csv:2: c is missing (row 1)", "correct the row, or the config that maps the data"),
    ],
)
def test_a_malformed_CSV_file_is_refused_with_its_line_and_reason(
    tmp_path: Path, data: str, text: str, hint: str
) -> None:
    workspace = Workspace(tmp_path)
    assert refusal(workspace, "x.csv", data.encode()) == (text, hint)


@each_row(
    ("encoding", "file", "text"),
    [
        ("utf-16", "x.json", "x.json: [0]: the text is not UTF-8"),
        ("utf-16", "x.jsonl", "x.jsonl:1: the text is not UTF-8"),
        ("utf-16", "x.csv", "x.csv:1: the text is not UTF-8"),
        ("utf-32", "x.csv", "x.csv:1: the text is not UTF-8"),
        ("utf-16-le", "x.json", "x.json: [0]: row is malformed: lexical error: invalid char in json text."),
        ("utf-16-be", "x.json", "x.json: [0]: row is malformed: Expecting value"),
        ("utf-16-le", "x.csv", "x.csv:1: the header contains NUL characters"),
    ],
)
def test_UTF_16_and_UTF_32_files_are_refused_as_not_UTF_8(
    workspace: Workspace, encoding: str, file: str, text: str
) -> None:
    data = {"x.json": f"[{ROW}]", "x.jsonl": ROW, "x.csv": f"{HEAD}1,Q,A,C\n"}[file]
    assert refusal(workspace, file, data.encode(encoding)) == (text, CORRECT if "malformed" in text else UTF8)


@each_row(
    ("file", "data", "text"),
    [
        ("x.json", f"[{ROW},{TWO}]".replace("A", "ß", 1), "x.json: [0]: the text is not UTF-8"),
        ("x.json", f"[{ROW},{TWO.replace('A', 'ß')}]", "x.json: [1]: the text is not UTF-8"),
        ("x.json", ROW.replace("A", "ß"), "x.json: [0]: the text is not UTF-8"),
        ("x.jsonl", f"{ROW}\n{TWO.replace('A', 'ß')}", "x.jsonl:2: the text is not UTF-8"),
        ("x.csv", f"{HEAD}1,Q,A,C\n2,Q,ß,C\n", "x.csv:3: the text is not UTF-8"),
        ("x.csv", "id,q,ß,c\n", "x.csv:1: the text is not UTF-8"),
    ],
)
def test_Latin_1_text_is_refused_at_its_row(workspace: Workspace, file: str, data: str, text: str) -> None:
    assert refusal(workspace, file, data.encode("latin-1")) == (text, UTF8)


def test_findings_before_invalid_bytes_are_reported_too(workspace: Workspace) -> None:
    data = f"{HEAD}1,Q,A\n2,Q,A,ß\n3,Q\n".encode("latin-1")
    text, _ = refusal(workspace, "x.csv", data)
    assert text.splitlines() == [
        "x.csv:2: row has 3 fields, but the header has 4",
        "error: x.csv:3: the text is not UTF-8",
    ]


@each_row(
    ("data", "kind", "hint"),
    [
        (gzip.compress(ROW.encode(), mtime=0), "gzip", "add the suffix .gz to the name of the file"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd", "unpack the file"),
        (b"PK\x03\x04\x14\x00", "zip", "unpack the file"),
        (b"BZh91AY&SY", "bzip2", "unpack the file"),
        (b"\xfd7zXZ\x00", "xz", "unpack the file"),
        (b"PAR1\x15\x04", "parquet", "set data.format: parquet"),
    ],
)
@each_row("file", ["x.json", "x.jsonl", "x.csv"])
def test_a_compressed_or_binary_file_is_recognized_by_its_first_bytes(
    tmp_path: Path, file: str, data: bytes, kind: str, hint: str
) -> None:
    workspace = Workspace(tmp_path)
    assert refusal(workspace, file, data) == (f"{file}: the file is {kind}, not {file[2:]}", hint)


def nested(depth: int) -> str:
    return f'{ROW[:-1]}, "x": {"[" * depth}{"]" * depth}}}'


@each_row("depth", [DEEPEST // 2 + 100, DEEPEST + 1, 60_000])
@each_row(("file", "place"), [("x.json", "x.json: [1]"), ("x.jsonl", "x.jsonl:2")])
def test_a_deeply_nested_row_is_refused_without_a_crash(
    workspace: Workspace, depth: int, file: str, place: str
) -> None:
    deep = nested(depth).replace('"1"', '"3"')
    data = f"[{ROW},{deep}]" if file == "x.json" else f"{ROW}\n{deep}"
    assert refusal(workspace, file, data.encode()) == (f"{place}: row is nested too deeply", FLAT)


def test_deeply_nested_objects_are_refused(workspace: Workspace) -> None:
    deep = '{"a":' * 30_000 + "1" + "}" * 30_000
    assert refusal(workspace, "x.json", f"[{deep}]".encode()) == ("x.json: [0]: row is nested too deeply", FLAT)
    assert refusal(workspace, "x.json", ("[" * 70_000).encode()) == ("x.json: [0]: row is nested too deeply", FLAT)


def test_a_row_nested_200_levels_deep_is_read(tmp_path: Path) -> None:
    for name, data in (("x.json", f"[{nested(200)}]"), ("x.jsonl", nested(200))):
        (tmp_path / name).write_text(data, encoding="utf-8")
        (row,) = RowFile.open(tmp_path / name, "json" if name == "x.json" else "jsonl")
        assert row.values == json.loads(nested(200))


def test_brackets_inside_text_do_not_count_as_nesting(tmp_path: Path) -> None:
    text = "[{" * 4 * DEEPEST + '\\"' + "[" * 2 * DEEPEST
    path = tmp_path / "x.json"
    path.write_text(f'[{{"id": 1, "c": "{text}", "d": [[1]]}}, {{"id": 2}}]', encoding="utf-8")
    assert [row.error for row in RowFile.open(path, "json")] == [None, None]


@each_row("number", ["1e400", "-1e400", "1" + "0" * 400])
@each_row(("file", "place"), [("x.json", "x.json: [0]"), ("x.jsonl", "x.jsonl:1")])
def test_a_number_beyond_the_range_of_a_double_is_refused(
    workspace: Workspace, number: str, file: str, place: str
) -> None:
    row = ROW.replace('"A"', number)
    data = f"[{row}]" if file == "x.json" else row
    assert refusal(workspace, file, data.encode()) == (
        f"{place}: row contains a number beyond the range of a double",
        LARGE,
    )


@pytest.mark.parametrize(("file", "place"), [("x.json", "x.json: [0]"), ("x.jsonl", "x.jsonl:1")])
def test_an_integer_of_5000_digits_is_refused_without_a_crash(workspace: Workspace, file: str, place: str) -> None:
    row = ROW.replace('"A"', "9" * 5000)
    text, _ = refusal(workspace, file, (f"[{row}]" if file == "x.json" else row).encode())
    assert text.startswith(f"{place}: row is malformed: Exceeds the limit (4300 digits) for integer string conversion")


def test_an_exponent_that_Decimal_cannot_represent_is_refused(workspace: Workspace) -> None:
    row = ROW.replace('"A"', "1e99999999999999999999")
    assert refusal(workspace, "x.json", f"[{row}]".encode()) == (
        "x.json: [0]: row is malformed: a number is out of range",
        CORRECT,
    )


@pytest.mark.parametrize(
    ("file", "data", "places"),
    [
        ("x.json", f"[{ROW},{ROW}]", ("x.json: [0]", "x.json: [1]")),
        ("x.jsonl", f"\n{ROW}\n\n{ROW}", ("x.jsonl:2", "x.jsonl:4")),
        ("x.csv", f'{HEAD}1,Q,A,"C\n\nC"\n1,Q,A,C\n', ("x.csv:2", "x.csv:5")),
    ],
)
def test_a_repeated_item_id_is_reported_with_both_rows(
    workspace: Workspace, file: str, data: str, places: tuple[str, str]
) -> None:
    text, hint = refusal(workspace, file, data.encode())
    assert (
        text
        == f'{places[1]}: item id "1" occurs twice: {workspace.root}/datasets/{places[0]} and {places[1]}'.replace(
            f"{workspace.root}/datasets/", ""
        )
    )
    assert hint == "give each item its own id"


def test_at_most_twenty_findings_are_reported(workspace: Workspace) -> None:
    text, _ = refusal(workspace, "x.jsonl", b"{}\n" * 50)
    lines = text.splitlines()
    assert len(lines) == 21
    assert lines[0] == "x.jsonl:1: id is missing"
    assert lines[19] == "error: x.jsonl:20: id is missing"
    assert lines[20].endswith("x.jsonl:21 and later rows were not checked, after 20 errors in rows")


def test_a_long_value_is_shortened_to_100_characters_in_messages(workspace: Workspace) -> None:
    row = ROW.replace('"C"', str([0] * 500))
    assert refusal(workspace, "x.jsonl", row.encode())[0] == "x.jsonl:1: c must be text, not: a list (row 1)"
    row = ROW.replace('"1"', '{"x": 1}')
    assert refusal(workspace, "x.jsonl", row.encode())[0] == "x.jsonl:1: id must be an id, not: a map of keys"
    row = ROW.replace('"Q?"', "1" * 300)
    text, _ = refusal(workspace, "x.jsonl", row.encode())
    assert text == f"x.jsonl:1: q must be text, not: {'1' * 97}... (row 1)"


def test_an_unreadable_file_is_reported_with_its_path_and_reason(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        RowFile.open(tmp_path, "csv")
    assert (str(caught.value), caught.value.hint) == (
        f"{tmp_path}: cannot read the file: Is a directory",
        "check the path",
    )
    with pytest.raises(DataError, match="cannot read the file: No such file or directory"):
        RowFile.open(tmp_path / "gone.json", "json")


@each_row(("file", "data"), [("x.json", f"[{ROW}]"), ("x.jsonl", ROW), ("x.csv", f"{HEAD}1,Q,A,C\n")])
@each_row("later", ["", "{", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]" * 4, "1" * 60, "\n" * 60])
def test_a_file_that_changed_after_its_check_is_reported(tmp_path: Path, file: str, data: str, later: str) -> None:
    workspace = Workspace(tmp_path)
    workspace.yaml("table", TABLE.format(file=file))
    path = workspace.data(file, data)
    dataset = workspace.open("table")
    path.write_text(later, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        dataset.item("1")
    assert str(caught.value) == f"{path}: the file has changed since it was checked"
    assert caught.value.hint == "run the command again"


def test_a_file_that_was_deleted_after_its_check_is_reported(workspace: Workspace) -> None:
    workspace.yaml("table", TABLE.format(file="x.jsonl"))
    path = workspace.data("x.jsonl", ROW)
    dataset = workspace.open("table")
    path.unlink()
    with pytest.raises(DataError, match="has changed since it was checked"):
        dataset.corpus("1")
