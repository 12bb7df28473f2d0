"""How search and answer results are written to the journal, and read back on resume.

What two runs of one plan must agree on goes into ``data``, what is measured into ``measured``, large text into
``payloads``::

    search  data      retrieved: [[ids at the evidence level], ...] or null, requested, returned, unmapped,
                      flags, reason, beyond (only where hits are not cut at k)
            measured  scores: [number or null, ...]
            payloads  hits: [{id, content, when, score, chunks, metadata}, ...]
    answer  data      answer, finish, context_hits, prompt, prompt_sha256
            measured  model, fingerprint, context_tokens, tokens_in, tokens_out, cost_usd, ignored; where there is any:
                      native_finish, reasoning_tokens, sent_tokens, flags
            payloads  prompt: [{role, content}, ...]; where reasoning was sent: raw, reasoning
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from typing import cast

from bench.engine.live import Failure
from bench.journal import Entry
from bench.journal.rows import OK
from bench.model import Call, Completion, Hit
from bench.models import cleaned, no_answer
from bench.models.dialect import Finish
from bench.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search came to."""

    hits: tuple[Hit, ...]
    """all that may go into an answer, in the provider's order"""
    retrieved: tuple[tuple[str, ...], ...] | None
    """per hit, at most k, the ids it stands for at the evidence level; None = no way back to ids"""
    requested: int
    returned: int
    unmapped: int = 0
    beyond: tuple[tuple[str, ...], ...] = ()
    """ids of hits after the k-th, of a provider whose hits are not cut"""
    flags: tuple[str, ...] = ()
    reason: str = ""
    """why retrieval metrics do not apply, or how a deletion went; empty = nothing to say"""
    cost_usd: str | None = None
    """decimal text; None = unknown"""
    priced: bool = False
    """somebody bills for this search"""
    times_us: Mapping[str, int] = field(default_factory=dict)

    def timed(self, times_us: Mapping[str, int]) -> SearchResult:
        """The same with what it took."""
        return replace(self, times_us=times_us)

    def billed(self, calls: Sequence[Call]) -> SearchResult:
        """The same with what its calls to models cost, such as the vector of the question."""
        costs = [call.cost_usd for call in calls if call.role != "provider" and call.outcome == OK]
        if not costs:
            return self
        costs += [self.cost_usd] if self.priced else []
        known = [Decimal(cost) for cost in costs if cost is not None]
        return replace(self, priced=True, cost_usd=str(sum(known, Decimal(0))) if len(known) == len(costs) else None)

    @property
    def data(self) -> dict[str, object]:
        return {
            "retrieved": None if self.retrieved is None else [list(ids) for ids in self.retrieved],
            "requested": self.requested,
            "returned": self.returned,
            "unmapped": self.unmapped,
            "flags": list(self.flags),
            "reason": self.reason,
            **({"beyond": [list(ids) for ids in self.beyond]} if self.beyond else {}),
        }

    @property
    def measured(self) -> dict[str, object]:
        return {"scores": [hit.score for hit in self.hits], "cost_usd": self.cost_usd, "priced": self.priced}

    @property
    def payloads(self) -> dict[str, object]:
        return {"hits": [_shown(hit) for hit in self.hits]}

    @classmethod
    def of(cls, entry: Entry) -> SearchResult | None:
        """Read a stored search; None when its texts were dropped from the journal."""
        hits = entry.payloads.get("hits")
        if hits is None:
            return None
        data = entry.data
        retrieved = cast("Sequence[Sequence[str]] | None", data["retrieved"])
        return cls(
            hits=tuple(_hit(one) for one in cast("Sequence[Mapping[str, object]]", hits)),
            retrieved=None if retrieved is None else tuple(tuple(ids) for ids in retrieved),
            requested=cast("int", data["requested"]),
            returned=cast("int", data["returned"]),
            unmapped=cast("int", data["unmapped"]),
            beyond=tuple(tuple(ids) for ids in cast("Sequence[Sequence[str]]", data.get("beyond", ()))),
            flags=tuple(cast("Sequence[str]", data["flags"])),
            reason=cast("str", data["reason"]),
            times_us=entry.times_us,
            cost_usd=cast("str | None", entry.measured.get("cost_usd")),
            priced=bool(entry.measured.get("priced")),
        )


CUT, REFUSED, EMPTY = "cut", "refused", "empty"
"""flags of an answer by its finish: at the token limit, by a filter, without text although it ended by itself"""


def flags_of(text: str, finish: str, flags: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what a report counts of an answer: how it ended, and what its endpoint said of it."""
    ended = {"length": CUT, "refusal": REFUSED}.get(finish)
    own = ended or (EMPTY if not text.strip() and finish == "stop" else None)
    return (*((own,) if own is not None else ()), *flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerResult:
    """What an answering model said, and on what."""

    text: str
    """without reasoning"""
    finish: str
    context_hits: int
    prompt: str
    """name of the prompt: default, or a question type"""
    prompt_sha256: str
    model: str
    """as the endpoint returned it"""
    fingerprint: str | None = None
    context_tokens: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: str | None = None
    ignored: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """see `flags_of`"""
    failure: Failure | None = None
    """why the reply is no answer"""
    native_finish: str = ""
    raw: str | None = None
    """the text as it was sent, where it held reasoning; not read back"""
    reasoning: str = ""
    """what was sent as reasoning, apart from the text; not read back"""
    reasoning_tokens: int | None = None
    sent_tokens: int | None = None
    """our own estimate of the prompt"""
    messages: tuple[tuple[str, str], ...] = ()
    """role and content of what was sent; not read back"""
    times_us: Mapping[str, int] = field(default_factory=dict)

    def timed(self, times_us: Mapping[str, int]) -> AnswerResult:
        """The same with what it took."""
        return replace(self, times_us=times_us)

    @property
    def data(self) -> dict[str, object]:
        return {
            "answer": self.text,
            "finish": self.finish,
            "context_hits": self.context_hits,
            "prompt": self.prompt,
            "prompt_sha256": self.prompt_sha256,
        }

    @property
    def measured(self) -> dict[str, object]:
        return {
            "model": self.model,
            "fingerprint": self.fingerprint,
            "context_tokens": self.context_tokens,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost_usd": self.cost_usd,
            "ignored": list(self.ignored),
            **({"native_finish": self.native_finish} if self.native_finish not in ("", self.finish) else {}),
            **({"reasoning_tokens": self.reasoning_tokens} if self.reasoning_tokens is not None else {}),
            **({"sent_tokens": self.sent_tokens} if self.sent_tokens is not None else {}),
            **({"flags": list(self.flags)} if self.flags else {}),
        }

    @property
    def payloads(self) -> dict[str, object]:
        return {
            "prompt": [{"role": role, "content": content} for role, content in self.messages],
            **({"raw": self.raw} if self.raw is not None else {}),
            **({"reasoning": self.reasoning} if self.reasoning else {}),
        }

    @classmethod
    def of(cls, entry: Entry) -> AnswerResult:
        """Read a stored answer; one of an earlier version may still hold its reasoning, or be none."""
        data, measured = entry.data, entry.measured
        said = cleaned(Completion(text=cast("str", data["answer"]), model="", finish=cast("Finish", data["finish"])))
        error = no_answer(said)
        return cls(
            text=said.text,
            finish=said.finish,
            failure=None if error is None else Failure.of(error),
            context_hits=cast("int", data["context_hits"]),
            prompt=cast("str", data["prompt"]),
            prompt_sha256=cast("str", data["prompt_sha256"]),
            model=cast("str", measured.get("model", "")),
            fingerprint=cast("str | None", measured.get("fingerprint")),
            context_tokens=cast("int", measured.get("context_tokens", 0)),
            tokens_in=cast("int | None", measured.get("tokens_in")),
            tokens_out=cast("int | None", measured.get("tokens_out")),
            cost_usd=cast("str | None", measured.get("cost_usd")),
            ignored=tuple(cast("Sequence[str]", measured.get("ignored", ()))),
            flags=tuple(cast("Sequence[str]", measured.get("flags", ()))),
            times_us=entry.times_us,
        )


def _shown(hit: Hit) -> dict[str, object]:
    shown: dict[str, object] = {"id": hit.id, "content": hit.content}
    if hit.score is not None:
        shown["score"] = hit.score
    if hit.when is not None:
        shown["when"] = hit.when.isoformat()
    if hit.chunks:
        shown["chunks"] = list(hit.chunks)
    if hit.metadata:
        shown["metadata"] = dict(hit.metadata)
    return shown


def _hit(shown: Mapping[str, object]) -> Hit:
    when = shown.get("when")
    return Hit(
        id=cast("str", shown["id"]),
        content=cast("str", shown["content"]),
        score=cast("float | None", shown.get("score")),
        when=datetime.fromisoformat(cast("str", when)) if when else None,
        chunks=tuple(cast("Sequence[str]", shown.get("chunks", ()))),
        metadata=cast("Mapping[str, object]", shown.get("metadata", {})),
    )
