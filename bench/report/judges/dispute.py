"""Compare the answers of several systems in one table. The same judges judged all answers with the same prompts.

Example::

    found = Dispute(benchmark="locomo", sides=(DisputeSide(panel=panel, context="3.1% of the corpus", ...), ...))
    found.leaders()                       # for each judge and prompt, the system with the highest value
    dispute_grids(found)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from bench.report.judges.panel import FIRST_ROW, Panel, PanelCell, agreement_grid, cell_rows, differing_grid
from bench.report.judges.review import Review, share_json
from bench.report.tables import Grid, number
from bench.untyped_values import Json
from bench.visible_text import counted

UNKNOWN = "unknown"
NO_LABELS = "the judge error needs labels of people: bench review RUN --n 50"
JUDGE_ERROR = "judge error: the share of answers on which a judge is wrong, estimated from labels of people"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeSide:
    """One set of answers, with the verdicts of each cell on these answers. A cell is one judge with one judge
    prompt.
    """

    panel: Panel
    source: str
    """the run, receipt or file of the answers; for a file, also how much of the file could not be read"""
    context: str = UNKNOWN
    """share of the corpus in the prompt of the answering model, as text"""
    leaks: str = UNKNOWN
    """result of the check whether the answer prompt shows the expected answer or the question type"""
    reviews: tuple[Review | None, ...] = ()
    """results of labels by people, one for each judge and prompt; empty without labels"""

    @property
    def name(self) -> str:
        """The name of the set of answers."""
        return self.panel.side

    @property
    def label_sentence(self) -> str | None:
        """A sentence on labels by people; None without labels.

        The sentence has the corrected accuracy, and the judges and prompts with the lowest error.
        """
        known = [(one, cell) for one, cell in zip(self.reviews, self.panel.cells, strict=False) if one is not None]
        if not known:
            return None
        best = min((one for one, _ in known), key=lambda one: one.error.value)
        names = [cell.name for one, cell in known if one.error.value == best.error.value]
        return (
            f"{self.name}: accuracy {best.corrected.text} from "
            f"{counted(best.corrected.labelled, 'label(|s)')} of people; "
            f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'} the lowest judge error: {best.error.text}"
        )

    def to_json(self) -> Json:
        """Return the set of answers as JSON.

        If people labeled answers, the JSON includes the error of each judge and the corrected accuracy.
        """
        found = self.panel.to_json()
        known = next((one.corrected for one in self.reviews if one is not None), None)
        if known is not None:
            found["judge_error"] = [None if one is None else share_json(one.error) for one in self.reviews]
            found["corrected"] = {**share_json(known), "labelled": known.labelled}
        return {**found, "source": self.source, "context_share": self.context, "leak_check": self.leaks}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """Several sets of answers with verdicts of the same judges and judge prompts, in the same order."""

    benchmark: str
    sides: tuple[DisputeSide, ...]

    def leaders(self) -> list[tuple[str, str | None]]:
        """Return (name of the judge and prompt, set of answers with the highest value) for each judge and prompt.

        The set of answers is None for a tie.
        """
        found: list[tuple[str, str | None]] = []
        for at, cell in enumerate(self.sides[0].panel.cells):
            values = {side.name: side.panel.cells[at].value or 0.0 for side in self.sides}
            best = [name for name, value in values.items() if value == max(values.values())]
            found.append((cell.name, best[0] if len(best) == 1 else None))
        return found

    def conclusions(self) -> list[str]:
        """Return sentences on the lowest and highest value of each set of answers, and on the set that leads with every
        judge.
        """
        found = []
        for side in self.sides:
            cells = side.panel.cells
            low, high = min(cells, key=_value), max(cells, key=_value)
            found.append(
                f"{side.name}: {number(low.value)} ({low.name}) to {number(high.value)} ({high.name}); "
                f"the judges differ on {len(side.panel.differing())} of {len(side.panel.types)} answers"
            )
        found += [side.label_sentence for side in self.sides if side.label_sentence is not None]
        if len(self.sides) > 1:
            ahead = {name for _, name in self.leaders()}
            same = len(ahead) == 1 and None not in ahead
            found.append(
                f"{ahead.pop()} is ahead in every cell" if same else "which side is ahead depends on judge and prompt"
            )
        return found

    def to_json(self) -> Json:
        """Return the document of ``bench dispute --json``."""
        return {
            "kind": "dispute",
            "version": 1,
            "benchmark": self.benchmark,
            "conclusions": self.conclusions(),
            "leaders": [{"cell": cell, "side": side} for cell, side in self.leaders()],
            "sides": [side.to_json() for side in self.sides],
        }


def _value(cell: PanelCell) -> float:
    return cell.value or 0.0


def dispute_grids(found: Dispute) -> list[Grid]:
    """Return the main table, then two tables per set of answers: agreement of the judges, and items on which judges
    differ.
    """
    details = [grid(side.panel) for side in found.sides for grid in (agreement_grid, differing_grid)]
    return [_table(found), *details]


def _table(found: Dispute) -> Grid:
    rows = [
        (side.name, *cells, "-" if review is None else review.error.text)
        for side in found.sides
        for cells, review in zip_longest(cell_rows(side.panel), side.reviews)
    ]
    sources = [
        f"{side.name}: {side.source}; context {side.context}; prompt check: {side.leaks}" for side in found.sides
    ]
    return Grid(
        title=f"Dispute: {found.benchmark}",
        head=("side", "judge", "prompt", "sha256", "class", "accuracy", "n", "flips", "kappa", "judge error"),
        rows=tuple(rows),
        right=(5, 6, 7, 8, 9),
        notes=(
            *found.conclusions(),
            *sources,
            FIRST_ROW + (" of the side" if len(found.sides) > 1 else ""),
            JUDGE_ERROR if any(side.label_sentence for side in found.sides) else NO_LABELS,
        ),
    )
