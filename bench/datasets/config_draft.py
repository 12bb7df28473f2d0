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

from bench.config.benchmark_file import SUFFIXES
from bench.datasets.config_guess import (
    ANSWERS,
    CORPORA,
    DATES,
    GOLD,
    HISTORIES,
    IDS,
    NESTED,
    NESTED_EVIDENCE,
    QUESTIONS,
    SESSION_IDS,
    TYPES,
    WORDS,
    Guess,
    field_name,
    first,
    is_date,
    objects,
    quoted,
    union,
)
from bench.datasets.row_reader import RowFile
from bench.errors import DataError, UsageError

_SAMPLED = 50
_SAMPLED_BYTES = 4_000_000

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
{context}{metadata}{gold}
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
    unmapped: tuple[str, ...] = ()
    """what the data has and the config does not read, with what to do"""

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
    rows = first_rows(data)
    guess = Guess(rows, _history(rows[0]))
    text = _text(name, _written_path(data, workspace), rows[0], guess)
    return Started(files=((target, text),), guesses=guesses(rows[0]), unmapped=tuple(guess.unmapped))


def first_row(data: Path) -> Mapping[str, object]:
    """The first row of a data file of any format."""
    return first_rows(data, 1)[0]


def first_rows(data: Path, most: int = _SAMPLED) -> list[Mapping[str, object]]:
    """The first rows of a data file of any format, as far as they can be read; the first one must be."""
    suffix = data.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f'cannot tell the format of "{data}"', hint="use a .json, .jsonl or .csv file")
    rows: list[Mapping[str, object]] = []
    read = 0
    for row in RowFile.open(data, SUFFIXES[suffix]):  # type: ignore[arg-type]
        if row.values is None and rows:
            break
        if row.values is None:
            raise row.error or row.place.error("", "is torn")
        if not row.values and not rows:
            raise row.place.error("", "has no field")
        rows.append(row.values)
        read += row.length
        if len(rows) >= most or read > _SAMPLED_BYTES:
            break
    if not rows:
        raise DataError("there are no rows", where=str(data))
    return rows


def config_text(name: str, path: str, row: Mapping[str, object]) -> str:
    """Write the config for rows like this one."""
    return _text(name, path, row, Guess([row], _history(row)))


def _text(name: str, path: str, row: Mapping[str, object], guess: Guess) -> str:
    asked, nested = guess.asked, guess.child is not None
    kind = first(guess.row, TYPES)
    choices = guess.choices(asked)
    answered = choices is not None or bool(first(asked, ANSWERS))
    item_id = guess.item_id()
    return SAMPLE.format(
        quoted=quoted(name),
        path=json.dumps(path),
        id=item_id or field_name(next(iter(row))),
        ask=_nested(guess) if nested else _flat(guess, choices),
        context=guess.context,
        metadata=_metadata(guess.row, kind) if not nested else "",
        gold=guess.evidence + guess.abstention + guess.corpus(item_id or ""),
        mode="session-based",
        method="mcq" if choices else "contains" if answered else "none",
        reader=READER if answered else "",
        metrics="  - accuracy\n" if answered else "  - hit_at_10\n",
    )


def _metadata(row: Mapping[str, object], kind: str | None) -> str:
    found = (("questionType", kind), ("questionDate", first(row, ("question_date", "asked_at"))))
    lines = [f"    {key}: {name}\n" for key, name in found if name]
    return "".join(["  metadata:\n", *lines]) if lines else ""


def guesses(row: Mapping[str, object]) -> tuple[str, ...]:
    """Each key of the config for which no field of the row has a telling name, and what is there instead."""
    children = list(objects(row[nested])) if (nested := first(row, NESTED, (list, Mapping))) else []
    asked = union(children) if children else row
    start = next(iter(row))
    found = {
        "itemId": None if first(row, IDS) else f'the first field, "{start}"',
        "context.field (the history)": None if _named_history(row) else f'the name "{_history(row)}"',
        "question": None if first(asked, QUESTIONS) else 'the name "question"',
        "the words of a turn": None if (words := _turn_words(row)) is None else f'the longest text, "{words}",',
    }
    return tuple(f"no field looks like {key}: {text} is used" for key, text in found.items() if text)


def _flat(guess: Guess, choices: tuple[str, str] | None) -> str:
    lines = [f"  question: {first(guess.row, QUESTIONS) or 'question'}\n"]
    if choices is not None:
        lines += [f"  choices: {choices[0]}\n", f"  choiceAnswer: {choices[1]}\n"]
    elif answer := guess.answers(guess.row):
        lines.append(f"  answer: {answer}\n")
    return "".join(lines)


def _nested(guess: Guess) -> str:
    child = guess.asked
    names = {
        "questionField": first(child, QUESTIONS) or "question",
        "answerField": guess.answers(child),
        "evidenceField": first(child, NESTED_EVIDENCE, list),
        "categoryField": first(child, TYPES),
        "dateField": first(child, ("question_date", "date", "asked_at")),
    }
    lines = [f"    {key}: {name}\n" for key, name in names.items() if name]
    return "".join([f"  questions:\n    field: {guess.nested_path()}\n", *lines])


def _turn_words(row: Mapping[str, object]) -> str | None:
    """The longest text of a turn, where a turn has neither content nor text."""
    schema = re.search(r"itemSchema:\n *content: (.*)\n", Guess([row], _history(row)).context)
    found = schema[1].strip('"') if schema else None
    return None if found in WORDS else found


def _named_history(row: Mapping[str, object]) -> str | None:
    return first(row, HISTORIES, (str, list, Mapping))


def _history(row: Mapping[str, object]) -> str:
    """The field of a telling name, else the weightiest that nothing else claims; "history" where there is none."""
    if (named := _named_history(row)) is not None:
        return named
    claimed = {first(row, names) for names in (IDS, QUESTIONS, ANSWERS, DATES, SESSION_IDS, TYPES, NESTED)}
    start = None if first(row, IDS) else next(iter(row))
    left = [name for name, value in row.items() if name not in claimed and isinstance(value, str | list | Mapping)]
    left = [name for name in left if not GOLD.fullmatch(name) and name not in CORPORA and not is_date(row[name])]
    return max(left, key=lambda name: (name != start, *_weight(row[name])), default="history")


def _weight(value: object) -> tuple[bool, int]:
    """Lists and maps before texts, long before short."""
    return not isinstance(value, str), len(value) if isinstance(value, str | list | Mapping) else 0


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
