"""Find warning signs in a finished job, such as the same answer to many different questions.

Example::

    [sign.text for sign in await sanity_signs(reader, record, facts)]
    # ['the same answer ("42") to 38 of 40 items that were looked at, whose golds differ (q1, q2, q3): ...']

At most 120 items from four corpora are compared. A job with few items gets no warning signs. The hits of a control,
such as oracle, are not checked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.config.builtin_providers import is_control
from bench.journal import Reader
from bench.journal.pages import EndedItem, ended_from, payloads_of
from bench.metrics.answers.text_normalization import words
from bench.metrics.fold_input import JobFacts
from bench.model import Phase, State
from bench.models.faulty_answers import form_of
from bench.plan.job_record import JobRecord
from bench.plan.validity import is_judged
from bench.untyped_values import whole_number
from bench.visible_text import counted

SAMPLE_ITEMS = 120
SAMPLE_CORPORA = 4
MIN_ITEMS = 20
MIN_SEARCHES = 10
MIN_CORPUS = 4
"""minimum number of searches in a corpus to report that all searches have equal hits"""
EXAMPLES = 3
WRONG_SHARE = 0.4
CONTRARY_SHARE = 0.2
SAME_SHARE = 0.9
MIN_CONTRARY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningSign:
    """A suspicious property that many of the checked items share."""

    kind: str
    what: str
    count: int
    of: int
    items: Sequence[str]
    hint: str

    @property
    def text(self) -> str:
        """A sentence on the property, with the number of items and some examples."""
        some = ", ".join(dict.fromkeys(self.items[:EXAMPLES]))
        return f"{self.what} in {self.count} of {counted(self.of, 'checked item(|s)')} ({some}): {self.hint}"


async def sanity_signs(reader: Reader, record: JobRecord, facts: JobFacts) -> list[WarningSign]:
    """Check a sample of the ended items of a job, and return a warning sign for each suspicious property."""
    names = sorted({one.corpus for one in facts.corpora}) or [""]
    starts = ["", *names[len(names) // SAMPLE_CORPORA :: max(1, len(names) // SAMPLE_CORPORA)]][:SAMPLE_CORPORA]
    found = await ended_from(reader, record.chain, starts, SAMPLE_ITEMS // len(starts))
    found = [one for one in found if one.epoch == 1 and one.outcome == "ok"]
    signs: list[WarningSign | None] = []
    if not is_control(record.provider):
        signs += [_same_hits(await _search_results(reader, found)), _same_hit_count(found, facts), _late_hits(found)]
    if record.models.answering is not None:
        golds = _GoldAnswers(reader, found)
        signs += [await _same_answer(found, golds)]
        signs += (
            [await _same_verdict(found, golds), await _contrary_verdicts(found, golds)] if is_judged(record) else []
        )
    return [one for one in signs if one is not None]


class _GoldAnswers:
    """Reads the gold answers of items when they are first needed."""

    def __init__(self, reader: Reader, items: Sequence[EndedItem]) -> None:
        self._reader = reader
        self._items = items

    async def read(self) -> Mapping[str, tuple[str, ...]]:
        """Return item id -> gold answers that are accepted for the item."""
        entries = {
            one.phases[Phase.EVALUATE].last.entry: one.item for one in self._items if Phase.EVALUATE in one.phases
        }
        shown = await payloads_of(self._reader, list(entries), "item")
        return {
            entries[entry]: tuple(str(gold) for gold in item.get("answers", ()))
            for entry, item in shown.items()
            if isinstance(item, Mapping)
        }


# ------------------------------------------------------------------------ answers and verdicts


def _answer(item: EndedItem) -> str:
    answered = item.phases.get(Phase.ANSWER)
    return "" if answered is None else str(answered.data.get("answer") or "")


async def _same_answer(found: Sequence[EndedItem], golds: _GoldAnswers) -> WarningSign | None:
    """Return a sign if most items have the same answer although their gold answers differ."""
    forms = {one.item: form_of(_answer(one)) for one in found if one.state != State.ABSTAINED and _answer(one).strip()}
    if len(forms) < MIN_ITEMS:
        return None
    (form, count), *_ = Counter(forms.values()).most_common(1)
    if 2 * count <= len(forms):
        return None
    known = await golds.read()
    same = [item for item, one in forms.items() if one == form]
    wrong = [item for item in same if known.get(item) and not any(form == form_of(gold) for gold in known[item])]
    if len(wrong) <= WRONG_SHARE * len(forms) or len({known[item] for item in wrong}) < 2:
        return None
    return WarningSign(
        kind="same_answer",
        what=f'the same answer ("{form[:60]}")',
        count=count,
        of=len(forms),
        items=wrong,
        hint="their golds differ; check that the model receives question and memories, and that no other "
        "program answers",
    )


async def _same_verdict(found: Sequence[EndedItem], golds: _GoldAnswers) -> WarningSign | None:
    """Return a sign if all answers have the same verdict, but several answers clearly deserve the other verdict."""
    judged = _judged_answers(found)
    if len(judged) < MIN_ITEMS or len({correct for correct, _ in judged.values()}) > 1:
        return None
    right = next(correct for correct, _ in judged.values())
    known = await golds.read()
    contrary = [
        item
        for item, (_, answer) in judged.items()
        if known.get(item) and _contains_gold(answer, known[item]) is not right
    ]
    if len(contrary) <= CONTRARY_SHARE * len(judged):
        return None
    shows = "do not share a word with their gold" if right else "contain their gold word for word"
    values = {one.verdicts[0].value for one in found if one.item in judged}
    verdict = "correct" if right else "incorrect" if values == {0.0} else "not fully correct"
    return WarningSign(
        kind="same_verdict",
        what=f"the same verdict ({verdict}) of the judge",
        count=len(judged),
        of=len(judged),
        items=contrary,
        hint=f"{len(contrary)} of the answers {shows}; --judge-calibration measures the judge",
    )


def _judged_answers(found: Sequence[EndedItem]) -> dict[str, tuple[bool, str]]:
    """Return item -> (the judge's verdict, the answer)."""
    return {
        one.item: (one.verdicts[0].correct, _answer(one))
        for one in found
        if one.verdicts and one.verdicts[0].judged and one.verdicts[0].correct is not None
    }


async def _contrary_verdicts(found: Sequence[EndedItem], golds: _GoldAnswers) -> WarningSign | None:
    """Return a sign if verdicts are inverted: right answers are judged incorrect and wrong answers correct."""
    judged = _judged_answers(found)
    if len(judged) < MIN_ITEMS:
        return None
    known = await golds.read()
    plain: dict[bool, list[str]] = {True: [], False: []}
    contrary: dict[bool, list[str]] = {True: [], False: []}
    for item, (correct, answer) in judged.items():
        holds = _contains_gold(answer, known[item]) if known.get(item) else None
        if holds is not None:
            plain[holds].append(item)
            contrary[holds] += [item] if correct is not holds else []
    if any(len(contrary[holds]) < MIN_CONTRARY or 2 * len(contrary[holds]) <= len(plain[holds]) for holds in plain):
        return None
    return WarningSign(
        kind="contrary_verdicts",
        what="a verdict of the judge that contradicts the answer",
        count=sum(map(len, contrary.values())),
        of=sum(map(len, plain.values())),
        items=[*contrary[True], *contrary[False]],
        hint="answers that contain their gold are judged incorrect, answers without a word of it correct; "
        "perhaps the scale of the judge is inverted; --judge-calibration measures the judge",
    )


def _contains_gold(answer: str, golds: Sequence[str]) -> bool | None:
    """Return True if an answer contains a gold answer, and False if it shares no word with any gold answer.

    If the answer only shares some words with a gold answer, return None.
    """
    answer_words, form = set(words(answer)), form_of(answer)
    if any(gold and form_of(gold) in form for gold in golds):
        return True
    return False if answer_words.isdisjoint(word for gold in golds for word in words(gold)) else None


# ------------------------------------------------------------------------ searches


def _retrieved(item: EndedItem) -> tuple[tuple[str, ...], ...]:
    """Return the evidence ids of each hit of an item.

    The result is empty if there are no hits, or if the hits map to no ids.
    """
    searched = item.phases.get(Phase.SEARCH)
    slots = None if searched is None or not searched.ok else searched.data.get("retrieved")
    return tuple(tuple(map(str, slot)) for slot in slots) if isinstance(slots, list) else ()


Result = tuple[EndedItem, tuple[object, ...]]
"""(item, ids of the item's hits); the text of a hit is used if the hit has no id"""


async def _search_results(reader: Reader, found: Sequence[EndedItem]) -> list[Result]:
    """Return (item, ids of its hits). If the hits of an item have no ids, return their texts instead of the ids.

    Items without hits are left out.
    """
    ids = [(one, _retrieved(one)) for one in found]
    bare = {one.phases[Phase.SEARCH].last.entry: one for one, slots in ids if not slots and Phase.SEARCH in one.phases}
    texts = []
    for entry, hits in (await payloads_of(reader, list(bare), "hits")).items() if bare else ():
        if isinstance(hits, list):
            texts.append((bare[entry], tuple(hit.get("content") for hit in hits if isinstance(hit, Mapping))))
    return [(one, slots) for one, slots in (*ids, *texts) if any(slots)]


def _same_hits(found: Sequence[Result]) -> WarningSign | None:
    """Return a sign if all questions of a corpus got the same hits in the same order."""
    by_corpus: dict[str, list[Result]] = defaultdict(list)
    for result in found:
        by_corpus[result[0].corpus].append(result)
    large_enough = [results for results in by_corpus.values() if len(results) >= MIN_CORPUS]
    same = [one for results in large_enough if len({slots for _, slots in results}) == 1 for one, _ in results]
    total = sum(map(len, large_enough))
    if len(same) < MIN_SEARCHES or len(same) < SAME_SHARE * total:
        return None
    return WarningSign(
        kind="same_hits",
        what="the same hits in the same order as for every other question of the corpus",
        count=len(same),
        of=total,
        items=[one.item for one in same],
        hint="perhaps the service ignores the query, or answers from a cache",
    )


def _same_hit_count(found: Sequence[EndedItem], facts: JobFacts) -> WarningSign | None:
    """Return a sign if most searches found the same number of hits, below k, although more memories are stored."""
    held = {one.corpus: one.memories for one in facts.corpora}
    searched = [(one, one.phases[Phase.SEARCH].data) for one in found if Phase.SEARCH in one.phases]
    sizes = [(one, whole_number(data.get("returned")) or 0) for one, data in searched]
    limits = {whole_number(data.get("requested")) or 0 for _, data in searched}
    if len(searched) < MIN_SEARCHES or len(limits) != 1:
        return None
    returned, (requested,) = max(size for _, size in sizes), limits
    same = [one for one, size in sizes if size == returned]
    if not 0 < returned < requested or len(same) < SAME_SHARE * len(sizes):
        return None
    if any((held.get(one.corpus) or 0) <= returned for one in same):
        return None
    return WarningSign(
        kind="same_count",
        what=(
            f"exactly {counted(returned, 'hit(|s)')}, although {requested} were requested and the corpus "
            f"has more memories,"
        ),
        count=len(same),
        of=len(searched),
        items=[one.item for one in same],
        hint="perhaps the service ignores the limit of the request; metrics at a larger k see only these hits",
    )


def _late_hits(found: Sequence[EndedItem]) -> WarningSign | None:
    """Return a sign if most first hits are evidence of the previous question.

    The service then seems to return each result one question late.
    """
    by_corpus: dict[str, list[tuple[int, EndedItem]]] = defaultdict(list)
    for one in found:
        if any(_retrieved(one)):
            by_corpus[one.corpus].append((one.phases[Phase.SEARCH].last.entry, one))
    own, late, early = 0, list[str](), 0
    total = 0
    for rows in by_corpus.values():
        items = [one for _, one in sorted(rows, key=lambda row: row[0])]
        for at in range(1, len(items) - 1):
            first = set(_retrieved(items[at])[0])
            before, mine, after = (not first.isdisjoint(_gold(items[place])) for place in (at - 1, at, at + 1))
            total += 1
            own += mine
            early += after and not mine
            late += [items[at].item] if before and not mine else []
    if total < MIN_SEARCHES or 2 * len(late) <= total or len(late) < 3 * max(own, early):
        return None
    return WarningSign(
        kind="late_hits",
        what="a first hit that is evidence of the previous question, but not of its own question,",
        count=len(late),
        of=total,
        items=late,
        hint="perhaps a cache or a queue returns the result of an earlier search",
    )


def _gold(item: EndedItem) -> frozenset[str]:
    scored = item.phases.get(Phase.EVALUATE)
    gold = None if scored is None else scored.data.get("gold")
    return frozenset(map(str, gold)) if isinstance(gold, list) else frozenset()
