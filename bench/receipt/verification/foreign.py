"""Verify receipts of the original system PRZM, an earlier program that signs a receipt in one of two ways.

Each way has a name, called the profile. ``przm-p1`` signs the document without ``signature``. ``przm-p2`` also leaves
out some fields that change with each run. The program does not detect the profile, and the signature check fails with
the wrong profile::

    findings = check_foreign(document, "przm-p2", store)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from bench.canonical import JSON, dumps, without_members
from bench.errors import VerificationError
from bench.receipt.signing.signature import ALGORITHM, FIELDS, decode, is_valid_signature, signature_of
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.findings import Finding, fail, ok, or_ok, skip, warn
from bench.visible_text import counted

Profile = Literal["przm-p1", "przm-p2"]
TOLERANCE = 1e-12
_UNSIGNED_TOP = ("ranAt", "receiptId")
_UNSIGNED_SCORES = ("latency_p50_ms", "latency_p95_ms", "ingest_throughput_items_per_sec")
_RATES = (
    "recall_at_5",
    "recall_at_10",
    "ndcg_at_10",
    "correct_final_answer_rate",
    "collapse_rate",
)
_NOT_ABOVE = (
    ("invariant_recall_monotone", "recall_at_5", "recall_at_10"),
    ("invariant_ndcg_le_hit", "ndcg_at_10", "recall_at_10"),
    ("invariant_percentiles", "latency_p50_ms", "latency_p95_ms"),
)

Document = Mapping[str, JSON]


def foreign_signed_bytes(document: Document, profile: Profile) -> bytes:
    """Return the bytes of a document that the signature covers under this profile."""
    body = without_members(document, "signature")
    if profile == "przm-p2":
        body = without_members(body, *_UNSIGNED_TOP)
        scores = body.get("scores")
        if isinstance(scores, dict):
            body["scores"] = without_members(scores, *_UNSIGNED_SCORES)
    return dumps(body)


def check_foreign(document: JSON, profile: Profile, store: TrustStore) -> list[Finding]:
    """Check a receipt of the original system: signature, trust, recall, invariants and policy."""
    if not isinstance(document, dict):
        return [fail("schema", "field_type", "the document is not an object")]
    if "schema" in document:  # else our own receipts would pass here with fewer checks than they promise
        message = f"a {profile} document has no schema, but this document has one (remove --profile)"
        return [fail("schema", "schema_unknown", message)]
    return [
        ok("schema", profile),
        *_signature(document, profile, store),
        *or_ok("recompute", list(_recall(document))),
        *or_ok("invariants", list(_invariants(document))),
        *or_ok("policy", list(_policy(document))),
    ]


def subject_of(document: Document) -> Iterator[tuple[str, str]]:
    """Yield (name, text) for benchmark, adapter, fixture and time of a receipt of the original system."""
    if isinstance(document.get("benchmark"), str):
        yield "benchmark", str(document["benchmark"])
    for name in ("adapter", "fixture"):
        parts = _object(document, name)
        text = " ".join(str(parts[field]) for field in ("name", "id", "version") if field in parts)
        if text:
            yield name, text
    yield "ran", f"{document.get('ranAt')} (stated by the signer)"


def scores_of(document: Document) -> dict[str, float]:
    """Return name -> value of all scores in the document that are numbers."""
    found = {name: _number(value) for name, value in _object(document, "scores").items()}
    return {name: value for name, value in found.items() if value is not None}


# ---------------------------------------------------------------------- signature


def _signature(document: Document, profile: Profile, store: TrustStore) -> Iterator[Finding]:
    try:
        raw, fingerprint = _form(document)
    except VerificationError as error:
        yield fail("signature", error.code, str(error))
        return
    decision = store.decide(fingerprint, "receipt", None)
    known = store.find(fingerprint)
    if known is None:
        yield skip("signature", "not checked: the key is not known")
    elif is_valid_signature(known.key, raw, foreign_signed_bytes(document, profile)):
        yield ok("signature", f"good under {profile}")
    else:
        yield fail("signature", "signature_invalid", f"the signature does not match the document under {profile}")
    if decision.trusted:
        yield ok("trust", decision.detail)
    else:
        yield fail("trust", str(decision.code), decision.detail)
    unsigned = _unsigned(document) if profile == "przm-p2" else []
    if unsigned:
        yield warn("signature", "unsigned_fields", f"not covered by the signature: {', '.join(unsigned)}")


def _form(document: Document) -> tuple[bytes, str]:
    signature = signature_of(document)
    if set(signature) - FIELDS:
        raise VerificationError(
            "field_unknown",
            f"the signature has an unknown field; expected only {', '.join(sorted(FIELDS))}",
            where="signature",
        )
    if signature.get("algorithm") != ALGORITHM:
        raise VerificationError("algorithm_unsupported", f"the signature algorithm must be {ALGORITHM}")
    fingerprint = signature.get("publicKeyFingerprint")
    if not isinstance(fingerprint, str):
        raise VerificationError("fingerprint_mismatch", "the signature does not name a key")
    return decode(signature.get("value")), fingerprint


def _unsigned(document: Document) -> list[str]:
    top = [name for name in _UNSIGNED_TOP if name in document]
    return top + [f"scores.{name}" for name in _UNSIGNED_SCORES if name in _object(document, "scores")]


# --------------------------------------------------------------------- invariants


def _object(document: Document, name: str) -> Document:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _number(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _invariants(document: Document) -> Iterator[Finding]:
    scores = _object(document, "scores")
    for name in _RATES:
        value = _number(scores.get(name))
        if value is not None and not 0 <= value <= 1:
            yield fail("invariants", "invariant_rate_range", f"{name} is {value}, which is not in 0..1")
    for code, low_name, high_name in _NOT_ABOVE:
        low, high = _number(scores.get(low_name)), _number(scores.get(high_name))
        if low is not None and high is not None and low > high + TOLERANCE:
            yield fail("invariants", code, f"{low_name} {low} > {high_name} {high}")
    repeated = sum(_repeats(query) for query in _queries(document))
    if repeated:
        yield warn(
            "invariants",
            "duplicate_retrieved",
            counted(repeated, "quer(y has|ies have) the same id more than once in (its|their) hits"),
        )


def _queries(document: Document) -> list[Document]:
    queries = document.get("perQuery")
    return [query for query in queries if isinstance(query, dict)] if isinstance(queries, list) else []


def _repeats(query: Document) -> bool:
    retrieved = query.get("retrieved")
    if not isinstance(retrieved, list):
        return False
    ids = [entry for entry in retrieved if isinstance(entry, str)]
    return len(set(ids)) < len(ids)


def _recall(document: Document) -> Iterator[Finding]:
    queries, scores = _queries(document), _object(document, "scores")
    if not queries or not all("rank" in query for query in queries):
        return
    for k in (5, 10):
        stated = _number(scores.get(f"recall_at_{k}"))
        ranks = [_number(query["rank"]) for query in queries]
        found = sum(rank is not None and 1 <= rank <= k for rank in ranks) / len(queries)
        if stated is not None and abs(stated - found) > TOLERANCE:
            yield fail("recompute", "score_mismatch", f"recall_at_{k} is {stated}, but the ranks give {found}")


def _policy(document: Document) -> Iterator[Finding]:
    git = _object(_object(document, "environment"), "git")
    if git.get("dirty") is True:
        yield warn("policy", "dirty", "bench had uncommitted changes")
    if not isinstance(git.get("commit"), str):
        yield warn("policy", "commit_unknown", "the commit of bench is not known")
