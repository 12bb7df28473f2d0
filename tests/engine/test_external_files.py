"""External result files: valid lines and errors of each line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine.external_rows import JSONL_HINT, TREC_HINT, ExternalRow, read_external
from bench.errors import DataError, UsageError
from tests.rows import each_row


def file_of(folder: Path, content: str | bytes) -> Path:
    path = folder / "theirs"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def row(path: Path, line: int, item: str, **more: object) -> ExternalRow:
    return ExternalRow(item=item, where=f"{path}:{line}", **more)  # type: ignore[arg-type]


def test_a_row_has_hits_an_answer_or_both(tmp_path: Path) -> None:
    path = file_of(
        tmp_path,
        '{"item": "q1", "hits": ["s3", ["s1", "s2"]], "answer": "blue"}\n'
        "\n"
        '{"item": 7, "hits": [4, [5, "x"], []]}\n'
        '{"item": "q3", "answer": ""}\n'
        '{"item": "q4", "hits": [], "answer": null}\n',
    )
    assert read_external(path) == [
        row(path, 1, "q1", hits=(("s3",), ("s1", "s2")), answer="blue"),
        row(path, 3, "7", hits=(("4",), ("5", "x"), ())),
        row(path, 4, "q3", answer=""),
        row(path, 5, "q4", hits=()),
    ]


@each_row(
    ("line", "message"),
    [
        ('{"item": "q2", "hits": ["a"]', "the line is not JSON: "),
        ("[1]", "a row must be a JSON object"),
        ('"q2"', "a row must be a JSON object"),
        ("null", "a row must be a JSON object"),
        ("[" * 100_000, "the line is not JSON: "),
        ('{"item": "q2", "hit": ["a"]}', 'unknown key "hit"'),
        ('{"hits": ["a"]}', '"item" must be the id of an item'),
        ('{"item": "", "hits": ["a"]}', '"item" must be the id of an item'),
        ('{"item": true, "hits": ["a"]}', '"item" must be the id of an item'),
        ('{"item": 1.5, "hits": ["a"]}', '"item" must be the id of an item'),
        ('{"item": ["q2"], "hits": ["a"]}', '"item" must be the id of an item'),
        ('{"item": "q2", "hits": ["a"], "answer": 3}', '"answer" must be text'),
        ('{"item": "q2", "hits": ["a"], "answer": ["x"]}', '"answer" must be text'),
        ('{"item": "q2"}', 'the row has neither "hits" nor "answer"'),
        ('{"item": "q2", "hits": null, "answer": null}', 'the row has neither "hits" nor "answer"'),
        ('{"item": "q2", "hits": "a"}', '"hits" must be a list of ids, or of lists of ids'),
        ('{"item": "q2", "hits": {"a": 1}}', '"hits" must be a list of ids, or of lists of ids'),
        ('{"item": "q2", "hits": [null]}', '"hits" must be a list of ids, or of lists of ids'),
        ('{"item": "q2", "hits": [""]}', '"hits" must be a list of ids, or of lists of ids'),
        ('{"item": "q2", "hits": [["a", false]]}', '"hits" must be a list of ids, or of lists of ids'),
        ('{"item": "q2", "hits": [[["a"]]]}', '"hits" must be a list of ids, or of lists of ids'),
    ],
)
def test_an_invalid_json_line_is_an_error_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = file_of(tmp_path, f'{{"item": "q1", "answer": "x"}}\n{line}\n')
    with pytest.raises(DataError) as refused:
        read_external(path)
    assert refused.value.message.startswith(message)
    assert (refused.value.where, refused.value.hint) == (f"{path}:2", JSONL_HINT)


def test_an_item_that_occurs_twice_names_both_lines(tmp_path: Path) -> None:
    path = file_of(tmp_path, '{"item": 1, "answer": "x"}\n{"item": "2", "answer": "x"}\n{"item": "1", "answer": "x"}\n')
    with pytest.raises(DataError) as refused:
        read_external(path)
    assert (refused.value.message, refused.value.where) == ('item "1" occurs twice', f"{path}:3")
    assert refused.value.hint == f"remove one of the two; the first is at {path}:1"


def test_hits_of_a_trec_file_are_sorted_by_score_and_then_rank(tmp_path: Path) -> None:
    path = file_of(
        tmp_path,
        "q1 Q0 a 9 0.5 me\nq2 Q0 x 1 -inf me\nq1 Q0 b 2 0.7 me\nq1 Q0 c 1 0.5 me\n\n  q1\tQ0  d 3 1e3   me\n",
    )
    assert read_external(path) == [
        row(path, 1, "q1", hits=(("d",), ("b",), ("c",), ("a",))),
        row(path, 2, "q2", hits=(("x",),)),
    ]


@given(scores=st.lists(st.tuples(st.floats(allow_nan=False), st.integers(0, 9)), min_size=1, max_size=12))
def test_a_trec_ranking_is_sorted_by_score_for_any_order_of_lines(
    tmp_path_factory: pytest.TempPathFactory, scores: list[tuple[float, int]]
) -> None:
    lines = [f"q Q0 h{at} {rank} {score!r} t" for at, (score, rank) in enumerate(scores)]
    path = file_of(tmp_path_factory.mktemp("trec"), "\n".join(lines))
    (found,) = read_external(path)
    assert found.hits is not None
    order = [(-scores[int(name[1:])][0], scores[int(name[1:])][1]) for (name,) in found.hits]
    assert order == sorted(order)
    assert len(order) == len(scores)


@each_row(
    ("line", "message", "hint"),
    [
        ("q1 Q0 b 2 0.7", "the line has 5 fields, but a line of a TREC run has 6", TREC_HINT),
        ("q1 Q0 b c 2 0.7 me", "the line has 7 fields, but a line of a TREC run has 6", TREC_HINT),
        ("q1 Q0 b first 0.7 me", "rank must be a whole number and score a number, not first and 0.7", TREC_HINT),
        ("q1 Q0 b 1.5 0.7 me", "rank must be a whole number and score a number, not 1.5 and 0.7", TREC_HINT),
        ("q1 Q0 b 2 high me", "rank must be a whole number and score a number, not 2 and high", TREC_HINT),
        ("q1 Q0 b 2 nan me", "the score nan is not a number", TREC_HINT),
        ('{"item": "q1", "answer": "x"}', "the line has 4 fields, but a line of a TREC run has 6", TREC_HINT),
    ],
)
def test_an_invalid_trec_line_is_an_error_with_its_line(tmp_path: Path, line: str, message: str, hint: str) -> None:
    path = file_of(tmp_path, f"q1 Q0 a 1 0.9 me\n{line}\n")
    with pytest.raises(DataError) as refused:
        read_external(path)
    assert (refused.value.message, refused.value.where, refused.value.hint) == (message, f"{path}:2", hint)


def test_a_hit_that_occurs_twice_names_both_lines(tmp_path: Path) -> None:
    path = file_of(tmp_path, "q1 Q0 a 1 0.9 me\nq2 Q0 a 1 0.9 me\nq1 Q0 a 2 0.8 me\n")
    with pytest.raises(DataError) as refused:
        read_external(path)
    assert (refused.value.message, refused.value.where) == ('hit "a" of item "q1" occurs twice', f"{path}:3")
    assert refused.value.hint == f"remove one of the two; the first is at {path}:1"


@each_row("content", ["", "\n", "  \n\t\n", "\ufeff", "\ufeff\n"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, content: str) -> None:
    path = file_of(tmp_path, content)
    with pytest.raises(DataError) as refused:
        read_external(path)
    assert (refused.value.message, refused.value.where) == ("the file has no rows", str(path))


@each_row("mark", ["", "\ufeff"])
@each_row("end", ["\n", "\r\n"])
def test_a_byte_order_mark_and_crlf_line_ends_are_accepted(tmp_path: Path, mark: str, end: str) -> None:
    path = file_of(tmp_path, mark + '{"item": "q1", "answer": "é"}' + end + '{"item": "q2", "answer": "x"}' + end)
    assert [(one.item, one.answer) for one in read_external(path)] == [("q1", "é"), ("q2", "x")]


@each_row(
    "incomplete", [b'{"item": "q2", "ans', b'{"item": "q2", "answer": "caf\xc3', b'{"item": "q2", "answer": "x"', b"{"]
)
def test_an_incomplete_last_line_is_ignored(tmp_path: Path, incomplete: bytes) -> None:
    path = file_of(tmp_path, b'{"item": "q1", "answer": "x"}\n' + incomplete)
    assert [one.item for one in read_external(path)] == ["q1"]


def test_a_last_line_without_a_line_end_is_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, '{"item": "q1", "answer": "x"}\n{"item": "q2", "answer": "y"}')
    assert [one.item for one in read_external(path)] == ["q1", "q2"]
    path = file_of(tmp_path, '{"item": "q1", "answer": "x"}\n{"item": "q2"}')
    with pytest.raises(DataError, match='neither "hits" nor "answer"'):
        read_external(path)


def test_an_incomplete_only_line_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the line is not JSON"):
        read_external(file_of(tmp_path, '{"item": "q1", "ans'))


@pytest.mark.parametrize("line", [1, 2])
def test_text_that_is_not_utf_8_is_an_error_with_its_line(tmp_path: Path, line: int) -> None:
    lines = [b'{"item": "q1", "answer": "x"}\n', b'{"item": "q2", "answer": "y"}\n', b'{"item": "q3", "answer": "z"}\n']
    lines[line - 1] = lines[line - 1].replace(b"item", b"it\xe4m")
    path = file_of(tmp_path, b"".join(lines))
    with pytest.raises(DataError) as refused:
        read_external(path)
    assert (refused.value.message, refused.value.where) == ("the file is not UTF-8 text", f"{path}:{line}")
    assert refused.value.hint == "save the file as UTF-8"


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*gone: No such file or directory"):
        read_external(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"cannot read .*: Is a directory"):
        read_external(tmp_path)


@given(
    rows=st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.tuples(st.none() | st.lists(st.text(min_size=1, max_size=3), max_size=4), st.text(max_size=5)),
        min_size=1,
        max_size=5,
    )
)
def test_json_lines_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[str, tuple[list[str] | None, str]]
) -> None:
    lines = [json.dumps({"item": item, "hits": hits, "answer": answer}) for item, (hits, answer) in rows.items()]
    found = read_external(file_of(tmp_path_factory.mktemp("json"), "\n".join(lines)))
    assert [(one.item, one.hits, one.answer) for one in found] == [
        (item, None if hits is None else tuple((hit,) for hit in hits), answer) for item, (hits, answer) in rows.items()
    ]


def test_each_hit_of_a_trec_file_keeps_its_line_number(tmp_path: Path) -> None:
    path = file_of(tmp_path, "q1 Q0 a 3 1.0 x\nq2 Q0 b 1 5.0 x\nq1 Q0 c 1 9.0 x\nq1 Q0 d 2 4.0 x\n")
    first, second = read_external(path)
    assert [(hit, first.where_of(slot)) for slot, hit in enumerate(first.hits or ())] == [
        (("c",), f"{path}:3"),
        (("d",), f"{path}:4"),
        (("a",), f"{path}:1"),
    ]
    assert second.where_of(0) == f"{path}:2"
    jsonl = file_of(tmp_path, '\n{"item": "q1", "hits": ["a", "b"]}\n')
    assert [read_external(jsonl)[0].where_of(slot) for slot in (0, 1)] == [f"{jsonl}:2"] * 2
