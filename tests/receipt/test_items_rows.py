"""The items file line by line: valid rows, canonical lines, and the exact message of each rejection."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.receipt.receipt_making as make
from bench.canonical import dumps, sha256_hex
from bench.receipt import merkle
from bench.receipt.items_file import ItemsWriter, ReadLine, RunningDigests, read_items
from tests.rows import each_row

Json = dict[str, Any]
HEX = "ab" * 32


def full() -> Json:
    """A row without null values."""
    return make.row(1, 1, answerSha256=sha256_hex(b"yes"), answer="yes")


def read(*lines: bytes) -> list[ReadLine]:
    return list(read_items(io.BytesIO(b"".join(lines)), RunningDigests()))


def problem(row: object) -> str | None:
    (line,) = read(dumps(row) + b"\n")
    return line.problem


# One line per field: path, a value that is rejected, the beginning of the message.
FIELDS: list[tuple[str, object, str]] = [
    ("itemId", None, "itemId: Input should be a valid string"),
    ("itemId", 7, "itemId: Input should be a valid string"),
    ("itemId", "", "itemId: String should have at least 1 character"),
    ("epoch", 0, "epoch: Input should be greater than or equal to 1"),
    ("epoch", "1", "epoch: Input should be a valid integer"),
    ("epoch", 1.5, "epoch: Input should be a valid integer"),
    ("epoch", True, "epoch: Input should be a valid integer"),
    ("epoch", None, "epoch: Input should be a valid integer"),
    ("corpusId", None, "corpusId: Input should be a valid string"),
    ("corpusId", ["c"], "corpusId: Input should be a valid string"),
    ("state", "done", "state: Input should be 'correct', 'incorrect', 'partial', 'abstained', 'error', "),
    ("state", "Correct", "state: Input should be 'correct', "),
    ("state", None, "state: Input should be 'correct', "),
    ("errorKind", "", "errorKind: String should have at least 1 character"),
    ("errorKind", 500, "errorKind: Input should be a valid string"),
    ("errorKind", "timeout", "errorKind must be present if the state is error, and only then"),
    ("attempts", -1, "attempts: Input should be greater than or equal to 0"),
    ("attempts", None, "attempts: Input should be a valid integer"),
    ("labels", None, "labels: Input should be a valid dictionary"),
    ("labels", [], "labels: Input should be a valid dictionary"),
    ("labels", {"type": None}, "labels.type: Input should be a valid string"),
    ("labels", {"type": 1}, "labels.type: Input should be a valid string"),
    ("gold", None, "gold: Input should be a valid tuple"),
    ("gold", "g", "gold: Input should be a valid tuple"),
    ("gold", [1], "gold[0]: Input should be a valid string"),
    ("gold", ["b", "a"], "gold must be sorted and without repetition"),
    ("gold", ["a", "a"], "gold must be sorted and without repetition"),
    ("gold", ["\U0001f600", "\ue000"], "gold must be sorted and without repetition"),
    ("grades", [2, 1], "grades must have one number above 0 for each element of gold"),
    ("grades", [], "grades must have one number above 0 for each element of gold"),
    ("grades", [0], "grades must have one number above 0 for each element of gold"),
    ("grades", None, "grades must have one number above 0 for each element of gold"),
    ("grades", ["2"], "grades[0]: Input should be a valid number"),
    ("retrieved", "m", "retrieved: Input should be a valid tuple"),
    ("retrieved", ["m"], "retrieved[0]: Input should be a valid tuple"),
    ("retrieved", [["m"], [None]], "retrieved[1][0]: Input should be a valid string"),
    ("returned", 9, "returned is smaller than the number of retrieved hits"),
    ("returned", -1, "returned: Input should be greater than or equal to 0"),
    ("returned", None, "returned: Input should be a valid integer"),
    ("metrics", None, "metrics: Input should be a valid dictionary"),
    ("metrics", {"mrr": "1"}, "metrics.mrr: Input should be a valid number"),
    ("metrics", {"mrr": True}, "metrics.mrr: Input should be a valid number"),
    ("metrics", {"mrr": [1]}, "metrics.mrr: Input should be a valid number"),
    ("verdicts", None, "verdicts: Input should be a valid tuple"),
    ("verdicts", {}, "verdicts: Input should be a valid tuple"),
    ("verdicts", [None], "verdicts[0]: Input should be a valid dictionary or instance of ItemVerdict"),
    ("verdicts.0.evaluator", "", "verdicts[0].evaluator: String should have at least 1 character"),
    ("verdicts.0.evaluator", None, "verdicts[0].evaluator: Input should be a valid string"),
    ("verdicts.0.class", "model", "verdicts[0].class: Input should be 'deterministic' or 'judged'"),
    ("verdicts.0.class", None, "verdicts[0].class: Input should be 'deterministic' or 'judged'"),
    ("verdicts.0.value", "1", "verdicts[0].value: Input should be a valid number"),
    ("verdicts.0.correct", 1, "verdicts[0].correct: Input should be a valid boolean"),
    ("verdicts.0.correct", "yes", "verdicts[0].correct: Input should be a valid boolean"),
    ("verdicts.0.model", 1, "verdicts[0].model: Input should be a valid string"),
    ("verdicts.0.promptSha256", "AB" * 32, "verdicts[0].promptSha256: String should match pattern"),
    ("verdicts.0.rawSha256", "ab" * 31, "verdicts[0].rawSha256: String should match pattern"),
    ("answerSha256", "ab" * 33, "answerSha256: String should match pattern"),
    ("answerSha256", HEX, "the answer does not match its sha256"),
    ("answerSha256", None, "the answer does not match its sha256"),
    ("answer", "no", "the answer does not match its sha256"),
    ("answer", None, "the answer does not match its sha256"),
    ("answer", 1, "answer: Input should be a valid string"),
    ("tokens", [], "tokens: Input should be a valid dictionary or instance of Tokens"),
    ("tokens.context", -1, "tokens.context: Input should be greater than or equal to 0"),
    ("tokens.prompt", 1.5, "tokens.prompt: Input should be a valid integer"),
    ("tokens.completion", "12", "tokens.completion: Input should be a valid integer"),
    ("latencyUs", None, "latencyUs: Input should be a valid dictionary"),
    ("latencyUs", {"search": -1}, "latencyUs.search: Input should be greater than or equal to 0"),
    ("latencyUs", {"search": 0.5}, "latencyUs.search: Input should be a valid integer"),
    ("latencyUs", {"search": None}, "latencyUs.search: Input should be a valid integer"),
    ("costUsdMicros", -1, "costUsdMicros: Input should be greater than or equal to 0"),
    ("costUsdMicros", 0.5, "costUsdMicros: Input should be a valid integer"),
]


@each_row(("path", "value", "words"), FIELDS)
def test_each_invalid_field_of_a_row_is_rejected_with_a_message(path: str, value: object, words: str) -> None:
    row = full()
    make.change(row, path, value)
    assert (problem(row) or "").startswith(words)


@each_row("name", [name for name in full() if name != "answer"])
def test_each_field_of_a_row_is_required(name: str) -> None:
    row = make.row(1, 1)
    del row[name]
    assert problem(row) == f"{name}: Field required"


@pytest.mark.parametrize("place", ["", "verdicts.0", "tokens"])
def test_a_row_with_an_unknown_field_is_rejected(place: str) -> None:
    row = full()
    make.change(row, f"{place}.note" if place else "note", 1)
    shown = place.replace(".0", "[0]")
    assert problem(row) == f"{shown + '.' if shown else ''}note: Extra inputs are not permitted"


NULLABLE = ["retrieved", "tokens", "costUsdMicros", "verdicts.0.value", "verdicts.0.correct", "verdicts.0.model",
            "verdicts.0.promptSha256", "verdicts.0.rawSha256", "tokens.context", "tokens.prompt", "tokens.completion",
            "metrics.mrr"]  # fmt: skip


@each_row("path", NULLABLE)
def test_the_nullable_fields_of_a_row_may_be_null(path: str) -> None:
    row = full()
    make.change(row, path, None)
    assert problem(row) is None


GOOD: list[Json] = [
    {"retrieved": [], "returned": 0}, {"retrieved": [[]], "returned": 1},
    {"retrieved": [["a", "b"], ["a"]], "returned": 5},
    {"gold": []}, {"gold": ["\ue000", "\U0001f600"]}, {"labels": {}}, {"metrics": {}}, {"verdicts": []},
    {"latencyUs": {}}, {"attempts": 0}, {"epoch": 99}, {"itemId": "\u202e\u0000 x"}, {"metrics": {"é": -1.5}},
    {"state": "error", "errorKind": "timeout"}, {"costUsdMicros": 2**53 - 1},
]  # fmt: skip


@each_row("changes", GOOD)
def test_unusual_valid_rows_are_accepted(changes: Json) -> None:
    assert problem(make.row(1, 1, **changes)) is None


# ------------------------------------------------------------------------- the form of a line

GOOD_LINE = dumps(make.row(1, 1)) + b"\n"


def spaced(line: bytes) -> bytes:
    return line.replace(b'"epoch":1', b'"epoch": 1')


FORMS: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("white space", spaced, "the line is not in canonical form"),
    ("space at the end", lambda line: line[:-1] + b" \n", "the line is not in canonical form"),
    ("carriage return", lambda line: line[:-1] + b"\r\n", "the line is not in canonical form"),
    ("another order", lambda line: b'{"state":"correct",' + line.replace(b',"state":"correct"', b"")[1:],
     "the line is not in canonical form"),
    ("1.0 for 1", lambda line: line.replace(b'"epoch":1', b'"epoch":1.0'), "the line is not in canonical form"),
    ("1e0 for 1", lambda line: line.replace(b'"epoch":1', b'"epoch":1e0'), "the line is not in canonical form"),
    ("-0 for 0", lambda line: line.replace(b'"attempts":1', b'"attempts":-0'), "the line is not in canonical form"),
    ("an escape that is not needed", lambda line: line.replace(b"item-", b"it\\u0065m-"),
     "the line is not in canonical form"),
    ("upper-case escape", lambda line: line.replace(b"item-", b"\\u001Fitem-"), "the line is not in canonical form"),
    ("no end", lambda line: line[:-1], "the line does not end with LF, or is too long"),
    ("cut", lambda line: line[:-20] + b"\n", "syntax: "),
    ("nothing", lambda line: b"\n", "syntax: the text is not JSON: Expecting value at line 1 column 1"),
    ("two rows in one line", lambda line: line[:-1] + line, "syntax: the text is not JSON: Extra data"),
    ("a list", lambda line: b"[]\n", "Input should be a valid dictionary or instance of ItemRow"),
    ("null", lambda line: b"null\n", "Input should be a valid dictionary or instance of ItemRow"),
    ("byte order mark", lambda line: b"\xef\xbb\xbf" + line, "bom: the document begins with a byte order mark"),
    ("not UTF-8", lambda line: line.replace(b"item-", b"item\xff"), "not_utf8: the text is not UTF-8"),
    ("overlong slash", lambda line: line.replace(b"item-", b"item\xc0\xaf"), "not_utf8: the text is not UTF-8"),
    ("CESU-8", lambda line: line.replace(b"item-", b"\xed\xa0\xbd\xed\xb8\x80"), "not_utf8: the text is not UTF-8"),
    ("UTF-16", lambda line: line.decode().encode("utf-16"), "not_utf8: the text is not UTF-8 at byte 0"),
    ("a key twice", lambda line: line.replace(b'"epoch":1', b'"epoch":1,"epoch":1'),
     "duplicate_key: epoch: the key occurs twice in one object"),
    ("a key twice, once escaped", lambda line: line.replace(b'"epoch":1', b'"epoch":1,"\\u0065poch":2'),
     "duplicate_key: epoch: the key occurs twice in one object"),
    ("NaN", lambda line: line.replace(b'"mrr":1', b'"mrr":NaN'),
     "number_not_finite: metrics.mrr: NaN and infinities are not JSON"),
    ("1e400", lambda line: line.replace(b'"mrr":1', b'"mrr":1e400'),
     "number_not_finite: metrics.mrr: NaN and infinities are not JSON"),
    ("a huge integer", lambda line: line.replace(b'"attempts":1', b'"attempts":9007199254740992'),
     "integer_out_of_range: attempts: an integer is not in"),
    ("a huge fraction", lambda line: line.replace(b'"mrr":1', b'"mrr":1e300'),
     "number_out_of_range: metrics.mrr: a number is not in"),
    ("half a surrogate pair", lambda line: line.replace(b"item-", b"\\ud800item-"),
     "lone_surrogate: itemId: half of a surrogate pair"),
    ("too deep", lambda line: line.replace(b'"labels":{', b'"labels":' + b"[" * 65 + b"]" * 65 + b',"x":{'),
     "too_deep: more than 64 levels"),
]  # fmt: skip


@each_row(("change", "words"), [form[1:] for form in FORMS])
def test_a_line_that_is_not_a_canonical_row_is_rejected_with_a_message(
    change: Callable[[bytes], bytes], words: str
) -> None:
    changed = change(GOOD_LINE)
    assert changed != GOOD_LINE
    (first, *_) = read(changed)
    assert (first.problem or "").startswith(words)


@each_row(("change", "words"), [form[1:] for form in FORMS])
def test_verify_reports_the_number_of_a_line_that_is_not_a_canonical_row(
    tmp_path: Path, change: Callable[[bytes], bytes], words: str
) -> None:
    desk = make.desk_in(tmp_path)
    path = desk.good()
    items = path.with_name(f"{make.RECEIPT_ID}.items.jsonl")
    first, second, *rest = items.read_bytes().splitlines(keepends=True)
    items.write_bytes(b"".join([first, *rest, change(second)]))
    found = [f for f in desk.verify(path).findings if f.check == "items"]
    assert {f.code for f in found} >= {"items_sha256", "items_root", "items_row"}
    detail = next(f.detail for f in found if f.code == "items_row")
    assert detail.startswith(f"line 10: {words}")


def test_a_line_longer_than_max_line_is_rejected_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.receipt.items_file.MAX_LINE", 40)
    lines = read(GOOD_LINE)
    assert {line.problem for line in lines[:-1]} == {"the line does not end with LF, or is too long"}
    assert len(lines) == -(-len(GOOD_LINE) // 40)


# ------------------------------------------------------------------------- many lines


def verified(desk: Any, rows: list[Json], **changes: Any) -> list[tuple[str, str]]:
    outcome = desk.verify(desk.good(rows, **changes))
    return [(str(f.code), f.detail) for f in outcome.findings if f.check == "items" and f.status == "fail"]


def test_rows_must_be_sorted_by_the_utf8_bytes_of_the_item_id_then_by_epoch(desk: Any) -> None:
    names = ["\U0001f600", "\ue000", "a", "Z", "é", "a"]
    rows = [make.row(n, 1, itemId=name, epoch=1 + (n == 5)) for n, name in enumerate(names)]
    rows.sort(key=lambda row: (row["itemId"].encode(), row["epoch"]))
    assert verified(desk, rows, run__epochs=2) == []
    by_utf16 = sorted(rows, key=lambda row: (row["itemId"].encode("utf-16-be"), row["epoch"]))
    assert verified(desk, by_utf16, run__epochs=2) == [
        ("items_order", "lines not sorted by itemId and epoch, or repeated: 6")
    ]


@pytest.mark.parametrize(
    ("order", "lines"),
    [([1, 0, 2], "2"), ([0, 2, 1], "3"), ([0, 0, 1], "2"), ([2, 1, 0], "2, 3"), ([0, 1, 2, 2, 2], "4, 5")],
)
def test_lines_out_of_order_or_repeated_are_reported(desk: Any, order: list[int], lines: str) -> None:
    rows = make.default_rows()
    assert verified(desk, [rows[n] for n in order]) == [
        ("items_order", f"lines not sorted by itemId and epoch, or repeated: {lines}")
    ]


def test_only_the_first_five_faults_of_an_items_file_are_reported(desk: Any) -> None:
    rows = [make.row(1, 1) for _ in range(9)]
    for row in rows:
        row["errorKind"] = "timeout"
    found = verified(desk, rows)
    bad = [f"line {n}: errorKind must be present if the state is error, and only then" for n in range(1, 6)]
    assert [detail for code, detail in found if code == "items_row"] == bad
    assert found[-1] == ("items_order", "lines not sorted by itemId and epoch, or repeated: 2, 3, 4, 5, 6")


def test_a_row_of_an_epoch_that_was_not_run_is_rejected(desk: Any) -> None:
    rows = [make.row(1, 1), make.row(1, 1, epoch=2), make.row(2, 1, epoch=3)]
    assert verified(desk, rows, run__epochs=3) == []
    assert verified(desk, rows, run__epochs=2) == [("items_row", "line 3: epoch 3, but the run has 2")]
    assert verified(desk, rows) == [
        ("items_row", "line 2: epoch 2, but the run has 1"),
        ("items_row", "line 3: epoch 3, but the run has 1"),
    ]


@each_row(
    ("change", "codes"),
    [
        (lambda data: b"", ["items_sha256", "items_count", "items_root", "deterministic_root"]),
        (lambda data: data + data.splitlines(keepends=True)[-1],
         ["items_order", "items_sha256", "items_count", "items_root", "deterministic_root"]),
        (lambda data: data[data.index(b"\n") + 1 :],
         ["items_sha256", "items_count", "items_root", "deterministic_root"]),
        (lambda data: data + b" ", ["items_row", "items_sha256"]),
        (lambda data: data.replace(b'"attempts":1', b'"attempts":2', 1), ["items_sha256", "items_root"]),
        (lambda data: data.replace(b'"completion":12', b'"completion":13', 1), ["items_sha256", "items_root"]),
        (lambda data: data.replace(b"corpus-1", b"corpus-2", 1), ["items_sha256", "items_root"]),
        (lambda data: data.replace(b'"gold":["gold0"]', b'"gold":["gold1"]', 1),
         ["items_sha256", "items_root", "deterministic_root"]),
    ],
)  # fmt: skip
def test_a_changed_items_file_has_a_code_for_each_value_that_does_not_match(
    tmp_path: Path, change: Callable[[bytes], bytes], codes: list[str]
) -> None:
    desk = make.desk_in(tmp_path)
    path = desk.good()
    items = path.with_name(f"{make.RECEIPT_ID}.items.jsonl")
    items.write_bytes(change(items.read_bytes()))
    assert [f.code for f in desk.verify(path).findings if f.check == "items"] == codes


def test_an_items_file_can_be_given_by_its_path_and_a_folder_counts_as_missing(desk: Any, tmp_path: Path) -> None:
    path = desk.good()
    items = path.with_name(f"{make.RECEIPT_ID}.items.jsonl")
    kept = items.rename(tmp_path / "elsewhere")
    items.mkdir()
    assert make.codes(desk.verify(path), "warn") >= {"items_missing"}
    assert "items_missing" not in make.codes(desk.verify(path, items=kept), "warn")


# ------------------------------------------------------------------------- writing

ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


def shuffled_rows() -> Iterator[Json]:
    for number in (3, 1, 2, 10):
        yield make.row(number, 1, itemId=f"i{number}")


def test_the_items_writer_sorts_rows_and_its_digests_match_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.items.jsonl"
    with ItemsWriter(path) as writer:
        for row in shuffled_rows():
            writer.add(row)  # type: ignore[arg-type]
    lines = path.read_bytes().splitlines()
    assert [json.loads(line)["itemId"] for line in lines] == ["i1", "i10", "i2", "i3"]
    sealed = writer.per_query
    assert (sealed.file, sealed.format) == ("x.items.jsonl", "jcs-lines/1")
    assert (sealed.count, sealed.bytes, sealed.sha256) == (4, path.stat().st_size, sha256_hex(path.read_bytes()))
    assert sealed.merkle_root == merkle.root(lines).hex()
    seal = RunningDigests()
    with path.open("rb") as file:
        assert [line.problem for line in read_items(file, seal)] == [None] * 4
    assert seal.per_query(path.name) == sealed


@given(names=st.lists(st.tuples(ids, st.integers(1, 3)), unique=True, max_size=8), data=st.data())
def test_the_items_file_does_not_depend_on_the_order_of_added_rows(
    names: list[tuple[str, int]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    written = []
    for number in range(2):
        (folder / str(number)).mkdir()
        with ItemsWriter(folder / str(number) / "x.jsonl") as writer:
            for name, epoch in data.draw(st.permutations(names)):
                writer.add(make.row(1, 1, itemId=name, epoch=epoch))  # type: ignore[arg-type]
        written.append((writer.path.read_bytes(), writer.per_query))
    assert written[0] == written[1]


def test_the_deterministic_root_ignores_times_costs_attempts_and_verdicts(tmp_path: Path) -> None:
    roots = []
    for number, changes in enumerate(
        [{}, {"latencyUs": {}, "costUsdMicros": None, "verdicts": [], "attempts": 9, "tokens": None, "corpusId": "x"}]
    ):
        with ItemsWriter(tmp_path / f"{number}.jsonl") as writer:
            writer.add(make.row(1, 1, **changes))  # type: ignore[arg-type]
        roots.append((writer.per_query.deterministic_root, writer.per_query.merkle_root))
    assert roots[0][0] == roots[1][0]
    assert roots[0][1] != roots[1][1]


def test_no_rows_give_an_empty_file_with_the_empty_merkle_root(tmp_path: Path) -> None:
    with ItemsWriter(tmp_path / "none.jsonl") as writer:
        pass
    assert (tmp_path / "none.jsonl").read_bytes() == b""
    assert (writer.per_query.count, writer.per_query.merkle_root) == (0, sha256_hex(b""))


def test_the_items_writer_overwrites_nothing_and_leaves_no_file_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with pytest.raises(ValueError, match="mine"), ItemsWriter(path) as writer:
        writer.add(make.row(1, 1))  # type: ignore[arg-type]
        raise ValueError("mine")
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError) as caught, ItemsWriter(path):
        pass
    assert (caught.value.filename, path.read_bytes()) == (str(path), b"old")


def test_the_error_for_a_missing_folder_names_the_items_file(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "x.jsonl"
    with pytest.raises(FileNotFoundError) as caught, ItemsWriter(path):
        pass
    assert caught.value.filename == str(path)
