"""The static page and the command line give the same codes for hundreds of spoiled documents."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.receipt.receipt_making as make
import tests.receipt.test_cost_check as costs
import tests.receipt.test_items_rows as rows
import tests.receipt.test_recomputed_totals as arithmetic
import tests.receipt.test_schema_fields as fields
import tests.receipt.test_tampering as tampering
from bench.canonical import dumps
from bench.receipt.signing.signature import sign
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.verify import VerificationRequest, verify_file
from tests.receipt.test_page import PAGE, driven, needs_browser

ROWS = make.default_rows()
ITEMS = b"".join(dumps(row) + b"\n" for row in ROWS)
SIGNED = sign(make.with_digests(make.body(ROWS)), tampering.KEY)
Case = tuple[str, bytes, bytes | None]
JUDGE = """async (cases, pem) => {
  const bytes = (text) => Uint8Array.from(atob(text), (unit) => unit.charCodeAt(0));
  const judged = [];
  for (const [receipt, items] of cases) {
    const given = { receipt: bytes(receipt), items: items === null ? null : bytes(items), keys: () => [readPem(pem)] };
    const { found } = await check(given);
    judged.push(found.filter((one) => one.status === 'fail').map((one) => one.code));
  }
  return judged;
}"""


def changed(document: Any, change: Any) -> Any:
    copy = make.deep_copy(document)
    change(copy)
    return copy


def schema_cases(every: bool) -> Iterator[Case]:
    """Each field with every bad value of its kind, or with one of them in turn."""
    for place, (path, kind) in enumerate(fields.KINDS.items()):
        bad = list(fields.bad_values(kind))
        for value, _ in bad if every else [bad[place % len(bad)]]:
            document = fields.whole()
            fields.put(document, path, fields.set_to(value))
            yield f"{path} = {value!r}", dumps(document), None
    for change, path, message in fields.BETWEEN:
        yield f"{path}: {message}", dumps(changed(fields.whole(), change)), None


def signature_cases() -> Iterator[Case]:
    data = dumps(SIGNED)
    yield "good", data, ITEMS
    for code, spoil, _ in tampering.ADMISSION:
        yield code, spoil(data), None
    for name, spell in tampering.SPELLINGS:
        yield name, spell(data), ITEMS
    for name, value, _ in tampering.SIGNATURES:
        yield name, dumps(changed(SIGNED, lambda d, value=value: d["signature"].update(value=value))), ITEMS
    for name, change, _ in tampering.BLOCKS:
        yield name, dumps(changed(SIGNED, change)), ITEMS


def number_cases() -> Iterator[Case]:
    for changes, _ in arithmetic.FALSE:
        body = make.body(make.default_rows())
        for place, value in changes.items():
            make.change(body, place.replace("__", "."), value)
        scores = {**body["scores"]["deterministic"], **body["scores"]["judged"]}
        for metric in body["metrics"]:
            metric["definition"] = scores[metric["name"]]["definition"]
        yield f"{changes}", dumps(sign(make.with_digests(body), tampering.KEY)), ITEMS


def cost_cases() -> Iterator[Case]:
    for changes in (*(changes for changes, _ in costs.FALSE), *costs.TRUE):
        yield f"{changes}", dumps(sign(make.with_digests(costs.body(**changes)), tampering.KEY)), ITEMS


def row_cases() -> Iterator[Case]:
    data, lines = dumps(SIGNED), ITEMS.splitlines(keepends=True)
    for path, value, _ in rows.FIELDS:
        row = rows.full()
        make.change(row, path, value)
        yield f"row {path} = {value!r}", data, b"".join([lines[0], dumps(row) + b"\n", *lines[2:]])
    for name, spoil, _ in rows.FORMS:
        yield f"line: {name}", data, b"".join([lines[0], spoil(lines[1]), *lines[2:]])


def on_the_command_line(folder: Path, receipt: bytes, items: bytes | None) -> set[str]:
    path = folder / f"{make.RECEIPT_ID}.json"
    path.write_bytes(receipt)
    beside = path.with_name(f"{make.RECEIPT_ID}.items.jsonl")
    beside.unlink(missing_ok=True)
    if items is not None:
        beside.write_bytes(items)
    outcome = verify_file(path, VerificationRequest(trust=TrustStore.pin([tampering.KEY.public])))
    found = [str(f.code) for f in outcome.findings if f.status == "fail"]
    if any(f.check == "schema" and f.status == "fail" for f in outcome.findings):
        return {found[0]}  # the page reports the first schema problem, the command line all of them
    return {"items_row"} if "items_row" in found else set(found)  # the page stops at a bad row


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@needs_browser
async def test_the_page_and_the_command_line_report_the_same_codes_for_spoiled_documents(
    every: bool, root: Path, tmp_path: Path
) -> None:
    cases = [*schema_cases(every), *signature_cases(), *number_cases(), *cost_cases(), *row_cases()]
    assert len(cases) > (1000 if every else 300)
    shown: list[list[str]] = []
    async with driven(root / PAGE) as browser:
        for start in range(0, len(cases), 50):
            part = [
                [base64.b64encode(r).decode(), i and base64.b64encode(i).decode()]
                for _, r, i in cases[start : start + 50]
            ]
            shown += await browser.value(f"({JUDGE})({json.dumps(part)}, {json.dumps(tampering.KEY.public.pem)})")
    wrong = []
    for (name, receipt, items), page in zip(cases, shown, strict=True):
        here = on_the_command_line(tmp_path, receipt, items)
        there = {"items_row"} if "items_row" in page else set(page)
        if here != there:
            wrong.append((name, sorted(here), sorted(there)))
    assert wrong == []
