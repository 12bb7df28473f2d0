"""What is special about one model: its context, how it replies, and extra fields of its requests.

Example::

    refused_field({"model": "x"})                                 # "model"
    merged({"a": {"b": 1}}, {"a": {"c": 2}})                      # {"a": {"b": 1, "c": 2}}
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, PositiveInt, field_validator

from bench.config.source import ConfigModel
from bench.config.variables import find_variables

RESERVED: Mapping[str, str] = {
    **dict.fromkeys(("model", "deployment"), "the model is the name that is used"),
    **dict.fromkeys(
        (
            "messages",
            "prompt",
            "input",
            "contents",
            "requests",
            "content",
            "system",
            "systeminstruction",
            "instructions",
        ),
        "the prompt is the benchmark's",
    ),
    **dict.fromkeys(("stream", "streamoptions"), "use stream: true beside body"),
    **dict.fromkeys(
        ("maxtokens", "maxcompletiontokens", "maxoutputtokens"), "use --max-answer-tokens or --max-judge-tokens"
    ),
    **dict.fromkeys(("temperature",), "use evaluation.answeringModel.temperature of the benchmark"),
    **dict.fromkeys(("seed",), "use --seed"),
    **dict.fromkeys(("n", "candidatecount", "bestof"), "one reply is read"),
    **dict.fromkeys(
        ("tools", "toolchoice", "toolconfig", "functions", "functioncall"), "a reply that calls a tool is no answer"
    ),
    **dict.fromkeys(("responseformat", "responsemimetype", "responsejsonschema", "responseschema"), "judges set it"),
    **dict.fromkeys(("dimensions", "outputdimensionality", "encodingformat"), "use client_embeddings of the provider"),
}
"""a field as it is folded -> why it is refused, or what to use"""
SETTINGS = ("generationconfig", "options")
"""objects whose fields count as fields of the request"""


class ModelSettings(ConfigModel):
    """What is special about one model."""

    context: PositiveInt | None = None
    """tokens its prompt and answer may have together; what does not fit is cut from the retrieved context"""
    fixed_temperature: bool = False
    """it refuses a temperature, so none is sent"""
    body: Mapping[str, object] = Field(default_factory=dict)
    """extra fields of each request, part of the plan; ``model``, ``messages`` and the like are refused"""
    stream: bool = False
    """it only streams its replies"""
    batch: PositiveInt | None = None
    """texts that it embeds in one request, at most"""

    @field_validator("body")
    @classmethod
    def _only_extras(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        found = refused_field(value)
        if found is not None:
            raise ValueError(f'"{found[0]}" cannot be set in body: {found[1]}')
        variable = next(iter(find_variables(value)), None)
        if variable is not None:
            raise ValueError(
                f"${{{variable.name}}} cannot be used in body: the plan holds its values as they are written"
            )
        return value

    def identity(self) -> dict[str, object]:
        """Return what can change a result; how a reply or a batch is transferred cannot."""
        return self.model_dump(mode="json", include={"context", "fixed_temperature"}) | (
            {"body": dict(self.body)} if self.body else {}
        )


def refused_field(body: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the first field that cannot be set with its reason; None when all can."""
    for name, value in body.items():
        folded = str(name).replace("_", "").replace("-", "").lower()
        if folded in RESERVED:
            return str(name), RESERVED[folded]
        inner = refused_field(value) if folded in SETTINGS and isinstance(value, Mapping) else None
        if inner is not None:
            return f"{name}.{inner[0]}", inner[1]
    return None


def merged(body: Mapping[str, object], extra: Mapping[str, object]) -> dict[str, object]:
    """Lay extra fields over a request, objects field by field."""
    found = dict(body)
    for name, value in extra.items():
        known = found.get(name)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        found[name] = merged(known, value) if both else value  # type: ignore[arg-type]
    return found
