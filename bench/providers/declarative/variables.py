"""Compute the values of the variables ``$.name`` and ``${name}`` in the requests of a config.

Example::

    memory_format = MemoryFormat(timestamp="unix", metadata_values="flat")
    memory_format.item_variables(memory, index=0, namespace="ns")["when"]      # 1683554160
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

from bench.model import Memory, Message, Query, Space

BENCH_ID = "bench_id"
SENT = "$sent"
"""key in ``Space.captures`` under which the ids of all sent memories are kept"""
STORED = "$stored"
"""key in ``Space.captures`` under which the service's ids of all stored memories are kept"""
HASHES = "$hashes"
"""key in ``Space.captures`` of the mapping from the hash of each memory's text to the memory's id"""
LOST = "$lost"
"""key in ``Space.captures`` that is set if a lost response contained ids of the service"""

Timestamp = Literal["iso", "date", "unix", "unix_ms", "omit"]
MetadataValues = Literal["any", "flat", "strings", "none"]


def space_variables(space: Space, constants: Mapping[str, str], *, session_scoped: bool) -> dict[str, object]:
    """Return the variables that every call can use.

    These are constants, values from earlier responses, and the ids of the run, such as ``runId`` and ``namespace``.
    """
    values: dict[str, object] = {**constants, **space.captures}
    values |= {
        "runTag": space.namespace,
        "userId": space.namespace,
        "namespace": space.namespace,
        "runId": space.run_id,
        "benchmarkId": space.benchmark,
        "corpusId": space.corpus,
        "attempt": space.attempt,
        "runUuid": _uuid(space.namespace),
    }
    if session_scoped:
        values["sessionId"] = space.namespace
    return values


def batch_key(space: Space, memories: Sequence[Memory]) -> str:
    """Return a key that identifies a batch. The key is the same when the batch is sent again, even after a restart."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "\n".join([space.namespace, *(memory.id for memory in memories)])))


def memory_uuid(namespace: str, memory_id: str) -> str:
    """Return a UUID for a memory in a namespace, for services that accept only UUIDs as ids."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}\n{memory_id}"))


@lru_cache(maxsize=256)
def _uuid(namespace: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, namespace))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFormat:
    """The format in which memories and questions are sent to a service."""

    timestamp: Timestamp = "iso"
    metadata_values: MetadataValues = "flat"
    session_scoped: bool = False
    """True for ``strategy: sessionId``: the variable ``sessionId`` of a call is then the namespace"""

    def item_variables(
        self, memory: Memory, *, index: int, namespace: str, embedding: Sequence[float] | None = None
    ) -> dict[str, object]:
        """Return the request variables of one memory. Each element of ``$.items`` has these variables."""
        return {
            "id": memory.id,
            "content": memory.content,
            "when": self.format_date(memory.when),
            "role": memory.role or "user",
            "speaker": memory.speaker,
            "sessionId": memory.session_id,
            "messages": self.messages(memory),
            "metadata": {**accepted_metadata(memory.metadata, self.metadata_values), BENCH_ID: memory.id},
            "embedding": None if embedding is None else list(embedding),
            "uuid": memory_uuid(namespace, memory.id),
            "index": index,
        }

    def messages(self, memory: Memory) -> list[object]:
        """Return the turns of a memory as messages. A memory without turns becomes a single message."""
        turns = memory.messages or (
            Message(content=memory.content, role=memory.role, speaker=memory.speaker, when=memory.when),
        )
        speakers = list(dict.fromkeys(turn.speaker for turn in turns if turn.role is None and turn.speaker))
        return [self._message(turn, speakers) for turn in turns]

    def _message(self, turn: Message, speakers: list[str]) -> dict[str, object]:
        """Return a turn as a message.

        If the turn has no role, the speaker's name is put before the text. The role is then "assistant" for the second
        speaker of the memory, and "user" for any other speaker.
        """
        content = turn.content
        if turn.role is None and turn.speaker and turn.speaker not in content.partition(":")[0]:
            content = f"{turn.speaker}: {content}"
        second = turn.speaker is not None and speakers[1:2] == [turn.speaker]
        role = turn.role or ("assistant" if second else "user")
        return {"content": content, "role": role, "speaker": turn.speaker, "when": self.format_date(turn.when)}

    def batch_variables(
        self, space: Space, memories: Sequence[Memory], embeddings: Sequence[Sequence[float]]
    ) -> dict[str, object]:
        """Return the variables of one add call. A batch of one memory also gets the variables of this memory."""
        embedder: Sequence[Sequence[float] | None] = embeddings or [None] * len(memories)
        items = [
            self.item_variables(memory, index=index, namespace=space.namespace, embedding=vector)
            for index, (memory, vector) in enumerate(zip(memories, embedder, strict=True))
        ]
        values: dict[str, object] = {"items": items, "batchKey": batch_key(space, memories)}
        if len(items) == 1:
            values |= items[0]
            if self.session_scoped:
                values["sessionId"] = space.namespace
        return values

    def query_variables(self, query: Query, *, embedding: Sequence[float] | None) -> dict[str, object]:
        """Return the variables of one search call."""
        return {
            "query": query.text,
            "k": query.k,
            "limit": query.k,
            "queryWhen": self.format_date(query.when),
            "queryEmbedding": None if embedding is None else list(embedding),
            "threshold": query.threshold,
            "includeChunks": query.include_chunks,
        }

    def format_date(self, when: datetime | None) -> object:
        """Return a date in the service's format; None if ``when`` is None or dates are omitted.

        A time without time zone is taken as UTC.
        """
        if when is None or self.timestamp == "omit":
            return None
        utc = when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
        match self.timestamp:
            case "iso":
                return utc.isoformat().replace("+00:00", "Z")
            case "date":
                return utc.date().isoformat()
            case "unix":
                return int(utc.timestamp())
            case "unix_ms":
                return int(utc.timestamp() * 1000)


def accepted_metadata(metadata: Mapping[str, object], allowed: MetadataValues) -> dict[str, object]:
    """Return the metadata that the service accepts: all values, only scalars, scalars as text, or nothing."""
    if allowed == "none":
        return {}
    if allowed == "any":
        return dict(metadata)
    flat = {key: value for key, value in metadata.items() if isinstance(value, str | int | float | bool)}
    if allowed == "flat":
        return dict(flat)
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in flat.items()}


def sent_ids(captures: Mapping[str, object]) -> frozenset[str]:
    """Return the ids of all memories that were sent to the namespace."""
    sent = captures.get(SENT)
    return frozenset(map(str, sent)) if isinstance(sent, Iterable) else frozenset()
