"""Measure a judge's error from labels by people, and correct the accuracy with these labels.

Example::

    (await read_review(reader, record)).corrected      # CorrectedShare(value=0.71, interval=..., labelled=50)

People label a sample of the answers. The sample and each label are stored in the run's journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.journal import Event, Reader
from bench.plan.job_record import JobRecord
from bench.stats import CorrectedShare, Stratum, cohen_kappa, corrected_share
from bench.untyped_values import Json
from bench.visible_text import counted

SAMPLE, LABEL = "review_sample", "review_label"
NO_TYPE = "(none)"
ID_LENGTH = 12


class AnswerKey(NamedTuple):
    """The key of one answer in a job."""

    corpus: str
    item: str
    epoch: int


Verdicts = Mapping[AnswerKey, bool | None]
"""answer -> verdict of one judge; None if the judge called the answer neither right nor wrong"""


class SampledAnswer(NamedTuple):
    """One answer that was drawn for people to label."""

    key: AnswerKey
    stratum: int
    question_type: str

    def to_json(self) -> list[object]:
        """Return the answer as a row for the journal."""
        return [*self.key, self.stratum, self.question_type]

    @classmethod
    def from_json(cls, row: Sequence[object]) -> SampledAnswer:
        """Parse a row of the journal.

        The verdict in a row of an older version of bench is ignored.
        """
        corpus, item, epoch, stratum, *_, kind = row
        key = AnswerKey(str(corpus), str(item), int(str(epoch)))
        return cls(key, int(str(stratum)), str(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSample:
    """Sampled answers that people label, and the strata (groups) from which the answers were drawn.

    All judges of these answers share the sample. The strata never change, so that the sample can also be used for a
    judge that is added later.
    """

    answers: str
    """key that owns the answer rows in the journal"""
    seed: int
    n: int
    strata: tuple[tuple[str, int, float], ...]
    """(name of the stratum, number of its answers, share of its answers that the judges call right)"""
    drawn: tuple[SampledAnswer, ...]

    def to_event(self) -> Event:
        """Return the sample as an event for the journal."""
        data = {
            "answers": self.answers,
            "seed": self.seed,
            "n": self.n,
            "strata": [list(one) for one in self.strata],
            "drawn": [one.to_json() for one in self.drawn],
        }
        return Event(kind=SAMPLE, scope=self.answers, data=data)

    @classmethod
    def from_event(cls, event: Event) -> ReviewSample:
        """Return the sample that an event of the journal holds."""
        strata, drawn = event.data["strata"], event.data["drawn"]
        assert isinstance(strata, list)
        assert isinstance(drawn, list)
        return cls(
            answers=str(event.data["answers"]),
            seed=int(str(event.data["seed"])),
            n=int(str(event.data["n"])),
            strata=tuple((str(name), int(size), float(share)) for name, size, share in strata),
            drawn=tuple(map(SampledAnswer.from_json, drawn)),
        )

    def id_of(self, key: AnswerKey) -> str:
        """Return the id under which people see an answer.

        The id does not reveal the provider, and all judges of the answer share it.
        """
        return hashlib.sha256("\0".join([self.answers, *map(str, key)]).encode()).hexdigest()[:ID_LENGTH]


# -------------------------------------------------------------------------------- the labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The accuracy of a job and the error of its judge, as estimated from labels by people."""

    judge: str
    corrected: CorrectedShare
    error: CorrectedShare
    """share of all answers on which the judge is wrong"""
    accepted_wrong: tuple[int, int]
    """(number of labelled answers that only the judge calls right, number of all labelled answers that it calls
    right)
    """
    refused_right: tuple[int, int]
    kappa: float | None
    kappa_by_type: Mapping[str, float | None]
    strata: tuple[tuple[str, int, int, int], ...]
    """(name of the stratum, number of answers, number of labelled answers, number of answers labelled right)"""

    @property
    def text(self) -> str:
        """A sentence for tables and receipts: corrected accuracy, judge error, and agreement (kappa) with people."""
        kappa = "-" if self.kappa is None else f"{self.kappa:.2f}"
        return (
            f"human review, {self.judge}: corrected accuracy {self.corrected.text} from "
            f"{counted(self.corrected.labelled, 'label(|s)')}; the judge is wrong on {self.error.text} of "
            f"the answers, kappa {kappa}"
        )

    def to_json(self) -> Json:
        """Return the document of ``bench review --json``."""
        return {
            "judge": self.judge,
            "labelled": self.corrected.labelled,
            "corrected": share_json(self.corrected),
            "judge_error": share_json(self.error),
            "accepted_wrong": {"count": self.accepted_wrong[0], "n": self.accepted_wrong[1]},
            "refused_right": {"count": self.refused_right[0], "n": self.refused_right[1]},
            "kappa": self.kappa,
            "kappa_by_question_type": dict(self.kappa_by_type),
            "strata": [
                {"name": name, "size": size, "labelled": labelled, "right": right}
                for name, size, labelled, right in self.strata
            ],
        }


def share_json(share: CorrectedShare) -> Json:
    """Return a share and its interval as JSON."""
    return {"value": share.value, "interval": share.interval.to_json()}


def sample_of(events: Iterable[Event], record: JobRecord) -> ReviewSample | None:
    """Return the newest sample of a job's answers; None if the job has none."""
    found = [event for event in events if event.kind == SAMPLE and event.data["answers"] == record.answer_owner]
    return ReviewSample.from_event(found[-1]) if found else None


async def verdicts_of(reader: Reader, record: JobRecord, generation: int | None = None) -> Verdicts:
    """Return the verdicts of a job's judge on all answers.

    ``generation`` is the number of the rescore that gave the verdicts; 0 = the run itself, None = the newest.
    """
    found = await reader.judged(record.key, generation)
    return {AnswerKey(one.corpus, one.item, one.epoch): one.correct for one in found}


async def read_review(reader: Reader, record: JobRecord) -> Review | None:
    """Return the corrected accuracy of a job and the error of its judge, for the newest verdicts.

    Both are estimated from labels by people. The result is None if there are no labels.
    """
    events = await reader.events()
    if sample_of(events, record) is None:
        return None
    return review_of(events, record, await verdicts_of(reader, record))


def labels_in(events: Iterable[Event]) -> dict[str, bool]:
    """Return id of an answer in the review -> True if people labelled it as right; the newest label counts."""
    return {str(event.data["id"]): bool(event.data["right"]) for event in events if event.kind == LABEL}


def review_of(events: Sequence[Event], record: JobRecord, verdicts: Verdicts) -> Review | None:
    """Compare ``verdicts`` with the labels that people gave to a job's answers; None if there are no labels."""
    sample = sample_of(events, record)
    if sample is None:
        return None
    known = labels_in(events)
    labelled = [(one, known[name]) for one in sample.drawn if (name := sample.id_of(one.key)) in known]
    judged = [LabelledVerdict(one, verdicts[one.key], right) for one, right in labelled if one.key in verdicts]
    rights: list[list[bool]] = [[] for _ in sample.strata]
    errors: list[list[bool]] = [[] for _ in sample.strata]
    for one, right in labelled:
        rights[one.stratum].append(right)
    for each in judged:
        errors[each.drawn.stratum].append(each.mistaken)
    corrected, wrong = _corrected_share(sample, rights), _corrected_share(sample, errors, mistakes=True)
    if corrected is None or wrong is None:
        return None
    kinds = sorted({each.drawn.question_type for each in judged})
    return Review(
        judge=str(record.models.judge),
        corrected=corrected,
        error=wrong,
        accepted_wrong=_count_mistakes(judged, verdict=True),
        refused_right=_count_mistakes(judged, verdict=False),
        kappa=_agreement(judged),
        kappa_by_type={
            kind: _agreement([each for each in judged if each.drawn.question_type == kind]) for kind in kinds
        },
        strata=tuple(
            (name, size, len(some), sum(some)) for (name, size, _), some in zip(sample.strata, rights, strict=True)
        ),
    )


class LabelledVerdict(NamedTuple):
    """An answer with a person's label and a judge's verdict."""

    drawn: SampledAnswer
    verdict: bool | None
    right: bool

    @property
    def mistaken(self) -> bool:
        """True if the verdict differs from the label. A missing verdict also counts as a mistake."""
        return self.verdict is not self.right


def _corrected_share(
    sample: ReviewSample, some: Sequence[Sequence[bool]], *, mistakes: bool = False
) -> CorrectedShare | None:
    strata = [
        Stratum(size, len(each), sum(each), 0.5 if mistakes else judged)
        for (_, size, judged), each in zip(sample.strata, some, strict=True)
    ]
    return corrected_share(strata, exact=mistakes)


def _count_mistakes(some: Sequence[LabelledVerdict], *, verdict: bool) -> tuple[int, int]:
    mine = [each.mistaken for each in some if each.verdict is verdict]
    return sum(mine), len(mine)


def _agreement(some: Sequence[LabelledVerdict]) -> float | None:
    both = [(each.verdict, each.right) for each in some if each.verdict is not None]
    return cohen_kappa([a for a, _ in both], [b for _, b in both])
