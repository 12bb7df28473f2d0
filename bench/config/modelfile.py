"""A model endpoint of one's own: ``configs/models/NAME.yaml``.

Example::

    apiVersion: bench/v1
    name: vllm
    dialect: openai
    base_url: "${VLLM_URL:-http://127.0.0.1:8001/v1}"
    auth: {type: bearer, envVar: VLLM_API_KEY, optional: true}
    limits: {rpm: 600, concurrency: 16}
    models: {qwen3-8b: {context: 32768, body: {chat_template_kwargs: {enable_thinking: false}}}}

``vllm/qwen3-8b`` is then a model name. A file whose name is a known prefix (``openai``) only adds to it. A run file has
the same settings under ``models:``, by full name; they win over the file's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bench.config.filenames import LowerName
from bench.config.modelsettings import ModelSettings
from bench.config.provider.sections import Auth, HttpUrl
from bench.config.provider.traffic import Feedback, Limit
from bench.config.source import ConfigModel, Source, load
from bench.errors import ConfigError, UsageError

Dialect = Literal["openai", "anthropic", "google"]
KNOWN_PREFIXES = ("openai", "anthropic", "google", "openrouter", "groq", "ollama", "azure")
BUILTIN = "builtin"


class ModelLimit(Limit):
    """The limiter of each role at this endpoint."""

    feedback: Feedback | None = None
    """names of the headers that tell how much is left"""


class ModelFile(ConfigModel):
    """One endpoint and the models behind it."""

    api_version: Literal["bench/v1"] = "bench/v1"
    """of this dialect"""
    name: LowerName
    """the prefix; equals the file's name"""
    description: str = ""
    """one sentence"""
    dialect: Dialect | None = None
    """which API it speaks; required unless the name is a known prefix"""
    base_url: HttpUrl | None = None
    """up to and including the version segment, as the vendor's clients take it"""
    auth: Auth | None = None
    """how a call says who asks; none where it is left out"""
    limits: ModelLimit = ModelLimit()
    """one limiter for each role"""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """one attempt; default 60"""
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """the vendor's name of a model -> what is special about it"""

    @property
    def adds_to_known(self) -> bool:
        """The file adds limits and settings to a prefix that is known without it."""
        return self.name in KNOWN_PREFIXES


def read_model_file(path: Path) -> ModelFile:
    """Read one file.

    Raises:
        ConfigError: anything is wrong with it, each finding with its place.
    """
    source = Source.read(path)
    model = load(source, ModelFile)
    problems = list(_problems(source, model))
    if problems:
        raise ConfigError.of(problems)
    return model


def with_settings(files: Mapping[str, ModelFile], settings: Mapping[str, ModelSettings]) -> dict[str, ModelFile]:
    """Lay the settings of a run, by full name, over the files.

    Raises:
        UsageError: a name without an endpoint of its own.
    """
    found = dict(files)
    for name, own in settings.items():
        prefix, _, model = name.partition("/")
        file = found.get(prefix) or (ModelFile(name=prefix) if prefix in KNOWN_PREFIXES and model else None)
        if file is None:
            known = ", ".join(sorted({*KNOWN_PREFIXES, *files}))
            raise UsageError(
                f'models: "{name}" has no endpoint that settings apply to',
                hint=f"write PREFIX/MODEL; prefixes: {known}",
            )
        base = file.models.get(model, ModelSettings())
        laid = base.model_copy(update={key: getattr(own, key) for key in own.model_fields_set})
        found[prefix] = file.model_copy(update={"models": {**file.models, model: laid}})
    return found


def _problems(source: Source, model: ModelFile) -> Iterable[ConfigError]:
    where = source.place(("name",))
    if model.name != source.path.stem:
        text = f'name "{model.name}" differs from the file name "{source.path.stem}"'
        yield ConfigError(text, where=where, hint=f"rename the file to {model.name}{source.path.suffix}")
    if model.name == BUILTIN:
        yield ConfigError(f'"{BUILTIN}" is the prefix of the built-in models', where=where, hint="choose another name")
    if model.adds_to_known:
        if model.dialect is not None:
            text = f"{model.name} is a known prefix: its dialect cannot be changed"
            yield ConfigError(text, where=source.place(("dialect",)), hint="leave dialect out, or rename the file")
        return
    for key in ("dialect", "base_url"):
        if getattr(model, key) is None:
            yield ConfigError(f"missing field {key}", where=where, hint=f"a new prefix needs {key}")
