"""``bench diff``: what differs between two receipts, part by part, and which items changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tests.receipt.receipt_making as make
from bench.cli import run as command_line
from bench.errors import UsageError, VerificationError
from bench.receipt.signing.signature import SigningKey
from bench.receipt.verification.diff import ReceiptDifference, diff, load
from tests.receipt.receipt_making import Desk
from tests.rows import each_row

Json = dict[str, Any]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Desk, Desk]:
    """Two folders with two keys: a diff does not check signatures."""
    for name in "ab":
        (tmp_path / name).mkdir()
    return Desk(tmp_path / "a", SigningKey.generate()), Desk(tmp_path / "b", SigningKey.generate())


def differing(pair: tuple[Desk, Desk], rows: list[Json] | None = None, **changes: Any) -> ReceiptDifference:
    return diff(pair[0].good(), pair[1].good(rows, **changes))


CHANGES: list[tuple[Json, bool, bool, list[tuple[str, str, str, str]]]] = [
    ({}, True, True, []),
    ({"run__seed": 7}, False, False, [("config", "settings.seed", "0", "7")]),
    ({"run__k": 20}, False, False, [("config", "settings.k", "10", "20")]),
    ({"run__contextBudgetTokens": 100}, False, False, [("config", "settings.contextBudgetTokens", "null", "100")]),
    ({"provider__version": "2"}, False, False, [("config", "provider.version", "1", "2")]),
    ({"benchmark__split": "test"}, False, False, [("config", "benchmark.split", "null", "test")]),
    ({"benchmark__selection__limit": 5}, False, False, [("selection", "limit", "null", "5")]),
    ({"benchmark__selection__filter": {"a": 1}}, False, False, [("selection", "filter.a", "(absent)", "1")]),
    ({"run__concurrency": 1}, True, True, []),
    ({"run__runId": "other", "issuedAt": "2027-01-01T00:00:00Z"}, True, True, []),
    ({"environment__hostHash": "1" * 16}, True, True, []),
    ({"benchVersion": "0.2"}, True, True, [("code", "benchVersion", "0.1.0", "0.2")]),
    ({"environment__git__dirty": True}, True, True, [("code", "git.dirty", "false", "true")]),
    ({"environment__lockSha256": "cd" * 32}, True, True, [("code", "lockSha256", "null", "cd" * 32)]),
    ({"environment__cpuCount": 64}, True, True, [("environment", "cpuCount", "2", "64")]),
    ({"environment__packages": {"pydantic": "3"}}, True, True, [("environment", "packages.pydantic", "2", "3")]),
    ({"counts__retries": 3}, True, True, [("counts", "retries", "0", "3")]),
    ({"scores__judged__accuracy__value": 0.8}, True, True, [("score", "judged.accuracy.value", "0.9", "0.8")]),
    ({"scores__deterministic__mrr__value": 0.8}, False, True,
     [("score", "deterministic.mrr.value", "0.5326190476190475", "0.8")]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "equal", "like_for_like", "expected"), CHANGES)
def test_each_difference_is_listed_with_its_part_path_and_values(
    pair: tuple[Desk, Desk], changes: Json, equal: bool, like_for_like: bool, expected: list[tuple[str, str, str, str]]
) -> None:
    found = differing(pair, **changes)
    assert [(one.part, one.path, one.a, one.b) for one in found.changes] == expected
    assert (found.equal, found.exit_code, found.like_for_like, found.items) == (
        equal,
        0 if equal else 8,
        like_for_like,
        (),
    )


def rows(*changes: tuple[int, Json]) -> list[Json]:
    made = make.default_rows()
    for number, change in changes:
        made[number].update(change)
    return made


ITEMS: list[tuple[list[Json], tuple[str, ...]]] = [
    (rows(), ()),
    (rows((3, {"latencyUs": {}, "attempts": 7, "costUsdMicros": 0, "tokens": None})), ()),
    (rows((3, {"retrieved": []})), ("item-00003",)),
    (rows((0, {"gold": ["x"]}), (9, {"labels": {"question_type": "x"}})), ("item-00000", "item-00009")),
    (rows((5, {"state": "partial"})), ("item-00005",)),
    (rows((5, {"metrics": {}})), ("item-00005",)),
    (rows()[1:], ("item-00000",)),
    (rows()[:-2], ("item-00008", "item-00009")),
    ([*rows(), make.row(10, 1)], ("item-00010",)),
    ([make.row(n, 1) for n in range(20, 22)], (*(f"item-{n:05}" for n in range(10)), "item-00020", "item-00021")),
    ([], tuple(f"item-{n:05}" for n in range(10))),
]


@pytest.mark.parametrize(("other", "expected"), ITEMS)
def test_items_are_compared_without_times_costs_and_attempts(
    pair: tuple[Desk, Desk], other: list[Json], expected: tuple[str, ...]
) -> None:
    assert differing(pair, other).items == expected


def test_without_an_items_file_items_are_not_compared(pair: tuple[Desk, Desk]) -> None:
    a, b = pair[0].good(), pair[1].good()
    b.with_name(f"{make.RECEIPT_ID}.items.jsonl").unlink()
    found = diff(a, b)
    assert (found.items, found.value()["items"], found.equal) == (None, None, True)


def test_an_items_file_that_does_not_match_its_receipt_is_an_error(pair: tuple[Desk, Desk]) -> None:
    a, b = pair[0].good(), pair[1].good()
    items = b.with_name(f"{make.RECEIPT_ID}.items.jsonl")
    items.write_bytes(items.read_bytes().replace(b'"attempts":1', b'"attempts":2', 1))
    with pytest.raises(VerificationError) as caught:
        diff(a, b)
    assert (caught.value.code, caught.value.exit_code, caught.value.where) == ("items_sha256", 5, str(items))


LOADING: list[tuple[bytes, str, str]] = [
    (b"{", "syntax", "the text is not JSON: Expecting property name enclosed in double quotes at line 1 column 2"),
    (
        b"{}",
        "schema_missing",
        "schema: the document has no schema (for receipts of the original system, use --profile)",
    ),
    (b'{"a": {"b": 1, "b": 2}}', "duplicate_key", "a.b: the key occurs twice in one object"),
    (b"[]", "field_type", "the document is not an object"),
    (b'{"schema": "bench.receipt/1"}', "field_missing", "receiptId: Field required; kind: Field required; "),
]


@each_row(("content", "code", "message"), LOADING)
def test_load_rejects_a_document_that_is_not_a_receipt(tmp_path: Path, content: bytes, code: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(VerificationError) as caught:
        load(path)
    assert (caught.value.code, caught.value.where) == (code, str(path))
    assert caught.value.message.startswith(message)
    with pytest.raises(UsageError) as missing:
        load(tmp_path / "none.json")
    assert str(missing.value) == f"{tmp_path / 'none.json'}: No such file or directory"


def test_load_accepts_a_receipt_without_a_signature(pair: tuple[Desk, Desk]) -> None:
    path = pair[0].good()
    document = json.loads(path.read_bytes())
    del document["signature"]
    path.write_text(json.dumps(document))
    assert load(path).receipt_id == make.RECEIPT_ID


def test_bench_diff_prints_the_parts_and_the_first_ten_items(
    pair: tuple[Desk, Desk], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = pair[0].good(), pair[1].good([make.row(n, 1) for n in range(20, 25)], run__seed=7)
    assert command_line(["diff", str(a), str(b)]) == 8
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["the result digests differ", "not like for like"]
    assert any(line.split() == ["config", "settings.seed", "0", "7"] for line in lines)
    shown = ", ".join(f"item-{n:05}" for n in range(10))
    assert lines[-1] == f"items that differ: {shown} and 5 more"
    assert command_line(["diff", str(a), str(b), "--json"]) == 8
    found = json.loads(capsys.readouterr().out)
    assert (found["equal"], found["exitCode"], found["likeForLike"], len(found["items"])) == (False, 8, False, 15)
    assert {"part": "config", "path": "settings.seed", "a": "0", "b": "7"} in found["changes"]
    b.with_name(f"{make.RECEIPT_ID}.items.jsonl").unlink()
    assert command_line(["diff", str(a), str(a)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["same result digest", "like for like"]
    assert command_line(["diff", str(a), str(b)]) == 8
    assert capsys.readouterr().out.splitlines()[-1] == "items not compared: an items file is missing"


def test_receipts_of_different_code_are_like_for_like_with_a_note_on_evaluator_rules(
    pair: tuple[Desk, Desk], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = pair[0].good(), pair[1].good(benchVersion="0.2")
    assert command_line(["diff", str(a), str(b)]) == 0
    assert "rules of evaluators" in capsys.readouterr().out.splitlines()[2]
