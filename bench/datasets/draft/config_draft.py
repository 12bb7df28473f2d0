"""Draft a config for ``bench new benchmark NAME --from DATA``. The fields are guessed from the data.

::

    draft = draft_benchmark("notes", Path("notes.jsonl"), workspace)
    draft.path, draft.text          # configs/benchmarks/notes.yaml, ready to be written
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.config.yamltext import parse_yaml
from bench.datasets.draft.config_guess import (
    TEXT_NAMES,
    Row,
    date_formats,
    field_name,
    first_field,
    numeric_dates,
    quoted_name,
)
from bench.datasets.draft.data_layout import find_layout
from bench.datasets.draft.file_joins import DataLayout
from bench.datasets.draft.history_guess import numbered_sessions
from bench.datasets.draft.history_place import ContextLines, history_field, is_long, named_history
from bench.datasets.draft.question_guess import QuestionGuess
from bench.datasets.draft.question_place import looks_numbered
from bench.datasets.rows.row_values import scalar_text
from bench.errors import UsageError

PICTURES = re.compile(r"(?:image|screenshot|img|audio|video)(?:_url|_path|s)?", re.IGNORECASE)

SAMPLE = """# A benchmark: its data, its questions, and how answers are judged. See docs/add-a-benchmark.md
name: {quoted}
description: One sentence about it
version: "1"            # raise it when items or protocol change

data:
  type: local
{data}
schema:
  itemId: {id}
{questions}  context:
{context}{metadata}{gold}{dates}
ingestion:
  mode: {mode}          # one memory per session (session-based), per turn (incremental) or per corpus (bulk)
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
class BenchmarkDraft:
    """A drafted config. ``files`` contains the path and the text of each file to write, first the config."""

    files: tuple[tuple[Path, str], ...]
    guesses: tuple[str, ...] = ()
    """notes on config keys whose values are uncertain and must be checked by the user"""
    unmapped: tuple[str, ...] = ()
    """notes on data fields that the config does not read, with advice for each field"""
    mapped: tuple[str, ...] = ()
    """each config key and the field or path that the key reads, as ``KEY: PATH``"""

    @property
    def path(self) -> Path:
        return self.files[0][0]

    @property
    def text(self) -> str:
        return self.files[0][1]


def draft_benchmark(name: str, data: Path | None, workspace: Path) -> BenchmarkDraft:
    """Draft a config for the data. If ``data`` is None, two sample rows are used. No file is written.

    Raises:
        UsageError: the config exists already, or there is no data to read.
        DataError: the data is invalid.
    """
    target = workspace / "configs" / "benchmarks" / f"{name}.yaml"
    if target.exists():
        raise UsageError(f"{target} exists already", hint="choose another name")
    if data is None:
        row: Row = _SAMPLE_ROWS[0]
        path = f"./datasets/{name}/{name}.jsonl"
        lines = "".join(json.dumps(sample) + "\n" for sample in _SAMPLE_ROWS)
        guess, layout = QuestionGuess([row], history_field([row])), DataLayout(files=[], rows_path=None, rows=[row])
        text = _draft_text(name, f"  path: {json.dumps(path)}\n", guess, layout)
        return BenchmarkDraft(files=((target, text), (workspace / path, lines)))
    layout = find_layout(data)
    history = layout.history or history_field(layout.rows)
    guess = QuestionGuess(
        layout.rows,
        history,
        rows_path=layout.rows_path,
        files=[path.as_posix() for path in layout.files],
        gold=layout.gold,
        known_golds=layout.golds,
        joined=[name for name, step in layout.steps.items() if "file" in step],
        keys=[str(step["by"]) for step in layout.steps.values() if "by" in step],
    )
    text = _draft_text(name, _data_lines(layout, data, workspace), guess, layout)
    found = tuple(dict.fromkeys([*layout.unmapped, *guess.unmapped, *_unread_notes(guess, text, layout)]))
    return BenchmarkDraft(
        files=((target, text),), guesses=guess_notes(guess, history, layout), unmapped=found, mapped=_mapped_keys(text)
    )


def _mapped_keys(text: str) -> tuple[str, ...]:
    """Return the config keys that read a field or path of the data, each as ``KEY: PATH``."""
    tree = cast("Mapping[str, Mapping[str, object]]", parse_yaml(text, "new config")[0])
    parts = {"with": tree["data"].get("with", {}), "schema": tree["schema"]}
    parts |= {key: tree[key] for key in ("evidence", "abstention", "corpus", "visibility") if key in tree}
    return tuple(
        f"{key}: {value}" for part in parts for key, value in _leaves(parts[part], "" if part == "schema" else part)
    )


def _leaves(value: object, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and not name.startswith("with."):
        for key, one in value.items():
            yield from _leaves(one, f"{name}.{key}".removeprefix("."))
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        for one in value:
            yield from _leaves(one, name)
    else:
        yield name, json.dumps(value, ensure_ascii=False) if isinstance(value, list | Mapping) else value


def _data_lines(layout: DataLayout, data: Path, workspace: Path) -> str:
    """Return the lines of the config section ``data``: the files, and the fields that are added to each row."""
    names = [_written_path(path, workspace) for path in layout.files]
    note = "          # looked up next to this file, then in the workspace" if len(names) == 1 else ""
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
        placed = {**step, "file": f"{base}{_fitting_name(str(step['file']))}"} if "file" in step else step
        lines.append(f"    {field_name(step_name)}: {json.dumps(placed, ensure_ascii=False)}")
    return "".join(f"{line}\n" for line in lines)


def _fitting_name(name: str) -> str:
    """Return the ``file`` of a ``data.with`` step, so that it fits relative and absolute paths of data files.

    The pattern for the first folder of a path is replaced by one for the folder that contains the file.
    """
    return name.replace("${$file|match:'^[^/]+'}", "${$file|match:'[^/]+(?=/[^/]+$)'}")


def _draft_text(name: str, data: str, guess: QuestionGuess, layout: DataLayout) -> str:
    choices = guess.answer.choices()
    answered = guess.answer.answers() is not None or (choices is not None and not guess.answer.has_open_questions())
    item_id = guess.item_id() or _place_as_id(guess, layout)
    corpus = guess.corpus(item_id)
    if (joined := layout.corpus) is not None:
        shown = json.dumps(joined, ensure_ascii=False) if joined.startswith("$") else field_name(joined)
        corpus = f"corpus: {{field: {shown}}}\n"
    rubric = first_field(guess.place.asked, ("rubric", "rubrics"), list)
    graded = guess.gold_line is not None
    contexts = ContextLines(guess, layout)
    questions = "".join(guess.lines())
    evidence = bool(guess.evidence or contexts.evidence or guess.history.turn.golds or "evidenceField" in questions)
    return SAMPLE.format(
        quoted=quoted_name(name),
        data=data,
        id=item_id,
        questions=questions,
        context="".join(f"    {line}\n" for line in contexts.lines),
        metadata=guess.metadata(),
        gold=(guess.evidence or contexts.evidence) + guess.abstention + corpus + guess.visibility(),
        dates=f"dateFormats: {json.dumps(formats)}\n" if (formats := _date_formats(layout)[0]) else "",
        chunk="  chunk: {words: 400}   # long texts are cut after a sentence\n" if is_long(guess) else "",
        mode="incremental"
        if contexts.passages
        or (guess.history.single and not contexts.several)
        or is_long(guess)
        or "turnIdsField" in guess.evidence
        or guess.history.turn.golds
        else "session-based",
        method="mcq"
        if choices and not guess.answer.has_open_questions()
        else "rubric"
        if rubric
        else "contains"
        if answered
        else "none",
        reader=READER if answered and not rubric else "",
        metrics="".join(f"  - {metric}\n" for metric in _metrics(answered and not graded, evidence)),
    )


def _metrics(answered: bool, evidence: bool) -> tuple[str, ...]:
    """Return the names of the metrics for data with or without answers and evidence."""
    if not answered:
        return ("hit_at_10",)
    return ("accuracy", "hit_at_5", "ndcg_at_10") if evidence else ("accuracy",)


def _date_formats(layout: DataLayout) -> tuple[list[str], list[str], list[str]]:
    return date_formats(list(dict.fromkeys(text for row in layout.rows for text in numeric_dates(row))))


def _place_as_id(guess: QuestionGuess, layout: DataLayout) -> str:
    """Return the config value of ``itemId`` for data without an id field.

    This is ``$row``, the number of the row. For a map of rows, it is the key of the row. For a file that is one single
    row, it is the name of the row's first field.
    """
    if layout.rows_path == "$.*":
        return "$keys[0]"
    start = next(iter(layout.rows[0]))
    alone = len(layout.rows) == 1 and not guess.place.inside and not layout.rows_path
    return field_name(start) if alone and scalar_text(layout.rows[0][start]) else "$row"


def guess_notes(guess: QuestionGuess, history: str, layout: DataLayout) -> tuple[str, ...]:
    """Return a note for each config key whose value is uncertain, because no field clearly matches."""
    row = layout.rows[0]
    named = guess.item_id() is not None or _place_as_id(guess, layout) in ("$row", "$keys[0]")
    has_history = layout.history is not None or named_history(row) or guess.history.turns
    words = None if guess.history.turn.words in (None, *TEXT_NAMES) else guess.history.turn.words
    found = {
        "itemId": None if named else f'the first field "{next(iter(row))}"',
        "context.field (the history)": None if has_history else f'the name "{history}"',
        "question": None if guess.place.question() else 'the name "question"',
        "answer": f'the only other text "{guess.answer.guessed}"' if guess.answer.guessed else None,
        "the words of a turn": None if words is None else f'the longest text "{words}"',
    }
    notes = [f"no field looks like {key}: {text} is used" for key, text in found.items() if text]
    return (*notes, *guess.guessed, *_date_formats(layout)[1])


def _unread_notes(guess: QuestionGuess, text: str, layout: DataLayout) -> Iterator[str]:
    """Yield notes on what the draft leaves out or cannot know: unused fields, pictures, missing questions and more."""
    marked = guess.place.marked_paths() if guess.place.question() is None else []
    if marked:
        yield (
            f'the field of the question is not clear: texts that end with "?" are at {", ".join(marked)}; '
            "name one in schema.question, or its list in schema.questions.field"
        )
    elif guess.place.question() is None and layout.elsewhere:
        shown = ", ".join(layout.elsewhere)
        yield (
            f'no field contains a question, but {shown} has texts that end with "?": join it to the rows with data.with'
        )
    elif guess.place.question() is None and guess.history.turns:
        yield (
            "the data has no questions: write a file of questions (id, conversation, question, answer), name it in "
            "data.path, and join this history with data.with: {talk: {file: THIS FILE, key: ID, by: conversation}}"
        )
    yield from _date_formats(layout)[2]
    pictures = [name for name in guess.row if PICTURES.fullmatch(name) and any(row.get(name) for row in guess.rows)]
    yield from (
        f"{name} is not sent; data.where: {{{name}: null}} leaves out the rows with a picture" for name in pictures
    )
    if (words := guess.words_of_question()) > 200:
        yield (
            f"{guess.place.question()} has {words} words: if it also contains the history, a config cannot "
            "separate the two; write them into two fields of the data"
        )
    if missing := guess.missing_answers():
        yield missing
    kinds = guess.question_types()
    if kinds and all(kind.isdigit() for kind in kinds):
        yield (
            f'the question types are numbers ({", ".join(kinds[:8])}): name them in categories: {{"{kinds[0]}": NAME}}'
        )
    if silent := guess.without_gold():
        shown = ", ".join(silent)
        hint = f"if these questions have no answer, add abstention: {{questionTypes: {silent}}}"
        yield f"no question of type {shown} has evidence: {hint}"
    left = [name for name in _unread_fields(guess, text) if name not in pictures]
    if left:
        more = f" and {len(left) - 8} more" if len(left) > 8 else ""
        scored = "\nevidence:" in text or "evidenceField" in text
        lacking = "" if scored else "; no field of the data is used as evidence, so there are no retrieval metrics"
        yield f"the config does not use these fields of a row: {', '.join(left[:8])}{more}{lacking}"


def _unread_fields(guess: QuestionGuess, text: str) -> Iterator[str]:
    """Yield the names of row fields that the drafted config does not use, except ids, dates and counts."""
    numbered = numbered_sessions(guess.row) if guess.history.field == "$" else {}
    for name, one in guess.row.items():
        read = re.search(rf"(?<![\w\]*]\.)\b{re.escape(name)}\b", text)
        if isinstance(one, str | list | Mapping) and not read and name not in numbered and not looks_numbered(name):
            yield name


def _written_path(path: Path, workspace: Path) -> str:
    """Return a path as written in the config: relative inside the workspace, otherwise absolute."""
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
