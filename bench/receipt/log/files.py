"""The files that a log names: there, unchanged, and none beside them; and what an entry says of its receipt.

Example::

    findings = list(check_files(view))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import file_digest
from pathlib import Path

from bench.canonical import JSON, digest
from bench.receipt.findings import Finding, fail
from bench.receipt.log.entries import ReceiptLogged
from bench.receipt.log.store import RECEIPTS, LogView, read_document
from bench.receipt.schema import items_file_name


def receipt_files(view: LogView) -> list[Path]:
    """The receipts in a log's folder, listed or not."""
    return sorted(path for path in (view.folder / RECEIPTS).glob("*.json") if path.is_file())


def check_files(view: LogView) -> Iterator[Finding]:
    """Compare the folder of receipts with the entries."""
    logged = {entry.receipt_id: entry for entry in view.of(ReceiptLogged)}
    for receipt_id, entry in logged.items():
        yield from _file_of(view.folder / RECEIPTS, receipt_id, entry)
    for path in receipt_files(view):
        if path.stem not in logged:
            yield fail("log", "log_unlisted", f"{RECEIPTS}/{path.name} has no entry")


def _file_of(folder: Path, receipt_id: str, entry: ReceiptLogged) -> Iterator[Finding]:
    path, items = folder / f"{receipt_id}.json", folder / items_file_name(receipt_id)
    if not path.is_file() or not items.is_file():
        yield fail("log", "log_receipt_missing", f"{RECEIPTS}/{path.name} or its items file is not there")
        return
    document = read_document(path)
    if document is None or digest(document) != entry.receipt_sha256:
        yield fail("log", "log_receipt_mismatch", f"{RECEIPTS}/{path.name} is not the receipt that was logged")
    elif told := misstated(entry, document):
        detail = f"entry {entry.index} states another {told} than {RECEIPTS}/{path.name}"
        yield fail("log", "log_receipt_mismatch", detail)
    if file_sha256(items) != entry.items_sha256:
        yield fail("log", "log_receipt_mismatch", f"{RECEIPTS}/{items.name} is not the items file that was logged")


def misstated(entry: ReceiptLogged, document: JSON | Mapping[str, JSON]) -> str | None:
    """The first thing that an entry says of its receipt and the receipt does not."""
    receipt = document if isinstance(document, Mapping) else {}
    run, rows = receipt.get("run"), receipt.get("perQuery")
    stated = {
        "receiptId": (entry.receipt_id, receipt.get("receiptId")),
        "configDigest": (entry.config_digest, receipt.get("configDigest")),
        "resultDigest": (entry.result_digest, receipt.get("resultDigest")),
        "runId": (entry.run_id, run.get("runId") if isinstance(run, dict) else None),
        "itemsSha256": (entry.items_sha256, rows.get("sha256") if isinstance(rows, dict) else None),
    }
    return next((name for name, (said, there) in stated.items() if said != there), None)


def file_sha256(path: Path) -> str:
    """Hash a file without reading it whole."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
