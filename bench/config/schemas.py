"""JSON Schemas of config files, so that editors complete and check them.

::

    json_schema("benchmark")["properties"]["data"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from bench.config.source import ConfigModel

Kind = Literal["benchmark", "manifest"]
KINDS: tuple[Kind, ...] = ("benchmark", "manifest")


def json_schema(kind: Kind) -> dict[str, object]:
    """The schema of one kind of file (draft 2020-12); keys as the seeds spell them."""
    from bench.config.described import Described

    schema = _model(kind).model_json_schema(by_alias=True, schema_generator=Described)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _model(kind: Kind) -> type[ConfigModel]:
    if kind == "manifest":
        from bench.config.manifest import Manifest

        return Manifest
    from bench.config.benchmark import BenchmarkFile

    return BenchmarkFile
