"""The schema ``bench.receipt/1``: every field of a receipt. ``read_receipt`` reads and validates a document.

Example::

    receipt = read_receipt(parse(data))
    receipt.scores.deterministic["recall_at_10"].value

Field names are snake_case in Python and camelCase in JSON. Every field must be present, except optional fields such as
``memoryCost``. A field with ``| None`` can be null. Hex is lower case, times are UTC, durations are microseconds, money
is micro-USD.

A new required field needs a new schema version. A new optional field needs no new version, because receipts without
the field stay valid. But older versions of this program refuse receipts that have the field.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from operator import attrgetter
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.canonical import JSON, without_members
from bench.receipt.base_model import (
    ClosedModel,
    FieldProblem,
    Hex64,
    Instant,
    Name,
    Natural,
    SchemaMismatch,
    Text,
    Ulid,
    validate,
)
from bench.receipt.schema_results import ReceiptCounts, ReceiptMemoryCost, Scores
from bench.receipt.schema_run import Benchmark, MetricUse, ModelUse, PromptUse, ReceiptEnvironment, ReceiptProvider, Run

SCHEMA = "bench.receipt/1"


class PerQuery(ClosedModel):
    """The items file, identified by its digest and its Merkle roots."""

    format: Literal["jcs-lines/1"]
    """one row per line, in RFC 8785 form"""
    file: Name
    """name of the items file in the folder of the receipt"""
    count: Natural
    """number of rows: one for each repeat of an item that has ended"""
    bytes: Natural
    """size of the file in bytes"""
    sha256: Hex64
    """SHA-256 of the whole file"""
    merkle_root: Hex64
    """Merkle root (RFC 6962); a leaf is a row without its line end"""
    deterministic_root: Hex64
    """Merkle root over the part of each row that does not depend on a clock or a model"""


class Reproducibility(ClosedModel):
    """The expected agreement between the results of a receipt and the results of a rerun."""

    class_: Annotated[Literal["exact", "statistical", "none"], Field(alias="class")]
    """exact: a rerun gives the same resultDigest; statistical: about the same scores; none: unknown"""
    reasons: tuple[Text, ...]
    """reasons why the class is not exact, and notes on prompts, build and judge"""


class Signer(ClosedModel):
    """The signer. Verification checks that the values are the same as in the section ``signature``."""

    algorithm: Text
    """only Ed25519 is accepted"""
    public_key_fingerprint: Text
    """SHA-256 of the public key in DER form (SubjectPublicKeyInfo), written sha256:HEX"""


class Signature(Signer):
    """The signature."""

    value: Text
    """signature over the RFC 8785 form of the receipt without this block; base64url without padding"""


def _sorted_by(*fields: str) -> AfterValidator:
    def check(entries: tuple[object, ...]) -> tuple[object, ...]:
        if list(entries) != sorted(entries, key=attrgetter(*fields)):
            raise ValueError(f"not sorted by {', '.join(fields)}")
        return entries

    return AfterValidator(check)


class Body(ClosedModel):
    """A receipt before it is signed."""

    schema_: Annotated[Literal["bench.receipt/1"], Field(alias="schema")]
    """name and version of the schema of this receipt"""
    receipt_id: Ulid
    """unique id (ULID), created when the receipt was issued"""
    kind: Literal["run", "partial"]
    """run: all selected items have ended; partial: some selected items are pending, or outside the ranges of the run"""
    bench_version: Name
    """version of bench that made the run"""
    ran_at: Instant
    """time of the first call to the provider, UTC"""
    finished_at: Instant
    """time at which the last item ended, UTC"""
    issued_at: Instant
    """time at which the receipt was created, UTC"""
    time_source: Literal["self-asserted"]
    """all times are stated by the signer and not proven"""
    run: Run
    """settings of the run, and its resumes"""
    benchmark: Benchmark
    """dataset, protocol and selection"""
    provider: ReceiptProvider
    """the memory system that was measured"""
    models: Annotated[tuple[ModelUse, ...], _sorted_by("role", "requested")]
    """every model in each of its roles, sorted by role, then by the field ``requested``"""
    prompts: Annotated[tuple[PromptUse, ...], _sorted_by("role")]
    """hash of every prompt of the plan, sorted by role; a prompt is listed even if no model used it"""
    metrics: Annotated[tuple[MetricUse, ...], _sorted_by("name")]
    """every metric with a score, sorted by name"""
    environment: ReceiptEnvironment
    """machine and code"""
    counts: ReceiptCounts
    """number of planned items by state"""
    scores: Scores
    """scores by class: deterministic, judged, measured, cost"""
    per_query: PerQuery
    """digests of the items file, from which the scores can be computed again"""
    config_digest: Hex64
    """SHA-256 over everything that affects comparability; receipts with equal digests are comparable"""
    result_digest: Hex64
    """SHA-256 over config, selection, counts and deterministic scores; equal after an exact rerun"""
    reproducibility: Reproducibility
    """the expected agreement between the results of this receipt and of a rerun"""
    supersedes: Ulid | None
    """id of the receipt that this receipt replaces, or null"""
    reproduces: Ulid | None
    """id of the receipt that this run repeats, or null"""
    memory_cost: ReceiptMemoryCost | None = None
    """cost of the build and of all queries; null if nothing was searched; missing in receipts of older versions"""


class Receipt(Body):
    """A receipt with its signer, without the signature."""

    signer: Signer
    """the signer, as a signed part of the receipt; equal to the fields in signature"""


class SignedReceipt(Receipt):
    """The whole document of a receipt file: a receipt with its signature."""

    signature: Signature
    """the signature; the only part that is not signed"""


def read_receipt(document: JSON) -> Receipt:
    """Convert a parsed document to a receipt.

    A missing signature is accepted here. The signature check reports it.

    Raises:
        SchemaMismatch: the document does not fit the schema (``schema_missing``, ``schema_unknown``, ``field_*``).
    """
    if not isinstance(document, dict):
        raise _mismatch("field_type", "", "the document is not an object")
    schema = document.get("schema")
    if schema is None:
        raise _mismatch(
            "schema_missing",
            "schema",
            "the document has no schema (for receipts of the original system, use --profile)",
        )
    if schema != SCHEMA:
        raise _mismatch("schema_unknown", "schema", f"the schema is not {SCHEMA}")
    receipt = validate(Receipt, without_members(document, "signature"))
    if "signature" in document:
        _admit_signature(document["signature"])
    if receipt.per_query.file != items_file_name(receipt.receipt_id):
        raise _mismatch("field_value", "perQuery.file", "the name of the items file does not match the receipt id")
    _refuse_other_definitions(receipt)
    return receipt


def _admit_signature(signature: JSON) -> None:
    try:
        validate(Signature, signature)
    except SchemaMismatch as mismatch:
        raise SchemaMismatch(
            [replace(problem, path=f"signature.{problem.path}") for problem in mismatch.problems]
        ) from None


def _refuse_other_definitions(receipt: Receipt) -> None:
    """Raise SchemaMismatch if ``metrics`` lists a metric twice, or does not list the definition of a score.

    The config digest covers ``metrics`` but not the scores.
    """
    listed = {metric.name: metric.definition for metric in receipt.metrics}
    if len(listed) != len(receipt.metrics):
        twice = next(name for name, count in Counter(metric.name for metric in receipt.metrics).items() if count > 1)
        raise _mismatch("field_value", "metrics", f'the name "{twice}" occurs twice')
    scores = receipt.scores
    for kind, group in (("deterministic", scores.deterministic), ("judged", scores.judged)):
        for name, score in group.items():
            if listed.get(name) != score.definition:
                place = f"scores.{kind}.{name}.definition"
                raise _mismatch("field_value", place, "differs from the definition under metrics")


def items_file_name(receipt_id: str) -> str:
    """Return the file name of the items file that belongs to the receipt with this id."""
    return f"{receipt_id}.items.jsonl"


def _mismatch(code: str, path: str, message: str) -> SchemaMismatch:
    return SchemaMismatch([FieldProblem(code=code, path=path, message=message)])
