"""The steps of ``data.with``. Each step adds a field to a row: decoded text, zipped lists or rows of another file.

Example::

    library = JoinedFiles((Path("data"),), {})
    step = open_step("docs", FieldStep(file="docs.jsonl", key="id", by="doc"), library)
    step.added(row, place, {})         # {"docs": {...}}
"""

from __future__ import annotations

import ast
import json
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from bench.config.benchmark.file import SUFFIXES, suffix_of
from bench.config.benchmark.sections import FieldStep
from bench.config.benchmark.values import KeyMissing, RowScope, Value, compile_value, roots_of, scoped
from bench.config.file import display_path
from bench.datasets.rows.conditions import Conditions
from bench.datasets.rows.config_names import NameGroup, paths_of_joined
from bench.datasets.rows.data_file import file_sha256
from bench.datasets.rows.index import IdTable, RowIndex
from bench.datasets.rows.row import FileRow, FloatText, RowPlace, strict_json
from bench.datasets.rows.row_reader import RowFile
from bench.datasets.rows.row_values import content_id, missing_error, scalar_text, value_of
from bench.datasets.rows.table_rows import without_empty_cells
from bench.errors import DataError
from bench.untyped_values import python_tree

_CACHED = 2
"""maximum number of joined values and open files that each step keeps; neighboring rows often use equal ones"""


def stem(name: str) -> str:
    """Return a file name without ``.gz`` and without its suffix: ``a/rows`` for ``a/rows.jsonl.gz``."""
    path = PurePosixPath(name.removesuffix(".gz"))
    return str(path.with_suffix("")) if path.suffix else str(path)


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """The folders in which joined files are searched, and the SHA-256 of each file that was already read."""

    folders: tuple[Path, ...]
    digests: dict[str, str]

    def find(self, name: str) -> Path | None:
        """Return the path of the file in the first folder that contains it; None if no folder contains it."""
        return next((folder / name for folder in self.folders if (folder / name).is_file()), None)

    def open(self, name: str, step: FieldStep, fail: Callable[[str, str], DataError]) -> RowFile:
        """Open a joined file by its name in the config.

        If the file cannot be used, the error is created by ``fail(text, hint)``.
        """
        if (
            PurePosixPath(name).is_absolute()
            or PureWindowsPath(name).anchor
            or ".." in name.replace("\\", "/").split("/")
        ):
            raise fail(f'"{name}" leaves the folder of the data', "write a path inside this folder")
        path = self.find(name)
        if path is None:
            folders_text = " or ".join(display_path(folder) for folder in self.folders)
            raise fail(f'the file "{name}" is not there', f"put the file into {folders_text}")
        if suffix_of(name) not in SUFFIXES:
            raise fail(
                f'cannot tell the format of "{name}"',
                "give the file a suffix that names its format, such as .jsonl",
            )
        format = SUFFIXES[suffix_of(name)]  # noqa: A001
        file = RowFile.open(path, format, name=stem(name), given=step.columns, rows=value_of(step.rows))
        if name not in self.digests:
            self.digests[name] = file_sha256(path)
        return file


class AddedField(ABC):
    """A field that one step of ``data.with`` adds to each row."""

    def __init__(self, name: str, step: FieldStep, library: JoinedFiles) -> None:
        self.name = name
        self.step = step
        self.library = library
        self.reads_itself = False
        self.names = NameGroup.of_paths("no joined row has this field", paths_of_joined(name, step))

    def added(self, row: Mapping[str, object], place: RowPlace, joined_ids: dict[str, str]) -> Mapping[str, object]:
        """Return a map from the name of the new field to its value. The value can be None.

        The id of the value is added to ``joined_ids`` under the name of the field.
        """
        if self.name in row and not self.reads_itself:
            raise self._fail(place, f'the rows already have a field "{self.name}"', "choose another name")
        found = self._value(row, place, joined_ids)
        return {self.name: found}

    @abstractmethod
    def _value(self, row: Mapping[str, object], place: RowPlace, joined_ids: dict[str, str]) -> object:
        """Return the value of the new field in this row; None if there is no value."""

    def _fail(self, place: RowPlace, text: str, hint: str) -> DataError:
        message = f"data.with.{self.name}: {text} (row {place.row})"
        return DataError(message, where=str(place), hint=hint)


class _DecodedField(AddedField):
    """A field whose text is decoded as JSON or as a Python literal."""

    def __init__(self, name: str, step: FieldStep, library: JoinedFiles) -> None:
        super().__init__(name, step, library)
        assert step.decode is not None
        self.value = compile_value(step.decode)
        self.reads_itself = name in roots_of(step.decode)

    def _value(self, row: Mapping[str, object], place: RowPlace, joined_ids: dict[str, str]) -> object:
        found = self.value.get(row)
        if isinstance(found, str):
            try:
                found = decode_text(str(found))
            except ValueError as error:
                hint = "correct the text of that field"
                raise self._fail(
                    place, f"{self.value.text} is neither JSON nor a Python literal ({error})", hint
                ) from error
        joined_ids[self.name] = "" if found is None else content_id(found)
        return found


class _ZippedField(AddedField):
    """A field that combines parallel lists into one list of objects."""

    def __init__(self, name: str, step: FieldStep, library: JoinedFiles) -> None:
        super().__init__(name, step, library)
        assert step.zip is not None
        self.values = {key: compile_value(value) for key, value in step.zip.items()}
        self.reads_itself = any(name in roots_of(value) for value in step.zip.values())

    def _value(self, row: Mapping[str, object], place: RowPlace, joined_ids: dict[str, str]) -> object:
        lists: dict[str, list[object]] = {}
        for key, value in self.values.items():
            found = value.get(row) if value.single else value.all(row)
            if found is None:
                continue
            if not isinstance(found, list):
                raise self._fail(place, f"{value.text} is not a list", 'name only lists under "zip"')
            lists[key] = found
        lengths = {key: len(found) for key, found in lists.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{key} has {length}" for key, length in lengths.items())
            raise self._fail(place, f"lists of different length: {listed}", "correct the row, or name other lists")
        made = [dict(zip(lists, parts, strict=True)) for parts in zip(*lists.values(), strict=True)]
        joined_ids[self.name] = content_id(made)
        return made if lists else None


class JoinedRows(AddedField):
    """A field with rows of another file. The rows are selected by a key."""

    def __init__(self, name: str, step: FieldStep, library: JoinedFiles) -> None:
        super().__init__(name, step, library)
        assert step.file is not None
        self.file = compile_value(step.file) if "${" in step.file else None
        self.key, self.by = value_of(step.key), value_of(step.by)
        self.where = Conditions(step.where, f"data.with.{name}.where")
        self.left_out: dict[str, int] = {}
        """map from file name to the number of rows that the conditions exclude"""
        self.opened: OrderedDict[str, _JoinedFile] = OrderedDict()
        self.cached: OrderedDict[str, object] = OrderedDict()

    def _value(self, row: Mapping[str, object], place: RowPlace, joined_ids: dict[str, str]) -> object:
        name = self._name(row, place)
        if name is None:
            return None
        if self.by is None:
            joined_ids[self.name] = name
            return self._cached(name, lambda: list(self._indexed(name, place).all_rows()))
        wanted = self.by.get(row) if self.by.single else [one for one in self.by.all(row) if one is not None]
        if wanted is None:
            return None
        listed = isinstance(wanted, list)
        texts = [self._text(one, place) for one in wanted if one is not None] if listed else [self._text(wanted, place)]  # type: ignore[attr-defined]
        token = content_id([name, texts])
        joined_ids[self.name] = token
        return self._cached(token, lambda: self._joined_rows(name, texts, listed=listed, place=place))

    def _joined_rows(self, name: str, texts: list[str], *, listed: bool, place: RowPlace) -> object:
        file = self._indexed(name, place)
        if self.step.many:
            return [one for text in texts for one in file.rows_with(text)]
        found = []
        for text in texts:
            one = next(file.rows_with(text), None)
            if one is None:
                raise self._fail(
                    place,
                    f'no row of {name} has "{text}" as its key',
                    f'correct the value at "by" in this row, or add a row with this key to {name}',
                )
            found.append(one)
        return found if listed else found[0]

    def _name(self, row: Mapping[str, object], place: RowPlace) -> str | None:
        if self.file is None:
            return self.step.file
        found = self.file.get(row)
        if found is None:
            raise self._fail(place, f"{self.file.text} does not produce a file name", "correct the template")
        return scalar_text(found)

    def origin(self, row: Mapping[str, object], index: int, place: RowPlace) -> str:
        """Return the place of a joined row in its own file. ``index`` is the index of this row in the new field."""
        name = self._name(row, place) or ""
        file = self._indexed(name, place)
        if self.by is None:
            return file.place_of_row(index)
        wanted = self.by.get(row) if self.by.single else [one for one in self.by.all(row) if one is not None]
        texts = wanted if isinstance(wanted, list) else [wanted]
        places = [at for text in texts if text is not None for at in file.places_of(self._text(text, place))]
        return places[index] if index < len(places) else name

    def _text(self, value: object, place: RowPlace) -> str:
        text = scalar_text(value)
        if text is None:
            raise self._fail(
                place,
                'the path "by" leads to a list or map; expected a text or a number',
                "correct the path",
            )
        return text

    def _cached(self, token: str, make: Callable[[], object]) -> object:
        if token not in self.cached:
            self.cached[token] = make()
            while len(self.cached) > _CACHED:
                self.cached.popitem(last=False)
        self.cached.move_to_end(token)
        return self.cached[token]

    def _indexed(self, name: str, place: RowPlace) -> _JoinedFile:
        if name not in self.opened:
            file = self.library.open(name, self.step, lambda text, hint: self._fail(place, text, hint))
            self.opened[name] = _JoinedFile(self, file, name)
            while len(self.opened) > _CACHED:
                self.opened.popitem(last=False)
        self.opened.move_to_end(name)
        return self.opened[name]


class _JoinedFile:
    """A joined file whose rows can be found by key."""

    def __init__(self, step: JoinedRows, file: RowFile, name: str) -> None:
        self.step = step
        self.file = file
        self.name = name
        self.keys = IdTable()
        self.rows = RowIndex()
        if step.key is not None:
            for row in self._rows():
                self._add(row, step.key)

    def _rows(self) -> Iterator[FileRow]:
        """Yield the rows that meet the conditions. At the first unreadable row, its error is raised."""
        left_out = 0
        for row in self.file.values():
            if row.error is not None:
                error = row.error
                text = f"data.with.{self.step.name}: {error.message}"
                raise DataError(text, where=error.where, hint=error.hint) from error
            scope = self._scoped(row.values, row.place.row, row.keys)
            if self.step.names.open:
                self.step.names.search([scope])
            if not self.step.where or self.step.where.hold([scope], row.place):
                yield row
            else:
                left_out += 1
        self.step.left_out[self.name] = left_out

    def _scoped(self, value: object, number: int, keys: tuple[str | int, ...]) -> object:
        plain = without_empty_cells(value) if isinstance(value, Mapping) else value
        return scoped(plain, RowScope(self.file.name, number, keys))

    def _add(self, row: FileRow, key: Value) -> None:
        place, name = row.place, self.step.name
        values = self._scoped(row.values, place.row, row.keys)
        try:
            found = key.get(values)
        except KeyMissing as error:
            raise place.error("", f"has no key for data.with.{name}: {error}") from error
        if found is None:
            raise missing_error(key, values, place, key=f"data.with.{name}.key", hint=f"correct data.with.{name}.key")
        text = scalar_text(found)
        if text is None:
            hint = f"correct data.with.{name}.key"
            raise place.error(
                key.text, f"is the key of data.with.{name} and must be text or a number, not", found, hint=hint
            )
        corpus = self.keys.add(text)
        if corpus is None:
            corpus = self.keys.find(text)
            assert corpus is not None
            if not self.step.step.many:
                first = next(self.rows.rows_of(corpus))
                lines = f"{self._line(first)} and {place.line or place.row}"
                unit = "lines" if place.line else "rows"
                text = f'data.with.{name}: the key "{text}" occurs twice in {self.name}: {unit} {lines}'
                raise DataError(text, where=str(place), hint="make the keys unique, or write many: true")
        self.rows.add(row, 0, corpus)

    def _line(self, row: int) -> int:
        return self.rows.lines[row] or self.rows.numbers[row]

    def all_rows(self) -> Iterator[object]:
        """Yield the value of each row that meets the conditions."""
        for row in self._rows():
            yield without_empty_cells(row.values) if isinstance(row.values, Mapping) else row.values

    def place_of_row(self, index: int) -> str:
        """Return the place of a row in the file. ``index`` counts the rows that `all_rows` yields."""
        return next((str(row.place) for at, row in enumerate(self._rows()) if at == index), self.file.label)

    def places_of(self, text: str) -> list[str]:
        """Return the places of all rows whose key is ``text``."""
        known = self.keys.find(text)
        rows = () if known is None else self.rows.rows_of(known)
        places = ((self.rows.lines[row] or None, self.rows.numbers[row]) for row in rows)
        return [str(RowPlace(file=self.file.label, index=number, line=line)) for line, number in places]

    def rows_with(self, text: str) -> Iterator[object]:
        """Yield each row whose key is ``text``, in file order."""
        known = self.keys.find(text)
        for row in () if known is None else self.rows.rows_of(known):
            _, value = self.file.read(self.rows.offsets[row], self.rows.lengths[row], self.rows.parts[row])
            yield without_empty_cells(value) if isinstance(value, Mapping) else value


def open_step(name: str, step: FieldStep, library: JoinedFiles) -> AddedField:
    """Create the step that adds the field ``name``. The config of the step decides its kind."""
    kind = _DecodedField if step.decode is not None else _ZippedField if step.zip is not None else JoinedRows
    return kind(name, step, library)


def decode_text(text: str) -> object:
    """Parse a text as JSON. If the text is not JSON, parse it as a Python literal.

    Raises:
        ValueError: the text is neither JSON nor a Python literal; the message has the line and column.
    """
    try:
        return strict_json(text)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _json_value(ast.literal_eval(python_tree(text.strip(), mode="eval")))
    except SyntaxError as error:
        raise ValueError(_position(error.lineno or 1, error.offset or 1)) from error
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(_position(1, 1)) from error


def _position(line: int, column: int) -> str:
    return f"line {line}, column {column}"


def _json_value(value: object) -> object:
    """Convert the value of a Python literal to the value that JSON parsing would return."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key): _json_value(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(child) for child in value]
    if isinstance(value, float):
        return FloatText(json.dumps(value, allow_nan=False))
    if value is None or isinstance(value, str | int):
        return value
    raise ValueError(type(value).__name__)
