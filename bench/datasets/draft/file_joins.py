"""Guess how rows of other files are joined to the rows with the questions: by keys that both files contain.

If there is only one other file and it has no matching keys, all its rows are joined to each question row.

Example::

    join(layout, others, siblings=False)        # adds steps to the layout, and their values to its rows
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.config.benchmark.file import SUFFIXES, suffix_of
from bench.datasets.draft.config_guess import GOLD, QUESTIONS, Row, field_name
from bench.datasets.draft.sampled_file import SAMPLED, SampledFile, Step, sample_file
from bench.datasets.rows.field_steps import stem
from bench.datasets.rows.row_values import is_graded, scalar_text, value_of

_OWN_KEY = "$keys[-1]"
_MOST_KEY_WORDS = 3
"""maximum number of words in a key; a longer text is content of a history"""
_KEY_ROWS = 5_000
"""number of rows of another file that are searched for keys"""


@dataclass(slots=True, kw_only=True)
class DataLayout:
    """The files with the questions, their first rows, and the fields that are joined to these rows."""

    files: list[Path]
    rows_path: str | None
    rows: list[Row]
    columns: tuple[str, ...] = ()
    steps: dict[str, Step] = field(default_factory=dict)
    where: Step = field(default_factory=dict)
    history: str | None = None
    """name of the joined field that contains the history"""
    corpus: str | None = None
    gold: str | None = None
    """config line that locates the evidence, if the evidence is in another file"""
    golds: set[str] = field(default_factory=set)
    unmapped: list[str] = field(default_factory=list)
    keys: list[str | int | None] = field(default_factory=list)
    """the key of each row, if the file is a map of rows"""
    elsewhere: list[str] = field(default_factory=list)
    """names of other files with texts that end with a question mark"""


def add_field(layout: DataLayout, name: str, step: Step, values: Iterable[object]) -> None:
    layout.steps[name] = step
    layout.rows = [
        {**row, name: value} if value is not None else row for row, value in zip(layout.rows, values, strict=True)
    ]


def _joined_name(layout: DataLayout, table: SampledFile) -> str:
    name = re.sub(r"\W+", "_", stem(table.name).rpartition("/")[2]).strip("_").lower() or "joined"
    taken = {key for row in layout.rows for key in row} | layout.steps.keys()
    return name if name not in taken and not name[0].isdigit() else f"joined_{name}"


def add_judgements(layout: DataLayout, table: SampledFile, others: Sequence[SampledFile]) -> bool:
    """Read relevance judgments from a file, and add them to the layout as evidence. Return False if there are none.

    A row of the file is one judgment with a question id, a document id and usually a grade, or a map from document ids
    to grades.
    """
    documents = {
        text for other in others if other is not table for key in other.key_names() for text in other.values(key)
    }
    own = ("_id", "id", "query_id", "qid")
    ids = {text: key for key in reversed(own) for row in layout.rows if (text := scalar_text(row.get(key)))}
    if table.sample and all(map(is_graded, table.sample)) and ids.keys() & set(table.values("$keys[0]")):
        known = {name for row in table.fields for name in row}
        step: Step = {"key": "$keys[0]", "by": next(iter(ids.values()))}
        return bool(known & documents) and _add_gold(layout, table, step, "turnIdsField: gold", known & documents)
    names = list(table.fields[0]) if table.fields else []
    if not 2 <= len(names) <= 4:
        return False
    query = next((name for name in names if ids.keys() & set(table.values(name))), None)
    document = next((name for name in names if name != query and set(table.values(name)) & documents), None)
    if query is None or document is None or _mean_words(table) > _MOST_KEY_WORDS:
        return False
    step = {"key": query, "by": next(ids[text] for text in table.values(query) if text in ids), "many": True}
    score = next((name for name in names if name not in (query, document) and name != "round"), None)
    path = f'turnIdsField: "$.gold[*].{document}"'
    if score:
        step |= {"where": {score: {"above": 0}}}
        if not set(table.values(score)) <= {"0", "1", "0.0", "1.0", None}:
            path = f'turnIdsField: "$.gold[*]", reference: {field_name(document)}, grade: {field_name(score)}'
    return _add_gold(layout, table, step, path, {text for text in table.values(document) if text} & documents)


def _add_gold(layout: DataLayout, table: SampledFile, step: Step, path: str, golds: set[str]) -> bool:
    if "gold" not in layout.steps:
        step = {"file": _file_template(layout, table), **table.options(), **step}
        add_field(layout, "gold", step, [None] * len(layout.rows))
        layout.gold, layout.where, layout.golds = path, {"gold": {"present": True}}, golds
    return True


def _file_template(layout: DataLayout, table: SampledFile) -> str:
    """Return the name of a joined file, or a template for such names, as written in the config.

    The template is returned if there are several question files, each with its own joined file in the same folder.
    """
    if len(layout.files) < 2 or "/" not in table.name:
        return table.name
    return "${$file|match:'^[^/]+'}/" + table.name.partition("/")[2]


def join_named_files(layout: DataLayout, folder: Path) -> bool:
    """Join to each row the history file whose name is in a field of the row.

    Return False if the rows have no field with file names.
    """
    for name in layout.rows[0]:
        texts = [row.get(name) for row in layout.rows]
        if not all(isinstance(text, str) and suffix_of(text) in SUFFIXES for text in texts):
            continue
        if not all((folder / str(text)).is_file() for text in texts):
            continue
        tables = {str(text): sample_file(folder / str(text), str(text), most=500) for text in texts[:8]}
        step: Step = {"file": f"${{{name}}}", **tables[str(texts[0])].options()}
        add_field(
            layout, "history", step, [list(tables[str(text)].sample) if str(text) in tables else None for text in texts]
        )
        layout.history = "history"
        layout.corpus = next((key for key in ("persona_id", "user_id", name) if key in layout.rows[0]), name)
        return True
    return False


def join(layout: DataLayout, others: Sequence[SampledFile], *, siblings: bool) -> None:
    """Join other files to the rows, one file at a time, until the rows have a history.

    The file with the best matching keys is joined first. Among equal matches, the file with the longest texts is first.
    If the rows still have no history and only one file is left, this file is joined without keys. ``siblings`` is True
    if the user named a single file instead of a folder; then no file is joined without keys.
    """
    left = [  # more rows, so that more of the keys are known
        table if len(table.sample) < SAMPLED else sample_file(table.path, table.name, most=_KEY_ROWS)
        for table in others
    ]
    while left:
        matches = [(match, table) for table in left if (match := _best_match(layout, table))[0] >= 0.6]
        if not matches:
            break
        (_, key, by, many), table = max(
            matches, key=lambda one: (round(one[0][0], 1), not one[0][3], _mean_words(one[1]))
        )
        left.remove(table)
        name = _joined_name(layout, table)
        step: Step = {"file": table.name, **table.options(), "key": key, "by": by} | ({"many": True} if many else {})
        add_field(layout, name, step, [_rows_with_key(table, key, one, many=many) for one in _values_at(layout, by)])
        layout.history = name
        if not (by.startswith("$.") and layout.corpus):
            layout.corpus = by.replace("[*]", "")
        if _mean_words(table) > _MOST_KEY_WORDS:
            break
    if layout.history is None and len(left) == 1 and not siblings:
        (table,) = left
        name = _joined_name(layout, table)
        add_field(layout, name, {"file": table.name, **table.options()}, [list(table.sample)] * len(layout.rows))
        layout.history, layout.corpus = name, "${'all'}"
        left = []
    joined = layout.history is not None
    layout.unmapped += [
        f"{table.name} is not used: the history is in another file"
        if joined and _best_match(layout, table)[0] >= 0.6
        else f"{table.name} is not used: no field of the questions contains its keys"
        for table in left
    ]


def _mean_words(table: SampledFile) -> int:
    """Return the mean number of words in the longest text of a row, over the first ten rows."""
    rows = table.sample[:10]
    return sum(_most_words(row) for row in rows) // max(1, len(rows))


def _most_words(value: object) -> int:
    if isinstance(value, str):
        return len(value.split())
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return max(map(_most_words, parts), default=0)


KeyMatch = tuple[float, str, str, bool]
"""(share of values that are keys, key field in the other file, field in the question rows, true if keys repeat)"""


def _best_match(layout: DataLayout, table: SampledFile) -> KeyMatch:
    best: KeyMatch = (0.0, "", "", False)
    for key in table.key_names():
        keys = Counter(text for text in table.values(key) if text)
        if len(keys) < 2 and len(table.sample) > 1 and len(layout.rows) > 1 and not any(True for _ in keys):
            continue
        for by, values in _key_candidates(layout):
            share = sum(value in keys for value in values) / len(values)
            if share > best[0] + 0.01:
                best = (share, key, by, max(keys.values()) > 1)
        if best[0] < 0.6 and (prefix := _prefix_template(layout, keys)) is not None:
            best = (0.9, key, prefix, max(keys.values()) > 1)
    return best


def _key_candidates(layout: DataLayout) -> Iterator[tuple[str, list[str]]]:
    """Yield each field that can refer to keys of another file, with the texts in this field."""
    paths: dict[str, list[str]] = {}
    for row in layout.rows:
        for name, value in row.items():
            if (text := scalar_text(value)) is not None:
                paths.setdefault(name, []).append(text)
            elif isinstance(value, list) and value and all(isinstance(one, str | int) for one in value):
                paths.setdefault(name, []).extend(map(str, value))
            elif isinstance(value, Mapping):
                for part, one in value.items():
                    if isinstance(one, list) and one and all(isinstance(text, str) for text in one):
                        paths.setdefault(f"$.{name}.{part}[*]", []).extend(one)
    if layout.keys and all(isinstance(key, str) for key in layout.keys):
        yield _OWN_KEY, [str(key) for key in layout.keys]
    yield from (
        (path, values) for path, values in paths.items() if not (GOLD.fullmatch(path) and path not in QUESTIONS)
    )


def _prefix_template(layout: DataLayout, keys: Mapping[str, int]) -> str | None:
    """Return a template that reads the key of another file from the start of the row ids.

    For example, the key ``scene_1`` is read from the id ``scene_1_q2``. Return None if an id does not begin with a key.
    """
    for name in ("id", "_id", "question_id", "qid"):
        ids = [text for row in layout.rows if (text := scalar_text(row.get(name)))]
        counts = {key.count("_") for key in keys}
        if ids and len(counts) == 1 and all(any(text.startswith(f"{key}_") for key in keys) for text in ids):
            return f"${{{name}|match:'^{'_'.join(['[^_]+'] * (counts.pop() + 1))}'}}"
    return None


def _values_at(layout: DataLayout, by: str) -> Iterator[object]:
    if by == _OWN_KEY:
        yield from layout.keys
        return
    value = value_of(by)
    assert value is not None
    yield from (value.get(row) if value.single else value.all(row) for row in layout.rows)


def _rows_with_key(table: SampledFile, key: str, by: object, *, many: bool) -> object:
    keys = table.values(key)
    wanted = [scalar_text(one) for one in by] if isinstance(by, list) else [scalar_text(by)]
    found = [row for text in wanted for row, own in zip(table.sample, keys, strict=True) if own == text and text]
    return found if many or isinstance(by, list) else (found[0] if found else None)
