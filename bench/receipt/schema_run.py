"""Schema of the run: its settings, start, resumes and ranges.

Here too:

* What was measured, with which models, prompts and metrics.
* Where it was measured: machine, interpreter, packages, code. Image and commit may be self-declared.

Example::

    receipt.run.isolation_proof.failed
    receipt.benchmark.dataset.sha256, receipt.provider.version_source
    receipt.environment.git.dirty
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bench.receipt.base_model import Flag, Hex16, Hex40, Hex64, Instant, Integer, Name, Natural, Positive, Text, Wire


class ReceiptIsolation(Wire):
    """How many namespaces were probed, and how the probes ended."""

    probed: Natural
    """probes for content that does not belong to a namespace"""
    passed: Natural
    """probes that found nothing"""
    failed: Natural
    """probes that found something foreign"""


class Preregistration(Wire):
    """The log entry that announced the run before its first call."""

    log_index: Natural
    """place of that entry in the log, from 0"""
    entry_sha256: Hex64
    """SHA-256 of the entry's line"""


class LogHead(Wire):
    """The public log as it was seen when the run started."""

    origin: Name
    """name of the log"""
    size: Natural
    """entries it had"""
    root_hash: Hex64
    """Merkle root over them"""


class ReceiptResume(Wire):
    """One continuation of the run."""

    at: Instant
    """when it continued, UTC"""
    code_commit: Hex40 | None
    """commit that it continued with; null where no one knows it"""
    bench_version: Name
    """version that it continued with"""


class ReceiptShard(Wire):
    """A part that ran on its own: item positions, 1-based, inclusive."""

    index: Positive
    """which part, from 1"""
    of: Positive
    """how many parts there are"""
    from_: Annotated[int, Field(strict=True, ge=1, alias="from")]
    """position of its first item"""
    to: Positive
    """position of its last item"""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.index > self.of or self.from_ > self.to:
            raise ValueError("not index <= of and from <= to")
        return self


class Run(Wire):
    """The settings of the run."""

    run_id: Name
    """name of the run in its workspace"""
    plan_digest: Hex64
    """SHA-256 of the plan that was agreed before the first call"""
    seed: Integer
    """of everything drawn by chance"""
    epochs: Positive
    """how often each item was asked"""
    concurrency: Positive
    """items in flight at most; for auto its ceiling"""
    k: Positive | None
    """hits asked for; null where the protocol asks for none"""
    context_budget_tokens: Positive | None
    """tokens of hits that the answering model may see; null is not a limit"""
    track: Literal["uniform", "vendor"]
    """uniform: the same answer prompt for every provider; vendor: the provider's own"""
    isolation: Literal["off", "probe", "full"]
    """off; probe: each namespace is looked at before use; full: also for content of other corpora"""
    isolation_proof: ReceiptIsolation
    """how these probes ended"""
    preregistration: Preregistration | None
    """the public announcement before the first call; null without one"""
    log: LogHead | None
    """null where there was no log"""
    resumes: tuple[ReceiptResume, ...]
    """each time the run continued after a stop, in order"""
    shards: tuple[ReceiptShard, ...]
    """the ranges it was run in; empty when run whole"""


Role = Literal["embedding", "answering", "judge", "provider-internal"]


class DatasetFile(Wire):
    """The bytes of the dataset file."""

    sha256: Hex64
    """SHA-256 of the file's bytes"""
    bytes: Natural
    """size of the file"""
    items: Natural
    """questions in it, before any selection"""
    source: Text
    """where it comes from; unknown where the benchmark does not say"""
    license: Text
    """of the data; unknown where the benchmark does not say"""


class ReceiptSelection(Wire):
    """Which items were meant."""

    filter: Mapping[str, object]
    """what narrowed the items: range, ids, question types and the like; empty = all"""
    limit: Natural | None
    """the first so many of what was left; null = all"""
    sample: Natural | None
    """how many were drawn by the seed; null = not drawn"""
    order: Literal["dataset", "seeded"]
    """seeded where items were drawn, else dataset"""


class Benchmark(Wire):
    """The dataset and its protocol."""

    name: Name
    """of the benchmark's config"""
    version: Text
    """of items and protocol"""
    split: Text | None
    """part of the dataset; null where it has none"""
    config_sha256: Hex64
    """of the resolved config, environment unresolved and secrets left out"""
    dataset: DatasetFile
    """the file the items are from"""
    selection: ReceiptSelection
    """which of its items were meant"""


class ReceiptProvider(Wire):
    """The memory system under test."""

    name: Name
    """of the provider's config"""
    version: Text
    """of the system that answered; unknown where it is not known"""
    version_source: Literal["api", "image", "package", "declared"]
    """where it comes from: the service, its image, its installed package, or the config"""
    kind: Literal["hosted", "local", "docker", "mcp"]
    """hosted: an API elsewhere; local: here or in this process; docker: a container; mcp: an MCP server"""
    config_sha256: Hex64
    """of the config, environment unresolved and secrets left out"""
    endpoint_host: Text | None
    """host of its address, without user, path or query; null without an address"""
    image_digest: Text | None
    """of the container image; null where it is not known"""


class ModelUse(Wire):
    """One model in one role; ``reported`` is the id that the endpoint returned."""

    role: Role
    """what it was used for; provider-internal: inside the memory system"""
    provider: Text
    """vendor prefix of the model's name"""
    requested: Name
    """the model's name as it was asked for"""
    reported: Text | None
    """the name that the endpoint gave back; null where it gave none"""
    params: Mapping[str, object]
    """settings that were asked for, such as temperature"""
    seed: Integer | None
    """that the endpoint was given; null for none"""


class PromptUse(Wire):
    """One prompt by its hash."""

    role: Name
    """whose prompt, and for which question type"""
    sha256: Hex64
    """of its text in UTF-8, placeholders in place"""
    source: Literal["default", "benchmark", "custom", "vendor"]
    """who wrote it: bench, the benchmark, the one who ran it, or the vendor of the provider"""


class MetricUse(Wire):
    """One metric and the id of its definition."""

    name: Name
    """as scores carry it"""
    definition: Name
    """id of its exact definition"""


class Git(Wire):
    """The checkout as it was before the run's first write."""

    commit: Hex40 | None
    """full hash of what was checked out; null where no one knows it"""
    tag: Text | None
    """tag on that commit; null without one"""
    dirty: Flag | None
    """files differed from the commit (results, checkpoints and datasets aside); null without a checkout"""


class ReceiptEnvironment(Wire):
    """The machine and the code; image and commit may be self-declared."""

    python: Text
    """version of the interpreter"""
    implementation: Text
    """which interpreter, such as CPython"""
    platform: Text
    """system and processor family, as linux/x86_64"""
    cpu: Text
    """model of the processor as the system tells it"""
    cpu_count: Natural
    """logical processors"""
    memory_bytes: Natural
    """main memory of the machine"""
    container_image: Text | None
    """image it ran in, by its own word (MEMORYBENCH_IMAGE); null outside of one"""
    container_digest: Text | None
    """digest of that image, by its own word; null outside of one"""
    lock_sha256: Hex64 | None
    """SHA-256 of the lock file of dependencies; null without one"""
    packages: Mapping[str, Text]
    """installed distribution -> version"""
    git: Git
    """the checkout of the code"""
    code_tree_sha256: Hex64
    """SHA-256 over the sorted digests of the installed package's files"""
    host_hash: Hex16
    """first 16 hex digits of SHA-256 over host name and run id: tells machines of a run apart, names none"""
