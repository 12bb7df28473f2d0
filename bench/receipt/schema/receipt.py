"""The receipt as a whole: body, signer, signature, and how a document is read into it.

    receipt = read_receipt(parse(data))

Adding a field is a new schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.canonical import JSON, without
from bench.receipt.schema.place import Environment
from bench.receipt.schema.results import Counts, Scores
from bench.receipt.schema.run import Run
from bench.receipt.schema.subject import Benchmark, MetricUse, ModelUse, PromptUse, Provider
from bench.receipt.wire import Hex64, Instant, Misfit, Name, Natural, Problem, Text, Ulid, Wire, admit

SCHEMA = "bench.receipt/1"


class PerQuery(Wire):
    """The items file, by digest and Merkle roots."""

    format: Literal["jcs-lines/1"]
    file: Name
    count: Natural
    bytes: Natural
    sha256: Hex64
    merkle_root: Hex64
    deterministic_root: Hex64


class Reproducibility(Wire):
    """What a rerun can be expected to give."""

    class_: Annotated[Literal["exact", "statistical", "none"], Field(alias="class")]
    reasons: tuple[Text, ...]


class Signer(Wire):
    """Who signed; the signature layer judges the values."""

    algorithm: Text
    public_key_fingerprint: Text


class Signature(Signer):
    """The signature as it came."""

    value: Text


def _sorted_by(key: Callable[[object], tuple[str, ...]], fields: str) -> AfterValidator:
    def check(entries: tuple[object, ...]) -> tuple[object, ...]:
        if list(entries) != sorted(entries, key=key):
            raise ValueError(f"not sorted by {fields}")
        return entries

    return AfterValidator(check)


def _model_key(entry: object) -> tuple[str, ...]:
    assert isinstance(entry, ModelUse)
    return (entry.role, entry.requested)


def _prompt_key(entry: object) -> tuple[str, ...]:
    assert isinstance(entry, PromptUse)
    return (entry.role,)


def _metric_key(entry: object) -> tuple[str, ...]:
    assert isinstance(entry, MetricUse)
    return (entry.name,)


class Body(Wire):
    """A receipt before it is signed."""

    schema_: Annotated[Literal["bench.receipt/1"], Field(alias="schema")]
    receipt_id: Ulid
    kind: Literal["run", "partial"]
    bench_version: Name
    ran_at: Instant
    finished_at: Instant
    issued_at: Instant
    time_source: Literal["self-asserted"]
    run: Run
    benchmark: Benchmark
    provider: Provider
    models: Annotated[tuple[ModelUse, ...], _sorted_by(_model_key, "role, requested")]
    prompts: Annotated[tuple[PromptUse, ...], _sorted_by(_prompt_key, "role")]
    metrics: Annotated[tuple[MetricUse, ...], _sorted_by(_metric_key, "name")]
    environment: Environment
    counts: Counts
    scores: Scores
    per_query: PerQuery
    config_digest: Hex64
    result_digest: Hex64
    reproducibility: Reproducibility
    supersedes: Ulid | None
    reproduces: Ulid | None


class Receipt(Body):
    """A receipt whose signer is named; the signature beside it belongs to the signature layer."""

    signer: Signer


class SignedReceipt(Receipt):
    """The whole document as it lies in a file, for those who want a JSON Schema of it."""

    signature: Signature


def read_receipt(document: JSON) -> Receipt:
    """Fit a parsed document into the schema; raise Misfit (``schema_missing``, ``schema_unknown``, ``field_*``).

    A missing signature is left to the signature check; one that is there must have its three fields.
    """
    if not isinstance(document, dict):
        raise _misfit("field_type", "", "the document is not an object")
    schema = document.get("schema")
    if schema is None:
        raise _misfit("schema_missing", "schema", "the document names no schema (--profile reads foreign receipts)")
    if schema != SCHEMA:
        raise _misfit("schema_unknown", "schema", f"only {SCHEMA} is read")
    receipt = admit(Receipt, without(document, "signature"))
    if "signature" in document:
        _admit_signature(document["signature"])
    if receipt.per_query.file != items_file_name(receipt.receipt_id):
        raise _misfit("field_value", "perQuery.file", "the items file is not named after the receipt")
    return receipt


def _admit_signature(signature: JSON) -> None:
    try:
        admit(Signature, signature)
    except Misfit as misfit:
        raise Misfit([replace(problem, path=f"signature.{problem.path}") for problem in misfit.problems]) from None


def items_file_name(receipt_id: str) -> str:
    """The bare name of a receipt's items file."""
    return f"{receipt_id}.items.jsonl"


def _misfit(code: str, path: str, message: str) -> Misfit:
    return Misfit([Problem(code=code, path=path, message=message)])
