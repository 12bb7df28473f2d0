"""What was measured, with which models, prompts and metrics.

Example::

    receipt.benchmark.dataset.sha256, receipt.provider.version_source
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bench.receipt.wire import Hex64, Integer, Name, Natural, Text, Wire

Role = Literal["embedding", "answering", "judge", "provider-internal"]


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
