"""What providers and models send back, without the secrets of the run, before anything is made of it.

Hits are mapped to memories first, so retrieval counts as before; prompts, answers, verdicts and the journal all see
the redacted text, in this process and whenever the stored texts are used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import cast

from bench.events import redactor
from bench.model import Completion, Hit

REDACTED_HITS = "hits_redacted"
"""flag of an item"""
TEXTS = ("text", "raw", "reasoning", "model", "fingerprint", "native_finish")
"""what an endpoint writes of a completion"""
_texts_of = attrgetter(*TEXTS)


def hits_without_secrets(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Redact every known secret; the same tuple where there is none."""
    if not redactor.knows_any:
        return hits
    texts = [f"{hit.id}\n{hit.content}\n{hit.chunks or ''}\n{hit.metadata or ''}" for hit in hits]
    if not redactor.holds_secret("\n".join(texts)):
        return hits
    return tuple(
        replace(
            hit,
            id=redactor.hide(hit.id),
            content=redactor.hide(hit.content),
            chunks=tuple(map(redactor.hide, hit.chunks)),
            metadata=cast("Mapping[str, object]", redactor.hide_in(hit.metadata)),
        )
        for hit in hits
    )


def completion_without_secrets(said: Completion) -> Completion:
    """Redact every known secret in a model's texts and in what its endpoint says of itself."""
    if not redactor.knows_any:
        return said
    if not redactor.holds_secret("\n".join(map(str, _texts_of(said)))):
        return said
    texts = {name: text for name in TEXTS if isinstance(text := getattr(said, name), str)}
    return replace(said, **{name: redactor.hide(text) for name, text in texts.items()})  # type: ignore[arg-type]
