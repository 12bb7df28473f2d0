"""Receipts in the repository: one that must stay valid, and bad ones that must stay refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.receipt.log.log_check import check_log
from bench.receipt.log.log_store import read_log
from bench.receipt.signing.signature import PublicKey
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.findings import ReceiptVerdict
from bench.receipt.verification.verify import VerificationOutcome, VerificationRequest, verify_file
from tests.rows import each_row

GOLDEN = Path(__file__).parent / "golden"
BAD: dict[str, list[str]] = json.loads((GOLDEN / "index.json").read_text("utf-8"))


def check(path: Path, **question: Any) -> VerificationOutcome:
    pinned = TrustStore.pin([PublicKey.load(GOLDEN / "key.pub")])
    items = next(GOLDEN.glob("*.items.jsonl"))
    return verify_file(path, VerificationRequest(**{"trust": pinned, "items": items, **question}))


def test_the_golden_receipt_is_valid_and_has_its_digests() -> None:
    outcome = check(next(GOLDEN.glob("*Z0.json")))
    assert outcome.verdict is ReceiptVerdict.VALID
    assert outcome.receipt is not None
    assert outcome.receipt.config_digest == "debcc16076efcd2833ccbb19c81db1ea45719f5ac150b391e86299c32d2267ad"
    assert outcome.receipt.result_digest == "c2b20c478d15b63cce83b416efa8067d3267bf6c497135d045f4961adb071394"
    assert [f.code for f in outcome.findings if f.status == "warn"] == ["not_preregistered", "error_rate"]


@each_row("name", sorted(BAD))
def test_each_golden_bad_receipt_has_its_codes(name: str) -> None:
    outcome = check(GOLDEN / "bad" / f"{name}.json")
    found = {str(f.code) for f in outcome.findings if f.status == "fail"}
    assert found == set(BAD[name])
    assert outcome.verdict is (ReceiptVerdict.UNTRUSTED if name == "unknown_key" else ReceiptVerdict.INVALID)


def test_the_shipped_trust_store_and_log_verify_and_no_private_key_is_shipped(root: Path) -> None:
    store = TrustStore.load(root / "keys" / "trusted.json")
    assert store.origin == "bench.local/log"
    assert check_log(read_log(root / "results" / "published"), store).verdict is ReceiptVerdict.VALID
    assert not list((root / "keys").rglob("*.key"))


DOCUMENTED = [
    "too_large",
    "bom",
    "not_utf8",
    "syntax",
    "duplicate_key",
    "integer_out_of_range",
    "number_out_of_range",
    "number_not_finite",
    "lone_surrogate",
    "too_deep",
    "key_not_string",
    "unsupported_type",
    "schema_missing",
    "schema_unknown",
    "field_missing",
    "field_unknown",
    "field_type",
    "field_value",
    "signature_missing",
    "bad_signature_encoding",
    "algorithm_unsupported",
    "fingerprint_mismatch",
    "signature_invalid",
    "key_unknown",
    "key_retired",
    "key_revoked",
    "key_revoked_later",
    "key_role",
    "items_missing",
    "items_sha256",
    "items_count",
    "items_order",
    "items_row",
    "items_root",
    "deterministic_root",
    "score_mismatch",
    "count_mismatch",
    "breakdown_mismatch",
    "interval_mismatch",
    "config_digest",
    "result_digest",
    "dataset_mismatch",
    "dataset_files",
    "dataset_partial",
    "invariant_counts",
    "invariant_rate_range",
    "invariant_interval",
    "invariant_isolation",
    "invariant_recall_monotone",
    "invariant_ndcg_le_hit",
    "invariant_mrr_le_hit",
    "invariant_percentiles",
    "invariant_times",
    "invariant_over_k",
    "duplicate_retrieved",
    "not_logged",
    "log_mismatch",
    "receipt_id_reused",
    "superseded",
    "retracted",
    "unpublished_attempts",
    "dirty",
    "commit_unknown",
    "not_preregistered",
    "partial",
    "error_rate",
    "reproducibility_none",
    "log_entry",
    "log_index",
    "log_size",
    "log_root",
    "log_signature",
    "log_inconsistent",
    "log_receipt_missing",
    "log_receipt_mismatch",
    "log_unlisted",
    "log_pending",
    "unsigned_fields",
    "key_permissions",
    "key_type",
    "key_unreadable",
    "weak_public_key",
    "key_fingerprint",
    "key_duplicate",
    "job_invalid",
    "job_partial",
    "zero_items",
    "secret_in_receipt",
    "isolation_failed",
]


def test_every_documented_reason_code_occurs_in_a_test(root: Path) -> None:
    folders = (root / "tests" / "receipt", root / "tests" / "canonical")
    here = Path(__file__).name
    texts = [path.read_text("utf-8") for folder in folders for path in folder.glob("*.py") if path.name != here]
    vectors = {"key_not_string", "unsupported_type"}  # named by the vectors, not by a test's text
    missing = [code for code in DOCUMENTED if code not in vectors and not any(f'"{code}"' in text for text in texts)]
    assert missing == []
