"""Labels of people for some of a judge's verdicts, and what they say of judge and score.

Example::

    review_of(events, record).corrected         # CorrectedShare(value=0.71, interval=..., labelled=50)

A sample (`bench.report.review_sampling`) and each label are events of the run's journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from bench.journal import Event
from bench.model import Interval
from bench.plan.job_record import JobRecord
from bench.stats import CorrectedShare, Stratum, cohen_kappa, corrected_share

SAMPLE, LABEL, RESCORED = "review_sample", "review_label", "rescored"
NO_TYPE = "(none)"
ID_LENGTH = 12


class AnswerKey(NamedTuple):
    """One answer."""

    corpus: str
    item: str
    epoch: int


class Drawn(NamedTuple):
    """One answer to be labelled."""

    key: AnswerKey
    stratum: int
    judged: bool | None
    question_type: str

    def to_json(self) -> list[object]:
        """Return the row as the journal keeps it."""
        return [*self.key, self.stratum, self.judged, self.question_type]

    @classmethod
    def from_json(cls, row: Sequence[object]) -> Drawn:
        """Read a row of the journal."""
        corpus, item, epoch, stratum, judged, kind = row
        key = AnswerKey(str(corpus), str(item), int(cast("int", epoch)))
        return cls(key, int(cast("int", stratum)), cast("bool | None", judged), str(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSample:
    """The answers that were drawn of one job, and the strata that they represent."""

    job: str
    answers: str
    """whose answers they are: judges share them"""
    seed: int
    n: int
    generation: int
    """the scoring whose verdicts were drawn"""
    strata: tuple[tuple[str, int, float], ...]
    """name, size, verdict as a number"""
    drawn: tuple[Drawn, ...]

    def to_event(self) -> Event:
        """Return the journal's row."""
        data = {
            "answers": self.answers,
            "seed": self.seed,
            "n": self.n,
            "generation": self.generation,
            "strata": [list(one) for one in self.strata],
            "drawn": [one.to_json() for one in self.drawn],
        }
        return Event(kind=SAMPLE, scope=self.job, data=data)

    @classmethod
    def from_event(cls, event: Event) -> ReviewSample:
        """Read the journal's row."""
        data = cast("Mapping[str, list[list[object]]]", event.data)
        return cls(
            job=event.scope,
            answers=str(event.data["answers"]),
            seed=int(cast("int", event.data["seed"])),
            n=int(cast("int", event.data["n"])),
            generation=int(cast("int", event.data["generation"])),
            strata=tuple((str(a), int(cast("int", b)), float(cast("float", c))) for a, b, c in data["strata"]),
            drawn=tuple(Drawn.from_json(row) for row in data["drawn"]),
        )

    def id_of(self, key: AnswerKey) -> str:
        """Return an id that names no provider; the same for every judge of the answer."""
        return hashlib.sha256("\0".join([self.answers, *map(str, key)]).encode()).hexdigest()[:ID_LENGTH]


# -------------------------------------------------------------------------------- the labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What people's labels say of one job."""

    judge: str
    corrected: CorrectedShare
    error: CorrectedShare
    """share of all answers on which the judge is wrong"""
    accepted_wrong: tuple[int, int]
    """of the labelled answers that the judge calls right: how many are wrong, and how many there are"""
    refused_right: tuple[int, int]
    kappa: float | None
    kappa_by_type: Mapping[str, float | None]
    strata: tuple[tuple[str, int, int, int], ...]
    """name, size, labelled, right"""
    scored_since: bool
    """the run was scored again after the draw: the judge's error is that of the scoring before"""

    @property
    def text(self) -> str:
        """One sentence for tables and receipts."""
        return (
            f"human review, {self.judge}: corrected accuracy {self.corrected.text} from {self.corrected.labelled} "
            f"labels; the judge is wrong on {self.error.text} of the answers, kappa {_kappa(self.kappa)}"
            + ("; drawn before the run was scored again" if self.scored_since else "")
        )

    def to_json(self) -> dict[str, object]:
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


def share_json(share: CorrectedShare) -> dict[str, object]:
    """Return a share with its interval."""
    found: Interval = share.interval
    return {
        "value": share.value,
        "interval": {"low": found.low, "high": found.high, "level": found.level, "method": found.method},
    }


def _kappa(kappa: float | None) -> str:
    return "-" if kappa is None else f"{kappa:.2f}"


def sample_of(events: Iterable[Event], record: JobRecord) -> ReviewSample | None:
    """Return the newest sample of a job."""
    found = [event for event in events if event.kind == SAMPLE and event.scope == record.key]
    return ReviewSample.from_event(found[-1]) if found else None


def review_of(
    events: Sequence[Event], record: JobRecord, verdicts: Mapping[AnswerKey, bool | None] | None = None
) -> Review | None:
    """Return what the labels show of a job, or of another judge's verdicts on its answers; None without a label."""
    sample = sample_of(events, record)
    if sample is None:
        return None
    known = {str(event.data["id"]): bool(event.data["right"]) for event in events if event.kind == LABEL}
    drawn = sample.drawn
    if verdicts is not None:
        drawn = tuple(one._replace(judged=verdicts[one.key]) for one in drawn if one.key in verdicts)
    labelled = [(one, known[name]) for one in drawn if (name := sample.id_of(one.key)) in known]
    strata = [
        (name, size, [(one, right) for one, right in labelled if one.stratum == at], judged)
        for at, (name, size, judged) in enumerate(sample.strata)
    ]
    corrected = corrected_share([Stratum(size, len(some), _right(some), judged) for _, size, some, judged in strata])
    wrong = corrected_share([Stratum(size, len(some), _mistaken(some), 0.5) for _, size, some, _ in strata])
    if corrected is None or wrong is None:
        return None
    kinds = sorted({one.question_type for one, _ in labelled})
    return Review(
        judge=str(record.models.judge),
        corrected=corrected,
        error=wrong,
        accepted_wrong=_counted(labelled, judged=True),
        refused_right=_counted(labelled, judged=False),
        kappa=_agreement(labelled),
        kappa_by_type={
            kind: _agreement([pair for pair in labelled if pair[0].question_type == kind]) for kind in kinds
        },
        scored_since=sample.generation != sum(event.kind == RESCORED for event in events),
        strata=tuple((name, size, len(some), _right(some)) for name, size, some, _ in strata),
    )


Labelled = Sequence[tuple[Drawn, bool]]


def _right(some: Labelled) -> int:
    return sum(right for _, right in some)


def _mistaken(some: Labelled) -> int:
    """Answers on which judge and person differ; no verdict counts as a mistake."""
    return sum(one.judged is not right for one, right in some)


def _counted(some: Labelled, *, judged: bool) -> tuple[int, int]:
    mine = [right for one, right in some if one.judged is judged]
    return sum(right is not judged for right in mine), len(mine)


def _agreement(some: Labelled) -> float | None:
    both = [(one.judged, right) for one, right in some if one.judged is not None]
    return cohen_kappa([a for a, _ in both], [b for _, b in both])
