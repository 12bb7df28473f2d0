"""``bench new benchmark NAME --from DATA``: a commented, valid config whose fields are guessed from the data.

::

    started = new_benchmark("notes", Path("notes.jsonl"), workspace)
    started.path, started.text          # configs/benchmarks/notes.yaml, ready to be written
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.config.benchmark.checks import SUFFIXES
from bench.datasets.rows import RowFile
from bench.errors import DataError, UsageError

_IDS = ("id", "question_id", "sample_id", "case_id", "item_id", "uid")
_QUESTIONS = ("question", "query", "q", "prompt", "input")
_ANSWERS = ("answer", "expected_answer", "expected", "answers", "gold", "a", "output", "target")
_HISTORIES = ("sessions", "haystack_sessions", "conversation", "content", "context", "text", "messages", "history",
              "document", "passage", "items")  # fmt: skip
_DATES = ("dates", "haystack_dates", "session_dates", "timestamps", "days")
_SESSION_IDS = ("session_ids", "haystack_session_ids")
_WORDS = ("content", "text")
_SPEAKERS = ("role", "speaker", "who", "author", "sender", "from", "name")
_ROLES = ("user", "assistant", "system", "human", "ai", "bot")
_TYPES = ("question_type", "type", "category", "kind")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SPECIAL = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
_NESTED = ("qa", "qa_pairs", "questions", "queries")

SAMPLE = """# A benchmark: what is remembered, what is asked, how it is judged. See docs/add-a-benchmark.md
name: {quoted}
description: One sentence about it
version: "1"            # raise it when items or protocol change

data:
  type: local
  path: {path}          # beside this file first, then in the workspace

schema:
  itemId: {id}
{ask}  context:
{context}{metadata}
ingestion:
  mode: {mode}          # session-based: a memory a session; incremental: a turn; bulk: everything at once

search:
  defaultLimit: 10      # k

evaluation:
  method: {method}      # contains, exact-match, token-f1, llm-judge, none ...
{reader}
metrics:
{metrics}"""

READER = """  answeringModel:
    model: builtin/extractive      # needs no key; --answering-model names a real one
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Files to be written: path and text, the config first."""

    files: tuple[tuple[Path, str], ...]
    guesses: tuple[str, ...] = ()
    """what no field of the data fits: the config names one all the same, which is to be looked at"""

    @property
    def path(self) -> Path:
        return self.files[0][0]

    @property
    def text(self) -> str:
        return self.files[0][1]


def new_benchmark(name: str, data: Path | None, workspace: Path) -> Started:
    """Make a config for the data, or for two sample rows of its own. UsageError when the file exists already."""
    target = workspace / "configs" / "benchmarks" / f"{name}.yaml"
    if target.exists():
        raise UsageError(f"{target} is already there", hint="choose another name")
    if data is None:
        row: Mapping[str, object] = _SAMPLE_ROWS[0]
        path = f"./datasets/{name}/{name}.jsonl"
        lines = "".join(json.dumps(sample) + "\n" for sample in _SAMPLE_ROWS)
        return Started(files=((target, config_text(name, path, row)), (workspace / path, lines)))
    row = first_row(data)
    return Started(files=((target, config_text(name, _written_path(data, workspace), row)),), guesses=guesses(row))


def first_row(data: Path) -> Mapping[str, object]:
    """The first row of a data file of any format."""
    suffix = data.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f'cannot tell the format of "{data}"', hint="use a .json, .jsonl or .csv file")
    for row in RowFile.open(data, SUFFIXES[suffix]):  # type: ignore[arg-type]
        if row.values is None:
            raise row.error or row.place.error("", "is torn")
        if not row.values:
            raise row.place.error("", "has no field")
        return row.values
    raise DataError("there are no rows", where=str(data))


def config_text(name: str, path: str, row: Mapping[str, object]) -> str:
    """Write the config for rows like this one."""
    nested = _first(row, _NESTED, list)
    child = row[nested][0] if nested and row[nested] else None  # type: ignore[index]
    questions = child if isinstance(child, Mapping) else None
    history = _history(row)
    kind = _first(row, _TYPES)
    answered = bool(_first(questions if questions is not None else row, _ANSWERS))
    return SAMPLE.format(
        quoted=quoted(name),
        path=json.dumps(path),
        id=_first(row, _IDS) or _field(next(iter(row))),
        ask=_nested(nested or "", questions) if questions is not None else _flat(row),
        context=_context(row, history),
        metadata=f"  metadata:\n    questionType: {kind}\n" if kind and questions is None else "",
        mode="session-based",
        method="contains" if answered else "none",
        reader=READER if answered else "",
        metrics="  - accuracy\n" if answered else "  - hit_at_10\n",
    )


def guesses(row: Mapping[str, object]) -> tuple[str, ...]:
    """Each key of the config for which no field of the row has a telling name, and what stands there instead."""
    children = row[nested] if (nested := _first(row, _NESTED, list)) else None
    asked = children[0] if isinstance(children, list) and children and isinstance(children[0], Mapping) else row
    first = next(iter(row))
    found = {
        "itemId": None if _first(row, _IDS) else f'the first field, "{first}"',
        "context.field (the history)": None if _first(row, _HISTORIES) else f'the name "{_history(row)}"',
        "question": None if _first(asked, _QUESTIONS) else 'the name "question"',
        "the words of a turn": None if (words := _turn_words(row)) is None else f'the longest text, "{words}",',
    }
    return tuple(f"no field looks like {key}: {text} stands there" for key, text in found.items() if text)


def _flat(row: Mapping[str, object]) -> str:
    question, answer = _first(row, _QUESTIONS), _first(row, _ANSWERS)
    lines = [f"  question: {question or 'question'}\n"]
    return "".join([*lines, *([f"  answer: {answer}\n"] if answer else [])])


def _nested(field: str, child: Mapping[str, object]) -> str:
    names = {
        "questionField": _first(child, _QUESTIONS) or "question",
        "answerField": _first(child, _ANSWERS),
        "evidenceField": _first(child, ("evidence", "evidence_ids", "expectedAnswerIds")),
        "categoryField": _first(child, _TYPES),
    }
    lines = [f"    {key}: {name}\n" for key, name in names.items() if name]
    return "".join([f"  questions:\n    field: {field}\n", *lines])


def _context(row: Mapping[str, object], history: str) -> str:
    value = row.get(history)
    kind = "object" if isinstance(value, Mapping) else "array" if isinstance(value, list) else "string"
    dates, ids = _first(row, _DATES, list), _first(row, _SESSION_IDS, list)
    lines = [f"    field: {_field(history)}\n", f"    type: {kind}\n"]
    if kind == "array":
        lines += [f"    dateField: {dates}\n"] if dates else []
        lines += [f"    sessionIdField: {ids}\n"] if ids else []
    return "".join(lines) + _item_schema(row)


def _item_schema(row: Mapping[str, object]) -> str:
    """Where the parts of a turn stand, for turns that are not read by the usual names."""
    turn, words = _turn(row.get(_history(row))), _turn_words(row)
    if turn is None or words is None:
        return ""
    who = _first(turn, _SPEAKERS, str)
    key = "role" if who and (who == "role" or turn[who] in _ROLES) else "speaker"
    lines = [f"    itemSchema:\n      content: {_field(words)}\n", f"      {key}: {_field(who)}\n" if who else ""]
    return "".join(lines)


def _turn_words(row: Mapping[str, object]) -> str | None:
    """The longest text of the first turn, where a turn has neither content nor text."""
    turn = _turn(row.get(_history(row)))
    if turn is None or _first(turn, _WORDS):
        return None
    who = _first(turn, _SPEAKERS, str)
    texts = {name: value for name, value in turn.items() if isinstance(value, str) and name != who}
    return max(texts, key=lambda name: len(texts[name]), default=None)


def _turn(history: object) -> Mapping[str, object] | None:
    """The first object in lists of the history, which is a turn."""
    if isinstance(history, Mapping):
        lists = [value for value in history.values() if isinstance(value, list)]
        return _turn(lists)
    for element in history if isinstance(history, list) else ():
        found = element if isinstance(element, Mapping) else _turn(element)
        if found is not None:
            return found
    return None


def _first(row: Mapping[str, object], names: tuple[str, ...], kind: type = object) -> str | None:
    return next((name for name in names if row.get(name) is not None and isinstance(row[name], kind)), None)


def _history(row: Mapping[str, object]) -> str:
    """The field of a telling name, else the weightiest that nothing else claims; "history" where there is none."""
    if (named := _first(row, _HISTORIES)) is not None:
        return named
    claimed = {_first(row, names) for names in (_IDS, _QUESTIONS, _ANSWERS, _DATES, _SESSION_IDS, _TYPES, _NESTED)}
    first = None if _first(row, _IDS) else next(iter(row))
    left = [name for name, value in row.items() if name not in claimed and isinstance(value, str | list | Mapping)]
    return max(left, key=lambda name: (name != first, *_weight(row[name])), default="history")


def _weight(value: object) -> tuple[bool, int]:
    """Lists and maps before texts, long before short."""
    return not isinstance(value, str), len(value) if isinstance(value, str | list | Mapping) else 0


def _field(name: str) -> str:
    """A field as the config names it: by a path where its name would be read as one."""
    return quoted(f"$[{json.dumps(name, ensure_ascii=False)}]" if name.startswith(("$", "@")) else name)


def quoted(name: str) -> str:
    """A name as YAML takes it, whatever is in it."""
    plain = _PLAIN.fullmatch(name) and name.lower() not in _SPECIAL
    return name if plain else json.dumps(name, ensure_ascii=False)


def _written_path(data: Path, workspace: Path) -> str:
    """The path as the config should say it: relative to the workspace where it lies inside."""
    try:
        return f"./{data.resolve().relative_to(workspace.resolve())}"
    except ValueError:
        return str(data.resolve())


_SAMPLE_ROWS: tuple[Mapping[str, object], ...] = (
    {"id": "n1", "content": "The spare key hangs behind the green clock.",
     "question": "Where does the spare key hang?", "answer": "behind the green clock"},
    {"id": "n2", "content": "The ferry leaves at 7:40 on weekdays.",
     "question": "When does the ferry leave on weekdays?", "answer": "7:40"},
)  # fmt: skip
