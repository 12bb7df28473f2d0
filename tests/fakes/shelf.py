"""The store of a fake: documents by space, each invisible until its status was requested often enough.

Example::

    shelf = Shelf(rounds=1)
    doc = shelf.put("ns", Doc(id="d1", content="Ana lives in Lisbon."))
    shelf.asked(doc), shelf.asked(doc)        # False, True: queued at the first look, done at the second
    shelf.visible("ns")                       # [doc]
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Doc:
    """One stored document."""

    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    content: str
    when: str | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    vector: list[float] = field(default_factory=list)
    pending: int = 0
    """number of further status requests until it is ready"""
    failed: bool = False

    @property
    def ready(self) -> bool:
        return self.pending == 0 and not self.failed


@dataclass(slots=True)
class Shelf:
    """Documents by space, in the order of writing."""

    rounds: int = 0
    """status requests before a new document is ready"""
    failing: bool = False
    """processing of new documents fails"""
    spaces: dict[str, dict[str, Doc]] = field(default_factory=dict)

    def put(self, space: str, doc: Doc) -> Doc:
        doc.pending, doc.failed = self.rounds, self.failing
        return self.spaces.setdefault(space, {}).setdefault(doc.id, doc)

    def replace(self, space: str, doc: Doc) -> Doc:
        doc.pending, doc.failed = self.rounds, self.failing
        self.spaces.setdefault(space, {})[doc.id] = doc
        return doc

    def asked(self, doc: Doc) -> bool:
        """Count one status request and return whether the document is ready."""
        if doc.pending:
            doc.pending -= 1
            return False
        return doc.ready

    def all(self, space: str) -> list[Doc]:
        return list(self.spaces.get(space, {}).values())

    def visible(self, space: str) -> list[Doc]:
        return [doc for doc in self.all(space) if doc.ready]

    def find(self, doc_id: str) -> Doc | None:
        return next((docs[doc_id] for docs in self.spaces.values() if doc_id in docs), None)
