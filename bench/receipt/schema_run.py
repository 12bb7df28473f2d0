"""The part of the receipt schema for the run: settings, benchmark, provider, models, prompts, metrics and machine.

Example::

    receipt.run.isolation_proof.failed
    receipt.benchmark.dataset.sha256, receipt.provider.version_source
    receipt.environment.git.dirty

The signer can state the container image and the commit without proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from bench.receipt.base_model import (
    ClosedModel,
    Flag,
    Hex16,
    Hex40,
    Hex64,
    Instant,
    Integer,
    Name,
    Natural,
    Positive,
    Text,
)
from bench.untyped_values import Json


class ReceiptIsolation(ClosedModel):
    """Number and results of the isolation probes."""

    probed: Natural
    """number of probes for content of another namespace"""
    passed: Natural
    """number of probes that found nothing"""
    failed: Natural
    """number of probes that found content of another namespace"""


class Preregistration(ClosedModel):
    """The entry of the public log that announced the run before its first call."""

    log_index: Natural
    """index of the entry in the log, from 0"""
    entry_sha256: Hex64
    """SHA-256 of the entry's line"""


class LogHead(ClosedModel):
    """The state of the public log at the start of the run."""

    origin: Name
    """name of the log"""
    size: Natural
    """number of entries"""
    root_hash: Hex64
    """Merkle root over the entries"""


class ReceiptResume(ClosedModel):
    """One resume of the run."""

    at: Instant
    """time of the resume, UTC"""
    code_commit: Hex40 | None
    """commit of the code after the resume; null if unknown"""
    bench_version: Name
    """version of bench after the resume"""


class ReceiptShard(ClosedModel):
    """A range of items that ran separately. Positions count from 1, and both ends are included."""

    index: Positive
    """number of the part, from 1"""
    of: Positive
    """number of parts"""
    from_: Annotated[int, Field(strict=True, ge=1, alias="from")]
    """position of the first item"""
    to: Positive
    """position of the last item"""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.index > self.of or self.from_ > self.to:
            raise ValueError(
                f'expected "index" <= "of" and "from" <= "to", got {self.index} of {self.of}, {self.from_} to {self.to}'
            )
        return self


class Run(ClosedModel):
    """The settings of the run."""

    run_id: Name
    """name of the run in its workspace"""
    plan_digest: Hex64
    """SHA-256 of the plan, which is fixed before the first call"""
    seed: Integer
    """seed of samples, random baselines and models"""
    epochs: Positive
    """repeats of each item"""
    concurrency: Positive
    """maximum requests in flight; for auto, the upper limit"""
    k: Positive | None
    """number of hits of a search; null if the protocol has no search"""
    context_budget_tokens: Positive | None
    """maximum tokens of hits in an answer prompt; null: no limit"""
    track: Literal["uniform", "vendor"]
    """uniform: the same answer prompt for every provider; vendor: the provider's own prompt"""
    isolation: Literal["off", "probe", "full"]
    """off: no check; probe: each namespace is checked before use; full: each namespace is also searched for
    content of other corpora"""
    isolation_proof: ReceiptIsolation
    """results of the isolation checks"""
    preregistration: Preregistration | None
    """public announcement before the first call, or null"""
    log: LogHead | None
    """state of the public log, or null"""
    resumes: tuple[ReceiptResume, ...]
    """all resumes, in order"""
    shards: tuple[ReceiptShard, ...]
    """ranges of items that ran separately; empty if the run was not divided"""


Role = Literal["embedding", "answering", "judge", "provider-internal"]


class DatasetFile(ClosedModel):
    """The bytes of the data: one file or several files."""

    sha256: Hex64
    """SHA-256 of the file's bytes; for several files, SHA-256 of the canonical JSON of ``files``"""
    bytes: Natural
    """size of all files; receipts of older versions: size of the first file"""
    items: Natural
    """number of questions, before any selection"""
    source: Text
    """address of the source, or unknown"""
    license: Text
    """license of the data, or unknown"""
    files: Mapping[Text, Hex64] | None = None
    """name of each file -> SHA-256 of its bytes; missing for one file, and in receipts of older versions"""

    @model_serializer(mode="wrap")
    def _without_missing_files(self, handler: SerializerFunctionWrapHandler) -> Json:
        stated: Json = handler(self)
        return {name: value for name, value in stated.items() if name != "files" or value is not None}

    @property
    def digests(self) -> Mapping[str, str]:
        """Return a map from each file name to its SHA-256.

        The key of a single file is an empty text, because the receipt does not state the name of this file.
        """
        return self.files or {"": self.sha256}


class ReceiptSelection(ClosedModel):
    """The selected items."""

    filter: Mapping[str, object]
    """range, ids, question types and other filters; empty: all items"""
    limit: Natural | None
    """maximum number of items: the first ones that ``filter`` selects; null: all"""
    sample: Natural | None
    """number of items drawn with the seed; null: not drawn"""
    order: Literal["dataset", "seeded"]
    """seeded if items were drawn, else dataset"""


class Benchmark(ClosedModel):
    """The dataset and its protocol."""

    name: Name
    """name of the benchmark"""
    version: Text
    """version of items and protocol"""
    split: Text | None
    """part of the dataset, or null"""
    config_sha256: Hex64
    """SHA-256 of the merged config, with variables unresolved and without secrets"""
    dataset: DatasetFile
    """the data file"""
    selection: ReceiptSelection
    """the selected items"""


class ReceiptProvider(ClosedModel):
    """The memory system under test."""

    name: Name
    """name of the provider"""
    version: Text
    """version of the memory system, or unknown"""
    version_source: Literal["api", "image", "package", "declared"]
    """source of the version: the service (api), its image, its installed package, or the config (declared)"""
    kind: Literal["hosted", "local", "docker", "mcp"]
    """hosted: a remote API; local: on this machine or in this process; docker: a container; mcp: an MCP server"""
    config_sha256: Hex64
    """SHA-256 of the config, with variables unresolved and without secrets"""
    endpoint_host: Text | None
    """host of the address, or null"""
    image_digest: Text | None
    """digest of the container image, or null"""


class ModelUse(ClosedModel):
    """One model in one role."""

    role: Role
    """use of the model; provider-internal: inside the memory system"""
    provider: Text
    """vendor of the model: the prefix of its name"""
    requested: Name
    """name of the model in the request"""
    reported: Text | None
    """name of the model in the reply, or null"""
    params: Mapping[str, object]
    """planned settings of the requests, such as temperature; ``reproducibility.reasons`` has a note on each
    setting that the model rejected"""
    seed: Integer | None
    """planned seed of the requests, or null; if the model rejected it, ``reproducibility.reasons`` has a note"""


class PromptUse(ClosedModel):
    """The hash of one prompt."""

    role: Name
    """role and case that use the prompt, such as answer.default or judge.abstention; the case can be a question type"""
    sha256: Hex64
    """SHA-256 of the text in UTF-8, with its placeholders"""
    source: Literal["default", "benchmark", "custom", "vendor"]
    """author: bench (default), the benchmark, the user (custom), or the vendor of the provider"""


class MetricUse(ClosedModel):
    """One metric and its definition."""

    name: Name
    """name of the metric, as in scores"""
    definition: Name
    """id of the definition"""


class Git(ClosedModel):
    """The git checkout of bench at the start of the run."""

    commit: Hex40 | None
    """full hash of the commit; null if unknown"""
    tag: Text | None
    """tag of the commit, or null"""
    dirty: Flag | None
    """true: files differ from the commit (except results, checkpoints and datasets); null without a checkout"""


class ReceiptEnvironment(ClosedModel):
    """The machine and the code; image and commit can be self-declared."""

    python: Text
    """version of the interpreter"""
    implementation: Text
    """implementation of the interpreter, such as CPython"""
    platform: Text
    """system and processor family, such as linux/x86_64"""
    cpu: Text
    """model of the processor, as the system reports it"""
    cpu_count: Natural
    """number of logical processors"""
    memory_bytes: Natural
    """main memory in bytes"""
    container_image: Text | None
    """container image, as declared in MEMORYBENCH_IMAGE, or null"""
    container_digest: Text | None
    """digest of the image, as declared in MEMORYBENCH_IMAGE_DIGEST, or null"""
    lock_sha256: Hex64 | None
    """SHA-256 of the lock file of dependencies, or null"""
    packages: Mapping[str, Text]
    """installed distribution -> version"""
    git: Git
    """the git checkout of bench"""
    code_tree_sha256: Hex64
    """SHA-256 over the sorted digests of the files of the installed package"""
    host_hash: Hex16
    """first 16 hex digits of SHA-256 over host name and run id; distinguishes machines without naming them"""
