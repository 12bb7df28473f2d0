"""What the files of a folder are to each other: which has the questions, and how its rows get the fields of the others.

Example::

    layout = lay_out(Path("data"))
    layout.files, layout.steps          # (["questions.csv"], {"history": {"file": "contexts.jsonl", ...}})
    layout.rows                         # the first rows with every field that the steps add
    layout.unmapped                         # what could not be mapped, and how to write it

Only values decide: a file is joined where its keys are what rows of the other name, never because of its name alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import cast

from bench.config.benchmark_file import SUFFIXES, suffix_of
from bench.config.benchmark_terms import Format
from bench.datasets.config_guess import GOLD, LITERAL, NESTED, QUESTIONS, WORDS, Row, first, objects
from bench.datasets.row import scalar_text, value_of
from bench.datasets.row_reader import RowFile, without_empty_cells
from bench.datasets.row_source import decoded, stem
from bench.errors import DataError, UsageError

SAMPLED = 50
SAMPLED_BYTES = 4_000_000
_KEYED = 5_000
"""so many rows of another file are looked at for keys"""
_DEEP = 4
_WORDS = 20
"""a text longer than that says something"""

Step = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledFile:
    """One file: where its rows are, and the first of them."""

    path: Path
    name: str
    rows: str | None
    columns: tuple[str, ...]
    sample: tuple[object, ...]
    keys: tuple[str | int | None, ...]
    """the key under which each row is, where the file is a map"""

    @property
    def fields(self) -> list[Row]:
        return [row for row in self.sample if isinstance(row, Mapping)]

    def options(self) -> Step:
        """The keys of a step that says where the rows are."""
        found: Step = {"rows": self.rows} if self.rows else {}
        return found | ({"columns": list(self.columns)} if self.columns else {})

    def values(self, key: str) -> list[str | None]:
        """The texts of a field over the rows; of ``$keys[0]`` and ``$row`` too."""
        if key == "$keys[0]":
            return [scalar_text(one) for one in self.keys]
        if key == "$row":
            return [str(number) for number in range(len(self.sample))]
        return [scalar_text(row.get(key)) if isinstance(row, Mapping) else None for row in self.sample]

    def key_names(self) -> Iterator[str]:
        """What may be a key of a row, the likeliest first."""
        if any(key is not None for key in self.keys):
            yield "$keys[0]"
        names = dict.fromkeys(name for row in self.fields[:20] for name in row)
        yield from sorted(names, key=lambda name: not re.search(r"id$|key$|name$", name, re.IGNORECASE))


@dataclass(slots=True, kw_only=True)
class Layout:
    """The files with the questions, and the fields that their rows get."""

    files: list[Path]
    rows_path: str | None
    rows: list[Row]
    columns: tuple[str, ...] = ()
    steps: dict[str, Step] = field(default_factory=dict)
    where: Step = field(default_factory=dict)
    history: str | None = None
    """the added field that holds the history"""
    corpus: str | None = None
    gold: str | None = None
    """path of gold ids that another file brings"""
    golds: set[str] = field(default_factory=set)
    unmapped: list[str] = field(default_factory=list)


def lay_out(data: Path) -> Layout:
    """Look at a file, or at the files of a folder. UsageError or DataError where there is nothing to read."""
    if not data.is_dir():
        if suffix_of(data.name) not in SUFFIXES:
            hint = "use a .json, .jsonl, .csv, .tsv or .parquet file, or a folder of them"
            raise UsageError(f'cannot tell the format of "{data}"', hint=hint)
        table = _table(data, data.name)
        return _enriched(_plain([table]), data.parent, [], siblings=True)
    found = [path for path in sorted(data.rglob("*")) if path.is_file() and suffix_of(path.name) in SUFFIXES]
    tables, broken = [], []
    for path in found[:200]:
        try:
            tables.append(_table(path, path.relative_to(data).as_posix()))
        except DataError as error:
            broken.append(f"{path.name} is not read: {error.message}")
    if not tables:
        hint = "name a folder with .json, .jsonl, .csv, .tsv or .parquet files"
        raise UsageError(f'there is no data file to read in "{data}"', hint=hint)
    asked = max(tables, key=_asks)
    kin = [table for table in tables if _kind(table) == _kind(asked) and _asks(table) == _asks(asked)]
    layout = _plain(kin)
    layout.unmapped += broken
    return _enriched(layout, data, [table for table in tables if table not in kin], siblings=False)


def first_rows(data: Path, most: int = SAMPLED) -> list[Row]:
    """The first rows of a file, as far as they can be read; the first one must be."""
    return _plain([_table(data, data.name, most=most)]).rows[:most]


# ---------------------------------------------------------------------- files


def _table(path: Path, name: str, *, most: int = SAMPLED) -> SampledFile:
    format_ = cast("Format", SUFFIXES[suffix_of(path.name)])
    columns = _columns(path, format_)
    head = _read(path, format_, None, columns, 2)
    rows = None
    if format_ == "json" and len(head) == 1 and isinstance(head[0][0], Mapping):
        rows = _rows_path(head[0][0])
    elif format_ == "jsonl" and all(isinstance(row, Mapping) and len(row) == 1 for row, _ in head) and len(head) > 1:
        rows = "$.*" if all(isinstance(one, list | Mapping) for row, _ in head for one in row.values()) else None  # type: ignore[attr-defined]
    read = _read(path, format_, rows, columns, most)
    return SampledFile(path=path, name=name, rows=rows, columns=columns, sample=tuple(row for row, _ in read),
                 keys=tuple(key for _, key in read))  # fmt: skip


def _read(
    path: Path, format_: Format, rows: str | None, columns: tuple[str, ...], most: int
) -> list[tuple[object, str | int | None]]:
    file = RowFile.open(path, format_, name=stem(path.name), given=columns, rows=value_of(rows))
    found: list[tuple[object, str | int | None]] = []
    read = 0
    for row in islice(file.values() if rows else iter(file), most):
        if row.error is not None and found:
            break
        if row.error is not None or row.values is None:
            raise row.error or row.place.error("", "is torn")
        if isinstance(row.values, Mapping) and not row.values and not found:
            raise row.place.error("", "has no field")
        plain = without_empty_cells(row.values) if isinstance(row.values, Mapping) else row.values
        found.append((plain, row.keys[-1] if rows and row.keys and isinstance(row.keys[-1], str) else None))
        read += row.length
        if read > SAMPLED_BYTES and not rows:
            break
    if not found:
        raise DataError("there are no rows", where=str(path), hint="check the file and its format")
    return found


def _columns(path: Path, format_: Format) -> tuple[str, ...]:
    """Names for a table whose first line holds values; () for one with a header."""
    if format_ != "tsv" or path.suffix == ".gz":
        return ()
    with path.open(encoding="utf-8", errors="replace") as file:
        cells = file.readline().rstrip("\r\n").split("\t")
    if not any(re.fullmatch(r"-?\d+(\.\d+)?", cell) for cell in cells):
        return ()
    names = {2: ("query", "doc"), 3: ("query", "doc", "score"), 4: ("query", "round", "doc", "score")}
    return names.get(len(cells), tuple(f"column_{number}" for number in range(1, len(cells) + 1)))


def asks(row: object) -> bool:
    """True when an object holds a question of its own, or a list of them."""
    if not isinstance(row, Mapping):
        return False
    if first(row, QUESTIONS, str) or first(row, NESTED, (list, Mapping, str)):
        return True
    held = [part for part in row.values() if isinstance(part, Mapping)]
    return first(row, QUESTIONS, Mapping) is not None or any(
        first(part, QUESTIONS, str) or _question_of(part) for part in held
    )


def _question_of(part: Row) -> str | None:
    return next((key for key, value in part.items() if isinstance(value, str) and value.rstrip().endswith("?")), None)


def _rows_path(document: Row) -> str | None:
    """Where the rows of a document are; None where it is one row."""
    if asks(document):
        return None
    level: list[tuple[str, list[object]]] = [("$", [document])]
    for _ in range(_DEEP):
        level = [step for path, values in level for step in _steps(path, values)]
        for path, values in level:
            if values and all(map(asks, values)):
                return path
    lists = [
        name for name, part in document.items() if isinstance(part, list) and any(isinstance(p, Mapping) for p in part)
    ]
    if all(isinstance(part, list | Mapping) for part in document.values()) and len(lists) != 1:
        return "$.*"
    return f"$.{lists[0]}[*]" if len(lists) == 1 and re.fullmatch(r"\w+", lists[0]) else None


def _steps(path: str, values: Sequence[object]) -> Iterator[tuple[str, list[object]]]:
    """Every way one level down: the elements of lists, one name that all have, all names."""
    if all(isinstance(value, list) for value in values):
        yield f"{path}[*]", [one for value in values for one in value if one is not None]  # type: ignore[attr-defined]
        return
    if not all(isinstance(value, Mapping) for value in values):
        return
    maps = cast("Sequence[Row]", values)
    inside = [part for one in maps for part in one.values() if part is not None]
    if all(isinstance(part, list | Mapping) for part in inside):
        yield f"{path}.*", inside
    for name in sorted(set.intersection(*map(set, maps))) if maps else ():
        if re.fullmatch(r"\w+", name):
            yield f"{path}.{name}", [one[name] for one in maps if one[name] is not None]


def _asks(table: SampledFile) -> int:
    """How much a file looks like the one with the questions."""
    cells = [text for row in table.fields for text in map(scalar_text, row.values()) if text]
    if suffix_of(table.name) == ".tsv" and not any(" " in text for text in cells):
        return 0
    named = bool(re.search(r"quer|question|(?:^|[/_])qa", table.name, re.IGNORECASE))
    return 2 * any(map(asks, table.sample)) + (named and bool(table.fields))


def _kind(table: SampledFile) -> object:
    names = frozenset(name for row in table.fields[:1] for name in row)
    return suffix_of(table.name), table.rows or names, table.columns


# ----------------------------------------------------------------------- rows


def _plain(tables: Sequence[SampledFile]) -> Layout:
    rows = [row for table in tables for row in table.fields]
    if not rows:
        raise DataError("the rows are not objects", where=str(tables[0].path), hint="make each row an object of fields")
    return Layout(
        files=[table.path for table in tables], rows_path=tables[0].rows, rows=rows, columns=tables[0].columns
    )


def _enriched(layout: Layout, folder: Path, others: Sequence[SampledFile], *, siblings: bool) -> Layout:
    _decode(layout)
    _zip(layout)
    left = [table for table in others if not _judgements(layout, table, others)]
    if not _has_history(layout.rows[0]) and not _join_files(layout, folder):
        _join(layout, left, siblings=siblings)
    return layout


def _has_history(row: Row) -> bool:
    """True when a row has something of its own to remember: a list of parts, or a text longer than what it asks."""
    for name, value in row.items():
        if GOLD.fullmatch(name) or name in NESTED:
            continue
        if isinstance(value, list | Mapping) and (_says_something(value) or _nested_texts(value)):
            return True
        if (
            isinstance(value, str)
            and name in ("context", "content", "text", "document", "passage", "story", "article")
            and any(map(row.get, QUESTIONS))
        ):
            return True
    return False


def _says_something(value: object) -> bool:
    """Some of the objects in a value holds words, not only ids."""
    return any(
        isinstance(text, list) or (isinstance(text, str) and (len(text) > _WORDS or name in WORDS))
        for part in objects(value)
        for name, text in part.items()
    )


def _nested_texts(value: object) -> bool:
    parts = list(value.values()) if isinstance(value, Mapping) else value
    return isinstance(parts, list) and len(parts) > 1 and any(isinstance(one, list) for one in parts)


def _add(layout: Layout, name: str, step: Step, values: Iterable[object]) -> None:
    layout.steps[name] = step
    layout.rows = [
        {**row, name: value} if value is not None else row for row, value in zip(layout.rows, values, strict=True)
    ]


def _decode(layout: Layout) -> None:
    """Texts that hold a list or map."""
    for name in dict.fromkeys(name for row in layout.rows for name in row):
        texts = [row.get(name) for row in layout.rows]
        if not any(isinstance(text, str) and LITERAL.match(text) for text in texts):
            continue
        try:
            values = [decoded(str(text)) if isinstance(text, str) and text.strip() else text for text in texts]
        except ValueError as error:
            layout.unmapped.append(
                f'"{name}" looks like a list or map written as text, and a row of it is not one ({error}): correct it, '
                f"then add data.with: {{{name}: {{decode: {name}}}}}"
            )
            continue
        _add(layout, name, {"decode": name}, values)


def _zip(layout: Layout) -> None:
    """Questions and answers, or titles and texts, in lists side by side."""
    row = layout.rows[0]
    name = first(row, NESTED, list)
    if name is not None and all(isinstance(one, str) for one in cast("list[object]", row[name])):
        side = dict(_beside(row, len(cast("list[object]", row[name])), skip=name))
        _add_zip(layout, "qa", {"question": name, **{_part(key): path for key, path in side.items()}})
    for key, value in row.items():
        lists = (
            {part: one for part, one in value.items() if isinstance(one, list)} if isinstance(value, Mapping) else {}
        )
        texts = [part for part, one in lists.items() if one and isinstance(one[0], str)]
        same = len({len(one) for one in lists.values()}) == 1 and len(lists) == len(value)  # type: ignore[arg-type]
        if same and len(lists) > 1 and texts and any(one and isinstance(one[0], list) for one in lists.values()):
            _add_zip(layout, f"{key}_parts", {part: f"$.{key}.{part}" for part in lists})
            layout.history = f"{key}_parts"


_PARTS = {"answers": "answer", "answer": "answer", "question_types": "type", "types": "type", "question_dates": "date",
          "qa_pair_ids": "id", "question_ids": "question_id", "ids": "id", "evidences": "evidence"}  # fmt: skip


def _part(name: str) -> str:
    return _PARTS.get(name, name)


def _beside(row: Row, length: int, *, skip: str) -> Iterator[tuple[str, str]]:
    """The lists of that length, of the row and of the maps in it."""
    for name, value in row.items():
        if isinstance(value, list) and len(value) == length and name != skip:
            yield name, name
        if isinstance(value, Mapping):
            for part, one in value.items():
                if isinstance(one, list) and len(one) == length:
                    yield part, f"$.{name}.{part}"


def _add_zip(layout: Layout, name: str, parts: Mapping[str, str]) -> None:
    values = []
    for row in layout.rows:
        lists = {key: found for key, path in parts.items() if isinstance(found := value_of(path).get(row), list)}  # type: ignore[union-attr]
        if len({len(one) for one in lists.values()}) > 1:
            return
        values.append([dict(zip(lists, one, strict=True)) for one in zip(*lists.values(), strict=True)])
    _add(layout, name, {"zip": dict(parts)}, values)


# ---------------------------------------------------------------------- joins


def _name(layout: Layout, table: SampledFile) -> str:
    name = re.sub(r"\W+", "_", stem(table.name).rpartition("/")[2]).strip("_").lower() or "joined"
    taken = {key for row in layout.rows for key in row} | layout.steps.keys()
    return name if name not in taken and not name[0].isdigit() else f"joined_{name}"


def _judgements(layout: Layout, table: SampledFile, others: Sequence[SampledFile]) -> bool:
    """A list of (question, document, grade): gold, and no memory."""
    names = list(table.fields[0]) if table.fields else []
    if not 2 <= len(names) <= 4 or suffix_of(table.name) not in ("tsv", ".tsv"):
        return False
    ids = {
        text for row in layout.rows for key in ("_id", "id", "query_id", "qid") if (text := scalar_text(row.get(key)))
    }
    query = next((name for name in names if ids & set(table.values(name))), None)
    documents = {
        text for other in others if other is not table for key in other.key_names() for text in other.values(key)
    }
    document = next((name for name in names if name != query and set(table.values(name)) & documents), None)
    if query is None or document is None:
        return False
    own = next(
        key
        for key in ("_id", "id", "query_id", "qid")
        if any(row.get(key) in table.values(query) for row in layout.rows)
    )
    if "gold" not in layout.steps:
        step: Step = {"file": _template(layout, table), **table.options(), "key": query, "by": own, "many": True}
        score = next((name for name in names if name not in (query, document) and name != "round"), None)
        step |= {"where": {score: {"above": 0}}} if score else {}
        _add(layout, "gold", step, [None] * len(layout.rows))
        layout.gold, layout.where = f"$.gold[*].{document}", {"gold": {"present": True}}
        layout.golds = {text for text in table.values(document) if text} & documents
    return True


def _template(layout: Layout, table: SampledFile) -> str:
    """The file's name; a template where each file of questions has one in its own folder."""
    if len(layout.files) < 2 or "/" not in table.name:
        return table.name
    return "${$file|match:'^[^/]+'}/" + table.name.partition("/")[2]


def _join_files(layout: Layout, folder: Path) -> bool:
    """A field that holds the name of a file: the history is that file."""
    for name in layout.rows[0]:
        texts = [row.get(name) for row in layout.rows]
        if not all(isinstance(text, str) and suffix_of(text) in SUFFIXES for text in texts):
            continue
        if not all((folder / str(text)).is_file() for text in texts):
            continue
        tables = {str(text): _table(folder / str(text), str(text), most=500) for text in texts[:8]}
        step: Step = {"file": f"${{{name}}}", **tables[str(texts[0])].options()}
        _add(
            layout, "history", step, [list(tables[str(text)].sample) if str(text) in tables else None for text in texts]
        )
        layout.history = "history"
        layout.corpus = next((key for key in ("persona_id", "user_id", name) if key in layout.rows[0]), name)
        return True
    return False


def _join(layout: Layout, others: Sequence[SampledFile], *, siblings: bool) -> None:
    """Fields of other files, one after the other, until there is something to remember."""
    left = [_more(table) for table in others]
    while left:
        found = max(((_match(layout, table), table) for table in left), key=lambda one: one[0][0], default=None)
        if found is None or found[0][0] < 0.6:
            break
        (_, key, by, many), table = found
        left.remove(table)
        name = _name(layout, table)
        step: Step = {"file": table.name, **table.options(), "key": key, "by": by} | ({"many": True} if many else {})
        _add(layout, name, step, [_taken(table, key, _by(row, by), many=many) for row in layout.rows])
        layout.history, layout.corpus = name, _written_by(by, layout)
    if layout.history is None and len(left) == 1 and not siblings:
        (table,) = left
        name = _name(layout, table)
        _add(layout, name, {"file": table.name, **table.options()}, [list(table.sample)] * len(layout.rows))
        layout.history, layout.corpus = name, "${'all'}"
        left = []
    layout.unmapped += [f"{table.name} is joined to nothing: no field of the questions has its keys" for table in left]


def _more(table: SampledFile) -> SampledFile:
    """The same file with more of its rows, for their keys."""
    return table if len(table.sample) < SAMPLED else _table(table.path, table.name, most=_KEYED)


Match = tuple[float, str, str, bool]
"""how many of our values are keys there, its key, our value, and whether a key has several rows"""


def _match(layout: Layout, table: SampledFile) -> Match:
    best: Match = (0.0, "", "", False)
    for key in table.key_names():
        keys = Counter(text for text in table.values(key) if text)
        if len(keys) < 2 and len(table.sample) > 1 and len(layout.rows) > 1 and not any(True for _ in keys):
            continue
        for by, values in _values(layout):
            share = sum(value in keys for value in values) / len(values)
            if share > best[0] + 0.01:
                best = (share, key, by, max(keys.values()) > 1)
        if best[0] < 0.6 and (prefix := _prefix(layout, keys)) is not None:
            best = (0.9, key, prefix, max(keys.values()) > 1)
    return best


def _values(layout: Layout) -> Iterator[tuple[str, list[str]]]:
    """Each field of the rows that may name something, with its texts."""
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
    yield from (
        (path, values) for path, values in paths.items() if not (GOLD.fullmatch(path) and path not in QUESTIONS)
    )


def _prefix(layout: Layout, keys: Mapping[str, int]) -> str | None:
    """A key that begins the ids of the rows: ``scene_1`` of ``scene_1_q2``."""
    for name in ("id", "_id", "question_id", "qid"):
        ids = [text for row in layout.rows if (text := scalar_text(row.get(name)))]
        counts = {key.count("_") for key in keys}
        if ids and len(counts) == 1 and all(any(text.startswith(f"{key}_") for key in keys) for text in ids):
            return f"${{{name}|match:'^{'_'.join(['[^_]+'] * (counts.pop() + 1))}'}}"
    return None


def _by(row: Row, by: str) -> object:
    value = value_of(by)
    assert value is not None
    return value.get(row) if value.single else value.all(row)


def _taken(table: SampledFile, key: str, by: object, *, many: bool) -> object:
    keys = table.values(key)
    wanted = [scalar_text(one) for one in by] if isinstance(by, list) else [scalar_text(by)]
    found = [row for text in wanted for row, own in zip(table.sample, keys, strict=True) if own == text and text]
    return found if many or isinstance(by, list) else (found[0] if found else None)


def _written_by(by: str, layout: Layout) -> str:
    """What rows of one history share."""
    return layout.corpus if by.startswith("$.") and layout.corpus else by.replace("[*]", "")
