"""Open a model by its name. The model can be built in, called over HTTP, or part of a plug-in.

Example::

    model = open_model("openai/gpt-4o-mini", http=http, environment=environment, role="answering")
    judge = open_model("builtin/scripted", http=http, environment=environment, role="judge")
    vectors = open_embedder("text-embedding-3-small", http=http, environment=environment)
    vectors = open_embedder("local/bge-small-en-v1.5", http=http, environment=environment)      # in this process

The API key is read when a model is opened, so a missing variable is a `ConfigError` before the run starts. The prefix
of a name ends at the first ``/``. If the prefix is neither built in nor the name of a config file, it is looked up in
the entry points ``bench.models``. Each entry point is a function ``(name, *, http, environment, role) -> Model``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, assert_never

from bench.errors import ConfigError
from bench.models.names import VENDORS, Target, is_local, resolve_name, resolve_target

if TYPE_CHECKING:
    from bench.config.model import ModelFile
    from bench.config.provider.sections import ClientEmbeddings
    from bench.http import Endpoint, Http
    from bench.http.endpoint import Role
    from bench.model import Embedder, Model
    from bench.models.batch import BatchLog, BatchSender
    from bench.models.call_cache import CallCache
    from bench.models.chat import Price
    from bench.models.dialect import Dialect
    from bench.settings import Environment

ATTEMPT_S = 60.0
CALL_S = 180.0
MAX_RESPONSE_BYTES = 64 * 2**20
"""maximum size of a response in bytes; a batch of embeddings is large as JSON"""
AZURE_VERSION = "AZURE_OPENAI_API_VERSION"
AZURE_DEFAULT_VERSION = "2024-10-21"
PLUGIN_GROUP = "bench.models"


BATCH_ATTEMPT_S = 600.0
MAX_BATCH_BYTES = 2**30


class ModelPlugin(Protocol):
    """The function that a plug-in registers as an entry point of the group ``bench.models``."""

    def __call__(self, name: str, *, http: Http, environment: Environment, role: str) -> Model: ...


def open_model(
    name: str | Mapping[str, str],
    *,
    http: Http,
    environment: Environment,
    role: Literal["answering", "judge", "provider"],
    files: Mapping[str, ModelFile] | None = None,
    price: Price | None = None,
    cache: CallCache | None = None,
    batches: BatchLog | None = None,
) -> Model:
    """Open an answering model, a judge, or a provider's language model by its name.

    For a model called over HTTP, ``cache`` stores its replies. With ``batches``, its calls are sent in batches.

    Raises:
        ConfigError: the name is unknown (the message has the nearest known name), or an environment variable is not
    set.
    """
    from bench.models.reply import ProviderModel

    model = _open(resolve_name(name), http, environment, role, files or {}, price, cache, batches)
    return ProviderModel(model) if role == "provider" else model


def _open(
    full: str,
    http: Http,
    environment: Environment,
    role: Literal["answering", "judge", "provider"],
    files: Mapping[str, ModelFile],
    price: Price | None,
    cache: CallCache | None,
    batches: BatchLog | None,
) -> Model:
    from bench.models.reply import ReasoningStripper

    if full.startswith("builtin/"):
        return ReasoningStripper(_builtin(full, environment))
    if is_local(full, files):
        raise ConfigError(
            f"{full} is an embedding model and cannot answer", hint="name this model with --embedding-model"
        )
    found = _plugin(full, files)
    if found is not None:
        return ReasoningStripper(found(full, http=http, environment=environment, role=role))
    from bench.models.chat import ChatModel
    from bench.models.dialect import ModelFeatures

    target = resolve_target(full, environment, files)
    settings = target.settings
    endpoint = _endpoint(target, role)
    model = ChatModel(
        target=target,
        dialect=_dialect(target, environment),
        http=http if batches is None else _batch_sender(target, http, endpoint, batches),
        endpoint=endpoint,
        batch=batches is not None,
        features=ModelFeatures(
            temperature=not (settings is not None and settings.fixed_temperature),
            seed=target.dialect != "anthropic",
            stream=settings is not None and settings.stream and batches is None,
            body=settings.body if settings is not None else {},
        ),
        price=price,
    )
    if cache is None:
        return model
    from bench.models.call_cache import CachedModel

    known = settings.identity() if settings is not None else {}
    return CachedModel(model, cache, {"name": full, "address": target.base_url, "settings": known})


def _batch_sender(target: Target, http: Http, endpoint: Endpoint, batches: BatchLog) -> BatchSender:
    """Return the sender that sends one model's calls in batches.

    The batch endpoint has no retries, because the sender repeats failed requests itself.
    """
    from bench.http import Retry, Timeouts
    from bench.models.batch import BatchSender
    from bench.models.batch_api import batch_api

    batch_endpoint = replace(
        endpoint,
        name=f"{endpoint.name}.batch",
        retry=Retry(max_retries=0),
        timeouts=Timeouts(attempt_s=BATCH_ATTEMPT_S),
        max_response_bytes=MAX_BATCH_BYTES,
        statuses={501: "fail"},  # no outage: there is no such endpoint
    )
    sender = BatchSender(endpoint, batch_api(target.dialect, target, http, batch_endpoint), http, batches)
    batches.senders.append(sender)
    return sender


def open_embedder(
    name: str | Mapping[str, str],
    *,
    http: Http,
    environment: Environment,
    files: Mapping[str, ModelFile] | None = None,
    options: ClientEmbeddings | None = None,
    price: Price | None = None,
) -> Embedder:
    """Open an embedding model by its name.

    Raises:
        ConfigError: for the same reasons as in `open_model`, or the vendor has no embedding models.
    """
    from bench.config.provider.sections import ClientEmbeddings
    from bench.models.embedding import RemoteEmbedder

    full = resolve_name(name)
    options = options or ClientEmbeddings(model=full)
    if is_local(full, files or {}):
        from bench.models.local import LocalEmbedder, weights

        return LocalEmbedder(weights(full, files or {}, environment), options)
    target = resolve_target(full, environment, files or {})
    dialect = _dialect(target, environment)
    dialect.embed_url(target.base_url, target.model)
    return RemoteEmbedder(
        target=target,
        dialect=dialect,
        http=http,
        endpoint=_endpoint(target, "embedding"),
        options=options,
        price=price,
    )


def check_model(
    name: str | Mapping[str, str], environment: Environment, files: Mapping[str, ModelFile] | None = None
) -> str:
    """Check that a model could be opened, and return its full name. The model is not opened.

    Raises:
        ConfigError: for the same reasons as in `open_model`.
    """
    full = resolve_name(name)
    if full.startswith("builtin/"):
        _builtin(full, environment)
    elif is_local(full, files or {}):
        from bench.models.local import weights

        weights(full, files or {}, environment)
    elif _plugin(full, files or {}) is None:
        resolve_target(full, environment, files or {})
    return full


def _builtin(name: str, environment: Environment) -> Model:
    from bench.models import extractive, scripted

    if name == extractive.NAME:
        return extractive.Extractive()
    if name != scripted.NAME:
        raise ConfigError(f'unknown built-in model "{name}"', hint=f"known: {extractive.NAME}, {scripted.NAME}")
    path = environment.require_plain(scripted.VARIABLE, user=name, example="replies.jsonl")
    return scripted.Scripted(Path(path))


def _dialect(target: Target, environment: Environment) -> Dialect:
    from bench.models.anthropic import Anthropic
    from bench.models.google import Google
    from bench.models.openai import Azure, OpenAI

    if target.prefix == "azure":
        return Azure(api_version=environment.get(AZURE_VERSION) or AZURE_DEFAULT_VERSION)
    match target.dialect:
        case "openai":
            return OpenAI()
        case "anthropic":
            return Anthropic()
        case "google":
            return Google()
        case _:
            assert_never(target.dialect)


def _endpoint(target: Target, role: Role) -> Endpoint:
    from bench.http import Endpoint, Feedback, Limits, Timeouts

    file = target.file
    limits = Limits()
    if file is not None:
        declared = file.limits.model_dump()
        feedback = declared.pop("feedback")
        limits = Limits(**declared, feedback=Feedback(**feedback) if feedback is not None else None)
    attempt_s = (file.timeout_s if file is not None else None) or ATTEMPT_S
    return Endpoint(
        name=f"{target.name}.{role}",
        role=role,
        limits=limits,
        timeouts=Timeouts(attempt_s=attempt_s, call_s=max(CALL_S, attempt_s)),
        key_variable=target.key_variable,
        max_response_bytes=MAX_RESPONSE_BYTES,
    )


def _plugin(name: str, files: Mapping[str, ModelFile]) -> ModelPlugin | None:
    """Return the plug-in for the part of the name before the first "/"; None if there is no such plug-in.

    Plug-ins are not considered if a built-in vendor or a config file has this prefix.
    """
    prefix = name.partition("/")[0]
    if prefix in VENDORS or prefix in files:
        return None
    from bench.metrics.plugins import entry_point_named

    entry = entry_point_named(prefix, PLUGIN_GROUP)
    if entry is None:
        return None
    try:
        loaded: ModelPlugin = entry.load()
    except (ImportError, AttributeError, SyntaxError, TypeError, ValueError) as error:
        source = entry.dist.name if entry.dist is not None else entry.value
        text = f'the model plug-in "{prefix}" of {source} cannot be loaded: {error}'
        raise ConfigError(text, hint=f"repair or remove {source}") from error
    return loaded
