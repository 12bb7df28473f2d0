"""Texts to vectors over HTTP: in batches, in order, each text once a run.

Vectors are remembered by the hash of what was sent, up to 64 MB, so that a second provider with the same embedding
model pays nothing. Every vector of a model has one dimension; another one is a `MappingError`, never a silent mix.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.errors import MappingError, Rejected
from bench.http import Endpoint, Http, Metered, Request, Response
from bench.model import count_tokens
from bench.models import usage as usages
from bench.models.chat import Price, priced
from bench.models.dialect import Dialect
from bench.models.names import Target

CACHE_BYTES = 64 * 2**20
BLANK = " "
"""sent for an empty text, which every API refuses"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """How texts are embedded; all of it is part of a job's identity."""

    dimensions: int | None = None
    """asked for and checked; None = whatever the first answer has"""
    batch: int = 64
    normalize: bool = False
    """scale to unit length"""
    query_prefix: str = ""
    document_prefix: str = ""


class RemoteEmbedder:
    """One embedding model; a `bench.model.Embedder`."""

    def __init__(
        self,
        *,
        target: Target,
        dialect: Dialect,
        http: Http,
        endpoint: Endpoint,
        options: EmbeddingOptions,
        price: Price | None,
    ) -> None:
        self._target = target
        self._dialect = dialect
        self._http = http
        self._endpoint = endpoint
        self._options = options
        self._price = price
        self._known = VectorCache(CACHE_BYTES)
        self._dimension = options.dimensions
        self._asks_dimension = options.dimensions is not None

    @property
    def name(self) -> str:
        return self._target.name

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> list[tuple[float, ...]]:
        """Give one vector a text, in order.

        Raises:
            MappingError: another number or another dimension of vectors than was asked for.
            CallError: as :meth:`bench.http.Http.call` says.
        """
        prefix = self._options.query_prefix if kind == "query" else self._options.document_prefix
        sent = [(prefix + text) or BLANK for text in texts]
        found = {text: vector for text in sent if (vector := self._known.get(text)) is not None}
        missing = [text for text in dict.fromkeys(sent) if text not in found]
        for batch in _batches(missing, self._options.batch):
            for text, vector in zip(batch, await self._fetch(batch), strict=True):
                found[text] = vector
                self._known.put(text, vector)
        return [found[text] for text in sent]

    async def _fetch(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        try:
            return await self._send(texts)
        except Rejected as error:
            if not (self._asks_dimension and "dimension" in str(error).lower()):
                raise
        self._asks_dimension = False
        return await self._send(texts)

    async def _send(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        target = self._target
        vectors: list[tuple[float, ...]] = []

        def read(response: Response) -> Metered:
            body = response.json()
            vectors[:] = self._checked(self._dialect.read_vectors(body), len(texts))
            used = usages.normalise(target.dialect, body, prompt="".join(texts))
            return Metered(model=target.model, usage=used, cost_usd=priced(target, self._price, used, returned=None))

        dimensions = self._options.dimensions if self._asks_dimension else None
        request = Request(
            "POST",
            self._dialect.embed_url(target.base_url, target.model),
            headers=target.headers,
            query=target.query,
            json=self._dialect.embed_body(target.model, texts, dimensions),
            idempotent=True,
            tokens=sum(count_tokens(text) for text in texts),
            read=read,
        )
        await self._http.call(self._endpoint, request)
        return vectors

    def _checked(self, vectors: list[tuple[float, ...]], count: int) -> list[tuple[float, ...]]:
        if len(vectors) != count:
            raise MappingError(f"{self.name}: {count} texts were sent, {len(vectors)} vectors came back")
        for vector in vectors:
            if self._dimension is None:
                self._dimension = len(vector)
            if len(vector) != self._dimension:
                raise MappingError(
                    f"{self.name}: a vector of dimension {len(vector)}, expected {self._dimension}",
                    hint="correct dimensions in the config, or use one embedding model only",
                )
        return [_unit(vector) for vector in vectors] if self._options.normalize else vectors


class VectorCache:
    """Vectors by the hash of their text; the least recently used go when the room is used up."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, array[float]] = OrderedDict()

    def get(self, text: str) -> tuple[float, ...] | None:
        """The vector, if it is still here."""
        key = _digest(text)
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return tuple(kept)

    def put(self, text: str, vector: tuple[float, ...]) -> None:
        """Keep the vector of a text."""
        key = _digest(text)
        if key in self._kept:
            return
        kept = self._kept[key] = array("d", vector)
        self._bytes += len(kept) * kept.itemsize
        while self._bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest) * oldest.itemsize


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


def _unit(vector: tuple[float, ...]) -> tuple[float, ...]:
    length = math.hypot(*vector)
    return tuple(number / length for number in vector) if length else vector
