"""Run a search and read its hits: content, score, date, chunks and memory ids.

Example::

    reader = HitReader.compile(search.response, "search.response", connection=connection, session_scoped=False)
    reader.read(answer, space).hits        # [Hit(id="m1", content="...", score=0.71, source_ids=("a7",)), ...]
    found = await SearchOperation.compile(connection, config, search, memory_format, None).search(space, query)
    found.requested, found.returned, len(found.hits)            # 10, 30, 10
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as with_default
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from bench.config.provider.calls import SearchCall, SearchResponse
from bench.model import MORE_HITS, PAGE_REPEATED, SCORES_MISSING, UNREADABLE, WARNED, Embedder, Found, Hit, Query, Space
from bench.providers.declarative.request import CompiledCall, Paging, ProviderConnection
from bench.providers.declarative.response import ResponsePath, ServiceResponse, as_ids, compact, json_type, reports_more
from bench.providers.declarative.response_notes import explain_empty, remarks, warning
from bench.providers.declarative.sources import RowMarks, SentIds, SourceMapper
from bench.providers.declarative.variables import MemoryFormat, space_variables
from bench.providers.embedding import question_vector
from bench.providers.protocol import Capabilities, within_limits
from bench.untyped_values import instant, number

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig


SHOWN_VALUE = 100
"""maximum number of characters of an invalid value that an error message quotes"""
Transform = Literal["none", "1-x", "1/(1+x)", "-x"]


class HitPage(NamedTuple):
    """The hits of one response."""

    hits: Sequence[Hit]
    unreadable: bool = False
    """True if a score or a date could not be read and therefore counts as unknown"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HitReader:
    """The compiled ``response`` section of a search or list call."""

    plain: bool
    """True if the response is plain text in which each paragraph or line is one hit"""
    results: ResponsePath | None
    zipped: tuple[tuple[str, ResponsePath], ...]
    missing_is_empty: bool
    children: ResponsePath | None
    keep: tuple[tuple[str, ResponsePath], ...]
    contents: tuple[ResponsePath, ...]
    content_join: str
    score: ResponsePath | None
    kind: Literal["similarity", "distance", "rank"]
    transform: Transform
    order: Literal["as_returned", "asc", "desc"]
    chunks: ResponsePath | None
    when: ResponsePath | None
    id: ResponsePath
    sources: SourceMapper

    @classmethod
    def compile(
        cls, response: SearchResponse, key: str, *, connection: ProviderConnection, session_scoped: bool
    ) -> HitReader:
        """Compile a ``response`` section. ``key`` is the path of the section in the config, for error messages."""
        at = f"{key}."
        score = response.score_field or response.score.field
        score_key = "scoreField" if response.score_field else "score.field"
        flatten = response.flatten
        return cls(
            plain=response.text,
            results=_field(f"{at}results", response.results),
            zipped=tuple(
                (name, ResponsePath.at(f"{at}zip.{name}", path)) for name, path in (response.zip or {}).items()
            ),
            missing_is_empty=response.missing_is_empty,
            children=_field(f"{at}flatten.path", flatten.path if flatten else None),
            keep=tuple((name, ResponsePath.at(f"{at}flatten.keep.{name}", p)) for name, p in flatten.keep.items())
            if flatten
            else (),
            contents=tuple(ResponsePath.at(f"{at}contentField", path) for path in response.contents or ("$",)),
            content_join=response.content_join,
            score=_field(f"{at}{score_key}", score),
            kind=response.score.kind,
            transform=response.score.transform,
            order=response.score.order,
            chunks=_field(f"{at}chunksField", response.chunks_field),
            when=_field(f"{at}when", response.when),
            id=ResponsePath.at(f"{at}idField", response.id_field or "$.id"),
            sources=SourceMapper.compile(response, at, connection=connection, session_scoped=session_scoped),
        )

    def read(self, answer: ServiceResponse, space: Space, earlier: Sequence[Hit] = ()) -> HitPage:
        """Return the hits of one response. They keep the provider's order, unless the config sorts them by score.

        ``earlier`` are the hits of the previous pages. A hit without an id gets the id of the same hit on a previous
        page. If there is no such hit, its id is its position over all pages.

        Raises:
            MappingError: a path finds nothing, or a value of a wrong type.
        """
        rows = self._rows(answer)
        known = self.sources.known(space)
        hits = [self._hit(answer, row, place, known, earlier) for place, row in enumerate(rows, len(earlier))]
        self.sources.require_mapped(answer, hits, known)
        unreadable = self._any_unreadable(rows, hits)
        if self.order == "as_returned":
            return HitPage(hits, unreadable)
        sign = 1 if self.order == "asc" else -1
        ordered = sorted(hits, key=lambda hit: math.inf if hit.score is None else sign * hit.score)
        return HitPage(ordered, unreadable)

    @property
    def places(self) -> tuple[ResponsePath, ...]:
        """Return the paths at which the response has its lists of hits."""
        return (self.results,) if self.results is not None else tuple(field for _, field in self.zipped)

    def _any_unreadable(self, rows: Sequence[object], hits: Sequence[Hit]) -> bool:
        """Return True if any row has a score or a date that cannot be read."""
        score, when = None if self.kind == "rank" else self.score, self.when
        for row, hit in zip(rows, hits, strict=True) if score is not None or when is not None else ():
            if score is not None and hit.score is None and _has_value(score, row):
                return True
            if when is not None and hit.when is None and _has_value(when, row):
                return True
        return False

    def _rows(self, answer: ServiceResponse) -> list[object]:
        if self.plain:
            return _text_blocks(answer.response.text)
        rows = (
            self._zip_columns(answer)
            if self.results is None
            else answer.rows(self.results, missing_is_empty=self.missing_is_empty)
        )
        strict = self.results if not self.missing_is_empty else None
        if not rows and strict is not None and strict.path.is_absent(answer.tree):
            raise answer.error(strict, "nothing there")
        if self.children is None:
            return rows
        if rows and not self.missing_is_empty and all(map(self.children.path.is_absent, rows)):
            raise answer.error(self.children, "nothing there")
        return [child for row in rows for child in self._flatten(answer, row)]

    def _zip_columns(self, answer: ServiceResponse) -> list[object]:
        columns: dict[str, list[object] | None] = {}
        for name, field in self.zipped:
            found = field.path.all(answer.tree)
            if not found and not self.missing_is_empty:
                raise answer.error(field, "nothing there")
            value = found[0] if found else None
            if value is not None and not isinstance(value, list):
                raise answer.error(field, f"expected a list, found {json_type(value)}")
            columns[name] = value
        lengths = {name: len(column) for name, column in columns.items() if column is not None}
        if len(set(lengths.values())) > 1:
            raise answer.error(self.zipped[0][1], f"lengths differ: {lengths}")
        size = next(iter(lengths.values()), 0)
        return [
            {name: column[i] if column is not None else None for name, column in columns.items()} for i in range(size)
        ]

    def _flatten(self, answer: ServiceResponse, parent: object) -> list[object]:
        assert self.children is not None
        children = answer.values(self.children, parent)
        kept = {name: answer.value(field, parent) for name, field in self.keep}
        return [
            {**child, **kept} if isinstance(child, dict) else {"value": child, **kept} if kept else child
            for child in children
        ]

    def _hit(
        self, answer: ServiceResponse, row: object, place: int, known: SentIds, earlier: Sequence[Hit] = ()
    ) -> Hit:
        content = self._content(answer, row)
        own = self.id.path.first(row)
        metadata = row.get("metadata") if isinstance(row, dict) else None
        sources = self.sources.map_row(row, content, known)
        hit = Hit(
            id=own if isinstance(own, str) else next(iter(as_ids(own)), str(place)),
            content=content,
            score=None if self.score is None or self.kind == "rank" else self._score(answer, self.score, row),
            source_ids=sources,
            when=None if self.when is None else self._date(answer, self.when, row),
            chunks=() if self.chunks is None else _chunks(self.chunks, row),
            metadata=metadata if isinstance(metadata, dict) else {},
            marks=() if sources else RowMarks(self.sources.forms, row, content, known),
        )
        if own is None and earlier:
            same = (one.id for one in earlier if replace(one, id=hit.id) == hit)
            return replace(hit, id=next(same, hit.id))
        return hit

    def _date(self, answer: ServiceResponse, field: ResponsePath, row: object) -> datetime | None:
        return instant(_scalar(answer, field, field.path.first(row), "a date"))

    def _content(self, answer: ServiceResponse, row: object) -> str:
        """Return the text of the hit: the first text at the configured paths that is not empty.

        If all texts at these paths are empty, return "".

        Raises:
            MappingError: none of the paths finds a value.
        """
        present = False
        for field in self.contents:
            text = field.path.first(row) if field.path.single else None
            if isinstance(text, str) and text:
                return text
            found = field.path.all(row)
            if len(found) == 1 and isinstance(found[0], str) and found[0]:
                return found[0]
            parts = [part for part in found if part is not None]
            if any(isinstance(part, dict | list) for part in parts):
                raise answer.error(field, f"expected text, found {json_type(parts[0])}")
            present = present or bool(parts)
            text = self.content_join.join(compact(part) for part in parts)
            if text:
                return text
        if not present:
            names = ", ".join(f'"{field.path.text}"' for field in self.contents)
            place = f"{self.contents[0].key} {names}"
            raise answer.error(place, "nothing there")
        return ""

    def _score(self, answer: ServiceResponse, field: ResponsePath, row: object) -> float | None:
        """Return the score, or None if it cannot be read.

        Raises:
            MappingError: the value is an object, a list or a boolean. Or the score cannot be read, and the hits must be
                sorted by it.
        """
        value = field.path.first(row)
        found = value if type(value) is float and math.isfinite(value) else number(_scalar(answer, field, value))
        if found is None and value is not None and self.order != "as_returned":
            raise answer.error(
                field,
                f"expected a finite number, because hits are sorted by score; found {compact(value)[:SHOWN_VALUE]}",
            )
        return found if found is None or self.transform == "none" else _transformed(found, self.transform)


def _field(key: str, text: str | None) -> ResponsePath | None:
    return ResponsePath.at(key, text) if text is not None else None


def _text_blocks(text: str) -> list[object]:
    """Split a text at its empty lines. If the text has no empty lines, return its lines."""
    parts = text.split("\n\n") if "\n\n" in text else text.splitlines()
    return [part.strip() for part in parts if part.strip()]


def _is_same_page(one: Sequence[Hit], other: Sequence[Hit]) -> bool:
    return [(hit.content, hit.source_ids) for hit in one] == [(hit.content, hit.source_ids) for hit in other]


def _transformed(score: float, transform: Transform) -> float | None:
    match transform:
        case "none":
            return score
        case "1-x":
            return 1 - score
        case "-x":
            return -score
        case "1/(1+x)":
            return None if score == -1 else 1 / (1 + score)


def _scalar(answer: ServiceResponse, field: ResponsePath, value: object, wanted: str = "a finite number") -> object:
    """Return a value that is text, a number or null.

    Raises:
        MappingError: the value is an object, a list or a boolean, so the path must be wrong.
    """
    if isinstance(value, bool | dict | list):
        raise answer.error(field, f"expected {wanted}, found {json_type(value)}: {compact(value)[:SHOWN_VALUE]}")
    return value


def _has_value(field: ResponsePath, row: object) -> bool:
    return field.path.first(row) not in (None, "")


def _chunks(field: ResponsePath, row: object) -> tuple[str, ...]:
    found = field.path.all(row)
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    return tuple(_chunk(part) for part in found if part is not None)


def _chunk(part: object) -> str:
    """Return the text of a chunk. If the chunk is an object, return its field content, text or chunk."""
    if isinstance(part, dict):
        return compact(next((part[key] for key in ("content", "text", "chunk") if part.get(key)), part))
    return compact(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOperation:
    """The compiled ``endpoints.search`` of a config."""

    call: CompiledCall
    reader: HitReader
    memory_format: MemoryFormat
    embedder: Embedder | None
    constants: Mapping[str, str]
    capabilities: Capabilities
    paging: Paging
    ids: bool
    usual: set[str] = with_default(default_factory=set)
    """messages in the first response with hits; the same message does not explain a later response without hits"""

    @classmethod
    def compile(
        cls,
        connection: ProviderConnection,
        config: ProviderConfig,
        search: SearchCall,
        memory_format: MemoryFormat,
        embedder: Embedder | None,
    ) -> SearchOperation:
        """Compile the search call of a config."""
        return cls(
            call=connection.call(
                "search", search, traffic="search", check_kind="search", reads_text=search.response.text
            ),
            reader=HitReader.compile(
                search.response, "search.response", connection=connection, session_scoped=memory_format.session_scoped
            ),
            memory_format=memory_format,
            embedder=embedder,
            constants=connection.constants,
            capabilities=Capabilities.declared_in(config),
            paging=Paging.compile(search.page, "search.page"),
            ids=config.capabilities.ids and search.response.id_from != "none",
        )

    async def search(self, space: Space, query: Query) -> Found:
        """Search, and return at most k hits. ``returned`` counts the hits before this cut."""
        sent, flags = within_limits(query, self.capabilities)
        embedding = query.embedding or (await question_vector(self.embedder, query.text) if self.embedder else None)
        values = space_variables(space, self.constants, session_scoped=self.memory_format.session_scoped)
        values |= self.memory_format.query_variables(sent, embedding=embedding)
        hits, page_flags, replied = await self._read_pages(space, values, sent.k)
        unmapped = [hit.source_ids for hit in hits].count(())
        return Found(
            hits=tuple(hits[: query.k]),
            requested=sent.k,
            returned=len(hits),
            unmapped=unmapped,
            ids_available=self.ids and (self.reader.sources.declared or unmapped < len(hits) or not hits),
            flags=(*flags, *page_flags),
            replied=replied,
        )

    async def _read_pages(self, space: Space, values: Mapping[str, object], k: int) -> tuple[list[Hit], list[str], str]:
        """Read the pages of one search.

        Return the hits, the flags and a text: the reason for an empty result, or the service's warning. If several
        pages were read, at most k hits are returned. A page that repeats the previous page ends the search, and its
        hits are left out.
        """
        hits: list[Hit] = []
        unreadable, more, repeated = False, False, False
        previous: Sequence[Hit] = ()
        extra: tuple[tuple[str, str], ...] = ()
        for _ in range(self.paging.max_pages):
            answer = await self.call.send(values, extra)
            page = self.reader.read(answer, space, hits) if answer.ok else HitPage(())
            if previous and _is_same_page(previous, page.hits):
                repeated = True
                break
            previous = page.hits
            hits += page.hits
            unreadable = unreadable or page.unreadable
            more = len(hits) < k and not self.reader.plain and answer.ok and reports_more(answer.tree, len(hits))
            following = self.paging.after(answer)
            if not following or len(hits) >= k or following == extra:
                break
            extra = following
        if extra:  # the last page may bring more than was left to ask for
            hits = hits[:k]
        reason = self._empty_reason(answer, values) if not hits else self._warning(answer)
        flags = {
            UNREADABLE: unreadable,
            MORE_HITS: more and not repeated,
            PAGE_REPEATED: repeated,
            SCORES_MISSING: bool(hits) and not unreadable and self._lacks_scores(hits),
            WARNED: bool(hits and reason),
        }
        return hits, [name for name, holds in flags.items() if holds], reason

    def _lacks_scores(self, hits: Sequence[Hit]) -> bool:
        if hits[0].score is not None or self.reader.score is None or self.reader.kind == "rank":
            return False
        return all(hit.score is None for hit in hits)

    def _empty_reason(self, answer: ServiceResponse, values: Mapping[str, object]) -> str:
        if self.reader.plain or not answer.ok:
            return ""
        echoes = [one for one in values.values() if isinstance(one, str)]
        return explain_empty(answer.tree, self.reader.places, usual=self.usual, echoes=echoes)

    def _warning(self, answer: ServiceResponse) -> str:
        """Return the warning that the response contains next to its hits, or "".

        The remarks of the first response with hits are stored in ``usual``. Such remarks do not explain why a later
        result is empty.
        """
        if self.reader.plain or not answer.ok:
            return ""
        if not self.usual:
            self.usual.update(remarks(answer.tree) or ("",))
        return warning(answer.tree)
