"""Guess the config lines for a benchmark's questions: place, type, answer, ids, corpus, evidence and abstention.

Example::

    guess = QuestionGuess(rows, history="sessions")
    guess.lines(), guess.evidence, guess.abstention     # YAML
    guess.unmapped                                      # notes on fields that could not be mapped

A field with correct answers or evidence is never used as a part of the history.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.datasets.draft.answer_guess import AnswerGuess
from bench.datasets.draft.config_guess import (
    ALIASES,
    ANSWERABLE,
    ANSWERS,
    CHOICES,
    CORPORA,
    FLAG,
    IDS,
    RIGHT_CHOICES,
    TYPES,
    UNANSWERABLE,
    Row,
    are_distinct,
    field_name,
    field_path,
    first_field,
    is_date,
    map_at,
    quoted_path,
)
from bench.datasets.draft.gold_guess import GoldGuess
from bench.datasets.draft.history_guess import HistoryGuess
from bench.datasets.draft.question_place import QuestionPlace, looks_numbered
from bench.datasets.rows.row_values import scalar_text, value_of
from bench.visible_text import counted

NO_ANSWER = re.compile(
    r"abstention|unanswerable|boundary|null_query|adversarial|not_mentioned|no_answer", re.IGNORECASE
)
"""regular expression for names of question types whose questions cannot be answered"""
_CUT_NAMES = re.compile(r".*(?:end_index|cutoff|cut_off|visible_until|up_to).*", re.IGNORECASE)
_DATE_NAMES = ("question_date", "asked_at", "asked_on", "query_date", "query_time", "question_ts", "date", "when",
                "asked", "day", "time", "timestamp")  # fmt: skip
_TOKEN = re.compile(r"(?=[^_]*[A-Za-z])[A-Za-z0-9]{1,24}")
_KEYED_LISTS = re.compile(r"(?:\.\*|\['[^']*'(?:,'[^']*')+\])\[\*\]\"?$")
"""regular expression for paths to lists of questions that are grouped under keys, such as ``$.qa.*[*]``"""
_MOST_TYPES = 20


class QuestionGuess:
    """A guess of the config keys for questions and history, made from sample rows."""

    def __init__(
        self,
        rows: Sequence[Row],
        history: str,
        *,
        rows_path: str | None = None,
        files: Sequence[str] = (),
        gold: str | None = None,
        known_golds: Collection[str] = (),
        joined: Collection[str] = (),
        keys: Collection[str] = (),
    ) -> None:
        self.rows = rows
        self._other_fields = {history, *joined, *keys}
        """fields that contain no evidence: the history, joined rows and their keys"""
        self.several = len(files) > 1
        self.files = files
        self.keyed = (rows_path or "").startswith("$.*") and rows_path != "$.*"
        self.gold_line = gold
        self.place = QuestionPlace(rows, texts_ask=bool(gold) or self.several)
        self.row = self.place.row
        self.child = self.place.child
        self.answer = AnswerGuess(self.place, joined)
        fields = self.place.asked
        skipped = {first_field(fields, names) for names in (ANSWERS, CHOICES, RIGHT_CHOICES)}
        self.gold = GoldGuess(self.place, {*skipped, *ALIASES, self.answer.field, "rubric", "question"})
        self.cut = self._cut()
        golds = [*([known_golds] if known_golds else []), *self.gold.paths.values()]
        self.history = HistoryGuess(rows, history, gold=golds, cut=bool(self.cut))
        self.guessed: list[str] = []
        self.type = self._kind()
        self.evidence = "".join(self._evidence())
        self.guessed += dict.fromkeys(self.gold.guessed)
        self.abstention = self._abstention()

    @property
    def unmapped(self) -> list[str]:
        """Return notes on the fields that could not be mapped to config keys, without repetitions."""
        parts = (self.place, self.answer, self.history, self.gold)
        return list(dict.fromkeys(text for part in parts for text in part.unmapped))

    # -------------------------------------------------------------- questions

    def lines(self) -> Iterator[str]:
        """Yield the lines of the config section ``schema`` that describe the questions."""
        if self.child is not None:
            yield "  questions:\n"
            yield from (f"    {key}: {text}\n" for key, text in self._nested_lines() if text)
            if choices := self.answer.choices():
                yield f"  choiceAnswer: {choices[1]}\n"
        else:
            yield from self._flat_lines()
        if (name := first_field(self.place.asked, ("rubric", "rubrics", "key_points"), list)) is not None:
            yield f"  rubric: {self.place.at(name)}\n"

    def _nested_lines(self) -> Iterator[tuple[str, str | None]]:
        ids = next(
            (
                name
                for name in ("question_uuid", "question_unique_id", *IDS)
                if are_distinct([one.get(name) for one in self.place.children])
            ),
            None,
        )
        choices = self.answer.choices()
        yield "field", self.place.path
        yield "questionField", self.place.question_path()
        yield "idField", ids and field_name(ids)
        yield "answerField", self.answer.answers() if choices is None else None
        yield "evidenceField", self.gold.nested(self.history)
        yield "categoryField", self.type
        yield "dateField", self._date()
        yield "choicesField", choices and choices[0]

    def _date(self) -> str | None:
        """Return the field with the date of a question, as written in the config; None if there is no such field."""
        every, fields = self.place.questions(), self.place.asked
        for name in filter(None, (first_field(fields, (one,), (str, int)) for one in _DATE_NAMES)):
            if all(is_date(one[name]) for one in every if one.get(name) is not None) and not isinstance(
                fields[name], bool
            ):
                return self.place.at(name)
        return None

    def metadata(self) -> str:
        """Return the ``metadata`` lines with question type and question date.

        Return an empty text if neither is found, or if the questions are nested in rows.
        """
        if self.child is not None:
            return ""
        found = (("questionType", self.type), ("questionDate", self._date()))
        lines = [f"    {key}: {name}\n" for key, name in found if name]
        return "".join(["  metadata:\n", *lines]) if lines else ""

    def _flat_lines(self) -> Iterator[str]:
        yield f"  question: {self.place.question_path()}\n"
        choices = self.answer.choices()
        if choices is not None:
            yield f"  choices: {choices[0]}\n"
            yield f"  choiceAnswer: {choices[1]}\n"
        if (choices is None or self.answer.has_open_questions()) and (answer := self.answer.answers()):
            yield f"  answer: {answer}\n"

    def words_of_question(self) -> int:
        """Return the number of words in the longest question of the sample, or 0 if there is no question."""
        name = self.place.question()
        return max((len(str(one.get(name)).split()) for one in self.place.questions()), default=0) if name else 0

    # ------------------------------------------------------------------ types

    def _kind(self) -> str | None:
        """Return the field or template of the question type, as written in the config; None if nothing gives a type."""
        if (name := self._type_name()) is not None:
            return self.place.at(name)
        if self.child is not None and _KEYED_LISTS.search(self.place.path):
            return "$keys[-2]"
        if self.child is not None:
            return self._row_type()
        if self.keyed:
            return "$keys[0]"
        if self.several:
            names = {file.rpartition("/")[2] for file in self.files}
            return '"' + ("${$file|match:'[^/]+(?=/[^/]+$)'}" if len(names) == 1 else "${$file|match:'[^/]+$'}") + '"'
        return self._type_of_ids()

    def _type_of_ids(self) -> str | None:
        """Return a template that reads the question type from the start of the ids.

        For example, the type ``2hop`` is read from ``2hop__10_21``. Return None if the ids do not begin with a type.
        """
        name = next((name for name in IDS if all(isinstance(row.get(name), str) for row in self.rows)), None)
        ids = [str(row[name]).split("_") for row in self.rows] if name else []
        found = 0
        for size in range(1, min(map(len, ids), default=1)):
            starts = {"_".join(parts[:size]) for parts in ids}
            are_types = all(
                _TOKEN.fullmatch(parts[size - 1]) and (size == 1 or parts[size - 1].isalpha()) for parts in ids
            )
            if not are_types or len(starts) > min(_MOST_TYPES, len(ids) * 2 // 3):
                break
            found = size if len(starts) > 1 else found
        if not found or name is None or self.answer.field is None:
            return None
        self.guessed.append(f"the question type is the beginning of {name}")
        return f"\"${{{name}|match:'^{'_'.join(['[^_]+'] * found)}'}}\""

    def _row_type(self) -> str | None:
        """Return the row field that contains one type for all questions of the row; None if there is no such field."""
        for name in ("question_type", "category", "source", "subset"):
            if isinstance(self.row.get(name), str):
                return field_name(name)
            for holder, part in self.row.items():
                if isinstance(part, Mapping) and isinstance(part.get(name), str):
                    return quoted_path(field_path(holder, name))
        return None

    def _type_name(self) -> str | None:
        """Return the name of a field that gives a type for every question; None if there is no such field."""
        questions = self.place.questions()
        names = [name for one in TYPES if (name := first_field(self.place.asked, (one,), (str, int)))]
        names = [name for name in names if all(isinstance(one.get(name), str | int) for one in questions)]
        return names[0] if names and questions else None

    def question_types(self) -> list[str]:
        """Return the distinct question types in the sample."""
        if self.type == "$keys[-2]":
            path = self.place.path
            value = value_of(json.loads(path) if path.startswith('"') else path)
            assert value is not None
            return list(dict.fromkeys(str(keys[-2]) for row in self.rows for keys, _ in value.keyed(row)))
        name = self._type_name()
        return list(dict.fromkeys(scalar_text(one.get(name)) or "" for one in self.place.questions() if name))

    def _abstention(self) -> str:
        ids = [scalar_text(row.get(name)) or "" for row in self.rows for name in IDS]
        conditions = []
        fields = self.place.asked
        if name := first_field(fields, UNANSWERABLE, (bool, int, str)):
            conditions.append(f"field: {self.place.at(name)}")
        elif name := first_field(fields, ANSWERABLE, (bool, int, str)):
            conditions.append(f"field: {self.place.at(name)}, equals: false")
        if any(text.endswith("_abs") for text in ids):
            conditions.append("idPattern: _abs$")
        if kinds := [
            kind for kind in self.question_types() if NO_ANSWER.search(kind) or kind.endswith(("-abs", "_abs"))
        ]:
            conditions.append(f"questionTypes: {json.dumps(kinds, ensure_ascii=False)}")
        marked = [name for name in ("question_id", "id") if any(
            (scalar_text(one.get(name)) or "").endswith("_abs") for one in self.place.children)]  # fmt: skip
        if marked:
            conditions.append(f'where: {{{marked[0]}: {{like: "*_abs"}}}}')
        if not conditions and (condition := self._unanswerable_condition()):
            conditions.append(f"where: {{{condition}}}")
        return f"abstention: {{{', '.join(conditions)}}}\n" if conditions else ""

    def _unanswerable_condition(self) -> str | None:
        """Return a condition that selects the unanswerable questions.

        The condition needs a field with few distinct values. One of these values must mean "unanswerable". Return None
        if there is no such field.
        """
        for name in self.place.asked:
            held = [one.get(name) for one in self.place.questions()]
            lists = all(isinstance(one, list) and len(one) == 1 for one in held)
            texts = {text for one in held if (text := scalar_text(one[0] if lists else one)) is not None}  # type: ignore[index]
            found = [text for text in texts if len(text) < 40 and NO_ANSWER.search(text)]
            if len(found) == 1 and 1 < len(texts) <= _MOST_TYPES:
                path = field_path(*filter(None, (self.place.inside, name)))
                return f"{json.dumps(path + '[0]' if lists else path)}: {json.dumps(found[0], ensure_ascii=False)}"
        return None

    def missing_answers(self) -> str | None:
        """Return a note on questions without an answer; None if no note is needed.

        No note is needed if every question or no question has an answer. No note is needed either if a field marks the
        unanswerable questions, or if the questions have choices.
        """
        found = self.answer.unanswered()
        if found is None or self.abstention or self.answer.choices() is not None:
            return None
        name, empty, every = found
        held = [one.get(name) for one in self.place.questions()]
        where = self.place.at(name) if [""] not in held else self.place.at(name).strip('"') + "[0]"
        where = where if where == name or where.startswith("$") else json.dumps(f"$.{where}") if "[" in where else where
        return (
            f"{counted(empty, f'of {every} questions (has|have)')} no {name}: if these questions cannot be "
            f"answered, write "
            f"abstention: {{where: {{{where}: {{present: false}}}}}}; otherwise correct the data"
        )

    # ------------------------------------------------------------- ids, corpus

    def item_id(self) -> str | None:
        """Return the field or template of the item id, as written in the config; None if no field fits.

        A field whose values are distinct in the sample is preferred. Otherwise, return a template that joins two fields
        or the file and the row number, if this makes distinct ids. Otherwise, return the first field with a usual id
        name.
        """
        for one in IDS:
            name = first_field(self.row, (one,))
            if name is not None and are_distinct([row.get(name) for row in self.rows]):
                return field_name(name)
        named = next((name for name in self.row if re.search(r"_id$|Id$|^uuid|uuid$", name) and name not in CORPORA
                      and are_distinct([row.get(name) for row in self.rows])), None)  # fmt: skip
        if named is not None:
            return field_name(named)
        if (start := first_field(self.row, IDS)) is not None and len(self.rows) > 1:
            for other, value in self.row.items():
                pairs = [f"{scalar_text(row.get(start))}-{scalar_text(row.get(other))}" for row in self.rows]
                if (
                    isinstance(value, str | int)
                    and other != start
                    and re.fullmatch(r"\w+", other)
                    and are_distinct(pairs)
                ):
                    return json.dumps(f"${{{start}}}-${{{other}}}")
        return self._inner_id()

    def _inner_id(self) -> str | None:
        for holder, part in self.row.items():
            for name in part if isinstance(part, Mapping) and holder != self.place.inside else ():
                values = [map_at(row, holder).get(name) for row in self.rows]
                if re.search(r"id$|source$|name$", name) and are_distinct(values):
                    return quoted_path(field_path(holder, name))
        for name in CORPORA:
            if self.child is not None and are_distinct([row.get(name) for row in self.rows]):
                return name
        if self.several:
            return "\"${$file|match:'[^/]+$'}-${$row}\""
        return first_field(self.row, IDS)

    def corpus(self, item_id: str) -> str:
        """Return the ``corpus`` line for the field that names the conversation of a row.

        Return an empty text if there is no such field.
        """
        for name in CORPORA:
            values = Counter(scalar_text(row.get(name)) for row in self.rows)
            if name != item_id and None not in values and len(values) < len(self.rows):
                return f"corpus: {{field: {name}}}\n"
        return ""

    def _cut(self) -> str:
        """Return the field that limits how much of the history an item can see; an empty text if nothing limits it."""
        name = next(
            (key for key, one in self.row.items() if _CUT_NAMES.fullmatch(key) and (scalar_text(one) or "").isdigit()),
            None,
        )
        path = self.place.path
        return name or ("$keys[-2]" if path.count("[*]") > 1 and ".*" not in path else "")

    def visibility(self) -> str:
        """Return the ``visibility`` line for the field that limits the visible history.

        Return an empty text if there is no such field.
        """
        if not self.cut:
            return ""
        through = ", through: true" if self.cut.startswith("$") else ""
        return f"visibility: {{field: {json.dumps(self.cut) if through else field_name(self.cut)}{through}}}\n"

    # ------------------------------------------------------------------- gold

    def _evidence(self) -> Iterator[str]:
        flags = (
            key
            for row in self.history.turns
            for key, value in row.items()
            if isinstance(value, bool) and FLAG.fullmatch(key)
        )
        found = [f"turnFlag: {flag}" for flag in flags][:1]
        if self.gold_line is not None:
            found.append(self.gold_line)
        elif self.child is None:
            found += self.gold.flat(self.history)
            if not found and (field := self._field_with_ids()):
                found.append(field)
        elif self.gold.ranged and (self.gold.nested(self.history) or "").startswith('"'):
            found.append("parser: ranges")
        elif self.gold.nested(self.history) in self.gold.joined:
            found.append("parser: dialog_refs")
        elif self.gold.paths and self.gold.nested(self.history) is None:
            names = ", ".join(self.gold.names())
            self.gold.unmapped.append(f"evidence of questions is not mapped: {names}; name it in evidenceField")
        if found:
            each = {line.partition(":")[0]: line for line in reversed(found)}
            yield f"evidence: {{{', '.join(dict.fromkeys(line for line in found if line in each.values()))}}}\n"

    def _field_with_ids(self) -> str | None:
        """Return the config's evidence key for an unused field whose values are all ids of sessions or turns.

        Return None if there is no such field. A field such as ``session_id`` is left out, because it can also name the
        session of the question.
        """
        used = "".join((*self.lines(), *self.history.lines, self.metadata(), self.item_id() or ""))
        names = [
            name
            for name in self.place.asked
            if name not in self._other_fields
            and not looks_numbered(name)
            and not re.search(rf"\b{re.escape(name)}\b", used)
        ]
        found = self.gold.with_ids(names, self.history)
        if found is None:
            return None
        name, ids, key = found
        self.guessed.append(f'the values of "{name}" are ids of {ids}, so it is used as evidence')
        return f"{key}: {self.place.at(name)}"

    def without_gold(self) -> list[str]:
        """Return the question types whose questions have no evidence.

        Return an empty list if no question of any type has evidence.
        """
        name = self._type_name()
        field = self.gold.nested(self.history) if self.child is not None else None
        if name is None or field is None or self.abstention:
            return []
        have = {scalar_text(one.get(name)) for one in self.place.children if one.get(field)}
        return [kind for kind in self.question_types() if kind not in have] if have else []
