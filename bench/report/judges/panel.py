"""Compare the verdicts of several judges and judge prompts on the same answers.

Example::

    panel = Panel(side="run r: bm25", cells=(PanelCell(judge="openai/a", prompt="strict", ...), ...), types=types)
    panel.agreement().alpha, panel.majority(), panel.differing()[:10]

A cell is one judge with one prompt. If a cell has no verdict on an answer, this answer is not counted in the cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

from bench.journal import Reader
from bench.journal.records import ItemRecord
from bench.model import Interval, Phase
from bench.plan.job_record import JobRecord, read_jobs
from bench.report.exports.export import ITEM_PAYLOAD, payload
from bench.report.judges.review import NO_TYPE, AnswerKey
from bench.report.results_document import interval_json
from bench.report.tables import Grid, number
from bench.stats import Tally, cohen_kappa, interval_of, krippendorff_alpha
from bench.untyped_values import Json
from bench.visible_text import counted, shorten

SHOWN = 20
"""maximum number of items in the table of items on which judges differ; the JSON is not limited"""
FIRST_ROW = (
    "flips: answers with another verdict than in the first row; kappa: Cohen's kappa with the first row, 1 for full "
    "agreement, 0 for agreement by chance"
)
DIGEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelCell:
    """The verdicts of one judge with one judge prompt on one set of answers."""

    judge: str
    prompt: str
    sha256: tuple[str, ...]
    """SHA-256 digests of the judge prompts that were used, most frequent first"""
    verdicts: Mapping[AnswerKey, bool | None]
    clustered: bool = False
    """True if the interval is computed over corpora instead of items"""

    @property
    def name(self) -> str:
        """Judge and prompt as text for tables."""
        return f"{self.judge}, {self.prompt}"

    @property
    def decided(self) -> dict[AnswerKey, float]:
        """Answer -> 1 for right or 0 for wrong, in sorted order; answers without a verdict are left out."""
        return {key: float(one) for key, one in sorted(self.verdicts.items()) if one is not None}

    @property
    def value(self) -> float | None:
        """The share of answers that the judge calls right, among the answers with a verdict; None if there is no
        verdict.
        """
        found = self.decided.values()
        return sum(found) / len(found) if found else None

    @property
    def interval(self) -> Interval | None:
        """The interval of the value, computed over corpora if ``clustered``.

        The judge's own error is not part of the interval.
        """
        return _interval(self.decided, clustered=self.clustered)


class PairAgreement(NamedTuple):
    """The agreement of two cells (judge and prompt) on the answers for which both cells have a verdict.

    ``a`` and ``b`` are the positions of the cells in the panel.
    """

    a: int
    b: int
    n: int
    flips: int
    kappa: float | None


class Agreement(NamedTuple):
    """The agreement of all cells (judge and prompt) on a set of answers."""

    n: int
    unanimous: int
    alpha: float | None
    pairs: tuple[PairAgreement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The verdicts of all cells (judge and prompt) on one set of answers."""

    side: str
    benchmark: str
    cells: tuple[PanelCell, ...]
    types: Mapping[AnswerKey, str]
    texts: Mapping[AnswerKey, Mapping[str, str]] = field(default_factory=dict)
    """answer on which cells differ -> question, expected answer and text of the answer"""

    def agreement(self, only: Collection[AnswerKey] | None = None) -> Agreement:
        """Return the kappa of each pair of cells, and Krippendorff's alpha of all cells.

        A cell is one judge with one prompt. ``only`` restricts the answers; None means all answers.
        """
        keys = sorted(self.types if only is None else only)
        rows = [[cell.verdicts.get(key) for cell in self.cells] for key in keys]
        whole = [row for row in rows if None not in row]
        return Agreement(
            n=len(whole),
            unanimous=sum(len(set(row)) == 1 for row in whole),
            alpha=krippendorff_alpha(rows),
            pairs=tuple(_pair(rows, a, b) for a, b in combinations(range(len(self.cells)), 2)),
        )

    def by_type(self) -> dict[str, Agreement]:
        """Return question type -> agreement of all cells on the answers of this type."""
        kinds = sorted(set(self.types.values()))
        return {kind: self.agreement([key for key, one in self.types.items() if one == kind]) for kind in kinds}

    def votes(self, key: AnswerKey) -> tuple[int, int]:
        """Return (number of judges that call the answer right, number of judges that call the answer wrong)."""
        given = [cell.verdicts.get(key) for cell in self.cells]
        return sum(one is True for one in given), sum(one is False for one in given)

    def majority(self) -> tuple[float | None, Interval | None, int, int]:
        """Return (share that the majority calls right, its interval, number of decided answers, number of ties).

        A tie is an answer that as many cells call right as wrong. An answer is decided if right and wrong have
        different numbers of votes. Only decided answers count in the share.
        """
        votes = {key: self.votes(key) for key in sorted(self.types)}
        decided = {key: float(right > wrong) for key, (right, wrong) in votes.items() if right != wrong}
        ties = sum(right == wrong and right > 0 for right, wrong in votes.values())
        value = sum(decided.values()) / len(decided) if decided else None
        return value, _interval(decided, clustered=self.cells[0].clustered), len(decided), ties

    def differing(self) -> list[AnswerKey]:
        """Return the answers that some cells (judge and prompt) call right and others wrong.

        The answers with the most even votes are first.
        """
        votes = {key: self.votes(key) for key in sorted(self.types)}
        return sorted((key for key, vote in votes.items() if min(vote)), key=lambda key: (-min(votes[key]), key))

    def to_json(self) -> Json:
        """Return the panel as JSON, with each answer that some judges or prompts call right and others wrong."""
        value, found, n, ties = self.majority()
        return {
            "side": self.side,
            "benchmark": self.benchmark,
            "cells": [
                {
                    "judge": cell.judge,
                    "prompt": cell.prompt,
                    "prompt_sha256": list(cell.sha256),
                    "class": "judged",
                    "value": cell.value,
                    "interval": interval_json(cell.interval),
                    "n": len(cell.decided),
                    "n_without_verdict": len(cell.verdicts) - len(cell.decided),
                }
                for cell in self.cells
            ],
            "agreement": self._agreement_json(self.agreement()),
            "agreement_by_question_type": {kind: self._agreement_json(one) for kind, one in self.by_type().items()},
            "majority": {"value": value, "interval": interval_json(found), "n": n, "ties": ties},
            "differ": [
                {
                    "item": key.item,
                    "corpus": key.corpus,
                    "epoch": key.epoch,
                    "question_type": self.types[key],
                    "verdicts": [cell.verdicts.get(key) for cell in self.cells],
                    **self.texts.get(key, {}),
                }
                for key in self.differing()
            ],
        }

    def _agreement_json(self, one: Agreement) -> Json:
        pairs = [
            {"a": self.cells[p.a].name, "b": self.cells[p.b].name, "n": p.n, "flips": p.flips, "kappa": p.kappa}
            for p in one.pairs
        ]
        return {"n": one.n, "unanimous": one.unanimous, "krippendorff_alpha": one.alpha, "cohen_kappa": pairs}


def _interval(decided: Mapping[AnswerKey, float], *, clustered: bool) -> Interval | None:
    return interval_of(Tally.of(list(decided.values()), [key.corpus for key in decided] if clustered else None))


def _pair(rows: Sequence[Sequence[bool | None]], a: int, b: int) -> PairAgreement:
    both = [(row[a], row[b]) for row in rows if row[a] is not None and row[b] is not None]
    left, right = [x for x, _ in both], [y for _, y in both]
    return PairAgreement(a, b, len(both), sum(x != y for x, y in both), cohen_kappa(left, right))


# --------------------------------------------------------------------------------- reading


async def read_panels(reader: Reader, generations: Mapping[int, str]) -> list[Panel]:
    """Read the verdicts of several rescores of a run. Return one panel per set of answers.

    ``generations`` maps the number of a rescore to the name of its judge prompt.
    """
    groups = by_answers(record for record in read_jobs(reader.meta.extra) if record.models.judge is not None)
    return [await with_texts(reader, jobs[0], await _panel(reader, jobs, generations)) for jobs in groups]


def by_answers(jobs: Iterable[JobRecord]) -> list[tuple[JobRecord, ...]]:
    """Group the jobs by their answers. All jobs of a group judge the same answers."""
    found: dict[str, list[JobRecord]] = {}
    for record in jobs:
        found.setdefault(record.answer_owner, []).append(record)
    return [tuple(some) for some in found.values()]


async def _panel(reader: Reader, jobs: Sequence[JobRecord], generations: Mapping[int, str]) -> Panel:
    cells: list[PanelCell] = []
    types: dict[AnswerKey, str] = {}
    for number_, prompt in generations.items():
        for record in jobs:
            cell, kinds = await read_cell(reader, record, number_, prompt)
            types.update(kinds)
            cells.append(cell)
    first = jobs[0]
    side = f"{first.provider}, answers of {first.models.answering}"
    return Panel(side=side, benchmark=first.benchmark, cells=tuple(cells), types=types)


async def read_cell(
    reader: Reader, record: JobRecord, generation: int, prompt: str
) -> tuple[PanelCell, dict[AnswerKey, str]]:
    """Return the verdicts of one judge with the judge prompt ``prompt``, and answer -> question type.

    ``generation`` is the number of the rescore that gave the verdicts; 0 = the run itself.
    """
    found = await reader.judged(record.key, generation)
    digests = Counter(one.prompt_sha256 for one in found if one.prompt_sha256)
    keys = [AnswerKey(one.corpus, one.item, one.epoch) for one in found]
    cell = PanelCell(
        judge=str(record.models.judge),
        prompt=prompt,
        sha256=tuple(name for name, _ in digests.most_common()),
        verdicts={key: one.correct for key, one in zip(keys, found, strict=True)},
        clustered=record.cluster_by is not None,
    )
    return cell, {key: one.labels.get("question_type", NO_TYPE) for key, one in zip(keys, found, strict=True)}


async def with_texts(reader: Reader, record: JobRecord, panel: Panel) -> Panel:
    """Return a copy of the panel with the texts of the answers on which cells differ."""
    wanted, texts = set(panel.differing()), {}
    async for item in reader.items(record.chain):
        key = AnswerKey(item.corpus, item.item, item.epoch)
        if key in wanted:
            texts[key] = await item_texts(reader, item)
    return replace(panel, texts=texts)


async def item_texts(reader: Reader, item: ItemRecord) -> dict[str, str]:
    """Return the question, the expected answers and the answer of an item."""
    about = await payload(reader, item.phases.get(Phase.EVALUATE), ITEM_PAYLOAD)
    known = about if isinstance(about, Mapping) else {}
    answered = item.phases.get(Phase.ANSWER)
    return {
        "question": _plain_text(known.get("question")),
        "expected": _plain_text(known.get("answers")),
        "answer": _plain_text(answered.data.get("answer") if answered else None),
    }


def _plain_text(value: object) -> str:
    return " | ".join(map(str, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)


# ---------------------------------------------------------------------------------- tables


def panel_grids(panel: Panel) -> list[Grid]:
    """Return three tables: the cells, their agreement by question type, and the items on which cells differ."""
    return [cell_grid(panel), agreement_grid(panel), differing_grid(panel)]


def cell_rows(panel: Panel) -> list[tuple[str, ...]]:
    """Return one row per cell, then a row for the majority of the cells."""
    pairs = {pair.b: pair for pair in panel.agreement().pairs if pair.a == 0}
    rows = [
        (
            cell.judge,
            cell.prompt,
            cell.sha256[0][:DIGEST] if cell.sha256 else "-",
            "judged",
            interval_text(cell.value, cell.interval),
            str(len(cell.decided)),
            str(pairs[at].flips) if at in pairs else "-",
            number(pairs[at].kappa) if at in pairs else "-",
        )
        for at, cell in enumerate(panel.cells)
    ]
    value, found, n, _ = panel.majority()
    return [*rows, ("(majority)", "", "", "judged", interval_text(value, found), str(n), "-", "-")]


def cell_grid(panel: Panel) -> Grid:
    """Return a table with one row per cell and one row for the majority of the cells."""
    ties = panel.majority()[3]
    return Grid(
        title=f"Judges: {panel.benchmark} x {panel.side}",
        head=("judge", "prompt", "sha256", "class", "accuracy", "n", "flips", "kappa"),
        rows=tuple(cell_rows(panel)),
        right=(4, 5, 6, 7),
        notes=(
            FIRST_ROW,
            *(
                [
                    counted(
                        ties,
                        "answer(|s) (has|have) as many votes for right as for wrong, so (it has|they have) no majority",
                    )
                ]
                if ties
                else []
            ),
        ),
    )


def agreement_grid(panel: Panel) -> Grid:
    """Return a table of the cells' agreement on all answers.

    If there are several question types, the table also has one row per question type.
    """
    kinds = panel.by_type()
    every = {"(all)": panel.agreement(), **(kinds if len(kinds) > 1 else {})}
    return Grid(
        title=f"Agreement of the judges: {panel.benchmark} x {panel.side}",
        head=("question type", "n", "unanimous", "Krippendorff alpha", "least kappa"),
        rows=tuple(
            (kind, str(one.n), str(one.unanimous), number(one.alpha), number(least_kappa(one)))
            for kind, one in every.items()
        ),
        right=(1, 2, 3, 4),
        notes=(
            "alpha: over all judges; least kappa: the smallest Cohen's kappa of any two judges; "
            "both are - if all verdicts are the same",
        ),
    )


def least_kappa(one: Agreement) -> float | None:
    """Return the smallest kappa of all pairs of cells; None if no pair has a kappa."""
    return min((pair.kappa for pair in one.pairs if pair.kappa is not None), default=None)


def differing_grid(panel: Panel) -> Grid:
    """Return a table of the items on which cells differ. Items with the most even votes are first."""
    every = panel.differing()
    rows = []
    for key in every[:SHOWN]:
        right, wrong = panel.votes(key)
        texts = panel.texts.get(key, {})
        given = "".join({True: "1", False: "0", None: "-"}[cell.verdicts.get(key)] for cell in panel.cells)
        words = (shorten(texts.get(name, ""), 60) for name in ("expected", "answer"))
        rows.append((key.item, panel.types[key], f"{right}:{wrong}", given, *words))
    return Grid(
        title=f"Items on which the judges differ: {panel.benchmark} x {panel.side}",
        head=("item", "question type", "right:wrong", "verdicts", "expected", "answer"),
        rows=tuple(rows),
        notes=(
            f"the judges differ on {len(every)} of {len(panel.types)} answers, the most divided first"
            + (f"; {SHOWN} are shown, --json has all" if len(every) > SHOWN else ""),
            "verdicts: 1 right, 0 wrong, - none, from left to right by " + "; ".join(one.name for one in panel.cells),
        ),
    )


def interval_text(value: float | None, found: Interval | None) -> str:
    """Format a value, with its interval if there is one."""
    if value is None or found is None:
        return number(value)
    return f"{number(value)} [{number(found.low)}, {number(found.high)}]"
