"""Guess from sample rows where a benchmark's history, questions and gold are; report what could not be mapped.

Gold is never taken for history, and what no config can read is named with what to write instead::

    guess = Guess(rows)
    guess.context, guess.evidence        # lines of YAML
    guess.unmapped                       # ('"questions" is a list of texts: ...',)
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench.datasets.dates import DateReader
from bench.datasets.row import scalar_text

Row = Mapping[str, object]

IDS = ("id", "question_id", "sample_id", "case_id", "item_id", "uid", "_id", "qid", "query_id", "uuid")
QUESTIONS = ("question", "query", "q", "prompt", "input", "user_question_or_message")
ANSWERS = ("answer", "expected_answer", "expected", "answers", "gold", "a", "output", "target", "gold_answer",
           "ground_truth", "ideal_response", "correct_answer", "reference_answer")  # fmt: skip
ALIASES = ("answer_aliases", "aliases", "ideal_response", "ideal_answer")
HISTORIES = ("sessions", "haystack_sessions", "conversation", "content", "context", "text", "messages", "history",
             "document", "passage", "items", "dialogue", "dialogues", "dialog", "chat", "chats", "chat_history",
             "turns", "paragraphs", "passages", "documents", "conversations", "transcript", "memories")  # fmt: skip
DATES = ("dates", "haystack_dates", "session_dates", "timestamps", "days")
SESSION_IDS = ("session_ids", "haystack_session_ids")
ONE_ID = ("id", "session_id", "sid", "turn_id", "message_id", "msg_id", "dia_id", "idx", "title")
ONE_DATE = ("date", "session_date", "timestamp", "time", "datetime", "created_at", "time_anchor", "date_time")
TURNS = ("turns", "messages", "dialogue", "dialog", "conversation", "utterances", "chat", "content", "sentences")
WORDS = ("content", "text")
SPEAKERS = ("role", "speaker", "who", "author", "sender", "from", "name", "title")
ROLES = ("user", "assistant", "system", "human", "ai", "bot", "gpt")
TYPES = ("question_type", "type", "category", "kind")
NESTED = ("qa", "qa_pairs", "questions", "queries", "probing_questions", "qas", "test_questions")
CHOICES = ("choices", "options", "all_options", "candidates")
RIGHT = (
    "answerKey",
    "answer_key",
    "correct_choice",
    "correct_option",
    "correct",
    "label",
    "answer_index",
    "gold_label",
)
NESTED_EVIDENCE = ("evidence", "evidence_ids", "expectedAnswerIds")
CORPORA = ("corpus_id", "conversation_id", "shared_context_id", "context_id", "dialogue_id", "sample_id", "conv_id")
REFUSED = ("abstention", "is_abstention", "unanswerable", "is_unanswerable", "is_impossible", "no_answer")
ANSWERABLE = ("answerable", "is_answerable", "has_answer")
GOLD = re.compile(
    r"(?:gold|answer|correct|label|evidence|support|rubric|explanation|rationale|ground_?truth|ideal|expected|target"
    r"|has_answer|is_|question|all_options|choice|option|candidate|distractor|key_?points).*|.*_(?:evidence|answers?|aliases|gold|labels?)",
    re.IGNORECASE,
)
"""names of fields that hold what a provider must not see, or what is not a history"""
EVIDENCE = re.compile(r"(?:.*evidence|support|gold|answer_session|relevant|source_).*", re.IGNORECASE)
FLAG = re.compile(r"has_answer|(?:is_)?(?:supporting|gold|evidence|relevant)(?:_fact)?|label", re.IGNORECASE)
LITERAL = re.compile(r"\s*(?:\{\s*['\"]|\[\s*['\"{\[(])")
DECODE = "decode it before (JSON: jq fromjson; a Python literal: ast.literal_eval)"
STEP = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
SPECIAL = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
NUMBERED = re.compile(r"(.*?)[0-9]+(\D*)")


def first(row: Row, names: Iterable[str], kind: type | tuple[type, ...] = object) -> str | None:
    """The first of the names that the row has a value of that kind for."""
    return next((name for name in names if row.get(name) is not None and isinstance(row[name], kind)), None)


def field_path(*steps: str) -> str:
    """A path of names, and of ``[*]``, as a config writes it."""
    parts = (
        step if step == "[*]" else f".{step}" if STEP.fullmatch(step) else f"[{json.dumps(step)}]" for step in steps
    )
    return "$" + "".join(parts)


def written(text: str) -> str:
    """A path as YAML takes it."""
    return text if re.fullmatch(r"\$[\w.\[\]*]+", text, re.ASCII) else json.dumps(text, ensure_ascii=False)


def field_name(name: str) -> str:
    """A field as the config names it: by a path where its name would be read as one."""
    return quoted(f"$[{json.dumps(name, ensure_ascii=False)}]" if name.startswith(("$", "@")) else name)


def quoted(name: str) -> str:
    """A name as YAML takes it, whatever is in it."""
    plain = PLAIN.fullmatch(name) and name.lower() not in SPECIAL
    return name if plain else json.dumps(name, ensure_ascii=False)


def union(rows: Iterable[Row]) -> dict[str, object]:
    """Every key that some of the objects have, with its first value that is not null or empty."""
    merged: dict[str, object] = {}
    for row in rows:
        for key, value in row.items():
            if merged.get(key) in (None, "", []):
                merged[key] = value
    return merged


def objects(value: object) -> Iterator[Row]:
    """The objects of a list, whatever lists or maps of lists are between."""
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        if isinstance(part, Mapping):
            yield part
        elif isinstance(part, list):
            yield from objects(part)


class Guess:
    """What the rows seem to hold. ``row`` is their union: each field with its first value."""

    def __init__(self, rows: Sequence[Row], history: str) -> None:
        self.rows = rows
        self.row = union(rows)
        self.history = history
        self.unmapped: list[str] = []
        self.session_ids: set[str] = set()
        self.turn_ids: set[str] = set()
        self.turns: list[Row] = []
        self.nested = first(self.row, NESTED, (list, Mapping))
        self.child = self._child()
        self.asked: Row = self.child if self.child is not None else self.row
        self.context = "".join(f"    {line}\n" for line in self._context())
        self.evidence = "".join(self._evidence())
        self.abstention = self._abstention()

    # -------------------------------------------------------------- questions

    def _child(self) -> Row | None:
        value = self.row.get(self.nested or "")
        children = list(objects(value))
        if (text := first(self.row, NESTED, str)) and LITERAL.match(str(self.row[text])):
            self.unmapped.append(f'"{text}" is a list or map written as text: {DECODE}')
        if self.nested and not children and value:
            self.unmapped.append(
                f'"{self.nested}" is not a list of objects: write a row for each question, or make each an object: '
                f"jq -c '.{self.nested} = ([.{self.nested}, .answers] | transpose | "
                "map({question: .[0], answer: .[1]}))'"
            )
        return union(children) if children else None

    def nested_path(self) -> str:
        """Where the questions are: in a list, or in lists under the keys of a map."""
        assert self.nested is not None
        value = self.row[self.nested]
        if not isinstance(value, Mapping):
            return self.nested
        self.unmapped.append(
            f'the keys of "{self.nested}" ({", ".join(map(str, value))}) are not taken for question types: '
            "write the key into each question, and name that field in categoryField"
        )
        return field_path(self.nested, "[*]", "[*]")

    def answers(self, child: Row) -> str | None:
        """The field of the answer, or a list with those of other spellings."""
        name = first(child, ANSWERS)
        inside = child.get(name or "")
        if isinstance(inside, Mapping) and name is not None:
            part = first(inside, ("text", "texts", "value", "answer"))
            return written(field_path(name, part)) if part else name
        more = [alias for alias in ALIASES if child.get(alias) not in (None, "") and alias != name]
        if name is None or not more:
            return name
        return f"[{', '.join((name, *more))}]"

    def choices(self, child: Row) -> tuple[str, str] | None:
        """The fields of the choices and of the right one."""
        lettered = sorted(key for key in child if re.fullmatch(r"(?:choice|option)_?[A-Ha-h1-8]", key))
        name = first(child, CHOICES, (list, Mapping))
        right = first(child, RIGHT) or first(child, ANSWERS)
        if right is None or (name is None and len(lettered) < 2):
            texts = first(child, CHOICES, str)
            if texts:
                self.unmapped.append(f'"{texts}" holds choices as a text: {DECODE}')
            return None
        holder = child.get(name or "")
        if name and isinstance(holder, Mapping) and isinstance(holder.get("text"), list):
            return written(field_path(name, "text")), right
        return (name or f"[{', '.join(lettered)}]"), right

    def _abstention(self) -> str:
        if name := first(self.asked, REFUSED, (bool, int, str)):
            return f"abstention: {{field: {name}}}\n"
        if name := first(self.asked, ANSWERABLE, (bool, int, str)):
            return f"abstention: {{field: {name}, equals: false}}\n"
        ids = (scalar_text(row.get(name)) or "" for row in self.rows for name in IDS)
        return "abstention: {idPattern: _abs$}\n" if any(text.endswith("_abs") for text in ids) else ""

    def corpus(self, item_id: str) -> str:
        """The field that rows of one conversation share."""
        for name in CORPORA:
            values = Counter(scalar_text(row.get(name)) for row in self.rows)
            if name != item_id and None not in values and len(values) < len(self.rows):
                return f"corpus: {{field: {name}}}\n"
        return ""

    def item_id(self) -> str | None:
        """The first id that differs from row to row."""
        for name in IDS:
            values = [scalar_text(row.get(name)) for row in self.rows]
            if None not in values and len(set(values)) == len(values):
                return name
        return first(self.row, IDS)

    # ---------------------------------------------------------------- history

    def _context(self) -> Iterator[str]:
        value = self.row.get(self.history)
        if isinstance(value, Mapping):
            yield from self._of_map(value)
        elif isinstance(value, list):
            yield from self._of_list(value)
        else:
            yield from (f"field: {field_name(self.history)}", "type: string")
            if isinstance(value, str) and LITERAL.match(value):
                self.unmapped.append(f'"{self.history}" is a list or map written as text: {DECODE}')
        yield from self._item_schema()

    def _of_map(self, holder: Row) -> Iterator[str]:
        shapes = Counter(match.groups() for key, part in holder.items() if isinstance(part, list | Mapping)
                         and (match := NUMBERED.fullmatch(key)))  # fmt: skip
        if shapes:
            (before, after), _ = shapes.most_common(1)[0]
            yield from (f"field: {field_name(self.history)}", "type: object")
            if (before, after) != ("session_", ""):
                yield f"sessionPattern: {json.dumps(f'{before}*{after}', ensure_ascii=False)}"
            yield from self._date_pattern(holder)
            parts = [part for key, part in holder.items() if NUMBERED.fullmatch(key)]
            if any(isinstance(part, Mapping) for part in parts):
                self.unmapped.append(
                    f'the sessions of "{self.history}" are objects: put the list of turns under the key'
                )
            self.turns = list(objects([part for part in parts if isinstance(part, list)]))
            self.session_ids = set(holder)
            return
        lists = {key: part for key, part in holder.items() if isinstance(part, list) and part}
        if not lists:
            self.unmapped.append(
                f'"{self.history}" has no list and no numbered keys: name its sessions in schema.context'
            )
            yield from (f"field: {field_name(self.history)}", "type: object")
            return
        main = max(
            lists, key=lambda key: (any(isinstance(p, list | Mapping) for p in lists[key]), len(str(lists[key])))
        )
        beside = {key: part for key, part in lists.items() if key != main and len(part) == len(lists[main])}
        yield from (f"field: {written(field_path(self.history, main))}", "type: array")
        dates = next((key for key, part in beside.items() if is_date(part[0])), None)
        ids = next((key for key, part in beside.items() if key != dates and _are_ids(part)), None)
        if dates:
            yield f"dateField: {written(field_path(self.history, dates))}"
        if ids:
            yield f"sessionIdField: {written(field_path(self.history, ids))}"
            self.session_ids = {scalar_text(one) or "" for one in lists[ids]}
        self.turns = list(objects(lists[main]))

    def _date_pattern(self, holder: Row) -> Iterator[str]:
        shapes = Counter(match.groups() for key, part in holder.items() if is_date(part)
                         and (match := NUMBERED.fullmatch(key)))  # fmt: skip
        if shapes and (found := shapes.most_common(1)[0][0]) != ("session_", "_date_time"):
            yield f"datePattern: {json.dumps('*'.join(found), ensure_ascii=False)}"

    def _of_list(self, elements: list[object]) -> Iterator[str]:
        whole = union(part for part in elements if isinstance(part, Mapping))
        lists = [key for key, part in whole.items() if isinstance(part, list) and not GOLD.fullmatch(key)]
        largest = max(lists, key=lambda key: len(str(whole[key])), default=None)
        inner = first(whole, TURNS, list) or largest
        if inner is not None:
            yield from (f"field: {written(field_path(self.history, '[*]', inner))}", "type: array")
            parts = [part for part in elements if isinstance(part, Mapping)]
            for key, names in (("dateField", ONE_DATE), ("sessionIdField", ONE_ID)):
                name = next((name for name in names if all(part.get(name) is not None for part in parts)), None)
                if name is not None:
                    yield f"{key}: {written(field_path(self.history, '[*]', name))}"
                if name is not None and key == "sessionIdField":
                    self.session_ids = {scalar_text(part[name]) or "" for part in parts}
            self.turns = [turn for part in parts for turn in objects(part.get(inner))]
            return
        if any(isinstance(part, list) and {str, list} <= set(map(type, part)) for part in elements):
            self.unmapped.append(
                f'"{self.history}" holds pairs of a name and a list: turn each into an object, '
                f"jq -c '.{self.history} |= {{title: map(.[0]), sentences: map(.[1])}}', and run this command again"
            )
        yield from (f"field: {field_name(self.history)}", "type: array")
        if dates := first(self.row, DATES, list):
            yield f"dateField: {dates}"
        if ids := first(self.row, SESSION_IDS, list):
            yield f"sessionIdField: {ids}"
            self.session_ids = {scalar_text(one) or "" for row in self.rows for one in _list(row.get(ids))}
        self.turns = list(objects(elements))

    def _item_schema(self) -> Iterator[str]:
        """Where the parts of a turn are, for turns that the usual names do not read whole."""
        turn = union(self.turns)
        if not turn:
            return
        who = first(turn, SPEAKERS, str)
        texts = {k: v for k, v in turn.items() if isinstance(v, str) and k != who and not GOLD.fullmatch(k)}
        words = first(turn, WORDS, str) or max(texts, key=lambda name: len(texts[name]), default=None)
        if words is None:
            return
        date = next((name for name in ONE_DATE if is_date(turn.get(name))), None)
        ids = next((n for n in ONE_ID if n != "title" and isinstance(turn.get(n), str | int) and self._differ(n)), None)
        self.turn_ids = {scalar_text(one[ids]) or "" for one in self.turns if ids and one.get(ids) is not None}
        caption = first(turn, ("blip_caption", "caption"), str)
        usual = words in WORDS and who in (None, "role", "speaker") and date is None and ids in (None, "dia_id")
        if usual:
            return
        key = "role" if who and (who == "role" or turn[who] in ROLES) else "speaker"
        parts = (
            ("content", words),
            (key, who),
            ("dialogId" if ids == "dia_id" else "id", ids),
            ("date", date),
            ("caption", caption),
        )
        yield "itemSchema:"
        yield from (f"  {part}: {field_name(name)}" for part, name in parts if name)
        if left := [name for name in texts if name not in (words, date, ids, caption)]:
            self.unmapped.append(f"of a turn these texts are not remembered: {', '.join(left)}")

    def _differ(self, name: str) -> bool:
        values = [scalar_text(turn.get(name)) for turn in self.turns[:20]]
        return None not in values and len(set(values)) == len(values)

    # ------------------------------------------------------------------- gold

    def _evidence(self) -> Iterator[str]:
        found = []
        for row in self.turns:
            if flag := next(
                (key for key, value in row.items() if isinstance(value, bool) and FLAG.fullmatch(key)), None
            ):
                found.append(f"turnFlag: {flag}")
                break
        if self.child is not None:
            lost = [name for name in self.child if EVIDENCE.fullmatch(name) and name not in NESTED_EVIDENCE]
            lost = [name for name in lost if name not in (*ANSWERS, *ALIASES)]
            if lost and not first(self.child, NESTED_EVIDENCE, list):
                self.unmapped.append(
                    f"evidence of questions is not mapped: {', '.join(lost)}; name it in evidenceField"
                )
        else:
            for name, value in self.row.items():
                if EVIDENCE.fullmatch(name) and name != first(self.row, ANSWERS) and isinstance(value, list | Mapping):
                    found += self._named(name, value)
        if found:
            yield f"evidence: {{{', '.join(dict.fromkeys(found))}}}\n"

    def _named(self, name: str, value: object) -> Iterator[str]:
        """The key for a field of ids; None where its values are ids of nothing."""
        lists = {name: value} if isinstance(value, list) else {
            field_path(name, key): part for key, part in value.items() if isinstance(part, list)  # type: ignore[attr-defined]
        }  # fmt: skip
        for path, given in lists.items():
            ids = {scalar_text(one) for one in given}
            for key, known in (("sessionIdsField", self.session_ids), ("turnIdsField", self.turn_ids)):
                if ids and ids <= known:
                    yield f"{key}: {written(path) if path.startswith('$') else field_name(path)}"
                    return
        if value:
            self.unmapped.append(f'"{name}" seems to hold evidence, and its values are ids of no session and no turn')


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def is_date(value: object) -> bool:
    text = None if isinstance(value, bool) else scalar_text(value)
    return bool(text) and DateReader("UTC").read(text or "") is not None


def _are_ids(values: Sequence[object]) -> bool:
    texts = [scalar_text(value) for value in values]
    return None not in texts and len(set(texts)) == len(texts)
