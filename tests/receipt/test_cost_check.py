"""``memoryCost`` is recomputed from the rows: a value that they contradict is INVALID, even if it is signed."""

from __future__ import annotations

from typing import Any

import pytest

import tests.receipt.receipt_making as make
from bench.receipt.base_model import validate
from bench.receipt.items_file import ItemRow
from bench.receipt.schema import Body
from bench.receipt.signing.signature import sign
from bench.receipt.verification.cost_check import CostCheck
from bench.receipt.verification.findings import ReceiptVerdict
from tests.rows import each_row

Json = dict[str, Any]
NOTHING: Json = {"calls": 0, "tokens": 0, "usdMicros": 0, "timeUs": 0}
PRICE: Json = {"calls": 8, "tokens": 640, "usdMicros": 4_000_000, "timeUs": 120_000}


def body(rows: list[Json] | None = None, *, pending: int = 0, **changes: Any) -> Json:
    """A receipt of ten items over three corpora, nine of them correct; ``context__tokens`` changes a field."""
    made = make.body(rows or make.default_rows(), pending=pending)
    made["memoryCost"] = {
        "build": {
            "fingerprint": None, "paidBy": "run-1", "lane": "demo/bm25", "corpora": 3, "memories": 40,
            "paid": {**PRICE}, "price": {**PRICE},
        },
        "questions": 10, "query": {**PRICE, "usdMicros": 5_000_000}, "usdMicrosPerCorrect": 1_000_000.0,
        "context": {"answers": 10, "tokens": 7000, "corpusTokens": 70_000, "corpora": 3, "share": 0.1},
        "breakEven": {"questions": 13, "never": False, "reason": ""},
    }  # fmt: skip
    for place, value in changes.items():
        make.change(made, f"memoryCost.{place.replace('__', '.')}", value)
    return made


def found(document: Json, rows: list[Json] | None = None) -> list[str]:
    check = CostCheck(validate(Body, document))
    for one in rows or make.default_rows():
        check.add(validate(ItemRow, one))
    return [one.detail.split(":")[0].removeprefix("memoryCost.") for one in check.faults()]


FALSE: list[tuple[dict[str, Any], str]] = [
    ({"questions": 9}, "questions"),
    ({"questions": 11}, "questions"),
    ({"context__answers": 9}, "context.answers"),
    ({"context__answers": 11}, "context.answers"),
    ({"context__tokens": 6999, "context__share": 6999 / 70_000}, "context.tokens"),
    ({"context__tokens": 7001, "context__share": 7001 / 70_000}, "context.tokens"),
    ({"context__corpora": 4}, "context.corpora"),
    ({"context__share": 0.05}, "context.share"),
    ({"context__share": None}, "context.share"),
    ({"context__corpusTokens": 140_000}, "context.share"),
    ({"context__corpusTokens": None}, "context.share"),
    ({"context": None}, "context"),
    ({"usdMicrosPerCorrect": 500_000.0}, "usdMicrosPerCorrect"),
    ({"usdMicrosPerCorrect": None}, "usdMicrosPerCorrect"),
    ({"query__usdMicros": 4_000_000}, "usdMicrosPerCorrect"),
    ({"query__usdMicros": None}, "usdMicrosPerCorrect"),
    ({"build__price": {**PRICE, "usdMicros": 1}, "build__paid": NOTHING}, "usdMicrosPerCorrect"),
    ({"build__paid": {**PRICE, "usdMicros": 3_999_999}}, "build.paid"),
    ({"build__paidBy": "another", "build__paid": {**PRICE, "calls": 9}}, "build.paid"),
    ({"build__paidBy": "another", "build__paid": {**PRICE, "usdMicros": None}}, "build.paid"),
    ({"breakEven": {"questions": None, "never": False, "reason": ""}}, "breakEven"),
    ({"breakEven": {"questions": 13, "never": False, "reason": "unknown"}}, "breakEven"),
    ({"breakEven": {"questions": 13, "never": True, "reason": ""}}, "breakEven"),
]
TRUE: list[dict[str, Any]] = [
    {},
    {"build__paid": NOTHING},
    {"build__paid": NOTHING, "build__paidBy": "another"},
    {"build__paid": {**PRICE, "calls": 1, "usdMicros": 5}, "build__paidBy": "another"},
    {"context__corpusTokens": None, "context__share": None},
    {"query__usdMicros": None, "usdMicrosPerCorrect": None},
    {"usdMicrosPerCorrect": 1_000_000.5},
    {"breakEven": None},
    {"breakEven": {"questions": None, "never": True, "reason": "a question costs more"}},
]


@each_row(("changes", "name"), FALSE)
def test_a_cost_that_the_rows_contradict_is_reported(changes: dict[str, Any], name: str) -> None:
    assert found(body(**changes)) == [name]


@each_row("changes", TRUE)
def test_a_cost_that_no_row_contradicts_passes(changes: dict[str, Any]) -> None:
    assert found(body(**changes)) == []


def test_failed_and_pending_items_may_count_as_questions() -> None:
    rows = [*make.default_rows(), make.failed_row(10)]
    rows[10]["tokens"] = None
    for questions in (10, 11, 12):
        assert found(body(rows, pending=1, questions=questions, context__answers=11), rows) == []
    assert found(body(rows, pending=1, questions=13), rows) == ["questions"]


def test_a_signed_false_cost_is_invalid_and_other_costs_are_listed_as_unchecked(desk: Any) -> None:
    rows = make.default_rows()
    outcome = desk.verify(desk.write(make.with_digests(body(usdMicrosPerCorrect=1.0)), rows))
    assert outcome.verdict is ReceiptVerdict.INVALID and make.codes(outcome) == {"cost_mismatch"}
    good = desk.verify(desk.write(make.with_digests(body()), rows))
    assert good.verdict is ReceiptVerdict.VALID
    assert any(
        text.startswith("memoryCost fields that the rows do not contain were not recomputed: build, calls")
        for text in good.unchecked
    )


@pytest.mark.parametrize(
    "place", ["build.memories", "build.price.timeUs", "query.timeUs", "build.fingerprint", "breakEven.questions"]
)
def test_a_changed_cost_that_rows_do_not_contain_invalidates_the_signature(desk: Any, place: str) -> None:
    document = sign(make.with_digests(body(build__paid=NOTHING)), desk.key)
    make.change(document, f"memoryCost.{place}", "0" * 64 if place.endswith("print") else 1)
    outcome = desk.verify(desk.write(document, make.default_rows(), signed=False))
    assert outcome.verdict is ReceiptVerdict.INVALID and make.codes(outcome) == {"signature_invalid"}
