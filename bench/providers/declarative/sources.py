"""The way back: which memories a hit stands for.

The forms of ``id_from`` are tried in order, the first that gives an id we sent wins. When the file names forms and no
hit of an answer maps, the file is wrong (MappingError); when it names none, the service just has no way back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.answers import IdForm, SearchResponse
from bench.model import Hit, Space
from bench.providers.declarative.answer import Answer, as_ids
from bench.providers.declarative.variables import BENCH_ID, HASHES, known_ids
from bench.values import dataclass

REMEMBERED = 64
"""namespaces whose ids are kept at hand"""
DEFAULT_FORMS = (IdForm(metadata=BENCH_ID), IdForm(field="$.id"))


def content_hash(content: str) -> str:
    """The key under which a memory's text is remembered."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Sent:
    """What this namespace was sent."""

    ids: frozenset[str]
    captures: Mapping[str, object]


Form = Callable[[object, str, Sent], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Sources:
    """The compiled forms of one config."""

    forms: tuple[Form, ...]
    declared: bool
    """the file says how, so an answer without any mapped hit is an error"""
    key: str
    hashes: bool
    """contents must be remembered by hash"""
    _sent: dict[str, Sent] = field(default_factory=dict, repr=False, compare=False)
    """by namespace: every question of a corpus asks for the same"""

    @classmethod
    def of(cls, response: SearchResponse, at: str) -> Sources:
        """Compile ``idField`` or ``id_from``."""
        if response.id_from == "none":
            return cls((), False, at, False)
        given = response.id_from if response.id_field is None else [IdForm(field=response.id_field)]
        forms = DEFAULT_FORMS if given is None else tuple(given)
        return cls(
            tuple(_form(form) for form in forms),
            given is not None,
            f"{at}{'idField' if response.id_field else 'id_from'}",
            any(form.content_hash for form in forms),
        )

    def known(self, space: Space) -> Sent:
        """Give what was sent to a namespace."""
        sent = self._sent.get(space.namespace)
        if sent is None or sent.captures is not space.captures:
            if len(self._sent) >= REMEMBERED:
                self._sent.clear()
            sent = self._sent[space.namespace] = Sent(known_ids(space.captures), space.captures)
        return sent

    def of_row(self, row: object, content: str, known: Sent) -> tuple[str, ...]:
        """Ids of the memories a row stands for, in order, without repeats; empty = unmapped."""
        for form in self.forms:
            found = form(row, content, known)
            if not found:
                continue
            ours = [one for one in found if one in known.ids]
            if ours:
                return tuple(dict.fromkeys(ours))
        return ()

    def require_some(self, answer: Answer, hits: Sequence[Hit], known: Sent) -> None:
        """Refuse an answer in which nothing maps although the file says how; before ingest nothing can map."""
        if self.declared and hits and known.ids and not any(hit.source_ids for hit in hits):
            raise answer.error(self.key, f"none of {len(hits)} hits maps to a memory that was sent")


def _form(form: IdForm) -> Form:
    if form.metadata is not None:
        key = form.metadata
        return lambda row, _content, _known: as_ids(_metadata(row).get(key))
    if form.content_hash:
        return lambda _row, content, known: as_ids(_map(known, HASHES).get(content_hash(content)))
    assert form.field is not None
    path = compile_path(form.field)
    if form.tag_prefix is not None:
        prefix = form.tag_prefix
        return lambda row, _content, _known: [
            tag.removeprefix(prefix) for tag in _ids(path, row) if tag.startswith(prefix)
        ]
    if form.captured is not None:
        name = form.captured
        return lambda row, _content, known: [
            one for given in _ids(path, row) for one in as_ids(_map(known, name).get(given))
        ]
    return lambda row, _content, _known: _ids(path, row)


def _ids(path: Path, row: object) -> list[str]:
    return as_ids(path.first(row)) if path.single else [one for value in path.all(row) for one in as_ids(value)]


def _metadata(row: object) -> Mapping[str, object]:
    found = row.get("metadata") if isinstance(row, dict) else None
    return found if isinstance(found, dict) else {}


def _map(known: Sent, name: str) -> Mapping[str, object]:
    found = known.captures.get(name)
    return found if isinstance(found, Mapping) else {}
