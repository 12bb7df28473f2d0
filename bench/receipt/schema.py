"""What a receipt says, field by field: the closed schema ``bench.receipt/1``.

    receipt = read_receipt(parse(data))
    receipt.scores.deterministic["recall_at_10"].value

Field names here are snake_case, outside they are camelCase. ``| None`` = may be null; every field must be there.
Hex is lower case, times are UTC, durations are microseconds, money is micro-USD. Adding a field is a new schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.canonical import JSON, without
from bench.receipt.wire import (
    Flag,
    Hex16,
    Hex40,
    Hex64,
    Instant,
    Integer,
    Misfit,
    Name,
    Natural,
    Number,
    Positive,
    Problem,
    Text,
    Ulid,
    Wire,
    admit,
)

SCHEMA = "bench.receipt/1"
State = Literal[
    "correct", "incorrect", "partial", "abstained", "error", "not_ready", "unsupported", "unscored", "measured"
]
Role = Literal["embedding", "answering", "judge", "provider-internal"]
ALWAYS_MEASURED = ("ingest_us", "search_us", "ingest_to_searchable_us")


# --------------------------------------------------------------------------- run


class IsolationProof(Wire):
    """How many namespaces were probed, and how the probes ended."""

    probed: Natural
    passed: Natural
    failed: Natural


class Preregistration(Wire):
    """The log entry that announced the run before its first call."""

    log_index: Natural
    entry_sha256: Hex64


class LogHead(Wire):
    """The public log as it was seen when the run started."""

    origin: Name
    size: Natural
    root_hash: Hex64


class Resume(Wire):
    """One continuation of the run."""

    at: Instant
    code_commit: Hex40 | None
    bench_version: Name


class Shard(Wire):
    """A part that ran on its own: item positions, 1-based, inclusive."""

    index: Positive
    of: Positive
    from_: Annotated[int, Field(strict=True, ge=1, alias="from")]
    to: Positive


class Run(Wire):
    """The settings of the run."""

    run_id: Name
    plan_digest: Hex64
    seed: Integer
    epochs: Positive
    concurrency: Positive
    k: Positive | None
    context_budget_tokens: Positive | None
    track: Literal["uniform", "vendor"]
    isolation: Literal["off", "probe", "full"]
    isolation_proof: IsolationProof
    preregistration: Preregistration | None
    log: LogHead | None
    resumes: tuple[Resume, ...]
    shards: tuple[Shard, ...]


# ----------------------------------------------------------- what was measured how


class DatasetFile(Wire):
    """The bytes of the dataset file."""

    sha256: Hex64
    bytes: Natural
    items: Natural
    source: Text
    license: Text


class Selection(Wire):
    """Which items were meant."""

    filter: Mapping[str, object]
    limit: Natural | None
    sample: Natural | None
    order: Literal["dataset", "seeded"]


class Benchmark(Wire):
    """The dataset and its protocol."""

    name: Name
    version: Text
    split: Text | None
    config_sha256: Hex64
    dataset: DatasetFile
    selection: Selection


class Provider(Wire):
    """The memory system under test."""

    name: Name
    version: Text
    version_source: Literal["api", "image", "package", "declared"]
    kind: Literal["hosted", "local", "docker", "mcp"]
    config_sha256: Hex64
    endpoint_host: Text | None
    image_digest: Text | None


class ModelUse(Wire):
    """One model in one role; ``reported`` is the id that the endpoint returned."""

    role: Role
    provider: Text
    requested: Name
    reported: Text | None
    params: Mapping[str, object]
    seed: Integer | None


class PromptUse(Wire):
    """One prompt by its hash."""

    role: Name
    sha256: Hex64
    source: Literal["default", "benchmark", "custom", "vendor"]


class MetricUse(Wire):
    """One metric and the id of its definition."""

    name: Name
    definition: Name


# --------------------------------------------------------------------- environment


class Git(Wire):
    """The checkout as it was before the run's first write."""

    commit: Hex40 | None
    tag: Text | None
    dirty: Flag | None


class Environment(Wire):
    """The machine and the code; image and commit may be self-declared."""

    python: Text
    implementation: Text
    platform: Text
    cpu: Text
    cpu_count: Natural
    memory_bytes: Natural
    container_image: Text | None
    container_digest: Text | None
    lock_sha256: Hex64 | None
    packages: Mapping[str, Text]
    git: Git
    code_tree_sha256: Hex64
    host_hash: Hex16


# -------------------------------------------------------------------------- results


class ByState(Wire):
    """How many items ended in each state."""

    correct: Natural
    incorrect: Natural
    partial: Natural
    abstained: Natural
    error: Natural
    not_ready: Annotated[int, Field(strict=True, ge=0, alias="not_ready")]
    unsupported: Natural
    unscored: Natural
    measured: Natural

    def of(self) -> dict[str, int]:
        """The counts by state name."""
        return {str(state): int(count) for state, count in self.model_dump(by_alias=True).items()}


class Counts(Wire):
    """How the planned items ended."""

    planned: Natural
    pending: Natural
    scored: Natural
    by_state: ByState
    error_kinds: Mapping[str, Natural]
    retries: Natural


class Interval(Wire):
    """Where the true mean plausibly lies."""

    low: Number
    high: Number
    level: Number
    method: Name


class Label(Wire):
    """A score over the items with one label."""

    value: Number | None
    n: Natural


class Score(Wire):
    """One metric over the whole job."""

    definition: Name
    value: Number | None
    value_failures_as_zero: Number | None
    n: Natural
    n_excluded: Natural
    n_failed: Natural
    aggregate: Annotated[str, Field(strict=True, pattern=r"^(mean|other|macro:.+)$")]
    interval: Interval | None
    breakdown: Mapping[str, Mapping[str, Label]]


class Times(Wire):
    """Durations in microseconds; null where n is 0."""

    n: Natural
    min: Natural | None
    p50: Natural | None
    p95: Natural | None
    p99: Natural | None
    max: Natural | None

    def ordered(self) -> tuple[int | None, ...]:
        """From the least to the greatest."""
        return (self.min, self.p50, self.p95, self.p99, self.max)


class Pace(Wire):
    """Something a second."""

    n: Natural
    value: Number | None


class Usage(Wire):
    """Calls, tokens and money; null money = not known."""

    calls: Natural
    prompt_tokens: Natural
    completion_tokens: Natural
    usd_micros: Natural | None


class Cost(Usage):
    """Usage of the whole job, and by role."""

    price_table: Text | None
    by_role: Mapping[str, Usage]


def _timed(measured: Mapping[str, Times | Pace]) -> Mapping[str, Times | Pace]:
    missing = [name for name in ALWAYS_MEASURED if name not in measured]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    for name, value in measured.items():
        if not name.endswith("_us" if isinstance(value, Times) else "_per_s"):
            raise ValueError(f"{name} does not carry the unit of its fields")
    return measured


class Scores(Wire):
    """By class: computable from rows alone, given by a model, or measured with a clock."""

    deterministic: Mapping[str, Score]
    judged: Mapping[str, Score]
    measured: Annotated[Mapping[str, Times | Pace], AfterValidator(_timed)]
    cost: Cost


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


# ------------------------------------------------------------------------- receipt


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
