"""``bench new benchmark NAME --from DATA``: a commented, valid config whose fields are guessed from the data.

::

    started = new_benchmark("notes", Path("notes.jsonl"), workspace)
    started.path, started.text          # configs/benchmarks/notes.yaml, ready to be written
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.datasets.config_guess import (
    ANSWERS,
    CORPORA,
    DATES,
    GOLD,
    HISTORIES,
    IDS,
    NESTED,
    QUESTIONS,
    SESSION_IDS,
    TYPES,
    WORDS,
    Row,
    field_name,
    first,
    is_date,
    quoted,
    union,
)
from bench.datasets.data_layout import Layout, asks, first_rows, lay_out
from bench.datasets.history_guess import PICTURES, HistoryGuess, way_to_turns
from bench.datasets.question_guess import Guess
from bench.errors import UsageError

_COUNTS = re.compile(r"id$|date|time|num|count|token|length|link|file")

SAMPLE = """# A benchmark: what is remembered, what is asked, how it is judged. See docs/add-a-benchmark.md
name: {quoted}
description: One sentence about it
version: "1"            # raise it when items or protocol change

data:
  type: local
{data}
schema:
  itemId: {id}
{ask}  context:
{context}{metadata}{gold}
ingestion:
  mode: {mode}          # session-based: a memory a session; incremental: a turn; bulk: everything at once
{chunk}
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
        row: Row = _SAMPLE_ROWS[0]
        path = f"./datasets/{name}/{name}.jsonl"
        lines = "".join(json.dumps(sample) + "\n" for sample in _SAMPLE_ROWS)
        return Started(files=((target, config_text(name, path, row)), (workspace / path, lines)))
    layout = lay_out(data)
    history = layout.history or _history(layout.rows[0])
    guess = Guess(
        layout.rows,
        history,
        rows_path=layout.rows_path,
        several=len(layout.files) > 1,
        gold=layout.gold,
        brought=layout.golds,
        joined=_joined(layout),
    )
    text = _text(name, _data_lines(layout, data, workspace), guess, layout)
    found = tuple(dict.fromkeys([*layout.unmapped, *guess.unmapped, *_unread(guess, text)]))
    return Started(files=((target, text),), guesses=guesses(guess, history, layout), unmapped=found)


def first_row(data: Path) -> Row:
    """The first row of a data file of any format."""
    if not data.is_dir():
        lay_out(data)
    return first_rows(data, 1)[0]


def config_text(name: str, path: str, row: Row) -> str:
    """Write the config for rows like this one."""
    return _text(
        name, f"  path: {json.dumps(path)}\n", Guess([row], _history(row)), Layout(files=[], rows_path=None, rows=[row])
    )


def _joined(layout: Layout) -> list[str]:
    return [name for name, step in layout.steps.items() if "file" in step]


def _data_lines(layout: Layout, data: Path, workspace: Path) -> str:
    """The lines of ``data`` that say which files there are and what a row gets."""
    names = [_written_path(path, workspace) for path in layout.files]
    note = "          # beside this file first, then in the workspace" if len(names) == 1 else ""
    lines = (
        [f"  path: {json.dumps(names[0])}{note}"]
        if len(names) == 1
        else ["  files:", *(f"    - {json.dumps(one)}" for one in names)]
    )
    lines += [f"  rows: {json.dumps(layout.rows_path)}"] if layout.rows_path else []
    lines += [f"  columns: {json.dumps(list(layout.columns))}"] if layout.columns else []
    if layout.where:
        lines.append(f"  where: {json.dumps(layout.where)}")
    if layout.steps:
        lines.append("  with:")
    direct = all(path.parent == data or path == data for path in layout.files)
    base = "" if direct else _written_path(data, workspace).removeprefix("./") + "/"
    for step_name, step in layout.steps.items():
        placed = {**step, "file": f"{base}{_placed(str(step['file']))}"} if "file" in step else step
        lines.append(f"    {field_name(step_name)}: {json.dumps(placed, ensure_ascii=False)}")
    return "".join(f"{line}\n" for line in lines)


def _placed(name: str) -> str:
    """A template that takes the folder of the questions takes it from the file's whole name."""
    return name.replace("${$file|match:'^[^/]+'}", "${$file|match:'[^/]+(?=/[^/]+$)'}")


def _text(name: str, data: str, guess: Guess, layout: Layout) -> str:
    choices = guess.choices()
    answered = choices is not None or guess.answers() is not None
    item_id = guess.item_id() or (
        "$row" if len(layout.rows) > 1 or guess.inside else field_name(next(iter(layout.rows[0])))
    )
    corpus = f"corpus: {{field: {_plain(layout.corpus)}}}\n" if layout.corpus else guess.corpus(item_id)
    rubric = first(guess.asked, ("rubric", "rubrics"), list)
    graded = guess.brought is not None
    return SAMPLE.format(
        quoted=quoted(name),
        data=data,
        id=item_id,
        ask="".join(guess.lines()),
        context="".join(f"    {line}\n" for line in _contexts(guess, layout)),
        metadata=_metadata(guess),
        gold=guess.evidence + guess.abstention + corpus + guess.visibility(),
        chunk="  chunk: {words: 400}   # a text is cut after sentences\n" if _long(guess) else "",
        mode="incremental"
        if (guess.history.single and not _several(guess, layout))
        or _long(guess)
        or "turnIdsField" in guess.evidence
        or guess.history.turn_golds
        else "session-based",
        method="mcq" if choices and not guess.mixed() else "rubric" if rubric else "contains" if answered else "none",
        reader=READER if answered and not rubric else "",
        metrics="  - accuracy\n" if answered and not graded else "  - hit_at_10\n",
    )


def _contexts(guess: Guess, layout: Layout) -> list[str]:
    """The lines of schema.context: a list where several fields hold turns of the same words."""
    words = {key for turn in guess.history.turns[:5] for key in turn if key in WORDS}
    beside = [
        other
        for name in guess.row
        if words and name not in (guess.history.field, *NESTED, *layout.steps) and not GOLD.fullmatch(name)
        and way_to_turns(guess.row[name]) and not re.search("persona|profile|summary|plan", name)
        and (other := HistoryGuess(guess.rows, name)).turns and words <= set(union(other.turns))
    ]  # fmt: skip
    if not beside:
        return guess.history.lines
    guess.history.unmapped.clear()
    every = sorted([*beside, guess.history], key=lambda one: one.single or "type: array" in one.lines)
    lines = []
    for one in every:
        flat = one.single or "type: array" in one.lines
        own = [line.replace("type: array", "type: session") for line in one.lines]
        own += [f"id: \"${{'{one.field}'}}\""] if flat and not one.session_ids else []
        lines += [f"{'- ' if not number else '  '}{line}" for number, line in enumerate(own)]
    return lines


def _several(guess: Guess, layout: Layout) -> bool:
    return any(line.startswith("- ") for line in _contexts(guess, layout))


def _long(guess: Guess) -> bool:
    """A history that is one text of many words."""
    texts = [row.get(guess.history.field) for row in guess.rows]
    return any(isinstance(text, str) and len(text.split()) > 400 for text in texts)


def _plain(corpus: str) -> str:
    return json.dumps(corpus, ensure_ascii=False) if corpus.startswith("$") else field_name(corpus)


def _metadata(guess: Guess) -> str:
    if guess.child is not None:
        return ""
    kind, date = guess.kind(), first(guess.row, ("question_date", "asked_at"))
    lines = [f"    {key}: {name}\n" for key, name in (("questionType", kind), ("questionDate", date)) if name]
    return "".join(["  metadata:\n", *lines]) if lines else ""


def guesses(guess: Guess, history: str, layout: Layout) -> tuple[str, ...]:
    """Each key of the config for which no field of the row has a telling name, and what is there instead."""
    row = layout.rows[0]
    named = guess.item_id() is not None or len(layout.rows) > 1 or guess.inside
    has_history = layout.history is not None or _named_history(row) or guess.history.turns
    words = None if guess.history.words in (None, *WORDS) else guess.history.words
    found = {
        "itemId": None if named else f'the first field, "{next(iter(row))}"',
        "context.field (the history)": None if has_history else f'the name "{history}"',
        "question": None if guess.question() else 'the name "question"',
        "the words of a turn": None if words is None else f'the longest text, "{words}",',
    }
    return tuple(f"no field looks like {key}: {text} is used" for key, text in found.items() if text)


def _unread(guess: Guess, text: str) -> Iterator[str]:
    """What is left to say of the whole: fields that no key names, types that are numbers, pictures, no question."""
    if guess.question() is None and guess.history.turns:
        yield (
            "the data asks nothing: write a file of questions (id, conversation, question, answer), name it in "
            "data.path, and bring this history by data.with: {talk: {file: THIS FILE, key: ID, by: conversation}}"
        )
    pictures = [name for name in guess.row if PICTURES.fullmatch(name) and any(row.get(name) for row in guess.rows)]
    yield from (
        f"{name} is not sent; data.where: {{{name}: null}} leaves out the rows that have one" for name in pictures
    )
    kinds = guess.kinds()
    if kinds and all(kind.isdigit() for kind in kinds):
        yield f'question types are numbers ({", ".join(kinds[:8])}): name them in categories: {{"{kinds[0]}": NAME}}'
    if silent := guess.without_gold():
        shown = ", ".join(silent)
        hint = f"if they have no answer, add abstention: {{questionTypes: {silent}}}"
        yield f"no question of type {shown} has evidence: {hint}"
    left = [name for name, one in guess.row.items() if name not in pictures and isinstance(one, str | list | Mapping)
            and not re.search(rf"\b{re.escape(name)}\b", text) and not _COUNTS.search(name)]  # fmt: skip
    if left:
        more = f" and {len(left) - 8} more" if len(left) > 8 else ""
        yield f"no key reads these fields of a row: {', '.join(left[:8])}{more}"


def _named_history(row: Row) -> str | None:
    return first(row, HISTORIES, (str, list, Mapping))


def _history(row: Row) -> str:
    """The field of a telling name, else the weightiest that nothing else claims; "history" where there is none."""
    if (named := _named_history(row)) is not None:
        return named
    claimed = {first(row, names) for names in (IDS, QUESTIONS, ANSWERS, DATES, SESSION_IDS, TYPES, NESTED)}
    start = None if first(row, IDS) else next(iter(row))
    left = [name for name, value in row.items() if name not in claimed and isinstance(value, str | list | Mapping)]
    left = [name for name in left if not GOLD.fullmatch(name) and name not in CORPORA and not is_date(row[name])]
    left = [name for name in left if not (isinstance(row[name], Mapping) and asks(row[name]))] or left
    return max(left, key=lambda name: (name != start, *_weight(row[name])), default="history")


def _weight(value: object) -> tuple[bool, bool, int]:
    """What holds turns, then lists and maps, then texts; long before short."""
    return (
        way_to_turns(value) is not None,
        not isinstance(value, str),
        len(value) if isinstance(value, str | list | Mapping) else 0,
    )


def _written_path(path: Path, workspace: Path) -> str:
    """The path as the config should say it: relative to the workspace where it lies inside."""
    try:
        return f"./{path.resolve().relative_to(workspace.resolve())}"
    except ValueError:
        return str(path.resolve())


_SAMPLE_ROWS: tuple[Mapping[str, object], ...] = (
    {"id": "n1", "content": "The spare key hangs behind the green clock.",
     "question": "Where does the spare key hang?", "answer": "behind the green clock"},
    {"id": "n2", "content": "The ferry leaves at 7:40 on weekdays.",
     "question": "When does the ferry leave on weekdays?", "answer": "7:40"},
)  # fmt: skip
