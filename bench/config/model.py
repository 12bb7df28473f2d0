"""Config of a custom model endpoint: ``configs/models/NAME.yaml``.

The file describes one endpoint. It can have settings for each model, such as the context size.

Example::

    apiVersion: bench/v1
    name: vllm
    dialect: openai
    base_url: "${VLLM_URL:-http://127.0.0.1:8001/v1}"
    auth: {type: bearer, envVar: VLLM_API_KEY, optional: true}
    limits: {rpm: 600, concurrency: 16}
    models: {qwen3-8b: {context: 32768, body: {chat_template_kwargs: {enable_thinking: false}}}}

This example defines the model ``vllm/qwen3-8b``. A file with the name of a built-in endpoint, such as ``openai.yaml``,
only adds limits and settings. The settings under ``models:`` in a run file take precedence.

Two functions check and merge the key ``body``::

    refused_field({"model": "x"})                     # ("model", "the name of the model sets it")
    merge_body({"a": {"b": 1}}, {"a": {"c": 2}})      # {"a": {"b": 1, "c": 2}}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, field_validator

from bench.config.file import ConfigModel, Source, load
from bench.config.provider.sections import Auth, HttpUrl
from bench.config.traffic import FeedbackSection, Limit
from bench.config.value_rules import LowerName, find_variables
from bench.errors import ConfigError, UsageError

REJECTED_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("model", "deployment"), "the name of the model sets it"),
    **dict.fromkeys(
        (
            "messages", "prompt", "input", "contents", "requests", "content", "system", "systeminstruction",
            "instructions",
        ),
        "the benchmark sets the prompt",
    ),
    **dict.fromkeys(("stream", "streamoptions"), "write stream: true next to body"),
    **dict.fromkeys(
        ("maxtokens", "maxcompletiontokens", "maxoutputtokens"), "use --max-answer-tokens or --max-judge-tokens"
    ),
    **dict.fromkeys(("temperature",), "use evaluation.answeringModel.temperature of the benchmark"),
    **dict.fromkeys(("seed",), "use --seed"),
    **dict.fromkeys(("n", "candidatecount", "bestof"), "only one reply is used"),
    **dict.fromkeys(
        ("tools", "toolchoice", "toolconfig", "functions", "functioncall"), "a reply that calls a tool is not an answer"
    ),
    **dict.fromkeys(
        ("responseformat", "responsemimetype", "responsejsonschema", "responseschema"), "the judge's protocol sets it"
    ),
    **dict.fromkeys(("dimensions", "outputdimensionality", "encodingformat"), "use client_embeddings of the provider"),
}  # fmt: skip
"""name of a field that ``body`` must not set, in lower case without ``_`` and ``-`` -> the reason, or what to use
instead"""
NESTED_SETTINGS = ("generationconfig", "options")
"""names of objects in ``body``, in lower case; the fields inside these objects are checked too"""


class ModelSettings(ConfigModel):
    """The settings of one model."""

    context: PositiveInt | None = None
    """maximum tokens of prompt and answer together; the retrieved context is cut to fit"""
    fixed_temperature: bool = False
    """true: no temperature is sent, because the model rejects it"""
    body: Mapping[str, object] = Field(default_factory=dict)
    """extra fields of each request, which cannot change when a run is resumed. ``model``, ``messages`` and similar
    fields are errors"""
    stream: bool = False
    """true: the model supports streamed replies only"""
    batch: PositiveInt | None = None
    """maximum number of texts to embed in one request"""
    path: str | None = None
    """folder with the weights of a model that runs in this process (``local/NAME``)"""

    @field_validator("body")
    @classmethod
    def _only_extras(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        found = refused_field(value)
        if found is not None:
            field, reason = found
            raise ValueError(f'"{field}" cannot be set in "body": {reason}')
        variable = next(iter(find_variables(value)), None)
        if variable is not None:
            raise ValueError(
                f'${{{variable.name}}} cannot be used in "body", where variables are not replaced; write '
                "the value itself"
            )
        return value

    def identity(self) -> dict[str, object]:
        """Return the settings that can change a result. Streaming and batching are left out."""
        return self.model_dump(mode="json", include={"context", "fixed_temperature"}) | (
            {"body": dict(self.body)} if self.body else {}
        )


def refused_field(body: Mapping[str, object]) -> tuple[str, str] | None:
    """Return (path, reason) for the first field that ``body`` must not set.

    A path is a name such as ``seed`` or ``options.seed``. Return None if all fields are allowed.
    """
    for name, value in body.items():
        folded = str(name).replace("_", "").replace("-", "").lower()
        if folded in REJECTED_FIELDS:
            return str(name), REJECTED_FIELDS[folded]
        inner = refused_field(value) if folded in NESTED_SETTINGS and isinstance(value, Mapping) else None
        if inner is not None:
            return f"{name}.{inner[0]}", inner[1]
    return None


def merge_body(body: Mapping[str, object], extra: Mapping[str, object]) -> dict[str, object]:
    """Return a request body with the fields of ``extra`` added.

    If a field is an object in ``body`` and in ``extra``, the two objects are merged. Otherwise the value of ``extra``
    is used.
    """
    found = dict(body)
    for name, value in extra.items():
        known = found.get(name)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        found[name] = merge_body(known, value) if both else value  # type: ignore[arg-type]
    return found


Dialect = Literal["openai", "anthropic", "google"]
KNOWN_PREFIXES = ("openai", "anthropic", "google", "openrouter", "groq", "ollama", "azure")
BUILTIN = "builtin"
LOCAL = "local"
"""prefix of the names of embedding models that run in this process"""


class ModelLimit(Limit):
    """The limits of requests to this endpoint. They apply to each role (answering, judge, embedding) separately."""

    feedback: FeedbackSection | None = None
    """names of the response headers with the remaining quota"""


class ModelFile(ConfigModel):
    """One endpoint and its models."""

    api_version: Literal["bench/v1"] = "bench/v1"
    """version of this file format"""
    name: LowerName
    """prefix of the model names; must equal the file name without its suffix"""
    description: str = ""
    """one sentence"""
    dialect: Dialect | None = None
    """API of the endpoint; required unless the name is a known prefix"""
    base_url: HttpUrl | None = None
    """URL of the API as the vendor's clients expect it, usually with a version such as /v1"""
    auth: Auth | None = None
    """authentication of requests; by default, requests have none"""
    limits: ModelLimit = ModelLimit()
    """limits, applied to each role separately"""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """maximum seconds of one attempt of a call; by default 60"""
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """the vendor's name of a model -> settings of the model"""

    @property
    def adds_to_known(self) -> bool:
        """Return True if the file only adds limits and settings to a built-in prefix, such as ``openai``."""
        return self.name in KNOWN_PREFIXES or (self.name == LOCAL and self.base_url is None)


def read_model_file(path: Path) -> ModelFile:
    """Read one model file.

    Raises:
        ConfigError: the file has problems; the error lists all of them with line and column.
    """
    source = Source.read(path)
    model = load(source, ModelFile)
    problems = list(_problems(source, model))
    if problems:
        raise ConfigError.of(problems)
    return model


def context_window(name: str, files: Mapping[str, ModelFile]) -> int | None:
    """Return the setting ``context`` of a model such as ``vllm/qwen3-8b``; None if it is not set."""
    prefix, _, model = name.partition("/")
    settings = files[prefix].models.get(model) if prefix in files else None
    return None if settings is None else settings.context


def with_settings(files: Mapping[str, ModelFile], settings: Mapping[str, ModelSettings]) -> dict[str, ModelFile]:
    """Return the model files with the model settings of a run added.

    The keys of ``files`` are prefixes such as ``vllm``. The keys of ``settings`` are full names such as
    ``vllm/qwen3-8b``.

    Raises:
        UsageError: the prefix of a name is unknown, or a setting has no effect for its model.
    """
    found = dict(files)
    for name, own in settings.items():
        prefix, _, model = name.partition("/")
        file = found.get(prefix) or (ModelFile(name=prefix) if prefix in (*KNOWN_PREFIXES, LOCAL) and model else None)
        if file is None:
            known = ", ".join(sorted({*KNOWN_PREFIXES, LOCAL, *files}))
            raise UsageError(
                f'models: "{name}" does not begin with the prefix of a known endpoint',
                hint=f"write PREFIX/MODEL; prefixes: {known}",
            )
        problem = next(_unused_settings(file, {model: own}), None)
        if problem is not None:
            raise UsageError(f"models: {problem}", hint="remove this setting")
        base = file.models.get(model, ModelSettings())
        laid = base.model_copy(update={key: getattr(own, key) for key in own.model_fields_set})
        found[prefix] = file.model_copy(update={"models": {**file.models, model: laid}})
    return found


def _unused_settings(file: ModelFile, models: Mapping[str, ModelSettings]) -> Iterator[str]:
    """Yield a message for each setting that has no effect for its model."""
    here = file.name == LOCAL and file.base_url is None
    where = "that runs in this process" if here else "of an endpoint"
    for name, own in models.items():
        for key in sorted(own.model_fields_set - {"path", "batch"} if here else own.model_fields_set & {"path"}):
            yield f'"{file.name}/{name}": "{key}" has no effect for a model {where}'


def _problems(source: Source, model: ModelFile) -> Iterable[ConfigError]:
    where = source.place(("name",))
    if model.name != source.path.stem:
        text = f'name "{model.name}" differs from the file name "{source.path.stem}"'
        yield ConfigError(text, where=where, hint=f"rename the file to {model.name}{source.path.suffix}")
    if model.name == BUILTIN:
        yield ConfigError(f'"{BUILTIN}" is the prefix of the built-in models', where=where, hint="choose another name")
    for problem in _unused_settings(model, model.models):
        yield ConfigError(problem, where=source.place(("models",)))
    if model.adds_to_known:
        if model.dialect is not None:
            text = f'{model.name} is a known prefix, so its "dialect" cannot be changed'
            yield ConfigError(text, where=source.place(("dialect",)), hint='remove "dialect", or rename the file')
        return
    for key in ("dialect", "base_url"):
        if getattr(model, key) is None:
            yield ConfigError(
                f'missing field "{key}"',
                where=where,
                hint=f"add {key}: every file needs this field, except one with the name of a built-in endpoint",
            )
