"""Setting a namespace up: the calls of ``setup`` in order, each only when what it would make is not there yet.

Example::

    captures = await Preparing.of(wire, config, vectors).prepare(values)         # {"storeId": "vs_1"}

A process that dies after a set-up call leaves something nobody wrote down; ``existing`` finds it again, so that a
resumed run neither makes a second one nor fails because of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.calls import Existing, SetupCall
from bench.config.provider.nodes import Node, Scope
from bench.providers.declarative.answer import Answer, Field
from bench.providers.declarative.request import Wire, Wired
from bench.providers.embedding import Vectors
from bench.providers.protocol import merge_captures

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig

SAMPLE = "How long is a vector?"


@dataclass(frozen=True, slots=True)
class Finding:
    """A compiled ``existing``."""

    call: Wired
    results: Field | None
    match: tuple[tuple[Path, Node], ...]

    @classmethod
    def of(cls, wire: Wire, existing: Existing, key: str) -> Finding:
        """Compile the block that stands under ``key``."""
        return cls(
            wire.call(key, existing, traffic="status"),
            Field.at(f"{key}.results", existing.results) if existing.results else None,
            tuple((compile_path(path), wire.compiler.tree(value)) for path, value in existing.match.items()),
        )

    async def find(self, values: Mapping[str, object]) -> tuple[Answer, object] | None:
        """The answer and the part of it that is ours; None when there is none (or a status in ``treat_as_ok``)."""
        answer = await self.call.send(values)
        if not answer.ok:
            return None
        if self.results is None:
            return answer, answer.tree
        wanted = [(path, node.fill(Scope(values))) for path, node in self.match]
        for row in answer.rows(self.results):
            if all(path.all(row) == [value] for path, value in wanted):
                return answer, row
        return None


@dataclass(frozen=True, slots=True)
class Preparing:
    """The compiled ``setup`` of a config."""

    calls: tuple[tuple[Wired, Finding | None], ...]
    dimensions: int | None
    vectors: Vectors | None

    @classmethod
    def of(cls, wire: Wire, config: ProviderConfig, vectors: Vectors | None) -> Preparing:
        """Compile every call."""
        settings = config.client_embeddings
        calls = tuple(_compiled(wire, call) for call in config.setup)
        return cls(calls, settings.dimensions if settings else None, vectors)

    async def prepare(self, values: Mapping[str, object]) -> dict[str, object]:
        """Send what is needed, each call seeing what those before it captured; give all captures."""
        known = {**values, **await self._sizes()}
        captures: dict[str, object] = {}
        for call, finding in self.calls:
            seen = {**known, **captures}
            found = await finding.find(seen) if finding else None
            new = call.captured(await call.each(seen)) if found is None else call.captured_in(*found)
            captures = merge_captures(captures, new)
        return captures

    async def _sizes(self) -> dict[str, object]:
        """``dimensions`` where a call names it: the declared length of a vector, or that of one that is made."""
        if not any("dimensions" in call.uses() for call, _ in self.calls):
            return {}
        if self.dimensions is not None or self.vectors is None:
            return {"dimensions": self.dimensions}
        return {"dimensions": len(await self.vectors.query(SAMPLE))}


def _compiled(wire: Wire, call: SetupCall) -> tuple[Wired, Finding | None]:
    key = f"setup.{call.name}"
    finding = Finding.of(wire, call.existing, f"{key}.existing") if call.existing else None
    return wire.call(key, call, traffic="manage"), finding
