"""Notes on how the answers of a job ended: what a reader must know before the number is used.

Example::

    await answer_notes(reader, record, counts.error_kinds)     # ["3 answers refused by the endpoint's filter"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.errors import NoAnswer, Truncated
from bench.journal import Reader
from bench.journal.records import Flagged
from bench.model import Phase
from bench.plan.record import JobRecord

MIN_CUT_PROMPTS = 3
"""of fewer, a small share may be the tokenizer's"""
WINDOW = (
    "the endpoint's context window is smaller than the prompt (Ollama: raise num_ctx), "
    "or set context for the model in configs/models"
)


async def answer_notes(reader: Reader, record: JobRecord, error_kinds: Mapping[str, int]) -> list[str]:
    """Return one sentence per thing that happened to answers or verdicts of a job."""
    if record.models.answering is None:
        return []
    answers = await reader.flagged(record.answer_owner, Phase.ANSWER)
    verdicts = await reader.flagged(record.key, Phase.EVALUATE)
    return [*_ended(answers, error_kinds), *_unreadable(answers, verdicts), *_cut_prompts(answers, verdicts)]


def _ended(answers: Sequence[Flagged], error_kinds: Mapping[str, int]) -> list[str]:
    scored = [one for one in answers if one.outcome == "ok"]
    cut, refused, empty = (_count(scored, flag) for flag in ("cut", "refused", "empty"))
    silent, other = error_kinds.get(Truncated.kind, 0), error_kinds.get(NoAnswer.kind, 0)
    found = []
    if cut:
        found.append(f"{_answers(cut)} cut at the token limit and scored as sent; raise --max-answer-tokens")
    if silent:
        found.append(
            f"{_items(silent)} without an answer: the token limit was reached before one began (finish length); "
            "raise --max-answer-tokens"
        )
    if other:
        found.append(
            f"{_items(other)} without an answer: the reply has no text beside reasoning or tool calls (no_answer)"
        )
    if refused:
        found.append(f"{_answers(refused)} refused by the endpoint's filter")
    if empty:
        found.append(f"{_answers(empty)} empty although the model stopped by itself; an empty answer is never correct")
    return found


def _unreadable(answers: Sequence[Flagged], verdicts: Sequence[Flagged]) -> list[str]:
    return [
        f"the usage of {named} cannot be read (a count is not a whole number): "
        "tokens are estimated, the price is unknown"
        for count, named in _named(answers, verdicts, "usage_unreadable")
        if count
    ]


def _cut_prompts(answers: Sequence[Flagged], verdicts: Sequence[Flagged]) -> list[str]:
    found = []
    flagged = [one for one in answers if "prompt_cut" in one.flags]
    count = sum(one.count for one in flagged)
    if count >= MIN_CUT_PROMPTS:
        sent, read = (
            round(sum(each) / count) for each in zip(*((a.sent_tokens, a.tokens_in) for a in flagged), strict=True)
        )
        found.append(
            f"the endpoint read only a part of the prompt of {_answers(count)}: {read} tokens on average by its own "
            f"count, about {sent} were sent; {WINDOW}"
        )
    judged = _count(verdicts, "prompt_cut")
    if judged >= MIN_CUT_PROMPTS:
        found.append(f"the judge's endpoint read only a part of the prompt of {_items(judged)}; {WINDOW}")
    return found


def _named(answers: Sequence[Flagged], verdicts: Sequence[Flagged], flag: str) -> list[tuple[int, str]]:
    told, judged = _count(answers, flag), _count(verdicts, flag)
    return [(told, _answers(told)), (judged, f"{judged} verdict{'s' if judged != 1 else ''}")]


def _count(flagged: Sequence[Flagged], flag: str) -> int:
    return sum(one.count for one in flagged if flag in one.flags)


def _answers(count: int) -> str:
    return f"{count} answer{'s' if count != 1 else ''}"


def _items(count: int) -> str:
    return f"{count} item{'s' if count != 1 else ''}"
