"""Drawing the answers that people label: at random within strata of verdict and doubt.

Example::

    sample = await draw(reader, record, n=50, seed=0)       # journaled as an event, then written as a TSV

A verdict is doubtful where the judge gave none or a partial one, where the expected answer is in an answer that it
calls wrong or absent from one that it calls right, and where another scoring of the same answer gave another one.
"""

from __future__ import annotations

import random

from bench.journal import Reader
from bench.journal.records import ItemRecord
from bench.metrics import score
from bench.plan.job_record import JobRecord
from bench.report.panel import words_of
from bench.report.review import NO_TYPE, RESCORED, AnswerKey, Drawn, ReviewSample
from bench.stats import allocation

DOUBT_WEIGHT = 2.0
"""a doubtful answer gets so many times the labels of a clear one"""


async def draw(reader: Reader, record: JobRecord, *, n: int, seed: int) -> ReviewSample:
    """Draw n answers at random within strata; the same seed draws the same ones."""
    groups: dict[tuple[bool | None, bool], list[tuple[AnswerKey, str]]] = {}
    rescored = sum(event.kind == RESCORED for _, event in await reader.events())
    others = await _verdicts(reader, record, rescored)
    async for item in reader.items(record.chain):
        judged = next((one for one in item.verdicts if one.judged), None)
        if judged is None:
            continue
        key = AnswerKey(item.corpus, item.item, item.epoch)
        unsure = judged.correct is None or (judged.value is not None and 0 < judged.value < 1)
        doubtful = unsure or others.get(key, {judged.correct}) != {judged.correct}
        doubtful = doubtful or await _rule_differs(reader, item, bool(judged.correct))
        groups.setdefault((judged.correct, doubtful), []).append((key, item.labels.get("question_type", NO_TYPE)))
    ordered = sorted(groups.items(), key=lambda group: (str(group[0][0]), group[0][1]))
    weights = [DOUBT_WEIGHT if doubtful else 1.0 for (_, doubtful), _ in ordered]
    counts = allocation([len(group) for _, group in ordered], weights, n) if ordered else []
    chance = random.Random(f"{seed}/{record.answer_owner}")
    drawn: list[Drawn] = []
    for at, (((judged_right, _), group), count) in enumerate(zip(ordered, counts, strict=True)):
        drawn += [Drawn(key, at, judged_right, kind) for key, kind in chance.sample(sorted(group), count)]
    return ReviewSample(
        job=record.key,
        answers=record.answer_owner,
        seed=seed,
        n=n,
        generation=rescored,
        strata=tuple((_name(*name), len(group), _number(name[0])) for name, group in ordered),
        drawn=tuple(drawn),
    )


def _name(judged: bool | None, doubtful: bool) -> str:
    verdict = {True: "judged right", False: "judged wrong", None: "no verdict"}[judged]
    return f"{verdict}, doubtful" if doubtful else verdict


def _number(judged: bool | None) -> float:
    return 0.5 if judged is None else float(judged)


async def _verdicts(reader: Reader, record: JobRecord, rescored: int) -> dict[AnswerKey, set[bool | None]]:
    """The verdicts of every scoring of the job."""
    found: dict[AnswerKey, set[bool | None]] = {}
    for generation in range(rescored + 1):
        for one in await reader.judged(record.key, generation):
            found.setdefault(AnswerKey(one.corpus, one.item, one.epoch), set()).add(one.correct)
    return found


async def _rule_differs(reader: Reader, item: ItemRecord, judged: bool) -> bool:
    words = await words_of(reader, item)
    expected = words["expected"].split(" | ")
    held = any(score("contains_match", prediction=words["answer"], reference=one) for one in expected)
    return held != judged
