"""Write notes on a job: facts that change the meaning of its score, such as cut or refused answers.

``gold_scores`` computes each score with and without the items of the overlay. An overlay is a file that lists items
with doubtful gold answers.

Example::

    await answer_notes(reader, record, counts.error_kinds)     # ["3 answers refused by the endpoint's filter"]
    found = await gold_scores(reader, record, metrics)
    found["accuracy"].raw, found["accuracy"].corrected, found["accuracy"].ceiling

A corrected score leaves out the items with doubtful gold answers. But an item is included if the overlay has a
corrected answer for it and the run was scored again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from json import dumps
from typing import TypedDict

from bench.errors import NoAnswer, Truncated
from bench.evaluators.deterministic import NO_CHOICE
from bench.journal import Event, Reader
from bench.journal.records import FlaggedItems, UsageTotals, cause_texts
from bench.journal.rows import CIRCUIT_BREAKER, RESET, STOPPED
from bench.metrics.overlay import GoldScores
from bench.metrics.protocol import Measure
from bench.model import Phase
from bench.models.faulty_answers import (
    AS_JSON,
    CONTRADICTS,
    CUT_JSON,
    ECHO,
    ERROR_TEXT,
    IN_NUMBER,
    NO_VALUE,
    ODD,
    OTHER_MARKS,
    QUOTES,
    TAKEN_BACK,
    TEMPLATE,
    TOOL_CALL_TEXT,
)
from bench.models.reply import BATCHED, CACHED, PROMPT_CACHED, UNSENT
from bench.models.streams import AFTER_FINISH
from bench.plan.job_record import JobRecord
from bench.untyped_values import Json, whole_number
from bench.visible_text import counted, money_text

MIN_CUT_PROMPTS = 3
"""minimum number of cut prompts to report; fewer may only show that two tokenizers count differently"""
WINDOW_HINT = (
    "the endpoint's context window is smaller than the prompt: enlarge it (Ollama: num_ctx), "
    "or set context for the model in configs/models"
)


UNFINISHED: Mapping[str, str] = {
    "cut": "cut at the token limit and scored as sent; raise --max-answer-tokens",
    "window_full": "cut because the model's context window was full, and scored as sent; lower --context-budget, or "
    "choose a model with a larger window",
    Truncated.kind: "without an answer: the token limit was reached before the answer began (finish length); raise "
    "--max-answer-tokens",
    NoAnswer.kind: "without an answer: the reply has no text except reasoning or tool calls, or its text is not an "
    "answer, such as an error message or null (no_answer)",
    "at_limit": "as long as the token limit, although the endpoint reports that (it|they) ended by "
    "(itself|themselves) (finish "
    "stop), and scored as sent: (it|they) may be cut; raise --max-answer-tokens",
    "no_finish": "without a finish reason, and scored as sent: the endpoint does not report whether it was cut",
    "other_finish": "with a finish reason that does not mean a complete answer (such as pause_turn or OTHER), and "
    "scored as sent: (it|they) may be incomplete",
}
WITHOUT_TEXT: Mapping[str, str] = {
    "refused": "refused by the endpoint's filter",
    "empty": "empty, although the model stopped by itself; an empty answer is never correct",
}
"""flag or error kind of an answer without text -> its description in the note"""
SUSPICIOUS_ANSWERS: Mapping[str, str] = {
    TOOL_CALL_TEXT: "that (is|are) only a tool call, written as text, and scored as sent: no tool was offered; switch "
    "tools off at the endpoint, or choose another model",
    ERROR_TEXT: "that (begins|begin) like an error message, and scored as sent: perhaps the endpoint "
    "returns errors as answers",
    NO_VALUE: "that (is|are) a placeholder such as N/A or None, and scored as sent",
    TEMPLATE: "that (contains|contain) a part of a prompt template, such as {{question}} or [INST], and "
    "scored as sent: "
    "check the prompt and the chat template of the server",
    TAKEN_BACK: "that (corrects itself|correct themselves) (Wait, actually ...), and scored as sent: "
    "metrics that look for a text "
    "also see the part before the correction",
    ECHO: "that (repeats|repeat) the question, and scored as sent: perhaps the endpoint returns its input",
    AS_JSON: "that (is|are) a JSON object, and scored as sent: metrics see its keys and braces, and do not see a "
    "refusal in it",
    CUT_JSON: "that (is|are) JSON without its end, and scored as sent: the endpoint stopped early "
    "without reporting it; raise --max-answer-tokens, or check its stop sequences",
    AFTER_FINISH: "from (a stream|streams) that continued after (its|their) finish: the later text is not "
    "used; perhaps the server "
    "writes the next turn too",
    OTHER_MARKS: "that (contains|contain) the gold in another spelling (quotes, dashes, bold words, "
    "markup, digits of another "
    "script, 1,200 for 1200, 12.50 for 12.5, three for 3, "
    "3 km for 3km, another form of a date, yes for true, parts in another order): "
    "rules that compare texts, such as contains, count (it|them) as wrong; a judge does not",
    QUOTES: "that (repeats|repeat) most of their context word for word: rules that look for a text, such "
    "as contains, find the "
    "gold in the repeated text; request a short answer in the prompt",
    CONTRADICTS: "that (contains|contain) the gold only after a word such as not, or only before another "
    "final answer, or in a "
    "refusal: rules that look for a text, such as contains, count (it|them) as right; a judge does not",
    IN_NUMBER: "that (contains|contain) the gold only as a part of a number with spaces (200 in 1 200): "
    "rules that look for a "
    "text, such as contains, count (it|them) as right; a judge does not",
    ODD: "that (contains|contain) hidden, look-alike or decomposed characters, so an equal gold may not match",
}
"""flag of a suspicious answer -> its description in the note"""


def event_notes(events: Sequence[Event], error_kinds: Mapping[str, int], *, pending: bool) -> list[str]:
    """Return the messages of the events of a job.

    Messages that differ only in names are one note. The message of a stop is left out if a resume has completed the
    job, unless an item has failed for the reason of the stop.
    """
    standing = [event for event in events if event.message and (pending or not _is_repaired(event, error_kinds))]
    resets = [event for event in standing if event.kind == RESET]
    others = {event.message: event for event in standing if event.kind != RESET or len(resets) == 1}
    causes = cause_texts((text, str(event.data.get("corpus", "")), "") for text, event in others.items())
    times = Counter(causes.values())
    found = [text if count == 1 else f"{text} ({count} times)" for text, count in times.items()]
    if len(resets) > 1:
        sent = sum(whole_number(event.data.get("again")) or 0 for event in resets)
        cost = f", including {counted(sent, 'acknowledged memor(y|ies)')}" if sent else ""
        found.append(f"an ingest was abandoned and begun again {len(resets)} times{cost}")
    return found


BILLING_ROLES = {"answering": "answering model", "judge": "judge", "embedding": "embedding model"}
"""role of a model whose vendor may bill a call that timed out -> its description in the note"""


def timeout_notes(usage: Mapping[str, UsageTotals]) -> list[str]:
    """Return a note for each model that did not respond to some calls in time.

    A model whose calls are known to cost nothing gets no note.
    """
    return [
        f"{counted(one.timeouts, f'call(|s) of the {text}')} timed out: the vendor may bill "
        f"{'it' if one.timeouts == 1 else 'them'}, but the cost is unknown and not included"
        for role, text in BILLING_ROLES.items()
        if (one := usage.get(role)) is not None and one.timeouts and (float(one.cost_usd) or one.unknown_costs)
    ]


def _is_repaired(event: Event, error_kinds: Mapping[str, int]) -> bool:
    reason = event.kind.removeprefix(STOPPED)
    if reason == event.kind:
        return False
    return not error_kinds if reason == CIRCUIT_BREAKER else reason not in error_kinds


async def answer_notes(reader: Reader, record: JobRecord, error_kinds: Mapping[str, int]) -> list[str]:
    """Return notes on unusual answers and verdicts of a job, such as cut, refused, empty or cached replies."""
    if record.models.answering is None:
        return []
    answers = await reader.flagged(record.answer_owner, Phase.ANSWER)
    verdicts = await reader.flagged(record.key, Phase.EVALUATE)
    return [
        *_finish_notes(answers, error_kinds),
        *_unreadable_choice_notes(verdicts),
        *(
            f"the usage of {named} cannot be read (a count is not a whole number): tokens are estimated, the price is "
            "unknown"
            for named in _counts_by_kind(answers, verdicts, "usage_unreadable")
        ),
        *_cut_prompt_notes(answers, verdicts),
        *_cut_hit_notes(answers),
        *cached_notes(answers, verdicts),
        *_unsent_notes(record, answers, verdicts),
        *_vendor_saving_notes(answers, verdicts),
    ]


async def request_notes(reader: Reader, record: JobRecord) -> list[str]:
    """Return notes on replies that came from the call cache, and on planned settings that a model rejected."""
    answers = await reader.flagged(record.answer_owner, Phase.ANSWER)
    verdicts = await reader.flagged(record.key, Phase.EVALUATE)
    return [*cached_notes(answers, verdicts), *_unsent_notes(record, answers, verdicts)]


def _unsent_notes(
    record: JobRecord, answers: Sequence[FlaggedItems], verdicts: Sequence[FlaggedItems]
) -> Iterator[str]:
    """Yield a note for each setting of the plan that a model rejected."""
    for role, model, flagged, noun in (
        ("answering", record.models.answering, answers, "answer(|s)"),
        ("judge", record.models.judge, verdicts, "item(|s)"),
    ):
        planned = dumps(record.asked_with.get(role, {}))
        for name in ("temperature", "seed"):
            count = _count(flagged, UNSENT + name)
            if count and f'"{name}"' in planned:
                yield f"{model} rejects the setting {name}: it was not sent for {counted(count, noun)}"


def cached_notes(answers: Sequence[FlaggedItems], verdicts: Sequence[FlaggedItems]) -> list[str]:
    """Return a note with the number of replies that came from the call cache, or [] if there are no such replies."""
    found = [one for one in (*answers, *verdicts) if CACHED in one.flags]
    if not found:
        return []
    counts = " and ".join(_counts_by_kind(answers, verdicts, CACHED))
    tokens = sum(one.tokens_in + one.tokens_out for one in found)
    known = [one.saved_usd for one in found if one.saved_usd is not None]
    money = f" (USD {money_text(math.fsum(known))})" if known else ""
    return [f"{counts} from the call cache: {tokens:,} tokens{money} not paid again; they have no latency"]


def _vendor_saving_notes(answers: Sequence[FlaggedItems], verdicts: Sequence[FlaggedItems]) -> list[str]:
    """Return a note on the money that was saved by batches and by the vendor's prompt cache.

    The result is empty if neither was used.
    """
    found = [one for one in (*answers, *verdicts) if CACHED not in one.flags]
    saved = math.fsum(one.saved_usd for one in found if one.saved_usd is not None)
    ways = {PROMPT_CACHED: "the vendor's prompt cache was used for", BATCHED: "batches were used for"}
    parts = [
        f"{way} {' and '.join(_counts_by_kind(answers, verdicts, flag))}"
        for flag, way in ways.items()
        if any(flag in one.flags for one in found)
    ]
    if not parts:
        return []
    money = f": USD {money_text(abs(saved))} {'saved' if saved > 0 else 'more'}" if saved else ""
    waited = "; their latency is not counted" if BATCHED in {flag for one in found for flag in one.flags} else ""
    return [" and ".join(parts) + money + waited]


def _finish_notes(answers: Sequence[FlaggedItems], error_kinds: Mapping[str, int]) -> list[str]:
    scored = [one for one in answers if one.outcome == "ok"]

    def notes(texts: Mapping[str, str]) -> list[str]:
        counts = {key: error_kinds.get(key, 0) or _count(scored, key) for key in texts}
        nouns = {key: "item(|s)" if key in error_kinds else "answer(|s)" for key in texts}
        return [counted(counts[key], f"{nouns[key]} {text}") for key, text in texts.items() if counts[key]]

    return [*notes(UNFINISHED), *_suspicious_answer_notes(scored), *notes(WITHOUT_TEXT)]


def _suspicious_answer_notes(answers: Sequence[FlaggedItems]) -> list[str]:
    """Return one note per kind of suspicious answer, with the number of such answers and an example."""
    found = []
    for flag, text in SUSPICIOUS_ANSWERS.items():
        if count := _count(answers, flag):
            example = min(one.item for one in answers if flag in one.flags)
            found.append(f"{counted(count, f'answer(|s) {text}')} (such as {example})")
    return found


def _unreadable_choice_notes(verdicts: Sequence[FlaggedItems]) -> list[str]:
    count = _count(verdicts, NO_CHOICE)
    if not count:
        return []
    example = min(one.item for one in verdicts if NO_CHOICE in one.flags)
    return [
        f"{counted(count, 'answer(|s)')} without a readable option, or with more than one, counted as wrong "
        f"(such as {example}): bench export shows them; request only the letter in the prompt"
    ]


def _cut_prompt_notes(answers: Sequence[FlaggedItems], verdicts: Sequence[FlaggedItems]) -> list[str]:
    found = []
    flagged = [one for one in answers if "prompt_cut" in one.flags]
    count = sum(one.count for one in flagged)
    if count >= MIN_CUT_PROMPTS:
        sent, read = (
            round(sum(each) / count) for each in zip(*((a.sent_tokens, a.tokens_in) for a in flagged), strict=True)
        )
        found.append(
            f"the endpoint read only a part of the prompt of {counted(count, 'answer(|s)')}: on average, "
            f"it counts {read} "
            f"tokens, but about {sent} were sent; {WINDOW_HINT}"
        )
    judged = _count(verdicts, "prompt_cut")
    if judged >= MIN_CUT_PROMPTS:
        found.append(
            f"the judge's endpoint read only a part of the prompt of {counted(judged, 'item(|s)')}; {WINDOW_HINT}"
        )
    return found


def _cut_hit_notes(answers: Sequence[FlaggedItems]) -> list[str]:
    found = [one for one in answers if "hit_cut" in one.flags]
    if not found:
        return []
    count, example = counted(_count(found, "hit_cut"), "answer(|s)"), min(one.item for one in found)
    return [
        f"the best memory did not fit into the prompt of {count} (such as {example}): only its beginning was sent, or "
        "nothing; raise --context-budget, or lower --max-answer-tokens if the context of the model is small"
    ]


def _counts_by_kind(answers: Sequence[FlaggedItems], verdicts: Sequence[FlaggedItems], flag: str) -> list[str]:
    counts = ((_count(answers, flag), "answer(|s)"), (_count(verdicts, flag), "verdict(|s)"))
    return [counted(count, noun) for count, noun in counts if count]


def _count(flagged: Sequence[FlaggedItems], flag: str) -> int:
    return sum(one.count for one in flagged if flag in one.flags)


CORRECTED = "corrected"
ANSWER = "answer"


async def gold_scores(reader: Reader, record: JobRecord, metrics: Sequence[Measure]) -> dict[str, GoldScores]:
    """Return for each answer metric its score with all items, and its score without the items whose gold answer is
    doubtful.

    A metric is left out if a value is outside 0..1 or if a lower value is better. The result is empty if the benchmark
    has no overlay (file of doubtful gold answers).
    """
    if record.overlay is None:
        return {}
    names = [metric.name for metric in metrics if metric.category == ANSWER and not metric.lower_is_better]
    values = await _values(reader, record, names)
    rescored = await _corrected_values(reader, record)
    return {
        name: GoldScores.of(
            values[name], record.suspects, {item: by_name.get(name) for item, by_name in rescored.items()}
        )
        for name in names
        if values[name] and all(0 <= value <= 1 for value in values[name].values())
    }


async def _values(reader: Reader, record: JobRecord, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return metric -> item -> mean of the item's values over all epochs."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    async for batch in reader.values(record.key):
        for name in names:
            for item, value in zip(batch.items, batch.values.get(name, ()), strict=False):
                if not math.isnan(value):
                    found[name].setdefault(item, []).append(value)
    return {name: {item: math.fsum(some) / len(some) for item, some in items.items()} for name, items in found.items()}


async def _corrected_values(reader: Reader, record: JobRecord) -> dict[str, Mapping[str, float]]:
    """Return item -> metric -> value of the item from a rescore with the corrected gold answer of the overlay.

    Items without such a rescore are left out.
    """
    found: dict[str, Mapping[str, float]] = {}
    for item in record.suspects:
        for one in await reader.item(record.chain, item):
            scored = one.phases.get(Phase.EVALUATE)
            corrected = None if scored is None else scored.data.get(CORRECTED)
            if isinstance(corrected, Mapping):
                found[item] = {str(name): float(value) for name, value in corrected.items() if value is not None}
    return found


class GoldSection(TypedDict, total=False):
    """The report's section on doubtful gold answers."""

    gold: Json


def gold_json(record: JobRecord, scores: Mapping[str, GoldScores]) -> GoldSection:
    """Return the report's section on doubtful gold answers; empty if the job has no overlay."""
    if record.overlay is None:
        return {}
    about = {"overlay": record.overlay.name, "sha256": record.overlay.sha256, "source": record.overlay.source}
    metrics = {name: {**asdict(one), "above_ceiling": one.above_ceiling} for name, one in scores.items()}
    return {"gold": {**about, "n_listed": len(record.suspects), "metrics": metrics}}


def gold_notes(scores: Mapping[str, GoldScores]) -> list[str]:
    """Return one note per metric on the effect of doubtful gold answers.

    The note has the raw score, the corrected score and the highest possible score (ceiling). It also reports a raw
    score above the ceiling.
    """
    found = []
    for name, one in scores.items():
        labels = counted(one.n_listed, "questionable label(|s)")
        corrected, ceiling = _four_decimals(one.corrected), _four_decimals(one.ceiling)
        text = f"{name} raw {one.raw or 0.0:.4f}, corrected {corrected}, ceiling {ceiling}"
        above = "; the raw score is above the ceiling" if one.above_ceiling else ""
        found += [f"{text} ({labels}){above}"] if one.raw is not None else []
    return found


def _four_decimals(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
