"""Embed texts in this process, without API key or server. The names are ``local/NAME``, and the extra ``[embed]`` is
needed.

Example::

    weights("local/bge-small-en-v1.5", files, environment).identity()  # {"library": "fastembed 0.9.1", ...}
    embedder = LocalEmbedder(weights(name, files, environment), options)
    await embedder.embed(["Ana lives in Lisbon."], kind="document")

Weights are downloaded once into ``~/.cache/fastembed`` (or FASTEMBED_CACHE_PATH), or read from the folder in the
setting ``path`` of the model.
"""

from __future__ import annotations

import difflib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bench.config.model import LOCAL, ModelFile, ModelSettings
from bench.config.provider.sections import ClientEmbeddings
from bench.errors import ConfigError
from bench.models.embedding import CachingEmbedder
from bench.processor_time import add_cpu_ns
from bench.settings import Environment

CACHE = "FASTEMBED_CACHE_PATH"
ENDPOINT = "HF_ENDPOINT"
HUB = "https://huggingface.co"
HUB_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWeights:
    """One model of the library fastembed, and the location of its weights."""

    name: str
    """name of the model in bench: ``local/NAME``"""
    model: str
    """name of the model in fastembed"""
    folder: Path | None
    """folder with the weights; None = download them from the model hub"""
    batch: int | None
    environment: Environment

    def identity(self) -> dict[str, object]:
        """Return everything that can change a vector: version of fastembed, model, and hash of the weights' folder."""
        from importlib.metadata import version

        found: dict[str, object] = {"library": f"fastembed {version('fastembed')}", "model": self.model}
        return found if self.folder is None else {**found, "weights_sha256": _digest(self.folder)}

    def load(self) -> Any:
        """Load the weights from ``folder``; if it is None, from the download cache or the model hub.

        Raises:
            ConfigError: the weights are not in the folder, or cannot be downloaded.
        """
        from fastembed import TextEmbedding

        import_module("loguru").logger.disable("fastembed")  # it logs each attempt; the error below says it once
        cache = self.environment.get(CACHE) or str(Path.home() / ".cache" / "fastembed")
        try:
            if self.folder is not None:
                return TextEmbedding(self.model, cache_dir=cache, specific_model_path=str(self.folder))
            with suppress(Exception):
                return TextEmbedding(self.model, cache_dir=cache, local_files_only=True)
            _reach_hub(self.environment.get(ENDPOINT) or HUB)
            return TextEmbedding(self.model, cache_dir=cache)
        except Exception as error:  # the library, the hub's client and the runtime each raise their own
            where = f"in {self.folder}" if self.folder is not None else "from the hub"
            text = f"{self.name}: the weights of {self.model} cannot be loaded {where}: {error}"
            short = self.name.partition("/")[2]
            raise ConfigError(
                text,
                hint=f"put the weights into a folder and name the folder in configs/models/{LOCAL}.yaml: "
                f'{{name: {LOCAL}, models: {{"{short}": {{path: FOLDER}}}}}}; docs/use-a-model.md names the files',
            ) from error


def _reach_hub(hub: str) -> None:
    """Raise an error if the model hub does not respond. Without this check, the library would retry for 39 seconds."""
    try:
        urllib.request.urlopen(hub, timeout=HUB_TIMEOUT_S).close()  # noqa: S310 - the user's own
    except urllib.error.HTTPError:
        return  # it answered


def weights(name: str, files: Mapping[str, ModelFile], environment: Environment) -> LocalWeights:
    """Return the location of a model's weights. The weights are not loaded.

    Raises:
        ConfigError: the extra ``[embed]`` is not installed, the model is unknown, or the folder does not exist.
    """
    if hub := environment.get(ENDPOINT):
        os.environ.setdefault(ENDPOINT, hub)  # the library reads it when it is imported
    known = _library_models()
    short = name.partition("/")[2]
    if short.lower() not in known:
        near = difflib.get_close_matches(short.lower().rpartition("/")[2], known, n=1)
        text = f'unknown local model "{short}"' + (f'; did you mean "{LOCAL}/{near[0]}"?' if near else "")
        raise ConfigError(text, hint=f"known: {', '.join(sorted(known))}")
    own = files[LOCAL].models.get(short, ModelSettings()) if LOCAL in files else ModelSettings()
    folder = None if own.path is None else Path(own.path).expanduser()
    if folder is not None and not folder.is_dir():
        raise ConfigError(
            f"{name}: the path {folder} is not a folder", hint="name the folder that contains the weights"
        )
    return LocalWeights(name=name, model=known[short.lower()], folder=folder, batch=own.batch, environment=environment)


@lru_cache(maxsize=1)
def _library_models() -> dict[str, str]:
    """Return short name -> full name for each model of fastembed. The short name is the last part, in lower case."""
    try:
        from fastembed import TextEmbedding
    except ImportError:
        raise ConfigError(
            "local/ models, which run in this process, need the extra [embed]", hint="pip install 'memorybench[embed]'"
        ) from None
    names = [str(one["model"]) for one in TextEmbedding.list_supported_models()]
    return {name.rpartition("/")[2].lower(): name for name in reversed(names)}


def _digest(folder: Path) -> str:
    """Return a SHA-256 of a folder: the hash of sorted lines ``path NUL sha256 LF``, one per file."""
    tree = sha256()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        with path.open("rb") as file:
            inner = sha256()
            while block := file.read(2**20):
                inner.update(block)
        tree.update(f"{path.relative_to(folder).as_posix()}\0{inner.hexdigest()}\n".encode())
    return tree.hexdigest()


class LocalEmbedder(CachingEmbedder):
    """An embedder that runs one model in this process."""

    def __init__(self, found: LocalWeights, options: ClientEmbeddings) -> None:
        super().__init__(found.name, options, found.batch)
        self._model = found.load()
        self._turn = anyio.CapacityLimiter(1)

    async def _fetch(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        try:
            vectors = await to_thread.run_sync(self._vectors, texts, limiter=self._turn)
        except Exception as error:  # the runtime raises its own
            raise ConfigError(
                f"{self.name}: the weights produce no vectors: {error}",
                hint="check that the folder of the weights has the files of this model",
            ) from error
        return self._check_vectors(vectors, texts)

    def _vectors(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        began = time.perf_counter_ns()
        try:
            return self._timed_vectors(texts)
        finally:
            add_cpu_ns(time.perf_counter_ns() - began)  # the runtime has threads of its own

    def _timed_vectors(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        self._embedded += len(texts)
        tokenizer = getattr(getattr(self._model, "model", None), "tokenizer", None)
        if tokenizer is not None and tokenizer.truncation:
            long = [text for text in texts if len(text) > tokenizer.truncation["max_length"]]
            self._cut += sum(bool(one.overflowing) for one in tokenizer.encode_batch(long)) if long else 0
        return [tuple(vector.tolist()) for vector in self._model.embed(list(texts), batch_size=len(texts))]
