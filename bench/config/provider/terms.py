"""The words of the dialect: operations, request variables of each call, operators of body trees.

Every name a file may use stands here once; checks and interpreter read the same tables.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from bench.events import KEY_LIKE

OPERATIONS = ("add_memory", "retrieve_memory", "delete_memory", "update_memory", "list_memories")

Milliseconds = Annotated[int, Field(gt=0, le=86_400_000)]
"""up to a day"""
Pause = Annotated[int, Field(ge=0, le=3_600_000)]
"""milliseconds, up to an hour"""
Retries = Annotated[int, Field(ge=0, le=100)]
InFlight = Annotated[int, Field(gt=0, le=10_000)]

EVERYWHERE = frozenset({"runTag", "userId", "namespace", "runId", "benchmarkId", "corpusId", "attempt", "runUuid"})
"""request variables of every call; with ``strategy: sessionId`` also ``sessionId``"""

ELEMENT = frozenset(
    {"id", "content", "when", "role", "speaker", "sessionId", "messages", "metadata", "embedding", "uuid", "index"}
)
"""fields of one element of ``items``; at the root too when a call carries one memory"""

MESSAGE = frozenset({"content", "role", "speaker", "when"})
"""fields of one turn inside ``messages``"""

ADD = frozenset({"items", "batchKey"})
SEARCH = frozenset({"query", "k", "limit", "queryWhen", "queryEmbedding", "threshold", "includeChunks"})
WAIT = frozenset({"jobId", "sent"})
CLEAR = frozenset({"ids", "idChunks"})
SETUP = frozenset({"dimensions"})
DELETE = frozenset({"ids", "id"})
LIST = frozenset({"sessionId"})
EACH = "each"
"""the element of ``for_each``"""

OPERATORS = ("$each", "$do", "$column", "$omit_if_null", "$literal", "$json", "$lines")

_LONG_TOKEN = re.compile(r"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[A-Za-z0-9+/=_\-]{32,}")


def looks_like_key(text: str) -> bool:
    """Say whether ``text`` holds something that is shaped like a secret."""
    bare = re.sub(r"\$\{[^}]*\}", "", text)
    return KEY_LIKE.search(bare) is not None or _LONG_TOKEN.search(bare) is not None
