"""Laws of reading rows: formats agree, truncated files give their complete rows, offsets lead to rows."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets.rows.row import FileRow, FloatText, loads_lenient
from bench.datasets.rows.row_reader import Format, RowFile
from bench.datasets.rows.table_rows import EMPTY, without_empty_cells
from bench.errors import DataError
from tests.rows import each_row

Row = Mapping[str, object]
# no separator of other dialects: a lone name with one in it is refused
NAMES = st.text(alphabet="abcéß日🚲 {}[]\"\\,:\n\r'", min_size=1, max_size=6)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=5)
TABLES = st.lists(NAMES, min_size=1, max_size=4, unique=True).flatmap(
    lambda names: st.tuples(
        st.just(names), st.lists(st.lists(TEXTS, min_size=len(names), max_size=len(names)), max_size=5)
    )
)


@contextmanager
def on_disk(data: bytes, form: Format) -> Iterator[RowFile]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.{form}"
        path.write_bytes(data)
        yield RowFile.open(path, form)


def read(data: bytes, form: Format) -> list[FileRow]:
    with on_disk(data, form) as file:
        return list(file)


def again(data: bytes, form: Format) -> tuple[list[Row | None], list[Row]]:
    """Return the rows in order, and each row read again by its offset."""
    with on_disk(data, form) as file:
        rows = list(file)
        return [row.values for row in rows], [file.read(row.offset, row.length)[1] for row in rows]


def as_array(rows: Sequence[Row], *, indent: int | None = None, escape: bool = False) -> bytes:
    return json.dumps(rows, indent=indent, ensure_ascii=escape).encode()


def as_lines(rows: Sequence[Row], *, end: str = "\n") -> bytes:
    return end.join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


@given(ROWS, st.sampled_from([None, 2]), st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n \n"]))
def test_a_JSON_array_and_JSONL_give_equal_rows(rows: list[Row], indent: int | None, escape: bool, end: str) -> None:
    assert again(as_array(rows, indent=indent, escape=escape), "json") == (rows, rows)
    assert again(as_lines(rows, end=end), "jsonl") == (rows, rows)


@given(TABLES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_CSV_file_gives_back_the_written_records(
    table: tuple[list[str], list[list[str]]], end: str, bom: bool
) -> None:
    names, records = table
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    writer.writerows(records)
    expected = [dict(zip(names, record, strict=True)) for record in records]
    data = buffer.getvalue().encode()
    assert again((b"\xef\xbb\xbf" if bom else b"") + data, "csv") == (expected, expected)


@given(ROWS, st.data())
def test_a_truncated_JSON_array_gives_its_complete_rows_and_an_error(rows: list[Row], data: st.DataObject) -> None:
    whole = as_array(rows)
    at = data.draw(st.integers(1, len(whole) - 1))
    found = read(whole[:at], "json")
    assert [row.values for row in found[:-1]] == rows[: len(found) - 1]
    assert found[-1].values is None and found[-1].error is not None
    assert str(found[-1].error).split(": ")[1] == f"[{len(found) - 1}]"


@given(ROWS, st.data())
def test_truncated_JSONL_loses_at_most_its_last_row(rows: list[Row], data: st.DataObject) -> None:
    whole = as_lines(rows)
    at = data.draw(st.integers(1, len(whole)))
    found = read(whole[:at], "jsonl")
    complete = whole[:at].count(b"\n")
    assert [row.values for row in found[:complete]] == rows[:complete]
    assert len(found) <= complete + 1
    assert all(row.error is None for row in found[:complete])


@given(st.binary(max_size=60), st.sampled_from(["json", "jsonl", "csv"]))
def test_reading_any_bytes_raises_only_DataError(data: bytes, form: Format) -> None:
    try:
        found = read(data, form)
    except DataError as error:
        assert error.where is not None and error.hint
        return
    for row in found:
        assert (row.values is None) == (row.error is not None)
        assert row.error is None or (row.error.where is not None and row.error.hint)


@each_row("shift", range(65_520, 65_540))
def test_a_row_across_the_read_buffer_boundary_is_complete(tmp_path: Path, shift: int) -> None:
    rows = [{"id": "a", "c": "x" * shift}, {"id": "é🚲", "c": ["}{", '"}'], "n": 1.50}, {"id": "b"}]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(rows, ensure_ascii=shift % 2 == 0), encoding="utf-8")
    file = RowFile.open(path, "json")
    found = list(file)
    assert [row.values for row in found] == rows
    assert [file.read(row.offset, row.length)[1] for row in found] == rows


@each_row("shift", range(65_500, 65_530))
def test_a_surrogate_half_across_the_read_buffer_boundary_is_unchanged(tmp_path: Path, shift: int) -> None:
    path = tmp_path / "x.json"
    path.write_text('[{"c": "' + "x" * shift + '\\ud83d"}]', encoding="utf-8")
    (row,) = RowFile.open(path, "json")
    assert row.values == {"c": "x" * shift + "\ud83d"}


@each_row("number", ["1.50", "1e2", "0.0000001", "-0.0", "1E+2", "123456789.123456789123456789"])
def test_a_decimal_number_has_its_original_text_in_every_format(number: str) -> None:
    row = f'{{"n": {number}}}'.encode()
    array, lines = read(b"[" + row + b"]", "json")[0], read(row, "jsonl")[0]
    for values in (array.values, lines.values, loads_lenient(row)):
        assert isinstance(values, Mapping)
        value = values["n"]
        assert isinstance(value, FloatText) and value.text == number
        assert value == float(number)


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_repeated_key_in_an_object_is_refused(form: Format) -> None:
    """One of the two values would be lost silently."""
    row = b'{"id": 1, "deep": [{"a": 1, "a": 2}]}'
    (found,) = read(b"[" + row + b"]" if form == "json" else row, form)
    assert found.error is not None
    assert 'the key "a" occurs twice in one object' in found.error.message


def test_JSONL_accepts_any_line_end_and_no_final_line_end() -> None:
    found = read(b'{"a": 1}\r\n{"a": "\xe2\x80\xa8"}\n\n{"a": 3}', "jsonl")
    assert [(row.place.line, row.values) for row in found] == [(1, {"a": 1}), (2, {"a": "\u2028"}), (4, {"a": 3})]


def test_a_single_JSON_object_is_one_row() -> None:
    data = b'\xef\xbb\xbf \n {"a": [1, {"b": 2}]} \n'
    assert again(data, "json") == ([{"a": [1, {"b": 2}]}], [{"a": [1, {"b": 2}]}])


def test_a_JSON_array_may_follow_long_white_space() -> None:
    assert [row.values for row in read(b" " * 70_000 + b'[{"a": 1}]', "json")] == [{"a": 1}]


@given(st.lists(st.sampled_from(['{"a": 1}', "", "  ", '{"b": "x"}']), min_size=1, max_size=12))
def test_the_line_number_of_a_row_is_correct(lines: list[str]) -> None:
    with on_disk("\n".join(lines).encode(), "jsonl") as file:
        for row in file:
            assert lines[(row.place.line or 0) - 1].strip()


def test_a_field_of_3_MB_is_read_in_every_format(tmp_path: Path) -> None:
    text = "z" * 3_000_000
    files: dict[Format, str] = {
        "json": json.dumps([{"a": text}]),
        "jsonl": json.dumps({"a": text}),
        "csv": f'a,b\n"{text}",1\n',
    }
    for form, data in files.items():
        path = tmp_path / f"x.{form}"
        path.write_text(data, encoding="utf-8")
        (row,) = RowFile.open(path, form)
        assert row.values is not None and row.values["a"] == text


def test_an_empty_CSV_cell_is_an_empty_text_marked_as_empty_cell() -> None:
    (row,) = read(b'a,b,c\n,"", \n', "csv")
    assert row.values == {"a": "", "b": "", "c": " "}
    assert [row.values[name] is EMPTY for name in "abc"] == [True, True, False]
    assert without_empty_cells(row.values) == {"c": " "}
    assert without_empty_cells({"a": "", "b": None}) == {"a": "", "b": None}, "a text of JSON may be empty"
    assert json.dumps(row.values) == '{"a": "", "b": "", "c": " "}'
