"""What a reader of numbers should know of the texts of items: questions that are asked twice, letters that mislead.

Example::

    texts = ItemTexts()
    texts.meet(raw, corpus="c1")
    texts.notes()        # ("2 questions are asked again under another id (q1 and q7): ...",)

Eight bytes and a digest are kept of each item, so that a benchmark of millions stays in memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence

from bench.datasets.history import RawSession
from bench.datasets.index import IdTable
from bench.datasets.questions import RawItem
from bench.visible import is_odd

EXAMPLES = 3
LONGEST = 60
"""characters of an example"""


class ItemTexts:
    """Meets every item once."""

    def __init__(self) -> None:
        self._questions = IdTable()
        self._golds = array("q")
        self._first = IdTable()
        self._repeated: list[str] = []
        self._n_repeated = self._n_differing = self._n_odd = 0
        self._odd: list[str] = []

    def meet(self, raw: RawItem, corpus: Hashable) -> None:
        """Look at one item; equal questions of one corpus are one question."""
        self._look(raw)
        if raw.deletion is not None:
            return
        asked = hash((corpus, " ".join(raw.question.lower().split()), raw.choices, raw.question_date, raw.cut))
        gold = hash((raw.answers, raw.choice_answer, raw.rubric))
        place = self._questions.add(f"{asked:x}")
        if place is not None:
            self._golds.append(gold)
            self._first.add(raw.id)
            return
        known = self._questions.find(f"{asked:x}")
        assert known is not None
        self._n_repeated += 1
        self._n_differing += gold != self._golds[known]
        if len(self._repeated) < EXAMPLES:
            self._repeated.append(f"{self._first[known]} and {raw.id}")

    def _look(self, raw: RawItem) -> None:
        gold = () if raw.choice_answer is None else (raw.choice_answer,)
        odd = next((text for text in (raw.id, *raw.answers, *raw.choices, *gold) if is_odd(text)), None)
        if odd is None:
            return
        self._n_odd += 1
        if len(self._odd) < EXAMPLES:
            self._odd.append(f"{raw.id} {odd[:LONGEST]!a}")

    def notes(self) -> tuple[str, ...]:
        """Sentences on both; empty where nothing is odd."""
        found = []
        if self._n_repeated:
            asked = "1 question is" if self._n_repeated == 1 else f"{self._n_repeated} questions are"
            other = f", {self._n_differing} of them with another gold" if self._n_differing else ""
            found.append(f"{asked} asked again of the same history under another id{other}: {_some(self._repeated)}")
        if self._n_odd:
            items = "1 item has" if self._n_odd == 1 else f"{self._n_odd} items have"
            found.append(
                f"{items} a gold, an option or an id with hidden characters, with letters that look like others "
                "(Cyrillic, Greek, full width) or with decomposed ones, which an answer may not match: "
                f"{_some(self._odd)}"
            )
        return tuple(found)


def _some(examples: Sequence[str]) -> str:
    return "; ".join(examples)


def history_of(sessions: Sequence[RawSession]) -> Hashable:
    """What tells the history of one row from that of another, cheaply: its length, its beginning and its end."""
    turns = [(session.turns[0].text, session.turns[-1].text) for session in sessions if session.turns]
    return (len(sessions), sum(len(session.turns) for session in sessions), *turns[:1], *turns[-1:])
