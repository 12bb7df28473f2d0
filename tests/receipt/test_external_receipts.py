"""Published receipts of the original system, verified with their profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.canonical import parse, sha256_hex
from bench.receipt.signing.signature import PublicKey
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.findings import ReceiptVerdict
from bench.receipt.verification.foreign import foreign_signed_bytes
from bench.receipt.verification.verify import VerificationOutcome, VerificationRequest, verify_file
from tests.rows import each_row

FILES = [
    ("memory-b12b9a56", "receipt-signing", "przm-p1", ReceiptVerdict.INVALID),
    ("convergence-1fde5083", "convergence-preview", "przm-p2", ReceiptVerdict.VALID),
    ("convergence-3b5818e9", "convergence-preview", "przm-p2", ReceiptVerdict.VALID),
    ("convergence-23b8c3d1", "convergence-preview", "przm-p2", ReceiptVerdict.VALID),
    ("convergence-805c4c56", "convergence-preview", "przm-p2", ReceiptVerdict.VALID),
    ("convergence-old-e081746c", "convergence-preview", "przm-p1", ReceiptVerdict.VALID),
    ("convergence-old-27c02406", "convergence-preview", "przm-p1", ReceiptVerdict.VALID),
]


def check(shared: Path, path: Path, key: str, profile: Any, **question: Any) -> VerificationOutcome:
    pinned = TrustStore.pin([PublicKey.load(shared / "data" / "przm-receipts" / f"{key}.pub")])
    return verify_file(path, VerificationRequest(trust=pinned, profile=profile, **question))


def found(outcome: VerificationOutcome, status: str) -> set[str]:
    return {str(f.code) for f in outcome.findings if f.status == status}


@each_row(("name", "key", "profile", "verdict"), FILES)
def test_each_published_external_receipt_has_its_known_verdict(
    shared: Path, name: str, key: str, profile: str, verdict: ReceiptVerdict
) -> None:
    path = shared / "data" / "przm-receipts" / f"{name}.json"
    outcome = check(shared, path, key, profile)
    assert outcome.verdict is verdict
    assert any(f.check == "signature" and f.status == "ok" for f in outcome.findings)
    assert "dirty" in found(outcome, "warn")
    assert not outcome.defensible
    other = "przm-p1" if profile == "przm-p2" else "przm-p2"
    assert "signature_invalid" in found(check(shared, path, key, other), "fail")


def test_the_external_memory_receipt_is_invalid_although_its_signature_is_good(shared: Path) -> None:
    outcome = check(shared, shared / "data" / "przm-receipts" / "memory-b12b9a56.json", "receipt-signing", "przm-p1")
    assert found(outcome, "fail") == {"invariant_ndcg_le_hit"}
    assert found(outcome, "warn") == {"duplicate_retrieved", "dirty"}


def test_profile_przm_p2_lists_the_unsigned_fields(shared: Path) -> None:
    outcome = check(
        shared, shared / "data" / "przm-receipts" / "convergence-1fde5083.json", "convergence-preview", "przm-p2"
    )
    assert [f.detail for f in outcome.findings if f.code == "unsigned_fields"] == [
        "not covered by the signature: ranAt, receiptId"
    ]
    assert outcome.receipt_id == "1fde5083-f99c-4ed1-8cef-62bc706d5219"


def test_the_signed_bytes_of_each_profile_match_the_published_digests(shared: Path) -> None:
    folder = shared / "data" / "przm-receipts"
    for name, profile, size, digest in [
        ("memory-b12b9a56", "przm-p1", 10_438, "ae2536bcb5dc4f4ee1c8eec83aba87a92330806964641ba61e2876581a1e5e95"),
        ("convergence-1fde5083", "przm-p2", 17_627, "576c58740c605a0f145ea1be9d99bd1cd3302da899faf48a70b9f469a27be0fd"),
        (
            "convergence-old-e081746c",
            "przm-p1",
            17_927,
            "a670ea4de08e1ef1ebd3994f775a7588c85be941f796e1e7fa2f759101356978",
        ),
    ]:
        document = parse((folder / f"{name}.json").read_bytes())
        assert isinstance(document, dict)
        data = foreign_signed_bytes(document, profile)  # type: ignore[arg-type]
        assert (len(data), sha256_hex(data)) == (size, digest)


def test_a_changed_external_receipt_fails_its_signature_or_invariants(shared: Path, tmp_path: Path) -> None:
    whole = json.loads((shared / "data" / "przm-receipts" / "memory-b12b9a56.json").read_text())
    path = tmp_path / "r.json"

    def failures() -> set[str]:
        path.write_text(json.dumps(whole))
        return found(check(shared, path, "receipt-signing", "przm-p1"), "fail")

    whole["scores"]["recall_at_5"] = 0.9
    assert {"signature_invalid", "score_mismatch", "invariant_recall_monotone"} <= failures()
    whole["scores"] = {"recall_at_5": 1.5, "latency_p50_ms": 3, "latency_p95_ms": 2}
    assert {"invariant_rate_range", "invariant_percentiles"} <= failures()
    whole["added"] = 1
    assert "signature_invalid" in failures()
    del whole["signature"]
    assert "signature_missing" in failures()


def test_an_external_receipt_without_profile_is_schema_missing_with_a_hint(shared: Path) -> None:
    path = shared / "data" / "przm-receipts" / "convergence-1fde5083.json"
    outcome = check(shared, path, "convergence-preview", "bench")
    assert found(outcome, "fail") == {"schema_missing"}
    assert "--profile" in next(f.detail for f in outcome.findings if f.code == "schema_missing")


def test_a_bench_receipt_cannot_be_verified_with_an_external_profile(desk: Any, make: Any) -> None:
    outcome = desk.verify(desk.good(), profile="przm-p1")
    assert (outcome.verdict, make.codes(outcome)) == (ReceiptVerdict.INVALID, {"schema_unknown"})


def test_an_external_receipt_of_an_unknown_key_is_untrusted_and_not_invalid(shared: Path) -> None:
    path = shared / "data" / "przm-receipts" / "convergence-1fde5083.json"
    outcome = check(shared, path, "receipt-signing", "przm-p2")
    assert (outcome.verdict, found(outcome, "fail")) == (ReceiptVerdict.UNTRUSTED, {"key_unknown"})


def test_policy_strict_fails_an_external_receipt_of_a_dirty_tree(shared: Path) -> None:
    path = shared / "data" / "przm-receipts" / "convergence-1fde5083.json"
    assert check(shared, path, "convergence-preview", "przm-p2", policy="strict").verdict is ReceiptVerdict.POLICY
