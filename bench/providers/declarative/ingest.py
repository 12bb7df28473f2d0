"""Send a batch of memories to the service. Return the ids of the stored memories, and the memories that the service
rejected.

Example::

    ingested = await add_operation.ingest(space, memories)
    ingested.jobs, ingested.rejected                        # ("job_7",), {}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.calls import AddCall, AddResponse, IdMap, Partial
from bench.errors import MappingError, Rejected
from bench.model import Embedder, Ingested, Memory, Space
from bench.providers.declarative.request import CompiledCall, ProviderConnection
from bench.providers.declarative.response import ResponsePath, ServiceResponse, as_ids, compact
from bench.providers.declarative.sources import content_hash
from bench.providers.declarative.variables import HASHES, LOST, SENT, STORED, MemoryFormat, memory_uuid, space_variables
from bench.providers.protocol import merge_captures
from bench.visible_text import counted

NO_IDS_HINT = (
    "if the body has no ids (a header cannot be read), remove id_map; send $.id in the memory's metadata and read it "
    "with search.response.id_from: [{metadata: KEY}], or use [{contentHash: true}]"
)
NO_JOBS_HINT = (
    "if the body has no job ids (a header cannot be read), remove response.ids, and use a wait.request about the "
    "namespace, or no wait section"
)


@dataclass(frozen=True, slots=True)
class IdMapReader:
    """A compiled ``id_map``: how to map the service's ids to memory ids."""

    name: str
    key: ResponsePath | None
    """path of the service's ids; None if bench made the ids itself (``uuid``)"""
    value: ResponsePath | None
    """path of the memory ids; None if they are the ids of the sent batch, in order (``sent``)"""

    @classmethod
    def compile(cls, id_map: IdMap, at: str) -> IdMapReader:
        """Compile an ``id_map``. ``at`` is the path of the ``id_map`` in the config, for error messages."""
        value = None if id_map.value == "sent" else ResponsePath.at(f"{at}.value", id_map.value)
        key = None if id_map.key == "uuid" else ResponsePath.at(f"{at}.key", id_map.key)
        return cls(id_map.name, key, value)

    def read(self, answers: Sequence[ServiceResponse], sent: Sequence[str], namespace: str = "") -> dict[str, object]:
        """Return the map from service ids to memory ids.

        The service ids are read from the responses, or they are the UUIDs that bench made. Several service ids may
        belong to one memory.
        """
        if self.key is None:
            return {memory_uuid(namespace, one): one for one in sent}
        keys = _ids(answers, self.key, hint=NO_IDS_HINT)
        values = self._values(answers) if self.value is not None else list(sent) * (len(keys) if len(sent) == 1 else 1)
        if len(keys) != len(values) and answers:
            raise answers[-1].error(
                self.key,
                f"the service returned {counted(len(keys), 'id(|s)')} for {counted(len(values), 'memor(y|ies)')}",
            )
        return dict(zip(keys, values, strict=True))

    def _values(self, answers: Sequence[ServiceResponse]) -> list[str]:
        assert self.value is not None
        return [value for answer in answers for value in as_ids(answer.values(self.value))]


@dataclass(frozen=True, slots=True)
class PartialFailures:
    """A compiled ``partial`` section: finds the memories that failed although the call succeeded.

    Failed memories are matched by their ids, never by position.
    """

    items: ResponsePath
    id: Path
    failed_when: tuple[tuple[Path, tuple[object, ...]], ...]
    message: Path | None

    @classmethod
    def compile(cls, partial: Partial, at: str) -> PartialFailures:
        """Compile a ``partial`` section. ``at`` is the path of the section in the config, for error messages."""
        return cls(
            ResponsePath.at(f"{at}.items", partial.items),
            compile_path(partial.id),
            tuple((compile_path(path), tuple(values)) for path, values in partial.failed_when.items()),
            compile_path(partial.message) if partial.message else None,
        )

    def read(self, answer: ServiceResponse, known: Mapping[str, str]) -> dict[str, str]:
        """Return memory id -> reason for each memory that failed.

        ``known`` maps each id that bench sent (a memory id or its UUID) to the memory id.
        """
        refused: dict[str, str] = {}
        for row in answer.rows(self.items):
            if not any(path.all(row)[:1] == [value] for path, values in self.failed_when for value in values):
                continue
            ids = as_ids(next(iter(self.id.all(row)), None))
            memory_id = known.get(ids[0]) if ids else None
            if memory_id is None:
                raise answer.error(
                    self.items, f"the service refused a memory whose id was never sent: {compact(row)[:100]}"
                )
            reasons = self.message.all(row) if self.message else []
            refused[memory_id] = compact(reasons[0]) if reasons else "refused; the service gave no reason"
        return refused


@dataclass(frozen=True, slots=True)
class AddResponseReader:
    """The compiled paths at which the responses of an add call have job ids and memory ids."""

    jobs: ResponsePath | None
    id_map: IdMapReader | None

    @classmethod
    def compile(cls, response: AddResponse, at: str) -> AddResponseReader:
        """Compile an add call's ``response`` section. ``at`` is its path in the config, for error messages."""
        id_map = IdMapReader.compile(response.id_map, f"{at}.id_map") if response.id_map else None
        return cls(ResponsePath.at(f"{at}.ids", response.ids) if response.ids else None, id_map)

    def job_ids(self, answers: Sequence[ServiceResponse]) -> tuple[str, ...]:
        """Return the ids of the service's background jobs that must end before the batch is stored."""
        return () if self.jobs is None else tuple(_ids(answers, self.jobs, hint=NO_JOBS_HINT))


def _ids(answers: Sequence[ServiceResponse], field: ResponsePath, *, hint: str) -> list[str]:
    try:
        return [one for answer in answers for one in as_ids(answer.values(field))]
    except MappingError as error:
        error.hint = hint
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOperation:
    """The compiled ``endpoints.add`` or ``endpoints.update``."""

    steps: tuple[CompiledCall, ...]
    reader: AddResponseReader
    failures: PartialFailures | None
    memory_format: MemoryFormat
    embedder: Embedder | None
    constants: Mapping[str, str]
    max_bytes: int | None
    hashes: bool

    @classmethod
    def compile(
        cls,
        connection: ProviderConnection,
        call: AddCall,
        key: str,
        *,
        memory_format: MemoryFormat,
        embedder: Embedder | None,
        max_bytes: int | None,
        hashes: bool,
    ) -> AddOperation:
        """Compile an add call. ``key`` is the path of the call in the config, for error messages."""
        calls = call.steps or (call,)
        names = [f"{key}.steps[{index}]" for index in range(len(call.steps))] or [key]
        return cls(
            steps=tuple(
                connection.call(name, step, traffic="add", check_kind="add", reads_partial=call.partial is not None)
                for name, step in zip(names, calls, strict=True)
            ),
            reader=AddResponseReader.compile(call.response, f"{key}.response"),
            failures=PartialFailures.compile(call.partial, f"{key}.partial") if call.partial else None,
            memory_format=memory_format,
            embedder=embedder,
            constants=connection.constants,
            max_bytes=max_bytes,
            hashes=hashes,
        )

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Send one batch of memories.

        Raises:
            Rejected: a memory is too large for the service; nothing was sent.
        """
        self._require_small(memories)
        embeddings = []
        if self.embedder:
            embeddings = await self.embedder.embed([memory.content for memory in memories], kind="document")
        values = space_variables(space, self.constants, session_scoped=self.memory_format.session_scoped)
        values |= self.memory_format.batch_variables(space, memories, embeddings)
        answers, captures = await run_steps(self.steps, values)
        return self._ingested(space, memories, answers, captures)

    def _ingested(
        self, space: Space, memories: Sequence[Memory], answers: Sequence[ServiceResponse], captures: dict[str, object]
    ) -> Ingested:
        sent = [memory.id for memory in memories]
        refused: dict[str, str] = {}
        stored: dict[str, tuple[str, ...]] = {memory_id: (memory_id,) for memory_id in sent}
        known = {memory_uuid(space.namespace, one): one for one in sent} | {one: one for one in sent}
        if self.failures is not None:
            for answer in answers:
                refused |= self.failures.read(answer, known)
        if self.reader.id_map is not None:
            mapped = self.reader.id_map.read(answers, [one for one in sent if one not in refused], space.namespace)
            captures = merge_captures(captures, {self.reader.id_map.name: mapped})
            stored = {one: tuple(key for key, value in mapped.items() if value == one) for one in sent}
        stored_ids = {one: ids for one, ids in stored.items() if one not in refused}
        captures |= self._own_captures([memory for memory in memories if memory.id in stored_ids], stored_ids)
        jobs = tuple(job for job in self.reader.job_ids(answers) if known.get(job) not in refused)
        return Ingested(ids=stored_ids, jobs=jobs, captures=captures, rejected=refused)

    def assumed(self, space: Space, memories: Sequence[Memory], given: Mapping[str, Sequence[str]]) -> Ingested:
        """Return the result of a batch that is stored although its response was lost.

        ``given`` maps memory ids to the service ids that a search found. The result has no ids if the service assigns
        the ids and no search found them. It also has no ids if the config reads other values from the lost responses.
        """
        id_map = self.reader.id_map
        named = id_map is not None and id_map.key is not None
        lost = (named and not given) or any(step.captures for step in self.steps)
        stored: dict[str, tuple[str, ...]] = {memory.id: () if lost else (memory.id,) for memory in memories}
        captures: dict[str, object] = {LOST: True} if lost else {}
        if id_map is not None and not lost:
            found = {own: memory_id for memory_id, some in given.items() for own in some}
            made = found if named else id_map.read((), list(stored), space.namespace)
            captures[id_map.name] = made
            stored = {one: tuple(own for own, memory_id in made.items() if memory_id == one) for one in stored}
        return Ingested(ids=stored, captures={**captures, **self._own_captures(memories, stored)})

    def _own_captures(self, memories: Sequence[Memory], stored: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
        """Return the values that bench keeps to map hits to memories and to clear the namespace later."""
        captures: dict[str, object] = {
            SENT: [memory.id for memory in memories],
            STORED: [one for memory in memories for one in stored[memory.id]],
        }
        if self.hashes:
            captures[HASHES] = {content_hash(memory.content): memory.id for memory in memories}
        return captures

    def _require_small(self, memories: Sequence[Memory]) -> None:
        if self.max_bytes is None:
            return
        for memory in memories:
            size = len(memory.content.encode("utf-8", "replace"))
            if size > self.max_bytes:
                raise Rejected(
                    f"memory {memory.id} has {size} bytes, more than ingest.batch.max_bytes {self.max_bytes}",
                    hint='add ingest.split, or raise "max_bytes"',
                )


async def run_steps(
    steps: Sequence[CompiledCall], values: Mapping[str, object]
) -> tuple[list[ServiceResponse], dict[str, object]]:
    """Send calls in order. A call can use the values that were read from the responses to earlier calls.

    Return the responses to the last call, and all values that were read.
    """
    captures: dict[str, object] = {}
    answers: list[ServiceResponse] = []
    for step in steps:
        answers = await step.each({**values, **captures})
        captures = merge_captures(captures, step.captured(answers))
    return answers, captures
