"""Find the memories that a hit comes from, by the rules under ``id_from`` in the config.

Each rule reads a memory id from a hit. The first rule that gives the id of a sent memory is used. If no rule matches
any hit of a response, MappingError is raised. Without ``id_from``, two common rules are tried, and no error is raised
if they do not match. With ``id_from: none``, no hit is mapped to a memory.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.body import Compiler, Node, Scope, TextNode
from bench.config.provider.calls import IdForm, SearchResponse
from bench.config.value_rules import LONGEST_TEXT
from bench.fast_dataclass import dataclass
from bench.model import Hit, Space
from bench.providers.declarative.request import ProviderConnection
from bench.providers.declarative.response import ServiceResponse, as_ids, compact
from bench.providers.declarative.variables import BENCH_ID, HASHES, LOST, sent_ids, space_variables
from bench.visible_text import counted

CACHED_NAMESPACES = 64
"""maximum number of namespaces whose ids are cached"""
LONGEST_MARK = 200
_SENT = re.compile(r"m[0-9a-f]{16}(#[0-9]+)?")
"""matches an id that a run sends to a provider"""
DEFAULT_FORMS = (IdForm(metadata=BENCH_ID), IdForm(field="$.id"))


def content_hash(content: str) -> str:
    """Return the hash under which bench keeps the id of a memory with this text."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class SentIds:
    """The ids of the memories that were sent to a namespace, and the request variables of the namespace.

    With both, the ids in a hit are mapped to memories.
    """

    ids: frozenset[str]
    captures: Mapping[str, object]
    values: Mapping[str, object]
    """request variables, which may occur in ``tag_prefix`` and ``pattern``"""
    _filled: dict[int, re.Pattern[str]] = field(default_factory=dict, repr=False, compare=False)

    def pattern(self, node: Node, *, is_prefix: bool) -> re.Pattern[str]:
        """Return the compiled regular expression of one ``id_from`` rule. Values of variables match literally."""
        found = self._filled.get(id(node))
        if found is None:
            text = filled_pattern(node, self.values, is_prefix=is_prefix)
            found = self._filled[id(node)] = re.compile(text, re.DOTALL)
        return found


def filled_pattern(node: Node, values: Mapping[str, object], *, is_prefix: bool) -> str:
    """Return the regular expression of one ``id_from`` rule.

    With ``is_prefix``, the rule is a prefix, and group 1 of the expression matches the text after the prefix.
    """
    if is_prefix:
        return f"^{re.escape(compact(node.fill(Scope(values))))}(.*)$"
    return node.join(values, re.escape) if isinstance(node, TextNode) else compact(node.fill(Scope(values)))


IdReader = Callable[[object, str, SentIds], Sequence[str]]


@dataclass(frozen=True, slots=True)
class SourceMapper:
    """The compiled ``id_from`` rules of one config. They read memory ids from a hit."""

    forms: tuple[IdReader, ...]
    declared: bool
    """True if the config says how hits are mapped to memories; a response in which no hit can be mapped is then an
    error"""
    key: str
    hashes: bool
    """True if a rule finds memories by the hash of their text, so the hashes must be stored"""
    constants: Mapping[str, str] = field(default_factory=dict)
    session_scoped: bool = False
    _sent: dict[str, SentIds] = field(default_factory=dict, repr=False, compare=False)
    """sent ids by namespace, cached because every question of a corpus needs them"""

    @classmethod
    def compile(
        cls, response: SearchResponse, at: str, *, connection: ProviderConnection, session_scoped: bool
    ) -> SourceMapper:
        """Compile the ``idField`` or ``id_from`` of a response section."""
        if response.id_from == "none":
            return cls((), False, at, False)
        given = response.id_from if response.id_field is None else [IdForm(field=response.id_field)]
        forms = DEFAULT_FORMS if given is None else tuple(given)
        return cls(
            tuple(_id_reader(form, connection.compiler) for form in forms),
            given is not None,
            f"{at}{'idField' if response.id_field else 'id_from'}",
            any(form.content_hash for form in forms),
            connection.constants,
            session_scoped,
        )

    def known(self, space: Space) -> SentIds:
        """Return the ids that were sent to the namespace, from the cache if possible."""
        sent = self._sent.get(space.namespace)
        if sent is None or sent.captures is not space.captures:
            if len(self._sent) >= CACHED_NAMESPACES:
                self._sent.clear()
            sent = self._sent[space.namespace] = SentIds(
                sent_ids(space.captures),
                space.captures,
                space_variables(space, self.constants, session_scoped=self.session_scoped),
            )
        return sent

    def map_row(self, row: object, content: str, known: SentIds) -> tuple[str, ...]:
        """Return the ids of the memories that a hit comes from, without repeats; () if no memory is found."""
        for form in self.forms:
            found = form(row, content, known)
            if len(found) == 1:
                if found[0] in known.ids:
                    return (found[0],)
                continue
            ours = [one for one in found if one in known.ids]
            if ours:
                return tuple(dict.fromkeys(ours))
        return ()

    def require_mapped(self, answer: ServiceResponse, hits: Sequence[Hit], known: SentIds) -> None:
        """Raise MappingError if no hit can be mapped to a memory, although the config says how.

        Nothing is raised if the ids are not known: before the ingest, or if the response with the ids was lost. Nothing
        is raised either if a hit has an id of another namespace: the service mixes namespaces, but the config is right.
        """
        is_expected = self.declared and known.ids and LOST not in known.captures
        if not (is_expected and hits) or any(hit.source_ids for hit in hits):
            return
        sent = {mark for hit in hits for mark in hit.marks if _SENT.fullmatch(mark)}
        if sent and sent <= known.ids:
            raise answer.error(
                self.key,
                f"no hit is mapped to a memory ({counted(len(hits), 'hit(|s)')}), although hits contain ids of sent "
                "memories: read these ids with field or metadata",
            )
        if not sent:
            raise answer.error(
                self.key, f"no hit has the id of a memory that was sent ({counted(len(hits), 'hit(|s)')})"
            )


@dataclass(frozen=True, slots=True)
class RowMarks:
    """The ids, tags and names in a hit that could not be mapped to a memory.

    They are read from the hit when this object is iterated.
    """

    forms: tuple[IdReader, ...]
    row: object
    content: str
    known: SentIds

    def __iter__(self) -> Iterator[str]:
        found = [one for form in self.forms for one in form(self.row, self.content, self.known)]
        for part in (self.row, _metadata(self.row)):
            for value in part.values() if isinstance(part, dict) else ():
                found += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]
        return iter(dict.fromkeys(one for one in found if len(one) <= LONGEST_MARK))


def _id_reader(form: IdForm, compiler: Compiler) -> IdReader:
    if form.metadata is not None:
        return _metadata_reader(form.metadata)
    if form.content_hash:
        return lambda _row, content, known: as_ids(_map(known, HASHES).get(content_hash(content)))
    assert form.field is not None
    path = compile_path(form.field)
    given = form.tag_prefix if form.tag_prefix is not None else form.pattern
    if given is not None:
        node, is_prefix = compiler.text(given), form.tag_prefix is not None
        return lambda row, _content, known: [
            found[1]
            for text in _ids(path, row)
            if len(text) <= LONGEST_TEXT and (found := known.pattern(node, is_prefix=is_prefix).search(text))
        ]
    if form.captured is not None:
        name = form.captured
        return lambda row, _content, known: [
            one for given in _ids(path, row) for one in as_ids(_map(known, name).get(given))
        ]
    return lambda row, _content, _known: _ids(path, row)


def _metadata_reader(key: str) -> IdReader:
    def ids(row: object, _content: str, _known: SentIds) -> Sequence[str]:
        inside = row.get("metadata") if isinstance(row, dict) else None
        value = inside.get(key) if isinstance(inside, dict) else None
        return () if value is None else (value,) if isinstance(value, str) else as_ids(value)

    return ids


def _ids(path: Path, row: object) -> Sequence[str]:
    if not path.single:
        return [one for value in path.all(row) for one in as_ids(value)]
    value = path.first(row)
    return (value,) if isinstance(value, str) else as_ids(value)


def _metadata(row: object) -> Mapping[str, object]:
    found = row.get("metadata") if isinstance(row, dict) else None
    return found if isinstance(found, dict) else {}


def _map(known: SentIds, name: str) -> Mapping[str, object]:
    found = known.captures.get(name)
    return found if isinstance(found, Mapping) else {}
