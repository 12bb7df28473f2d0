"""Add a batch: send its requests in order, capture ids, and report rejected memories.

Example::

    adding = Adding.of(wire, add, "add", shape=shape, vectors=None, max_bytes=None, hashes=False)
    ingested = await adding.ingest(space, memories)
    ingested.jobs, ingested.rejected                        # ("job_7",), {}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.calls import AddCall, AddResponse, IdMap, Partial
from bench.errors import Rejected
from bench.model import Ingested, Memory, Space
from bench.providers.declarative.request import ProviderWire, Wired
from bench.providers.declarative.response import Field, ServiceResponse, as_ids, compact
from bench.providers.declarative.sources import content_hash
from bench.providers.declarative.variables import HASHES, LOST, SENT, STORED, Shape, of_space, own_uuid
from bench.providers.embedding import Vectors
from bench.providers.protocol import merge_captures


@dataclass(frozen=True, slots=True)
class IdMapping:
    """A compiled ``id_map``: ids of the service to memory ids."""

    name: str
    key: Field | None
    """None = ``uuid``: ids that bench made"""
    value: Field | None
    """None = ``sent``: the memory ids of the batch in order"""

    @classmethod
    def of(cls, id_map: IdMap, at: str) -> IdMapping:
        """Compile an id_map; ``at`` is its path in the config, for errors."""
        value = None if id_map.value == "sent" else Field.at(f"{at}.value", id_map.value)
        key = None if id_map.key == "uuid" else Field.at(f"{at}.key", id_map.key)
        return cls(id_map.name, key, value)

    def read(self, answers: Sequence[ServiceResponse], sent: Sequence[str], namespace: str = "") -> dict[str, object]:
        """Return the map from service ids to memory ids: from the responses, or of the UUIDs that bench made.

        Several service ids may belong to one memory.
        """
        if self.key is None:
            return {own_uuid(namespace, one): one for one in sent}
        keys = [key for answer in answers for key in as_ids(answer.values(self.key))]
        values = self._values(answers) if self.value is not None else list(sent) * (len(keys) if len(sent) == 1 else 1)
        if len(keys) != len(values) and answers:
            raise answers[-1].error(self.key, f"the service returned {len(keys)} ids for {len(values)} memories")
        return dict(zip(keys, values, strict=True))

    def _values(self, answers: Sequence[ServiceResponse]) -> list[str]:
        assert self.value is not None
        return [value for answer in answers for value in as_ids(answer.values(self.value))]


@dataclass(frozen=True, slots=True)
class Refusals:
    """A compiled ``partial`` block: failed memories in a successful response, matched by id, never by position."""

    items: Field
    id: Path
    failed_when: tuple[tuple[Path, tuple[object, ...]], ...]
    message: Path | None

    @classmethod
    def of(cls, partial: Partial, at: str) -> Refusals:
        """Compile a partial block; ``at`` is its path in the config, for errors."""
        return cls(
            Field.at(f"{at}.items", partial.items),
            compile_path(partial.id),
            tuple((compile_path(path), tuple(values)) for path, values in partial.failed_when.items()),
            compile_path(partial.message) if partial.message else None,
        )

    def read(self, answer: ServiceResponse, known: Mapping[str, str]) -> dict[str, str]:
        """Return the reason by memory id; ``known`` maps the ids of the service to memory ids."""
        refused: dict[str, str] = {}
        for row in answer.rows(self.items):
            if not any(path.all(row)[:1] == [value] for path, values in self.failed_when for value in values):
                continue
            ids = as_ids(next(iter(self.id.all(row)), None))
            memory_id = known.get(ids[0]) if ids else None
            if memory_id is None:
                raise answer.error(
                    self.items, f"an element that reports a failure has an unknown id: {compact(row)[:100]}"
                )
            said = self.message.all(row) if self.message else []
            refused[memory_id] = compact(said[0]) if said else "refused; the service gave no reason"
        return refused


@dataclass(frozen=True, slots=True)
class Reading:
    """The compiled paths to read from the responses of an add."""

    jobs: Field | None
    id_map: IdMapping | None

    @classmethod
    def of(cls, response: AddResponse, at: str) -> Reading:
        """Compile a response block; ``at`` is its path in the config, for errors."""
        id_map = IdMapping.of(response.id_map, f"{at}.id_map") if response.id_map else None
        return cls(Field.at(f"{at}.ids", response.ids) if response.ids else None, id_map)

    def job_ids(self, answers: Sequence[ServiceResponse]) -> tuple[str, ...]:
        """Return the job ids to wait for."""
        jobs = self.jobs
        if jobs is None:
            return ()
        return tuple(one for answer in answers for one in as_ids(answer.values(jobs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adding:
    """The compiled ``endpoints.add`` or ``endpoints.update``."""

    steps: tuple[Wired, ...]
    reading: Reading
    refusals: Refusals | None
    shape: Shape
    vectors: Vectors | None
    constants: Mapping[str, str]
    max_bytes: int | None
    hashes: bool

    @classmethod
    def of(
        cls,
        wire: ProviderWire,
        call: AddCall,
        key: str,
        *,
        shape: Shape,
        vectors: Vectors | None,
        max_bytes: int | None,
        hashes: bool,
    ) -> Adding:
        """Compile an add call; ``key`` is its path in the config, for errors."""
        calls = call.steps or (call,)
        names = [f"{key}.steps[{index}]" for index in range(len(call.steps))] or [key]
        return cls(
            steps=tuple(
                wire.call(name, step, traffic="add", judged="add", reads_parts=call.partial is not None)
                for name, step in zip(names, calls, strict=True)
            ),
            reading=Reading.of(call.response, f"{key}.response"),
            refusals=Refusals.of(call.partial, f"{key}.partial") if call.partial else None,
            shape=shape,
            vectors=vectors,
            constants=wire.constants,
            max_bytes=max_bytes,
            hashes=hashes,
        )

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Send one batch.

        Raises:
            Rejected: a memory is too large for the service; nothing was sent.
        """
        self._refuse_large(memories)
        embeddings = await self.vectors.documents([memory.content for memory in memories]) if self.vectors else []
        values = of_space(space, self.constants, threaded=self.shape.threaded)
        values |= self.shape.batch(space, memories, embeddings)
        answers, captures = await run_steps(self.steps, values)
        return self._ingested(space, memories, answers, captures)

    def _ingested(
        self, space: Space, memories: Sequence[Memory], answers: Sequence[ServiceResponse], captures: dict[str, object]
    ) -> Ingested:
        sent = [memory.id for memory in memories]
        refused: dict[str, str] = {}
        stored: dict[str, tuple[str, ...]] = {memory_id: (memory_id,) for memory_id in sent}
        known = {own_uuid(space.namespace, one): one for one in sent} | {one: one for one in sent}
        if self.refusals is not None:
            for answer in answers:
                refused |= self.refusals.read(answer, known)
        if self.reading.id_map is not None:
            mapped = self.reading.id_map.read(answers, [one for one in sent if one not in refused], space.namespace)
            captures = merge_captures(captures, {self.reading.id_map.name: mapped})
            stored = {one: tuple(key for key, value in mapped.items() if value == one) for one in sent}
        kept = {one: ids for one, ids in stored.items() if one not in refused}
        captures |= self._own([memory for memory in memories if memory.id in kept], kept)
        jobs = tuple(job for job in self.reading.job_ids(answers) if known.get(job) not in refused)
        return Ingested(ids=kept, jobs=jobs, captures=captures, rejected=refused)

    def assumed(self, space: Space, memories: Sequence[Memory], given: Mapping[str, Sequence[str]]) -> Ingested:
        """Return the result of a stored batch whose response was lost; ``given`` has the ids that a search found.

        The memories have no ids if only the lost response contained them, or if a step has captures: they are lost too.
        """
        id_map = self.reading.id_map
        named = id_map is not None and id_map.key is not None
        lost = (named and not given) or any(step.captures for step in self.steps)
        stored: dict[str, tuple[str, ...]] = {memory.id: () if lost else (memory.id,) for memory in memories}
        captures: dict[str, object] = {LOST: True} if lost else {}
        if id_map is not None and not lost:
            found = {own: memory_id for memory_id, some in given.items() for own in some}
            made = found if named else id_map.read((), list(stored), space.namespace)
            captures[id_map.name] = made
            stored = {one: tuple(own for own, memory_id in made.items() if memory_id == one) for one in stored}
        return Ingested(ids=stored, captures={**captures, **self._own(memories, stored)})

    def _own(self, memories: Sequence[Memory], stored: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
        """Return bench's own captures of a batch, for mapping hits and clearing."""
        captures: dict[str, object] = {
            SENT: [memory.id for memory in memories],
            STORED: [one for memory in memories for one in stored[memory.id]],
        }
        if self.hashes:
            captures[HASHES] = {content_hash(memory.content): memory.id for memory in memories}
        return captures

    def _refuse_large(self, memories: Sequence[Memory]) -> None:
        if self.max_bytes is None:
            return
        for memory in memories:
            size = len(memory.content.encode("utf-8", "replace"))
            if size > self.max_bytes:
                raise Rejected(
                    f"memory {memory.id} has {size} bytes, more than ingest.batch.max_bytes {self.max_bytes}",
                    hint="add ingest.split, or raise max_bytes",
                )


async def run_steps(
    steps: Sequence[Wired], values: Mapping[str, object]
) -> tuple[list[ServiceResponse], dict[str, object]]:
    """Send calls in order, each with the captures of earlier calls.

    Return the responses of the last call and all captures.
    """
    captures: dict[str, object] = {}
    answers: list[ServiceResponse] = []
    for step in steps:
        answers = await step.each({**values, **captures})
        captures = merge_captures(captures, step.captured(answers))
    return answers, captures
