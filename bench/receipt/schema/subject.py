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
    """SHA-256 of the file's bytes"""
    bytes: Natural
    """size of the file"""
    items: Natural
    """questions in it, before any selection"""
    source: Text
    """where it comes from; unknown where the benchmark does not say"""
    license: Text
    """of the data; unknown where the benchmark does not say"""


class Selection(Wire):
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
    selection: Selection
    """which of its items were meant"""


class Provider(Wire):
    """The memory system under test."""

    name: Name
    """of the provider's config"""
    version: Text
    """of the system that answered; unknown where nobody said it"""
    version_source: Literal["api", "image", "package", "declared"]
    """who said so: the service, its image, its installed package, or the config"""
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
