"""The results of searches and answers, and how the journal stores them.

Example::

    row = phase_row(key, search, None, calls=calls)
    SearchResult.of(row)        # equal to ``search``

In a journal row, ``data`` contains the values that must be equal in two runs of one plan, ``measured`` contains
measured values, and ``payloads`` contains large texts.

Secrets in hits are redacted before the hits are written to the journal. This does not change retrieval metrics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

from bench.engine.outcome import Failure
from bench.evaluators import is_refusal
from bench.events import redactor
from bench.fast_dataclass import dataclass
from bench.journal import JournaledPhase, Key
from bench.journal.rows import OK
from bench.metrics.answers.text import occurs
from bench.model import Call, Completion, Hit, Item, Phase, Usage
from bench.models.faulty_answers import (
    CONTRADICTS,
    IN_NUMBER,
    OTHER_MARKS,
    QUOTES,
    contradicts_gold,
    has_other_marks,
    parts_spaced_number,
    quotes_context,
    signs,
)
from bench.models.reply import UNTIMED
from bench.patterns import pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of one search."""

    hits: tuple[Hit, ...]
    """all hits that may be used in an answer, in the provider's order"""
    retrieved: tuple[tuple[str, ...], ...] | None
    """the sessions, turns or evidence sentences in each of the first k hits; None if hits cannot be mapped"""
    requested: int
    returned: int
    unmapped: int = 0
    listed: tuple[str, ...] | None = None
    """all stored texts that the provider lists for the item's history; None if they were not read"""
    beyond: tuple[tuple[str, ...], ...] = ()
    """like ``retrieved``, for the hits after the k-th; only for a provider whose hits are not cut at k"""
    flags: tuple[str, ...] = ()
    reason: str = ""
    """the reason why retrieval metrics do not apply, or why a deletion was not checked; empty if they apply"""
    cost_usd: str | None = None
    """cost as decimal text; None = unknown"""
    priced: bool = False
    """True if the search costs money"""
    replied: str = ""
    """what the response contained instead of hits, or a warning that it contained together with hits"""
    times_us: Mapping[str, int] = field(default_factory=dict)

    def timed(self, times_us: Mapping[str, int]) -> SearchResult:
        """Return a copy of the result with these times."""
        return replace(self, times_us=times_us)

    def billed(self, calls: Sequence[Call]) -> SearchResult:
        """Return a copy with the cost of all calls of the search: for each page of hits, and to embed the question.

        If no call of the provider was logged, the price of one search is used.
        """
        costs = [
            call.cost_usd
            for call in calls
            if (call.outcome == OK or call.reports_usage) and (self.priced or call.role != "provider")
        ]
        if not costs or (self.priced and costs == [self.cost_usd]):
            return self
        if self.priced and all(call.role != "provider" for call in calls):
            costs.append(self.cost_usd)
        known = [Decimal(cost) for cost in costs if cost is not None]
        return replace(self, priced=True, cost_usd=str(sum(known, Decimal(0))) if len(known) == len(costs) else None)

    @property
    def data(self) -> dict[str, object]:
        beyond = {"beyond": [list(ids) for ids in self.beyond]} if self.beyond else {}
        return {
            "retrieved": None if self.retrieved is None else [list(ids) for ids in self.retrieved],
            "requested": self.requested,
            "returned": self.returned,
            "unmapped": self.unmapped,
            "flags": list(self.flags),
            "reason": self.reason,
            **beyond,
        }

    @property
    def measured(self) -> dict[str, object]:
        replied = {"warned" if self.hits else "replied": self.replied} if self.replied else {}
        scores = [hit.score for hit in self.hits]
        return {"scores": scores, "cost_usd": self.cost_usd, "priced": self.priced, **replied}

    @property
    def payloads(self) -> dict[str, object]:
        listed = {} if self.listed is None else {"stored": list(self.listed)}
        return {"hits": [_hit_to_json(hit) for hit in self.hits], **listed}

    @classmethod
    def of(cls, entry: JournaledPhase) -> SearchResult | None:
        """Return the search that a journal row stores; None if the texts of its hits were removed from the journal."""
        data: Mapping[str, Any] = entry.data
        measured: Mapping[str, Any] = entry.measured
        payloads: Mapping[str, Any] = entry.payloads
        hits, listed = payloads.get("hits"), payloads.get("stored")
        if hits is None:
            return None
        retrieved = data["retrieved"]
        return cls(
            hits=tuple(map(_hit_from_json, hits)),
            retrieved=None if retrieved is None else tuple(map(tuple, retrieved)),
            requested=data["requested"],
            returned=data["returned"],
            unmapped=data["unmapped"],
            listed=None if listed is None else tuple(listed),
            beyond=tuple(map(tuple, data.get("beyond", ()))),
            flags=tuple(data["flags"]),
            reason=data["reason"],
            times_us=entry.times_us,
            cost_usd=measured.get("cost_usd"),
            priced=bool(measured.get("priced")),
            replied=measured.get("replied", "") or measured.get("warned", ""),
        )


def total_usd(calls: Sequence[Call]) -> str | None:
    """Return the cost of all calls that are billed, as decimal text; None if one of these costs is unknown."""
    total = Decimal(0)
    for call in calls:
        if call.outcome == OK or call.reports_usage:
            if call.cost_usd is None:
                return None
            total += Decimal(call.cost_usd)
    return str(total)


CUT, REFUSED, EMPTY, UNENDED, UNKNOWN, AT_LIMIT = "cut", "refused", "empty", "no_finish", "other_finish", "at_limit"
"""flags for how an answer ended

``CUT``: at the token limit. ``REFUSED``: by a content filter. ``EMPTY``: without text. ``UNENDED``: without a stated
reason. ``UNKNOWN``: for an unknown reason. ``AT_LIMIT``: normally, but with exactly the allowed number of tokens.
"""
WINDOW_FULL = "window_full"
"""flag of an answer that was cut because the context window of the model was full"""
HIT_CUT = "hit_cut"
"""flag of an answer whose prompt has no whole hit, but at most the beginning of the first one"""


def flags_of(
    reply: Completion, item: Item, *, prompt: str = "", most: int = 0, context: Sequence[str] = (), exact: bool = False
) -> tuple[str, ...]:
    """Return the flags of an answer for reports.

    They show how the reply ended, what is unusual in its text, and what its endpoint reported. ``most`` is the token
    limit of the answer. ``exact`` is True if a scoring rule compares whole texts.
    """
    ended = {"length": CUT, "refusal": REFUSED}.get(reply.finish)
    if ended == CUT and "context" in (reply.native_finish or ""):
        ended = WINDOW_FULL
    if reply.finish == "other":
        ended = UNKNOWN if reply.native_finish else UNENDED
    if reply.finish == "stop" and reply.usage and not reply.usage.estimated and reply.usage.output_tokens >= most:
        ended = AT_LIMIT
    own = ended or (EMPTY if not reply.text.strip() and reply.finish == "stop" else None)
    seen = signs(reply.text, question=item.question, prompt=prompt, accepted=(*item.answers, *item.choices))
    if quotes_context(reply.text, context):
        seen = (*seen, QUOTES)
    if not item.choices and (contradicts_gold(reply.text, item.answers) or _declines_with_gold(reply.text, item)):
        seen = (*seen, CONTRADICTS)
    if not item.choices and has_other_marks(reply.text, item.answers, exact=exact):
        seen = (*seen, OTHER_MARKS)
    if not item.choices and parts_spaced_number(reply.text, item.answers):
        seen = (*seen, IN_NUMBER)
    return (*([] if own is None else [own]), *seen, *reply.flags)


_GUESSES = pattern(
    r"\b(?:but|however|though|although|maybe|perhaps|probably|possibly|likely|(?:I|we) (?:think|believe|guess))\b",
    re.IGNORECASE,
)
"""words in an answer which show that a guess follows a refusal"""


def _declines_with_gold(text: str, item: Item) -> bool:
    """Return True if a text declines to answer, but contains a gold answer, such as "no" in "I have no information"."""
    if item.abstention or not is_refusal(text) or _GUESSES.search(text):
        return False
    form = text.lower()
    held = any(gold and occurs(gold.lower(), form, whole_words=True) for gold in item.answers)
    return held and not any(map(is_refusal, item.answers))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerResult:
    """The answer of a model, and the prompt to which it replied."""

    reply: Completion
    """the answer without reasoning, with all flags of `flags_of`; after a resume without ``raw`` and ``reasoning``"""
    context_hits: int
    """number of hits that are in the prompt as a whole"""
    prompt: str
    """name of the answer prompt: ``default``, or the question type for which the benchmark has a prompt"""
    prompt_sha256: str
    context_tokens: int = 0
    failure: Failure | None = None
    """the reason why the reply does not count as an answer; None if it counts"""
    messages: tuple[tuple[str, str], ...] = ()
    """(role, content) of each message of the prompt; missing after a resume"""
    times_us: Mapping[str, int] = field(default_factory=dict)

    def timed(self, times_us: Mapping[str, int]) -> AnswerResult:
        """Return a copy of the answer with these times; a cached or batched reply gets no times."""
        return replace(self, times_us={} if self.untimed else times_us)

    def billed(self, calls: Sequence[Call]) -> AnswerResult:
        """Return a copy with the cost of all calls of the answer, including failed attempts that the vendor bills."""
        if not calls or (not calls[1:] and calls[0].outcome == OK):
            return self
        return replace(self, reply=replace(self.reply, cost_usd=total_usd(calls)))

    @property
    def untimed(self) -> bool:
        """Return True if the reply came from the cache or from a batch, so that it was not measured."""
        return not UNTIMED.isdisjoint(self.reply.flags)

    @property
    def tokens_in(self) -> int | None:
        return self.reply.usage.input_tokens if self.reply.usage else None

    @property
    def tokens_out(self) -> int | None:
        return self.reply.usage.output_tokens if self.reply.usage else None

    @property
    def data(self) -> dict[str, object]:
        return {
            "answer": self.reply.text,
            "finish": self.reply.finish,
            "context_hits": self.context_hits,
            "prompt": self.prompt,
            "prompt_sha256": self.prompt_sha256,
        }

    @property
    def measured(self) -> dict[str, object]:
        reply, usage = self.reply, self.reply.usage
        optional = {
            "native_finish": None if reply.native_finish in ("", reply.finish) else reply.native_finish,
            "reasoning_tokens": usage.reasoning_tokens if usage is not None and not usage.estimated else None,
            "sent_tokens": reply.sent_tokens,
            "saved_usd": reply.saved_usd,
            "flags": list(reply.flags) or None,
        }
        return {
            "model": reply.model,
            "fingerprint": reply.fingerprint,
            "context_tokens": self.context_tokens,
            "tokens_in": usage.input_tokens if usage else None,
            "tokens_out": usage.output_tokens if usage else None,
            "cost_usd": reply.cost_usd,
            "ignored": list(reply.ignored),
            **{name: value for name, value in optional.items() if value is not None},
        }

    @property
    def payloads(self) -> dict[str, object]:
        return {
            "prompt": [{"role": role, "content": content} for role, content in self.messages],
            **({"raw": self.reply.raw} if self.reply.raw is not None else {}),
            **({"reasoning": self.reply.reasoning} if self.reply.reasoning else {}),
        }

    @classmethod
    def of(cls, entry: JournaledPhase) -> AnswerResult:
        """Return the answer that a journal row stores."""
        data: Mapping[str, Any] = entry.data
        measured: Mapping[str, Any] = entry.measured
        known = measured["tokens_in"] is not None
        return cls(
            reply=Completion(
                text=data["answer"],
                model=measured["model"],
                finish=data["finish"],
                fingerprint=measured["fingerprint"],
                usage=Usage(input_tokens=measured["tokens_in"], output_tokens=measured["tokens_out"])
                if known
                else None,
                cost_usd=measured["cost_usd"],
                ignored=tuple(measured["ignored"]),
                flags=tuple(measured.get("flags", ())),
            ),
            context_hits=data["context_hits"],
            prompt=data["prompt"],
            prompt_sha256=data["prompt_sha256"],
            context_tokens=measured["context_tokens"],
            times_us=entry.times_us,
        )


def item_key(owner: str, phase: Phase, item: Item, epoch: int = 1) -> Key:
    """Return the key of an item's journal rows for a phase; ``owner`` is the key of a lane or job."""
    return Key(owner=owner, phase=phase, corpus=item.corpus, unit=item.id, epoch=epoch)


def phase_row(
    key: Key,
    result: SearchResult | AnswerResult | None,
    failure: Failure | None,
    *,
    times_us: Mapping[str, int] | None = None,
    calls: tuple[Call, ...] = (),
) -> JournaledPhase:
    """Return the journal row of a search or an answer.

    If ``result`` is None, the times come from ``times_us``, otherwise from ``result``.
    """
    return JournaledPhase(
        key=key,
        outcome=OK if failure is None else failure.kind,
        message="" if failure is None else failure.message,
        data=result.data if result else {},
        measured=result.measured if result else {},
        payloads=result.payloads if result else {},
        times_us=result.times_us if result else times_us or {},
        calls=calls,
    )


def _hit_to_json(hit: Hit) -> dict[str, object]:
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


def _hit_from_json(shown: Mapping[str, Any]) -> Hit:
    when = shown.get("when")
    return Hit(
        id=shown["id"],
        content=shown["content"],
        score=shown.get("score"),
        when=datetime.fromisoformat(when) if when else None,
        chunks=tuple(shown.get("chunks", ())),
        metadata=shown.get("metadata", {}),
    )


REDACTED_HITS = "hits_redacted"
"""flag of a search: a secret was redacted in its hits"""
TEXTS = ("text", "raw", "reasoning", "model", "fingerprint", "native_finish")
"""the text fields of a completion whose content comes from the endpoint"""
_texts_of = attrgetter(*TEXTS)


def hits_without_secrets(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Return the hits with every known secret redacted; the same tuple if they contain no secret."""
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
            metadata=redactor.hide_in(hit.metadata),
        )
        for hit in hits
    )


def completion_without_secrets(reply: Completion) -> Completion:
    """Return the completion with every known secret redacted, in all its text fields."""
    if not redactor.knows_any:
        return reply
    if not redactor.holds_secret("\n".join(map(str, _texts_of(reply)))):
        return reply
    texts = {name: text for name in TEXTS if isinstance(text := getattr(reply, name), str)}
    return replace(reply, **{name: redactor.hide(text) for name, text in texts.items()})  # type: ignore[arg-type]
