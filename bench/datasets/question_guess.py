"""Guess from sample rows where the questions are, what answers them, and where the gold is.

Example::

    guess = Guess(rows, history="sessions")
    guess.lines(), guess.context, guess.evidence        # YAML
    guess.unmapped                                      # what could not be mapped, and how to write it

Gold is never taken for history.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from bench.datasets.config_guess import (
    ALIASES,
    ANSWERABLE,
    ANSWERS,
    CHOICES,
    CORPORA,
    DECODE,
    EVIDENCE,
    FLAG,
    GOLD,
    IDS,
    LITERAL,
    NESTED,
    NESTED_EVIDENCE,
    QUESTIONS,
    REFUSED,
    RIGHT,
    TYPES,
    Row,
    field_name,
    field_path,
    first,
    objects,
    quoted,
    union,
    written,
)
from bench.datasets.history_guess import HistoryGuess
from bench.datasets.row import flat, scalar_text, value_of

NO_ANSWER = re.compile(
    r"abstention|unanswerable|boundary|null_query|adversarial|not_mentioned|no_answer", re.IGNORECASE
)
"""question types whose name says that there is no answer"""
_CUT = re.compile(r".*(?:end_index|cutoff|cut_off|visible_until|up_to).*", re.IGNORECASE)
_DEEP = 5


class Guess:
    """What the rows seem to hold. ``row`` is their union: each field with its first value."""

    def __init__(
        self,
        rows: Sequence[Row],
        history: str,
        *,
        rows_path: str | None = None,
        several: bool = False,
        gold: str | None = None,
        brought: Collection[str] = (),
        joined: Collection[str] = (),
    ) -> None:
        self.rows = rows
        self.row = union(rows)
        self.several = several
        self.joined = joined
        self.keyed = (rows_path or "").startswith("$.*")
        self.brought = gold
        self.unmapped: list[str] = []
        self.path, self.children = self._nested()
        self.child: Row | None = union(self.children) if self.children else None
        self.inside = "" if self.child is not None else self._holder()
        self.asked: Row = self.child or cast("Row", self.row[self.inside] if self.inside else self.row)
        self.cut = self._cut()
        self.golds = dict(self._gold_paths())
        self.history = HistoryGuess(
            rows, history, gold=[*([brought] if brought else []), *self.golds.values()], cut=bool(self.cut)
        )
        self.unmapped += self.history.unmapped
        self.evidence = "".join(self._evidence())
        self.abstention = self._abstention()

    # -------------------------------------------------------------- questions

    def _nested(self) -> tuple[str, list[Row]]:
        """The path of nested questions with all of them."""
        for path, name, value in _lists_of_questions(self.row):
            found = value_of(f"$.{path}" if path[0] != "[" else f"${path}")
            assert found is not None
            children = [one for row in self.rows for one in found.all(row) if isinstance(one, Mapping)]
            if children:
                plain = path == f"{name}[*]" and isinstance(value, list)
                return (field_name(name) if plain else written(found.text)), children
        held = first(self.row, NESTED, (list, Mapping, str))
        if held is not None and isinstance(self.row[held], str):
            if LITERAL.match(str(self.row[held])):
                self.unmapped.append(f'"{held}" is a list or map written as text: {DECODE}')
        elif held is not None and (children := list(objects(self.row[held]))):
            return field_name(held), children
        elif held is not None and self.row[held]:
            self.unmapped.append(
                f'"{held}" is not a list of objects: join it with the list of answers by data.with: '
                f"{{qa: {{zip: {{question: {held}, answer: ANSWERS}}}}}}, and write schema.questions.field: qa"
            )
        return "", []

    def _holder(self) -> str:
        """The field whose map holds the question; empty where the row does."""
        if first(self.row, QUESTIONS, (str, Mapping)):
            return ""
        for name, part in self.row.items():
            if isinstance(part, Mapping) and first(part, QUESTIONS, str):
                return name
        for name, part in self.row.items():
            if isinstance(part, Mapping) and len(part) <= 4 and _question_by_mark(part):
                return name
        return ""

    def at(self, name: str) -> str:
        """A field of what is asked, as the config names it."""
        if self.inside:
            return written(field_path(self.inside, name))
        return field_name(name) if "." not in name else json.dumps(f"$[{json.dumps(name)}]")

    def question_path(self) -> str:
        """The question as the config names it."""
        name = self.question() or "question"
        part = self.asked.get(name)
        inner = first(part, ("content", "text", "question"), str) if isinstance(part, Mapping) else None
        return self.at(name) if inner is None else written(field_path(*filter(None, (self.inside, name)), inner))

    def question(self) -> str | None:
        """The field of the question."""
        return first(self.asked, QUESTIONS, str) or first(self.asked, QUESTIONS) or self._written_question()

    def _written_question(self) -> str | None:
        """A text that ends with a question mark; else, of files of questions, their text."""
        marked = _question_by_mark(self.asked)
        text = first(self.asked, ("text",), str) if self.brought or self.several else None
        return marked or text

    def lines(self) -> Iterator[str]:
        """The lines of schema that hold what is asked."""
        kind = self.kind()
        if self.child is not None:
            yield "  questions:\n"
            yield from (f"    {key}: {text}\n" for key, text in self._nested_lines(kind) if text)
        else:
            yield from self._flat_lines()
        if (name := first(self.asked, ("rubric", "rubrics", "key_points"), list)) is not None:
            yield f"  rubric: {self.at(name)}\n"

    def _nested_lines(self, kind: str | None) -> Iterator[tuple[str, str | None]]:
        child = self.asked
        ids = next((name for name in ("question_uuid", *IDS) if self._unique(name)), None)
        choices = self.choices()
        yield "field", self.path
        yield "questionField", field_name(self.question() or "question")
        yield "idField", ids and field_name(ids)
        yield "answerField", self.answers() if choices is None else None
        yield "evidenceField", self.nested_gold()
        yield "categoryField", kind
        yield "dateField", first(child, ("question_date", "date", "asked_at"), str)
        yield "choicesField", choices and choices[0]

    def _unique(self, name: str) -> bool:
        values = [scalar_text(one.get(name)) for one in self.children]
        return None not in values and len(set(values)) == len(values)

    def _flat_lines(self) -> Iterator[str]:
        yield f"  question: {self.question_path()}\n"
        choices = self.choices()
        if choices is not None:
            yield f"  choices: {choices[0]}\n"
            yield f"  choiceAnswer: {choices[1]}\n"
        if (choices is None or self.mixed()) and (answer := self.answers()):
            yield f"  answer: {answer}\n"

    def kind(self) -> str | None:
        """The value of the question type."""
        if (name := self._type_name()) is not None:
            return self.at(name)
        if self.path.endswith(".*[*]") or self.path.endswith('.*[*]"'):
            return "$keys[-2]"
        if self.child is not None:
            return self._row_type()
        if self.keyed:
            return "$keys[0]"
        return "\"${$file|match:'[^/]+$'}\"" if self.several else None

    def _row_type(self) -> str | None:
        """A type that the questions of a row share."""
        for name in ("question_type", "category", "source", "subset"):
            if isinstance(self.row.get(name), str):
                return field_name(name)
            for holder, part in self.row.items():
                if isinstance(part, Mapping) and isinstance(part.get(name), str):
                    return written(field_path(holder, name))
        return None

    def _type_name(self) -> str | None:
        """The field of the type, which every question has."""
        asked = self._all_asked()
        names = [name for name in TYPES if all(isinstance(one.get(name), str | int) for one in asked)]
        return names[0] if names and asked else None

    def _all_asked(self) -> list[Row]:
        if self.child is not None:
            return self.children
        return [cast("Row", row.get(self.inside) or {}) if self.inside else row for row in self.rows]

    def kinds(self) -> list[str]:
        """The question types of the sample."""
        kind = self.kind()
        if kind == "$keys[-2]":
            value = value_of(json.loads(self.path) if self.path.startswith('"') else self.path)
            assert value is not None
            return list(dict.fromkeys(str(keys[-2]) for row in self.rows for keys, _ in value.keyed(row)))
        name = self._type_name()
        return list(dict.fromkeys(scalar_text(one.get(name)) or "" for one in self._all_asked() if name))

    def answers(self) -> str | None:
        """The field of the answer, or a list with those of other spellings."""
        child = self.asked
        name = first(child, ANSWERS)
        inside = child.get(name or "")
        if isinstance(inside, Mapping) and name is not None:
            part = first(inside, ("text", "texts", "value", "answer"))
            return written(field_path(name, part)) if part else self.at(name)
        if name is None and self.inside and len(child) <= 4:
            name = next((key for key, one in child.items() if isinstance(one, str) and key != self.question()), None)
        more = [alias for alias in ALIASES if child.get(alias) not in (None, "") and alias != name]
        if name is None:
            return None
        if not more:
            return self.at(name)
        names = ", ".join(self.at(one) for one in (name, *more))
        everywhere = all(all(one.get(alias) for alias in (name, *more)) for one in self.children or self.rows)
        return f"[[{names}]]" if self.child is not None and not everywhere else f"[{names}]"

    def choices(self) -> tuple[str, str] | None:
        """The fields of the choices and of the right one."""
        child = {name: value for name, value in self.asked.items() if name not in self.joined}
        lettered = sorted(key for key in child if re.fullmatch(r"(?:choice|option)_?[A-Ha-h1-8]", key))
        named = re.compile(r".*(?:options|choices)", re.IGNORECASE)
        name = first(child, CHOICES, (list, Mapping)) or next(
            (key for key, one in child.items() if named.fullmatch(key) and isinstance(one, list) and one[1:]), None
        )  # fmt: skip
        right = first(child, RIGHT) or first(child, ANSWERS)
        wrong = first(child, ("incorrect_answers", "wrong_answers", "distractors"), list)
        if wrong and right and name is None:
            return f"{{from: [{self.at(right)}, {self.at(wrong)}], shuffle: true}}", self.at(right)
        if name and right is None:
            self.unmapped.append(
                f'which of "{name}" is right is not said: the first one is taken, and their order is mixed; write '
                "another schema.choiceAnswer where that is wrong"
            )
            return f"{{from: {self.at(name)}, shuffle: true}}", written(
                field_path(*filter(None, (self.inside, name))) + "[0]"
            )
        if right is None or (name is None and len(lettered) < 2):
            if texts := first(child, CHOICES, str):
                self.unmapped.append(f'"{texts}" holds choices as a text: {DECODE}')
            return None
        holder = child.get(name or "")
        if name and isinstance(holder, Mapping) and isinstance(holder.get("text"), list):
            return written(field_path(*filter(None, (self.inside, name)), "text")), self.at(right)
        return (self.at(name) if name else f"[{', '.join(map(self.at, lettered))}]"), self.at(right)

    def mixed(self) -> bool:
        """Only some questions have choices."""
        name = first(self.asked, CHOICES, (list, Mapping))
        return name is not None and any(not one.get(name) for one in (self.children or self.rows) if not self.inside)

    def _abstention(self) -> str:
        ids = [scalar_text(row.get(name)) or "" for row in self.rows for name in IDS]
        conditions = []
        if name := first(self.asked, REFUSED, (bool, int, str)):
            conditions.append(f"field: {self.at(name)}")
        elif name := first(self.asked, ANSWERABLE, (bool, int, str)):
            conditions.append(f"field: {self.at(name)}, equals: false")
        if any(text.endswith("_abs") for text in ids):
            conditions.append("idPattern: _abs$")
        if kinds := [kind for kind in self.kinds() if NO_ANSWER.search(kind) or kind.endswith(("-abs", "_abs"))]:
            conditions.append(f"questionTypes: {json.dumps(kinds, ensure_ascii=False)}")
        marked = [name for name in ("question_id", "id") if self.child is not None
                  and any((scalar_text(one.get(name)) or "").endswith("_abs") for one in self.children)]  # fmt: skip
        if marked:
            conditions.append(f'where: {{{marked[0]}: {{like: "*_abs"}}}}')
        return f"abstention: {{{', '.join(conditions)}}}\n" if conditions else ""

    # ------------------------------------------------------------- ids, corpus

    def item_id(self) -> str | None:
        """An id that differs from row to row, as the config writes it; None where a row has none."""
        for name in IDS:
            if self._differs([scalar_text(row.get(name)) for row in self.rows]):
                return field_name(name)
        named = next((name for name in self.row if re.search(r"_id$|Id$|^uuid|uuid$", name) and name not in CORPORA
                      and self._differs([scalar_text(row.get(name)) for row in self.rows])), None)  # fmt: skip
        if named is not None:
            return field_name(named)
        if (start := first(self.row, IDS)) is not None and len(self.rows) > 1:
            for other, value in self.row.items():
                pairs = [f"{scalar_text(row.get(start))}-{scalar_text(row.get(other))}" for row in self.rows]
                if (
                    isinstance(value, str | int)
                    and other != start
                    and re.fullmatch(r"\w+", other)
                    and self._differs(pairs)
                ):
                    return json.dumps(f"${{{start}}}-${{{other}}}")
        return self._inner_id()

    def _inner_id(self) -> str | None:
        for holder, part in self.row.items():
            for name in part if isinstance(part, Mapping) and holder != self.inside else ():
                values = [scalar_text(cast("Row", row.get(holder) or {}).get(name)) for row in self.rows]
                if re.search(r"id$|source$|name$", name) and self._differs(values):
                    return written(field_path(holder, name))
        for name in CORPORA:
            if self.child is not None and self._differs([scalar_text(row.get(name)) for row in self.rows]):
                return name
        if self.several:
            return "\"${$file|match:'[^/]+$'}-${$row}\""
        return first(self.row, IDS)

    @staticmethod
    def _differs(values: Sequence[str | None]) -> bool:
        return None not in values and len(set(values)) == len(values)

    def corpus(self, item_id: str) -> str:
        """The field that rows of one conversation share."""
        for name in CORPORA:
            values = Counter(scalar_text(row.get(name)) for row in self.rows)
            if name != item_id and None not in values and len(values) < len(self.rows):
                return f"corpus: {{field: {name}}}\n"
        return ""

    def _cut(self) -> str:
        """Up to where an item sees the history."""
        name = next(
            (key for key, one in self.row.items() if _CUT.fullmatch(key) and (scalar_text(one) or "").isdigit()), None
        )
        return name or ("$keys[-2]" if self.path.count("[*]") > 1 and ".*" not in self.path else "")

    def visibility(self) -> str:
        """The section that says so."""
        if not self.cut:
            return ""
        through = ", through: true" if self.cut.startswith("$") else ""
        return f"visibility: {{field: {json.dumps(self.cut) if through else field_name(self.cut)}{through}}}\n"

    # ------------------------------------------------------------------- gold

    def _gold_paths(self) -> Iterator[tuple[str, set[str]]]:
        """Paths that may hold gold ids, with their texts over the sample."""
        places = self.children or [cast("Row", row.get(self.inside) or {}) if self.inside else row for row in self.rows]
        skipped = {
            first(self.asked, ANSWERS),
            *ALIASES,
            "rubric",
            "question",
            first(self.asked, CHOICES),
            first(self.asked, RIGHT),
        }
        for name in [key for key in self.asked if EVIDENCE.fullmatch(key)]:
            if name in skipped:
                continue
            for path in dict.fromkeys(path for place in places for path in _leaves(place.get(name), field_path(name))):
                value = value_of(path)
                assert value is not None
                texts = {text for place in places for one in value.all(place) if (text := scalar_text(one)) is not None}
                if texts:
                    yield path, texts

    def _evidence(self) -> Iterator[str]:
        found = []
        flag = next(
            (
                key
                for row in self.history.turns
                for key, value in row.items()
                if isinstance(value, bool) and FLAG.fullmatch(key)
            ),
            None,
        )
        if flag is not None:
            found.append(f"turnFlag: {flag}")
        if self.brought is not None:
            found.append(f"turnIdsField: {json.dumps(self.brought)}")
        elif self.child is None:
            found += self._flat_evidence()
        elif self.golds and self.nested_gold() is None:
            names = ", ".join(dict.fromkeys(path[2:].partition("[")[0].partition(".")[0] for path in self.golds))
            self.unmapped.append(f"evidence of questions is not mapped: {names}; name it in evidenceField")
        if found:
            yield f"evidence: {{{', '.join(dict.fromkeys(found))}}}\n"

    def without_gold(self) -> list[str]:
        """Types none of whose questions has evidence, where those of other types have."""
        name, field = self._type_name(), self.nested_gold() if self.child is not None else None
        if name is None or field is None or self.abstention:
            return []
        have = {scalar_text(one.get(name)) for one in self.children if one.get(field)}
        return [kind for kind in self.kinds() if kind not in have] if have else []

    def _flat_evidence(self) -> Iterator[str]:
        texts = {scalar_text(turn.get("content")) or scalar_text(turn.get("text")) for turn in self.history.turns}
        missed: dict[str, None] = {}
        taken: set[str] = set()
        for path, values in self.golds.items():
            name = path[2:].partition("[")[0].partition(".")[0]
            whole = (
                json.dumps(field_path(*filter(None, (self.inside,))) + path[1:]) if self.inside else _short(path, name)
            )
            if values <= self.history.session_ids:
                yield f"sessionIdsField: {whole}"
            elif values <= self.history.turn_ids:
                yield f"turnIdsField: {whole}"
            elif path.endswith(".content") and values & texts:
                yield f"turnIdsField: {name}, parser: exact_text"
            else:
                missed[name] = None
                continue
            taken.add(name)
        for name in missed.keys() - taken:
            self.unmapped.append(f'"{name}" seems to hold evidence, and its values are ids of no session and no turn')

    def nested_gold(self) -> str | None:
        """The field of a nested question whose values are ids of sessions or turns."""
        known = self.history.session_ids | self.history.turn_ids
        fields: dict[str, set[str]] = {}
        for path, values in self.golds.items():
            fields.setdefault(path[2:].partition("[")[0].partition(".")[0], set()).update(values)
        for name, values in fields.items():
            if values <= known or any(
                one <= known for path, one in self.golds.items() if path.startswith(f"$.{name}[")
            ):
                return field_name(name)
        return next((name for name in NESTED_EVIDENCE if isinstance(self.asked.get(name), list)
                     and all(isinstance(one, str) for one in flat(self.asked[name]))), None)  # fmt: skip


def _short(path: str, name: str) -> str:
    return field_name(name) if path == f"{field_path(name)}[*]" else json.dumps(path)


def _question_by_mark(part: Row) -> str | None:
    marked = [
        name
        for name, one in part.items()
        if isinstance(one, str) and one.rstrip().endswith("?") and not GOLD.fullmatch(name)
    ]
    return marked[0] if len(marked) == 1 else None


def _leaves(value: object, path: str, deep: int = 3) -> Iterator[str]:
    """Every path to scalars below a value."""
    if isinstance(value, list) and deep:
        pairs = value and all(isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) for one in value)
        if pairs:
            yield f"{path}[*][0]"
            return
        for one in value:
            yield from _leaves(one, f"{path}[*]", deep - 1)
    elif isinstance(value, Mapping) and deep:
        for key, one in value.items():
            yield from _leaves(one, path + field_path(key)[1:], deep - 1)
    elif value is not None:
        yield path


def _lists_of_questions(
    value: object, path: str = "", name: str = "", deep: int = _DEEP
) -> Iterator[tuple[str, str, object]]:
    """Paths of lists of objects that ask; the one with a telling name first, gold never."""
    if deep == 0:
        return
    if isinstance(value, list):
        maps = [one for one in value if isinstance(one, Mapping)]
        if maps and any(first(one, QUESTIONS, str) for one in maps):
            yield f"{path}[*]", name, value
        elif maps:
            yield from _lists_of_questions(union(maps), f"{path}[*]", name, deep - 1)
    elif isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: key not in NESTED)
        if path and keys and all(isinstance(one, list) for one in value.values()) and len(keys) > 1:
            merged = [one for part in value.values() for one in cast("list[object]", part)]
            yield from _lists_of_questions(merged, f"{path}.*", name, deep - 1)
            return
        for key in keys:
            if isinstance(value[key], list | Mapping) and key not in ("question_decomposition", "messages"):
                step = field_path(key)[2:] if not path and field_path(key)[1] == "." else field_path(key)[1:]
                yield from _lists_of_questions(value[key], f"{path}{step}", key, deep - 1)


__all__ = ["Guess", "quoted"]
