"""Set up a namespace: send the calls under ``setup`` in order. A call is skipped if its result already exists.

Example::

    captures = await SetupOperation.compile(connection, config, embedder).prepare(values)       # {"storeId": "vs_1"}

If the process dies after a setup call, a resumed run finds the result of the call by the lookup ``existing`` of the
config. So nothing is created twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.body import Node, Scope
from bench.config.provider.calls import Existing, SetupCall
from bench.errors import NotCleared
from bench.model import Embedder
from bench.providers.declarative.request import CompiledCall, Paging, ProviderConnection
from bench.providers.declarative.response import ResponsePath, ServiceResponse, reports_more
from bench.providers.embedding import question_vector
from bench.providers.protocol import merge_captures

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig


MISSING = 404
"""status of a response about an object that does not exist"""
SAMPLE_TEXT = "How long is a vector?"


@dataclass(frozen=True, slots=True)
class ExistingProbe:
    """A compiled ``existing`` lookup: finds what an earlier, interrupted setup created."""

    call: CompiledCall
    results: ResponsePath | None
    match: tuple[tuple[Path, Node], ...]
    paging: Paging
    missing_ok: bool
    """True if a 404 means that nothing exists yet; for a list, the config must state this by ``treat_as_ok``"""

    @classmethod
    def compile(cls, connection: ProviderConnection, existing: Existing, key: str) -> ExistingProbe:
        """Compile an ``existing`` lookup. ``key`` is the path of the lookup in the config, for error messages."""
        return cls(
            connection.call(key, existing, traffic="status", ok=(MISSING,), check_kind="change"),
            ResponsePath.at(f"{key}.results", existing.results) if existing.results else None,
            tuple((compile_path(path), connection.compiler.tree(value)) for path, value in existing.match.items()),
            Paging.compile(existing.page, f"{key}.page"),
            existing.results is None or MISSING in existing.treat_as_ok,
        )

    async def find(self, values: Mapping[str, object]) -> tuple[ServiceResponse, object] | None:
        """Return the response and the element in it that matches.

        Return None if no element matches, if the looked-up object is missing (404), or if the response has a status in
        ``treat_as_ok``.

        Raises:
            MappingError: no element matches, but the list has more pages than were read; or the list is missing.
        """
        seen = 0
        extra: tuple[tuple[str, str], ...] = ()
        for _ in range(self.paging.max_pages):
            answer = await self.call.send(values, extra)
            if answer.status == MISSING and not self.missing_ok:
                raise answer.error(
                    self.call.key,
                    f"{answer.response.request} -> {MISSING}: correct its path; if {MISSING} means that nothing exists "
                    f"yet, add treat_as_ok: [{MISSING}]",
                )
            if not answer.ok:
                return None
            if self.results is None:
                return answer, answer.tree
            wanted = [(path, node.fill(Scope(values))) for path, node in self.match]
            rows = answer.rows(self.results)
            for row in rows:
                if all(path.all(row) == [value] for path, value in wanted):
                    return answer, row
            seen += len(rows)
            following = self.paging.after(answer)
            if not following or not rows or following == extra:
                break
            extra = following
        if rows and reports_more(answer.tree, seen):
            raise answer.error(
                self.results or self.call.key,
                f"none of the first {seen} elements matches, but the service reports that the list is longer: "
                'add or correct "page", or narrow the query',
            )
        return None


@dataclass(frozen=True, slots=True)
class SetupOperation:
    """The compiled ``setup`` section of a config."""

    calls: tuple[tuple[CompiledCall, ExistingProbe | None], ...]
    dimensions: int | None
    embedder: Embedder | None

    @classmethod
    def compile(
        cls, connection: ProviderConnection, config: ProviderConfig, embedder: Embedder | None
    ) -> SetupOperation:
        """Compile every call of the ``setup`` section."""
        settings = config.client_embeddings
        calls = tuple(_compile_call(connection, call) for call in config.setup)
        return cls(calls, settings.dimensions if settings else None, embedder)

    async def prepare(self, values: Mapping[str, object]) -> dict[str, object]:
        """Send the setup calls whose results do not exist yet; return all values that were read from responses.

        Each call can use the values that were read from the responses to earlier calls.
        """
        known = {**values, **await self._dimensions()}
        captures: dict[str, object] = {}
        for call, lookup in self.calls:
            seen = {**known, **captures}
            found = await lookup.find(seen) if lookup else None
            new = call.captured(await call.each(seen)) if found is None else call.captured_in(*found)
            captures = merge_captures(captures, new)
        return captures

    async def found(self, values: Mapping[str, object]) -> dict[str, object] | None:
        """Return the values that an interrupted setup has read; return None if the setup has created nothing.

        The values are found by ``existing`` lookups or by repeating a call.

        Raises:
            NotCleared: a call has no ``existing`` lookup and cannot be repeated.
        """
        captures: dict[str, object] = {}
        for call, lookup in self.calls:
            seen = {**values, **captures}
            if lookup is not None:
                found = await lookup.find(seen)
                if found is None:
                    return None
                captures = merge_captures(captures, call.captured_in(*found))
            elif call.captures:
                if not call.idempotent:
                    namespace = values["runTag"]
                    raise NotCleared(
                        f"{namespace}: the answer to {call.key} was lost, so the id of the created object is unknown",
                        hint=f'delete the object at the service, or find it with "existing" in {call.key}',
                    )
                captures = merge_captures(
                    captures, call.captured(await call.each({**seen, **await self._dimensions()}))
                )
        return captures

    async def _dimensions(self) -> dict[str, object]:
        """Return the variable ``dimensions`` with its value; return {} if no call uses this variable.

        The value is the vector length from the config, or the length of a sample vector.
        """
        if not any("dimensions" in call.uses() for call, _ in self.calls):
            return {}
        if self.dimensions is not None or self.embedder is None:
            return {"dimensions": self.dimensions}
        return {"dimensions": len(await question_vector(self.embedder, SAMPLE_TEXT))}


def _compile_call(connection: ProviderConnection, call: SetupCall) -> tuple[CompiledCall, ExistingProbe | None]:
    key = f"setup.{call.name}"
    lookup = ExistingProbe.compile(connection, call.existing, f"{key}.existing") if call.existing else None
    return connection.call(key, call, traffic="manage"), lookup
