"""Receipts in the format of the original system: what each profile signs, recomputes and rejects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tests.receipt.receipt_making as make
from bench.receipt.signing.signature import SigningKey, encode
from bench.receipt.signing.trust_store import TrustedKey, TrustStore
from bench.receipt.verification.findings import ReceiptVerdict
from bench.receipt.verification.foreign import check_foreign, foreign_signed_bytes, scores_of, subject_of
from bench.receipt.verification.verify import VerificationOutcome, VerificationRequest, export, verify_file
from tests.rows import each_row

Json = dict[str, Any]
KEY = SigningKey.from_raw(bytes(range(32)))
PINNED = TrustStore.pin([KEY.public])


def document(**changes: Any) -> Json:
    """A small valid receipt of the original system."""
    return {
        "receiptId": "b12b9a56-ea15-4f73-a6c8-89552129fd54", "ranAt": "2026-01-01T00:00:00Z", "benchmark": "memory",
        "adapter": {"name": "engram", "version": "2"}, "fixture": {"id": "f", "n": 2},
        "environment": {"git": {"commit": "0" * 40, "dirty": False}},
        "scores": {"recall_at_5": 0.5, "recall_at_10": 1, "ndcg_at_10": 0.6, "latency_p50_ms": 1, "latency_p95_ms": 2},
        "perQuery": [{"rank": 1, "retrieved": ["a", "b"]}, {"rank": 7, "retrieved": ["c"]}], **changes,
    }  # fmt: skip


def signed(body: Json, profile: Any = "przm-p1") -> Json:
    value = encode(KEY.sign(foreign_signed_bytes(body, profile)))
    names = {"algorithm": "Ed25519", "publicKeyFingerprint": KEY.public.fingerprint}
    return {**body, "signature": {**names, "value": value}}


def findings_of(body: Any, profile: Any = "przm-p1", store: TrustStore = PINNED) -> list[tuple[str, str, str]]:
    return [(f.status, str(f.code), f.detail) for f in check_foreign(body, profile, store) if f.status != "ok"]


def test_a_valid_external_receipt_has_no_findings_except_unsigned_fields() -> None:
    assert findings_of(signed(document())) == []
    unsigned = "not covered by the signature: ranAt, receiptId, scores.latency_p50_ms, scores.latency_p95_ms"
    assert findings_of(signed(document(), "przm-p2"), "przm-p2") == [("warn", "unsigned_fields", unsigned)]


@each_row("profile", ["przm-p1", "przm-p2"])
@each_row(
    ("place", "value", "unsigned"),
    [
        ("benchmark", "other", False), ("scores.recall_at_5", 0.25, False), ("adapter.version", "3", False),
        ("added", 1, False), ("ranAt", "2027-01-01T00:00:00Z", True), ("receiptId", "x", True),
        ("scores.latency_p50_ms", 1.5, True), ("scores.ingest_throughput_items_per_sec", 9, True),
    ],
)  # fmt: skip
def test_each_profile_signs_exactly_its_documented_fields(
    profile: str, place: str, value: object, unsigned: bool
) -> None:
    body = signed(document(), profile)
    make.change(body, place, value)
    codes = {code for status, code, _ in findings_of(body, profile) if status == "fail"}
    assert ("signature_invalid" in codes) is not (unsigned and profile == "przm-p2")


def test_the_wrong_profile_is_an_invalid_signature() -> None:
    for one, other in (("przm-p1", "przm-p2"), ("przm-p2", "przm-p1")):
        found = findings_of(signed(document(), one), other)
        assert ("fail", "signature_invalid", f"the signature does not match the document under {other}") in found


FORMS: list[tuple[Any, str, str]] = [
    ([], "field_type", "the document is not an object"),
    (None, "field_type", "the document is not an object"),
    ({**signed(document()), "schema": "x"}, "schema_unknown",
    "a przm-p1 document has no schema, but this document has one (remove --profile)"),
    (document(), "signature_missing", "the document has no signature"),
    (document(signature=[]), "signature_missing", "the document has no signature"),
    (document(signature={"algorithm": "Ed25519", "x": 1}), "field_unknown",
     "signature: the signature has an unknown field; expected only algorithm, publicKeyFingerprint, value"),
    (document(signature={"algorithm": "RSA"}), "algorithm_unsupported", "the signature algorithm must be Ed25519"),
    (document(signature={}), "algorithm_unsupported", "the signature algorithm must be Ed25519"),
    (document(signature={"algorithm": "Ed25519"}), "fingerprint_mismatch", "the signature does not name a key"),
    (document(signature={"algorithm": "Ed25519", "publicKeyFingerprint": 1}), "fingerprint_mismatch",
     "the signature does not name a key"),
    (document(signature={"algorithm": "Ed25519", "publicKeyFingerprint": "x"}), "bad_signature_encoding",
     "the signature is not 86 characters of canonical base64url"),
]  # fmt: skip


@each_row(("body", "code", "detail"), FORMS)
def test_a_malformed_document_or_signature_block_is_reported_with_a_message(body: Any, code: str, detail: str) -> None:
    assert findings_of(body)[0] == ("fail", code, detail)


def test_external_receipts_follow_the_same_trust_rules() -> None:
    body = signed(document())
    unknown = findings_of(body, store=TrustStore(origin=None, keys=()))
    assert [(status, code) for status, code, _ in unknown] == [("skip", "None"), ("fail", "key_unknown")]
    logger = TrustStore(origin=None, keys=(TrustedKey.of(KEY.public, "k", ("log",)),))
    assert findings_of(body, store=logger) == [("fail", "key_role", 'the key k has no role "receipt"')]


NUMBERS: list[tuple[Json, str, str]] = [
    ({"recall_at_10": 1.2}, "invariant_rate_range", "recall_at_10 is 1.2, which is not in 0..1"),
    ({"collapse_rate": -0.1}, "invariant_rate_range", "collapse_rate is -0.1, which is not in 0..1"),
    (
        {"correct_final_answer_rate": 2},
        "invariant_rate_range",
        "correct_final_answer_rate is 2.0, which is not in 0..1",
    ),
    ({"recall_at_5": 0.9, "recall_at_10": 0.8}, "invariant_recall_monotone", "recall_at_5 0.9 > recall_at_10 0.8"),
    ({"ndcg_at_10": 0.9, "recall_at_10": 0.8}, "invariant_ndcg_le_hit", "ndcg_at_10 0.9 > recall_at_10 0.8"),
    ({"latency_p50_ms": 3, "latency_p95_ms": 2}, "invariant_percentiles", "latency_p50_ms 3.0 > latency_p95_ms 2.0"),
]


@each_row(("scores", "code", "detail"), NUMBERS)
def test_impossible_scores_of_an_external_receipt_are_reported(scores: Json, code: str, detail: str) -> None:
    assert findings_of(signed(document(scores=scores, perQuery=[]))) == [("fail", code, detail)]


@each_row("scores", [None, [], {"recall_at_5": "0.9", "recall_at_10": True}, {"recall_at_10": 0.5}, {}])
def test_scores_that_are_not_numbers_are_not_compared(scores: Any) -> None:
    assert findings_of(signed(document(scores=scores, perQuery="x"))) == []


RANKS: list[tuple[Any, float, float, list[str]]] = [
    ([{"rank": 1}, {"rank": None}], 0.5, 0.5, []),
    ([{"rank": 1}, {"rank": 6}], 0.5, 1.0, []),
    ([{"rank": 1}, {"rank": 6}], 1.0, 1.0, ["recall_at_5 is 1.0, but the ranks give 0.5"]),
    ([{"rank": 0}, {"rank": 11}], 0.0, 0.5, ["recall_at_10 is 0.5, but the ranks give 0.0"]),
    ([{"rank": 1}, {}], 0.0, 0.0, []),
    ([], 0.3, 0.4, []),
    ([{"rank": "1"}, {"rank": True}], 0.0, 0.0, []),
]


@each_row(("queries", "at5", "at10", "details"), RANKS)
def test_recall_is_recomputed_if_every_query_has_a_rank(
    queries: Any, at5: float, at10: float, details: list[str]
) -> None:
    body = document(scores={"recall_at_5": at5, "recall_at_10": at10}, perQuery=queries)
    assert findings_of(signed(body)) == [("fail", "score_mismatch", detail) for detail in details]


def test_repeated_ids_and_a_dirty_tree_are_warnings() -> None:
    queries = [{"retrieved": ["a", "a"]}, {"retrieved": ["a"]}, {"retrieved": [1, 1]}, {"retrieved": "aa"}, 7]
    body = document(perQuery=queries, environment={"git": {"commit": None, "dirty": True}})
    assert findings_of(signed(body)) == [
        ("warn", "duplicate_retrieved", "1 query has the same id more than once in its hits"),
        ("warn", "dirty", "bench had uncommitted changes"),
        ("warn", "commit_unknown", "the commit of bench is not known"),
    ]
    assert findings_of(signed(document(environment=[]))) == [
        ("warn", "commit_unknown", "the commit of bench is not known")
    ]


def test_subject_and_scores_of_an_external_receipt_allow_missing_fields() -> None:
    assert list(subject_of(document())) == [
        ("benchmark", "memory"), ("adapter", "engram 2"), ("fixture", "f"),
        ("ran", "2026-01-01T00:00:00Z (stated by the signer)"),
    ]  # fmt: skip
    assert list(subject_of({"benchmark": 1, "adapter": [], "fixture": {}})) == [("ran", "None (stated by the signer)")]
    assert scores_of({"scores": {"a": 1, "b": "2", "c": True, "d": None, "e": 0.5}}) == {"a": 1.0, "e": 0.5}
    assert scores_of({}) == {}


def verified(path: Path, profile: Any) -> tuple[VerificationOutcome, VerificationRequest]:
    question = VerificationRequest(trust=PINNED, profile=profile)
    return verify_file(path, question), question


@pytest.mark.parametrize("profile", ["przm-p1", "przm-p2"])
def test_the_export_has_the_bytes_that_the_profile_signs(tmp_path: Path, profile: Any) -> None:
    body = signed(document(), profile)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(body))
    outcome, question = verified(path, profile)
    assert (outcome.verdict, outcome.fingerprint) == (ReceiptVerdict.VALID, KEY.public.fingerprint)
    assert outcome.receipt_id == body["receiptId"]
    export(outcome, question, tmp_path / "out")
    assert (tmp_path / "out" / "canonical.bin").read_bytes() == foreign_signed_bytes(body, profile)
    KEY.public.verify((tmp_path / "out" / "sig.bin").read_bytes(), (tmp_path / "out" / "canonical.bin").read_bytes())
    assert (tmp_path / "out" / "pub.pem").read_text() == KEY.public.pem


def test_the_checklist_of_an_external_receipt_knows_only_the_signature(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(signed(document())))
    outcome, _ = verified(path, "przm-p1")
    assert {name: answer for name, answer in outcome.checklist.items() if answer != "unknown"} == {"signature": "yes"}
    assert outcome.original_document is not None and outcome.receipt is None and not outcome.defensible
    path.write_text("[1]")
    outcome, _ = verified(path, "przm-p1")
    assert (outcome.original_document, outcome.verdict, outcome.receipt_id) == (None, ReceiptVerdict.INVALID, None)
