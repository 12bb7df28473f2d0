"""Guess from sample rows which fields contain the answers, or the choices and the right choice.

Example::

    answer = AnswerGuess(QuestionPlace(rows))
    answer.answers()            # "[answer, answer_aliases]"
    answer.choices()            # ("options", '"${gold_label|letter:1}"')
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from bench.datasets.draft.config_guess import (
    ALIASES,
    ANSWER_LIKE,
    ANSWERS,
    CHOICES,
    DECODE_HINT,
    RIGHT_CHOICES,
    TYPES,
    Row,
    field_path,
    first_field,
    is_date,
    list_or_empty,
    merged_fields,
    plain_name,
    quoted_path,
)
from bench.datasets.draft.question_place import QuestionPlace, looks_numbered
from bench.datasets.rows.row_values import flatten_lists, scalar_text

_TEXTS = ("text", "texts", "value", "answer", "input_text", "content", "span_text", "name")


class AnswerGuess:
    """A guess of the fields with the answers and choices of the questions at ``place``."""

    def __init__(self, place: QuestionPlace, joined: Collection[str] = ()) -> None:
        self.place = place
        self.asked = {name: value for name, value in place.asked.items() if name not in joined}
        self.unmapped: list[str] = []
        self.guessed: str | None = None
        """the answer field, if its name is unusual for answers"""
        self.field = self._field()
        self.choices_config = self._choices()

    def _field(self) -> str | None:
        named = first_field(self.asked, ANSWERS) or next(
            (name for name, one in self.asked.items() if one is not None and ANSWER_LIKE.fullmatch(plain_name(name))),
            None,
        )
        if (
            named is None
            and self.place.question()
            and (self.place.inside or self.place.child is not None)
            and len(self.asked) <= 6
        ):
            self.guessed = named = self._only_unknown_text()
        return named

    def _only_unknown_text(self) -> str | None:
        """Return the name of the only text field that can contain the answer.

        Dates, ids, the question and its type are excluded. Return None if no field or more than one field remains.
        """
        known = {self.place.question(), *(name for name in self.asked if plain_name(name) in TYPES)}
        left = [name for name, one in self.asked.items() if isinstance(one, str) and name not in known
                and not is_date(one) and not looks_numbered(name)]  # fmt: skip
        return left[0] if len(left) == 1 else None

    def unanswered(self) -> tuple[str, int, int] | None:
        """Return the answer field, the number of questions with an empty answer, and the number of all questions.

        Return None if no answer is empty, or if all answers are empty.
        """
        every = self.place.questions()
        empty = sum(one.get(self.field) in (None, "", [], [""]) for one in every) if self.field else 0
        return (self.field, empty, len(every)) if self.field and 0 < empty < len(every) else None

    def answers(self) -> str | None:
        """Return the config value that names the answer field, or a list of fields with alternative answers.

        Return None if the answer field is unknown.
        """
        name = self.field
        if name is None:
            return None
        path = self._texts(name)
        if path is not None and (others := self.place.lacking(name, ANSWERS)):
            return f"[[{', '.join([path, *filter(None, map(self._texts, others))])}]]"
        numbered = re.fullmatch(r"(.*?)_?1", name)
        stem = re.escape(numbered[1]) if numbered else ""
        beside = [key for key in self.asked if stem and re.fullmatch(rf"{stem}_?\d+", key)]
        if path is not None and len(beside) > 1:
            return f"[{', '.join(map(self.place.at, beside))}]"
        more = [alias for alias in ALIASES if self.asked.get(alias) not in (None, "") and alias != name]
        if path is None or not more:
            return path
        names = ", ".join((path, *map(self.place.at, more)))
        every = all(all(one.get(alias) for alias in (name, *more)) for one in self.place.children or self.place.rows)
        return f"[[{names}]]" if self.place.child is not None and not every else f"[{names}]"

    def _texts(self, name: str) -> str | None:
        """Return the path to the text in an answer field.

        Return None if no path reads all answers, for example because they are objects without a field of a usual name.
        A note in ``unmapped`` then gives the reason.
        """
        values = [one[name] for one in self.place.questions() if one.get(name) not in (None, "", [], {})]
        steps = _steps_to_texts(values)
        if steps is None:
            objects = [one for value in values for one in flatten_lists(value) if isinstance(one, Mapping)]
            at = f"$.{name}[*]" if any(isinstance(one, list) for one in values) else f"$.{name}"
            mixed = objects and (inner := first_field(merged_fields(objects), _TEXTS)) is not None
            self.unmapped.append(
                f'"{name}" contains objects in some questions and other values in others: write both paths, '
                f"for example [[{at}.{inner}, {name}]]"
                if mixed
                else f'"{name}" contains objects, and no field in them has a usual name: write the path of the text, '
                f"for example $.{name}[*].NAME"
                if objects
                else f'"{name}" contains lists inside lists in some questions only: write the answers of a question '
                "as one text or one list of texts"
            )
            return None
        return self.place.at(name) if not steps or steps == ["[*]"] else self.place.at(name, *steps)

    # ---------------------------------------------------------------- choices

    def choices(self) -> tuple[str, str] | None:
        """Return the config values for the choices and for the right choice, or None if there are no choices."""
        return self.choices_config

    def _choices(self) -> tuple[str, str] | None:
        fields, at = self.asked, self.place.at
        lettered = sorted(key for key in fields if re.fullmatch(r"(?:choice|option)_?[A-Ha-h1-8]", key))
        named = re.compile(r".*(?:options|choices)", re.IGNORECASE)
        name = first_field(fields, CHOICES, (list, Mapping)) or next(
            (key for key, one in fields.items() if named.fullmatch(key) and isinstance(one, list) and one[1:]), None
        )  # fmt: skip
        right = first_field(fields, RIGHT_CHOICES) or first_field(fields, ANSWERS)
        wrong = first_field(fields, ("incorrect_answers", "wrong_answers", "distractors"), list)
        if wrong and right and name is None:
            return f"{{from: [{at(right)}, {at(wrong)}], shuffle: true}}", at(right)
        if name and right is None:
            self.unmapped.append(
                f'no field marks the right choice of "{name}": the first choice is used, and the choices are '
                "shuffled; if this is wrong, correct schema.choiceAnswer"
            )
            first_one = quoted_path(field_path(*filter(None, (self.place.inside, name))) + "[0]")
            return f"{{from: {at(name)}, shuffle: true}}", first_one
        if right is None or (name is None and len(lettered) < 2):
            if texts := first_field(fields, CHOICES, str):
                self.unmapped.append(f'"{texts}" contains the choices as one text: {DECODE_HINT}')
            return None
        holder = fields.get(name or "")
        if name and isinstance(holder, Mapping) and isinstance(holder.get("text"), list):
            return at(name, "text"), self._right_choice(right, len(holder["text"]))
        if name and isinstance(holder, list) and (steps := _steps_to_texts([holder])) and steps != ["[*]"]:
            return at(name, *steps), self._right_choice(right, len(holder))
        size = len(holder) if isinstance(holder, list | Mapping) else len(lettered)
        return (at(name) if name else f"[{', '.join(map(at, lettered))}]"), self._right_choice(right, size)

    def _right_choice(self, name: str, size: int) -> str:
        """Return the config value for the right choice. ``size`` is the number of choices.

        If the field ``name`` contains lists, return the path of the first element. If it contains numbers up to
        ``size``, return a template that turns the number into a letter. Otherwise, return the field.
        """
        values = [one.get(name) for one in self.place.questions()]
        if any(isinstance(value, list) for value in values):
            return quoted_path(field_path(*filter(None, (self.place.inside, name))) + "[0]")
        texts = [text for value in values if (text := scalar_text(value)) is not None]
        if not texts or not all(text.isdecimal() for text in texts) or isinstance(values[0], bool):
            return self.place.at(name)
        numbers = {int(text) for text in texts}
        if max(numbers) > size:
            return self.place.at(name)
        start = 0 if 0 in numbers else 1
        if 0 not in numbers and size not in numbers:
            self.unmapped.append(
                f'"{name}" is the number of a choice, counted from 0 or from 1: 1 is assumed; for 0, write |letter'
            )
        path = self.place.at(name).strip('"')
        return json.dumps(f"${{{path}|letter{':1' if start else ''}}}")

    def has_open_questions(self) -> bool:
        """Return True when some questions have choices and other questions have no choices."""
        name = first_field(self.asked, CHOICES, (list, Mapping))
        return name is not None and any(not one.get(name) for one in self.place.questions())


def _steps_to_texts(values: Iterable[object]) -> list[str] | None:
    """Return the steps of the path from an answer value to its text.

    The list of steps is empty if each answer is a text, or if some answers are texts and the others are lists of texts.
    Return None if no path fits all answers.
    """
    found = [one for one in values if one is not None]
    lists = [one for one in found if isinstance(one, list)]
    texts = [one for one in found if scalar_text(one) is not None]
    if len(texts) + len(lists) == len(found) and texts:
        plain = all(scalar_text(part) is not None for one in lists for part in one if part is not None)
        return [] if plain else None
    if all(isinstance(one, list) for one in found):
        inner = _steps_to_texts([part for one in found for part in list_or_empty(one)])
        return None if inner is None else ["[*]", *inner]
    maps: Sequence[Row] = [one for one in found if isinstance(one, Mapping)]
    if len(maps) != len(found) or (name := first_field(merged_fields(maps), _TEXTS)) is None:
        return None
    inner = _steps_to_texts([one[name] for one in maps if one.get(name) is not None])
    return None if inner is None else [name, *inner]
