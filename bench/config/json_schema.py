"""Make JSON Schemas of config files, so that editors can complete and check the files.

The description of a field is the docstring below the field in the source code.

Example::

    json_schema("benchmark")["properties"]["data"]
    BenchmarkFile.model_json_schema(schema_generator=DescribedJsonSchema)["properties"]["name"]["description"]

The source code is read only when a schema is made, never in a run.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from bench.untyped_values import python_tree

if TYPE_CHECKING:
    from bench.config.file import ConfigModel


Kind = Literal["benchmark", "manifest"]
KINDS: tuple[Kind, ...] = ("benchmark", "manifest")


def json_schema(kind: Kind) -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of one kind of file, with only the preferred spelling of each key."""
    schema = _model_of(kind).model_json_schema(by_alias=True, schema_generator=DescribedJsonSchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _model_of(kind: Kind) -> type[ConfigModel]:
    if kind == "manifest":
        from bench.config.benchmark.manifest import Manifest

        return Manifest
    from bench.config.benchmark.config import BenchmarkFile

    return BenchmarkFile


UNDOCUMENTED_MODULES = frozenset({"builtins", "pydantic.main"})


class DescribedJsonSchema(GenerateJsonSchema):
    """A generator of JSON Schemas that uses the docstrings of fields as descriptions."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the JSON Schema of a model. A field without a description gets its docstring as description."""
        made = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        texts = docstrings(model)
        for name, field in model.model_fields.items():
            shown = made.get("properties", {}).get(field.alias or name)
            if shown is not None and name in texts:
                shown.setdefault("description", texts[name])
        return made


def docstrings(kind: type) -> dict[str, str]:
    """Return field name -> docstring, for the fields of a class and of its base classes."""
    texts: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        if cls.__module__ not in UNDOCUMENTED_MODULES:
            texts |= _module_docstrings(cls.__module__).get(cls.__qualname__, {})
    return texts


@cache
def _module_docstrings(name: str) -> Mapping[str, Mapping[str, str]]:
    tree = python_tree(inspect.getsource(sys.modules[name]))
    classes = (node for node in ast.iter_child_nodes(tree) if isinstance(node, ast.ClassDef))
    return {node.name: dict(_class_docstrings(node)) for node in classes}


def _class_docstrings(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(node.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                yield name, inspect.cleandoc(doc)
