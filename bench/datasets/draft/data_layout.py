"""Find out which files of a folder contain the questions, and how the other files are joined to them.

Example::

    layout = find_layout(Path("data"))
    layout.files, layout.steps          # (["questions.csv"], {"history": {"file": "contexts.jsonl", ...}})
    layout.rows                         # the first rows with every field that the steps add
    layout.unmapped                         # notes on files and fields that could not be mapped

A file is joined to the questions if the questions contain the file's keys or its name. If there is only one other file
and it has no matching keys, all its rows are joined to each question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.config.benchmark.file import SUFFIXES, suffix_of
from bench.datasets.draft.config_guess import (
    ANSWERS,
    LITERAL,
    QUESTION_LISTS,
    QUESTIONS,
    TEXT_NAMES,
    Row,
    first_field,
    is_gold,
    is_question,
    nested_objects,
)
from bench.datasets.draft.file_joins import DataLayout, add_field, add_judgements, join, join_named_files
from bench.datasets.draft.question_place import lists_of_questions, question_texts
from bench.datasets.draft.sampled_file import SampledFile, file_shape, question_score, sample_file
from bench.datasets.draft.turn_paths import path_to_turns
from bench.datasets.rows.field_steps import decode_text
from bench.datasets.rows.row_reader import packed_format
from bench.datasets.rows.row_values import value_of
from bench.errors import DataError, UsageError

_SHORT_TEXT = 20
"""maximum length of a label in characters; a longer text can be content of a history"""


def find_layout(data: Path) -> DataLayout:
    """Return a description of how to read the rows of a data file, or of the files in a folder.

    Raises:
        UsageError: there is no file of a known format.
        DataError: the only file is invalid, or the rows are not objects.
    """
    if not data.is_dir():
        if suffix_of(data.name) not in SUFFIXES:
            packed = packed_format(data) if data.is_file() else None
            if packed not in (None, "parquet"):
                raise UsageError(f'"{data}" is a {packed} file', hint="unpack the file, and name the data in it")
            hint = (
                "use a .json, .jsonl, .csv, .tsv or .parquet file, or a folder of them; for a file with another "
                f"name, create a link with a suffix: ln -s {data.name} {data.name}.jsonl"
            )
            raise UsageError(f'cannot tell the format of "{data}"', hint=hint)
        table = sample_file(data, data.name)
        return _with_added_fields(_layout_of([table]), data.parent, [], siblings=True)
    found = [path for path in sorted(data.rglob("*")) if path.is_file() and suffix_of(path.name) in SUFFIXES]
    tables, broken = [], []
    for path in found[:200]:
        try:
            tables.append(sample_file(path, path.relative_to(data).as_posix()))
        except DataError as error:
            broken.append(f"{path.name} is not used, because it cannot be read: {error.message}")
    if not tables:
        hint = "name a folder with .json, .jsonl, .csv, .tsv or .parquet files"
        reasons = "".join(f"; {one}" for one in broken[:3])
        raise UsageError(f'there is no data file to read in "{data}"{reasons}', hint=hint)
    question_table = max(tables, key=question_score)
    kin = [
        table
        for table in tables
        if file_shape(table) == file_shape(question_table) and question_score(table) == question_score(question_table)
    ]
    layout = _layout_of(kin)
    layout.unmapped += broken
    layout.elsewhere = [table.name for table in tables if table not in kin and any(question_texts(list(table.sample)))]
    return _with_added_fields(layout, data, [table for table in tables if table not in kin], siblings=False)


def _layout_of(tables: Sequence[SampledFile]) -> DataLayout:
    rows = [row for table in tables for row in table.fields]
    if not rows:
        raise DataError("the rows are not objects", where=str(tables[0].path), hint="make each row an object of fields")
    return DataLayout(
        files=[table.path for table in tables],
        rows_path=tables[0].rows,
        rows=rows,
        columns=tables[0].columns,
        keys=[
            key
            for table in tables
            for row, key in zip(table.sample, table.keys, strict=True)
            if isinstance(row, Mapping)
        ],
    )


def _with_added_fields(
    layout: DataLayout, folder: Path, others: Sequence[SampledFile], *, siblings: bool
) -> DataLayout:
    _add_decodes(layout)
    _add_zips(layout)
    left = [table for table in others if not add_judgements(layout, table, others)]
    if not _has_history(layout.rows[0]) and not join_named_files(layout, folder):
        join(layout, left, siblings=siblings)
    return layout


def _has_history(row: Row) -> bool:
    """Return True when a row contains a history: a list of turns or passages, or a text next to the question."""
    for name, value in row.items():
        if (
            is_gold(name)
            or name in QUESTION_LISTS
            or (isinstance(value, list) and any(True for _ in lists_of_questions(value, deep=2)))
        ):
            continue
        if isinstance(value, list | Mapping) and path_to_turns(value) and (_has_text(value) or _nested_texts(value)):
            return True
        if (
            isinstance(value, str)
            and name in ("context", "content", "text", "document", "passage", "story", "article")
            and any(map(row.get, QUESTIONS))
        ):
            return True
    return False


def _has_text(value: object) -> bool:
    """Return True when an object inside ``value`` has a long text, a list, or a text field with a usual name."""
    return any(
        isinstance(text, list) or (isinstance(text, str) and (len(text) > _SHORT_TEXT or name in TEXT_NAMES))
        for part in nested_objects(value)
        if not is_question(part)
        for name, text in part.items()
    )


def _nested_texts(value: object) -> bool:
    parts = list(value.values()) if isinstance(value, Mapping) else value
    return isinstance(parts, list) and len(parts) > 1 and any(isinstance(one, list) for one in parts)


def _add_decodes(layout: DataLayout) -> None:
    """Add a ``decode`` step for each field that contains lists or maps written as text."""
    for name in dict.fromkeys(name for row in layout.rows for name in row):
        texts = [row.get(name) for row in layout.rows]
        if not any(isinstance(text, str) and LITERAL.match(text) for text in texts):
            continue
        try:
            values = [decode_text(str(text)) if isinstance(text, str) and text.strip() else text for text in texts]
        except ValueError as error:
            layout.unmapped.append(
                f'"{name}" looks like a list or map written as text, but a row has another text ({error}): '
                f"correct the row, then add data.with: {{{name}: {{decode: {name}}}}}"
            )
            continue
        add_field(layout, name, {"decode": name}, values)


def _add_zips(layout: DataLayout) -> None:
    """Add a ``zip`` step for each set of parallel lists, such as questions and answers, or titles and texts."""
    row = layout.rows[0]
    name = first_field(row, QUESTION_LISTS, list)
    questions = row.get(name or "")
    if (
        name is not None
        and isinstance(questions, list)
        and questions
        and all(isinstance(one, str) for one in questions)
    ):
        side = dict(_parallel_lists(row, len(questions), skip=name))
        _add_zip(layout, "qa", {"question": name, **{_part(key): path for key, path in side.items()}})
    elif name is not None and (answers := first_field(row, ANSWERS, list)) is not None and _unanswered(row[name]):
        _add_zip(layout, "qa", {"question": name, "answer": answers})
    for key, value in row.items():
        lists = (
            {part: one for part, one in value.items() if isinstance(one, list)} if isinstance(value, Mapping) else {}
        )
        texts = [part for part, one in lists.items() if one and isinstance(one[0], str)]
        same = len({len(one) for one in lists.values()}) == 1 and len(lists) == len(value)  # type: ignore[arg-type]
        if same and len(lists) > 1 and texts and any(one and isinstance(one[0], list) for one in lists.values()):
            _add_zip(layout, f"{key}_parts", {part: f"$.{key}.{part}" for part in lists})
            layout.history = f"{key}_parts"


def _unanswered(questions: object) -> bool:
    """Return True when all questions are objects and none of them has an answer field."""
    parts = questions if isinstance(questions, list) else [questions]
    return all(isinstance(one, Mapping) and first_field(one, ANSWERS) is None for one in parts)


_PARTS = {"answers": "answer", "answer": "answer", "question_types": "type", "types": "type", "question_dates": "date",
          "qa_pair_ids": "id", "question_ids": "question_id", "ids": "id", "evidences": "evidence"}  # fmt: skip


def _part(name: str) -> str:
    return _PARTS.get(name, name)


def _parallel_lists(row: Row, length: int, *, skip: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the path of each list with ``length`` elements, in the row or in a map of the row."""
    for name, value in row.items():
        if isinstance(value, list) and len(value) == length and name != skip:
            yield name, name
        if isinstance(value, Mapping):
            for part, one in value.items():
                if isinstance(one, list) and len(one) == length:
                    yield part, f"$.{name}.{part}"


def _add_zip(layout: DataLayout, name: str, parts: Mapping[str, str]) -> None:
    values = []
    for row in layout.rows:
        lists = {key: found for key, path in parts.items() if isinstance(found := value_of(path).get(row), list)}  # type: ignore[union-attr]
        if len({len(one) for one in lists.values()}) > 1:
            return
        values.append([dict(zip(lists, one, strict=True)) for one in zip(*lists.values(), strict=True)])
    add_field(layout, name, {"zip": dict(parts)}, values)
