"""Embed texts in batches and in order. Each text is embedded only once per run.

Vectors are cached by the hash of the text, up to 256 MB. So if two providers use the same embedding model, each text is
paid only once. If two vectors of a model differ in dimension, this is a `MappingError`.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Literal

import anyio

from bench.config.model import merge_body
from bench.config.provider.sections import ClientEmbeddings
from bench.errors import CallError, MappingError, Rejected, Unavailable
from bench.http import Endpoint, Http, ReportedUsage, Request, Response
from bench.models import usage as usages
from bench.models.chat import SEEN_SHARE, Price, call_price, failed_usage, unusable_reply
from bench.models.dialect import Dialect
from bench.models.names import Target
from bench.tokens import count_tokens, fewest_tokens
from bench.visible_text import counted, visible

CACHE_BYTES = 256 * 2**20
SIZE_WORDS = (
    "batch", "too many", "too large", "too long", "at most", "exceed", "maximum", "tokens", "length", "limit",
    "less than", "number of inputs", "array",
)  # fmt: skip
"""words in a 4xx error message that show that the request was too large"""
TOO_LARGE_WORDS = ("batch size", "too large", "too long", "context length", "context size")
"""words in a 5xx error message that show that the request was too large"""
MIN_DISTINCT_TEXTS = 3
"""if at least this number of texts, different even in lower case, have the same vector, this is an error"""
BLANK = " "
"""text that is sent in place of an empty text, which every API rejects"""


class CachingEmbedder(ABC):
    """Base class of embedders with prefixes, batches and a cache. Subclasses embed one batch.

    A text that another caller is embedding at the moment is not embedded again.
    """

    def __init__(self, name: str, options: ClientEmbeddings, most: int | None) -> None:
        self.name = name
        self._options = options
        self._batch = options.batch if most is None else min(options.batch, most)
        self._known = VectorCache(CACHE_BYTES)
        self._pending: dict[str, anyio.Event] = {}
        """text that is being embedded -> event that is set when its vector is in the cache"""
        self._dimension = options.dimensions
        self._embedded = 0
        self._cut = 0

    @property
    def cut_note(self) -> str | None:
        """Return a note that the model read only the beginning of some texts; None if it read all texts completely."""
        if not self._cut:
            return None
        return (
            f"{self.name} read only the beginning of {self._cut} of "
            f"{counted(self._embedded, 'text(|s)')}: longer texts exceed its "
            "limit, so searches do not find the rest; set ingest: {unit: chunk, chunk: {size: 1000}}"
        )

    @abstractmethod
    async def _fetch(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Embed one batch; return the vectors in the order of the texts."""

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> list[tuple[float, ...]]:
        """Return one vector per text, in order.

        Raises:
            MappingError: the number or the dimension of the vectors is wrong, or the vectors are unusable.
            CallError: for the same reasons as in :meth:`bench.http.Http.call`.
        """
        prefix = self._options.query_prefix if kind == "query" else self._options.document_prefix
        sent = [(prefix + text) or BLANK for text in texts]
        found: dict[str, tuple[float, ...]] = {}
        while missing := self._missing(sent, found):
            mine = [text for text in missing if text not in self._pending]
            if mine:
                await self._embed_new(mine, found)
            else:
                await self._pending[missing[0]].wait()
        return [found[text] for text in sent]

    def _missing(self, sent: Sequence[str], found: dict[str, tuple[float, ...]]) -> list[str]:
        """Copy the cached vectors of the texts ``sent`` to ``found``; return the texts without a vector, each once."""
        wanted = [text for text in dict.fromkeys(sent) if text not in found]
        found.update({text: vector for text in wanted if (vector := self._known.get(text)) is not None})
        return [text for text in wanted if text not in found]

    async def _embed_new(self, texts: Sequence[str], found: dict[str, tuple[float, ...]]) -> None:
        """Embed texts in batches; put the vectors into ``found`` and into the cache."""
        done = anyio.Event()
        self._pending.update(dict.fromkeys(texts, done))
        try:
            start = 0
            while batch := texts[start : start + self._batch]:
                for text, vector in zip(batch, await self._fetch(batch), strict=True):
                    found[text] = vector
                    self._known.put(text, vector)
                start += len(batch)
        finally:
            for text in texts:
                del self._pending[text]
            done.set()

    def _check_vectors(self, vectors: list[tuple[float, ...]], texts: Sequence[str]) -> list[tuple[float, ...]]:
        if len(vectors) != len(texts):
            raise MappingError(
                f"{self.name}: {counted(len(texts), 'text(|s) (was|were)')} sent, but "
                f"{counted(len(vectors), 'vector(|s) (was|were)')} returned"
            )
        blank = [text for text, vector in zip(texts, vectors, strict=True) if not any(vector) and _has_words(text)]
        if blank:
            raise MappingError(
                f"{self.name}: {counted(len(blank), f'of {len(texts)} vectors (contains|contain)')} only "
                "zeros and cannot be ranked, "
                f'for example the vector of "{visible(blank[0][:SHOWN_OF_TEXT])}"',
                hint=BAD_VECTORS,
            )
        if len({text.casefold() for text in texts}) >= MIN_DISTINCT_TEXTS and len(set(vectors)) == 1:
            raise MappingError(f"{self.name}: {len(texts)} different texts have the same vector", hint=BAD_VECTORS)
        for vector in vectors:
            if self._dimension is None:
                self._dimension = len(vector)
            if len(vector) != self._dimension:
                raise MappingError(
                    f"{self.name}: a vector of dimension {len(vector)}, expected {self._dimension}",
                    hint='correct "dimensions" in the config, or use one embedding model only',
                )
        return [_unit_vector(vector) for vector in vectors] if self._options.normalize else vectors


class RemoteEmbedder(CachingEmbedder):
    """An embedder that calls one model over HTTP.

    A batch that is too large for the endpoint is halved and sent again; later batches have the smaller size.
    """

    def __init__(
        self,
        *,
        target: Target,
        dialect: Dialect,
        http: Http,
        endpoint: Endpoint,
        options: ClientEmbeddings,
        price: Price | None,
    ) -> None:
        settings = target.settings
        super().__init__(target.name, options, settings.batch if settings is not None else None)
        self._target = target
        self._dialect = dialect
        self._http = http
        self._endpoint = endpoint
        self._price = price
        self._body = settings.body if settings is not None else {}
        self._sends_dimension = options.dimensions is not None

    async def _fetch(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        try:
            return await self._send(texts)
        except (Rejected, Unavailable) as error:
            refusal = f"{error} {error.body}".lower()
            if self._sends_dimension and isinstance(error, Rejected) and "dimension" in refusal:
                self._sends_dimension = False
                return await self._fetch(texts)
            if not _is_about_size(error, refusal):
                raise
            if len(texts) == 1:
                raise _too_long(error, texts[0]) from error
        half = (len(texts) + 1) // 2
        vectors = [*await self._fetch(texts[:half]), *await self._fetch(texts[half:])]
        self._batch = min(self._batch, half)
        return vectors

    async def _send(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        target = self._target
        vectors: list[tuple[float, ...]] = []

        def read(response: Response) -> ReportedUsage:
            try:
                body = response.json()
                vectors[:] = self._check_vectors(self._dialect.read_vectors(body), texts)
            except CallError as error:
                return unusable_reply(target, self._price, response, error)
            used = usages.normalise(target.dialect, body, prompt="".join(texts))
            self._embedded += len(texts)
            if not used.estimated and 0 < used.input_tokens < SEEN_SHARE * sum(map(fewest_tokens, texts)):
                self._cut += len(texts)
            named = body.get("model") if isinstance(body, dict) else None
            model = named if isinstance(named, str) and named else target.model
            return ReportedUsage(model=model, usage=used, cost_usd=call_price(target, self._price, used, returned=None))

        dimensions = self._options.dimensions if self._sends_dimension else None
        request = Request(
            "POST",
            self._dialect.embed_url(target.base_url, target.model),
            headers=target.headers,
            query=target.query,
            json=merge_body(self._dialect.embed_body(target.model, texts, dimensions), self._body),
            idempotent=True,
            tokens=sum(count_tokens(text) for text in texts),
            read=read,
            read_failed=partial(failed_usage, target, self._price),
        )
        await self._http.call(self._endpoint, request)
        return vectors


class VectorCache:
    """A cache of vectors by the hash of their text. When it is full, the vector that was unused longest is removed."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, array[float]] = OrderedDict()

    def get(self, text: str) -> tuple[float, ...] | None:
        """Return the vector of a text; None if it is not in the cache."""
        key = _digest(text)
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return tuple(kept)

    def put(self, text: str, vector: tuple[float, ...]) -> None:
        """Put the vector of a text into the cache."""
        key = _digest(text)
        if key in self._kept:
            return
        kept = self._kept[key] = array("d", vector)
        self._bytes += len(kept) * kept.itemsize
        while self._bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest) * oldest.itemsize


SHOWN_OF_TEXT = 60
BAD_VECTORS = "use another embedding model, or correct its endpoint"


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _is_about_size(error: CallError, refusal: str) -> bool:
    """Return True if an error means that the request was too large. Some servers report this with status 500."""
    if isinstance(error, Rejected):
        return "-> 413" in refusal or any(word in refusal for word in SIZE_WORDS)
    return any(word in refusal for word in TOO_LARGE_WORDS)


def _too_long(error: CallError, text: str) -> Rejected:
    found = Rejected(
        f"one text of {len(text):,} characters is too long for the embedding model: {error.message}",
        hint="set ingest: {unit: chunk, chunk: {size: 1000, overlap: 100}} in the provider's config",
    )
    found.body = error.body
    return found


def _unit_vector(vector: tuple[float, ...]) -> tuple[float, ...]:
    length = math.hypot(*vector)
    return tuple(number / length for number in vector) if length else vector


def _has_words(text: str) -> bool:
    return any(letter.isalnum() for letter in text)
