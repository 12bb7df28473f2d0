"""Guess which fields of a row contain its history: a field with a usual name, the largest field, or several fields.

Example::

    layout = find_layout(Path("data"))
    history = history_field(layout.rows)        # "sessions"
    contexts = ContextLines(QuestionGuess(layout.rows, history=history), layout)
    contexts.lines, contexts.evidence   # config lines
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from bench.datasets.draft.config_guess import (
    CORPORA,
    DATES,
    HISTORIES,
    IDS,
    QUESTION_LISTS,
    SESSION_IDS,
    TEXT_NAMES,
    TYPES,
    Row,
    field_path,
    first_field,
    is_date,
    is_gold,
    merged_fields,
)
from bench.datasets.draft.file_joins import DataLayout
from bench.datasets.draft.history_guess import HistoryGuess, numbered_sessions
from bench.datasets.draft.question_guess import QuestionGuess
from bench.datasets.draft.question_place import QuestionPlace
from bench.datasets.draft.sampled_file import has_question
from bench.datasets.draft.turn_paths import path_to_turns

_ANSWER_PASSAGES = re.compile(r"(?:positive|oracle).*", re.IGNORECASE)
"""regular expression for names of fields with the passages that contain the answer, such as ``positive_ctxs``"""


class ContextLines:
    """The config lines of ``schema.context``, and the evidence line that can be guessed from the history."""

    def __init__(self, guess: QuestionGuess, layout: DataLayout) -> None:
        self.guess = guess
        beside = self._beside(layout)
        self.several = bool(beside)
        every = sorted([*beside, guess.history], key=lambda one: one.single or "type: array" in one.lines)
        self.passages = self.several and all(
            first_field(turn, ("title",), str) for one in every for turn in one.turns[:5]
        )
        """true if each element of a history is a separate passage instead of a turn"""
        self.evidence = self._answer_passages(every) if self.passages and not guess.evidence else ""
        self.lines = list(self._lines(every)) if beside else guess.history.lines

    def _beside(self, layout: DataLayout) -> list[HistoryGuess]:
        """Return one guess for each additional history field.

        The turns in such a field have the same text field as the turns of the main history.
        """
        guess = self.guess
        words = {key for turn in guess.history.turns[:5] for key in turn if key in TEXT_NAMES}
        taken = (guess.history.field, *QUESTION_LISTS, *layout.steps, guess.place.question())
        found = []
        for name in guess.row if words and guess.history.field != "$" else ():
            skipped = name in taken or is_gold(name) or re.search("persona|profile|summary|plan", name)
            if skipped or not path_to_turns(guess.row[name]):
                continue
            other = HistoryGuess(guess.rows, name)
            if other.turns and words <= set(merged_fields(other.turns)):
                found.append(other)
        return found

    def _lines(self, every: Sequence[HistoryGuess]) -> Iterator[str]:
        self.guess.history.unmapped.clear()
        for one in every:
            flat = one.single or "type: array" in one.lines
            own = [line.replace("type: array", "type: session") for line in one.lines]
            own += [f"id: \"${{'{one.field}'}}\""] if flat and not one.session_ids else []
            yield from (f"{'- ' if not number else '  '}{line}" for number, line in enumerate(own))

    def _answer_passages(self, every: Sequence[HistoryGuess]) -> str:
        """Return the evidence line for the history field whose passages contain the answer.

        Such a field is recognized by its name, and its passages must have ids. The line names these ids. Return an
        empty text if there is no such field, if there are several, or if there is no other history field.
        """
        right = [one for one in every if _ANSWER_PASSAGES.fullmatch(one.field) and one.turn.id_field]
        if len(right) != 1 or len(every) < 2:
            return ""
        path = field_path(right[0].field, "[*]", right[0].turn.id_field or "")
        return f"evidence: {{turnIdsField: {json.dumps(path)}}}\n"


def is_long(guess: QuestionGuess) -> bool:
    """Return True when the history of at least one row is a text with more than 400 words."""
    texts = [row.get(guess.history.field) for row in guess.rows]
    return any(isinstance(text, str) and len(text.split()) > 400 for text in texts)


def named_history(row: Row) -> str | None:
    return first_field({name: one for name, one in row.items() if not is_gold(name)}, HISTORIES, (str, list, Mapping))


def history_field(rows: Sequence[Row]) -> str:
    """Return the name of the field with the history.

    A field with a usual name is preferred, then the largest field without another use. Return ``history`` if no field
    fits. Return ``$`` if the row itself contains numbered sessions.
    """
    place = QuestionPlace(rows)
    claimed: set[str | None] = {
        name for names in (IDS, DATES, SESSION_IDS, TYPES) if (name := first_field(rows[0], names))
    }
    claimed |= {*place.claimed_fields(), *CORPORA, *QUESTION_LISTS}
    row = {name: one for name, one in rows[0].items() if name not in claimed and not is_gold(name)}
    if sum(len(part) for part in numbered_sessions(row).values()) > 1 and len(numbered_sessions(row)) > 1:
        return "$"
    if (named := named_history(row)) is not None:
        return named
    start = None if first_field(rows[0], IDS) else next(iter(rows[0]))
    left = [name for name, value in row.items() if isinstance(value, str | list | Mapping) and not is_date(value)]
    left = [name for name in left if not (isinstance(row[name], Mapping) and has_question(row[name]))] or left
    return max(left, key=lambda name: (name != start, *_weight(row[name])), default="history")


def _weight(value: object) -> tuple[bool, bool, int]:
    """Return a sort key that is highest for values with turns, lower for lists and maps, and lowest for texts.

    Within each group, a longer value has a higher key.
    """
    return (
        path_to_turns(value) is not None,
        not isinstance(value, str),
        len(value) if isinstance(value, str | list | Mapping) else 0,
    )
