"""Draw the sample of answers that people label. Answers are grouped by verdict and by doubt, and some are drawn from
each group.

Example::

    sample = await draw_sample(reader, jobs, n=50, seed=0)     # journaled as an event, then written as a TSV

All jobs that differ only in their judge share the sample. An answer is doubtful in three cases:

* The judge gave no verdict, or a partial verdict.
* A comparison of texts disagrees: an answer judged wrong contains the expected answer, or an answer judged right does
  not.
* The answer has different verdicts from different judges, or from different scorings by one judge.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bench.journal import Reader
from bench.journal.records import ItemRecord
from bench.metrics import score
from bench.plan.job_record import RESCORED, JobRecord
from bench.report.judges.panel import item_texts
from bench.report.judges.review import NO_TYPE, AnswerKey, ReviewSample, SampledAnswer, verdicts_of
from bench.stats import allocation

DOUBT_WEIGHT = 2.0
"""ratio of the sampling weight of a doubtful answer to that of a clear answer"""
DIFFER = "judges differ"


def stratum_of(verdicts: Collection[bool | None], *, doubtful: bool) -> str:
    """Return the name of an answer's stratum (group for sampling).

    The name is ``judges differ`` if the verdicts differ. Otherwise the name is the shared verdict, followed by
    ``, doubtful`` if ``doubtful`` is true.
    """
    if len(set(verdicts)) > 1:
        return DIFFER
    (verdict,) = set(verdicts)
    name = {True: "judged right", False: "judged wrong", None: "no verdict"}[verdict]
    return f"{name}, doubtful" if doubtful else name


def weight_of(stratum: str) -> float:
    """Return the sampling weight of an answer in a stratum; an answer that is not doubtful has weight 1."""
    return DOUBT_WEIGHT if stratum == DIFFER or stratum.endswith("doubtful") else 1.0


async def draw_sample(reader: Reader, jobs: Sequence[JobRecord], *, n: int, seed: int) -> ReviewSample:
    """Draw ``n`` answers at random. They are spread over the strata, which are groups of answers with similar verdicts.

    If the seed is equal, a larger sample contains all answers of a smaller sample.
    """
    owner = jobs[0].answer_owner
    answers = await _judged_answers(reader, jobs)
    groups: dict[str, list[AnswerKey]] = {}
    for key, one in sorted(answers.items()):
        groups.setdefault(stratum_of(one.verdicts, doubtful=one.doubtful), []).append(key)
    names = sorted(groups)
    counts = allocation([len(groups[name]) for name in names], [weight_of(name) for name in names], n) if names else []
    drawn: list[SampledAnswer] = []
    for at, (name, count) in enumerate(zip(names, counts, strict=True)):
        chance, group = random.Random(f"{seed}/{owner}/{name}"), groups[name]
        mixed = chance.sample(group, len(group))
        drawn += [SampledAnswer(key, at, answers[key].question_type) for key in mixed[:count]]
    return ReviewSample(
        answers=owner,
        seed=seed,
        n=n,
        strata=tuple(
            (name, len(groups[name]), _mean([v for key in groups[name] for v in answers[key].verdicts]))
            for name in names
        ),
        drawn=tuple(drawn),
    )


def _mean(verdicts: Sequence[bool | None]) -> float:
    return sum(0.5 if one is None else float(one) for one in verdicts) / len(verdicts)


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """The newest verdicts of all judges on one answer."""

    verdicts: tuple[bool | None, ...]
    doubtful: bool
    question_type: str


async def _judged_answers(reader: Reader, jobs: Sequence[JobRecord]) -> dict[AnswerKey, JudgedAnswer]:
    """Return answer -> verdicts of all judges, for each answer with a verdict."""
    generations = range(1 + len(await reader.events(RESCORED)))
    newest = [await verdicts_of(reader, record) for record in jobs]
    scorings = [await verdicts_of(reader, record, generation) for record in jobs for generation in generations]
    found: dict[AnswerKey, JudgedAnswer] = {}
    for record in jobs:
        async for item in reader.items(record.chain):
            key = AnswerKey(item.corpus, item.item, item.epoch)
            verdicts = tuple(some[key] for some in newest if key in some)
            judged = next((one for one in item.verdicts if one.judged), None)
            if judged is None:
                continue
            doubtful = judged.correct is None or (judged.value is not None and 0 < judged.value < 1)
            doubtful = doubtful or len({some[key] for some in scorings if key in some}) > 1
            doubtful = doubtful or (key in found and found[key].doubtful)
            doubtful = doubtful or await _text_match_differs(reader, item, bool(judged.correct))
            found[key] = JudgedAnswer(verdicts, doubtful, item.labels.get("question_type", NO_TYPE))
    return found


async def _text_match_differs(reader: Reader, item: ItemRecord, judged: bool) -> bool:
    words = await item_texts(reader, item)
    expected = words["expected"].split(" | ")
    held = any(score("contains_match", prediction=words["answer"], reference=one) for one in expected)
    return held != judged
