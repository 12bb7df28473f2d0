"""The rows of a benchmark: all its files in order, each row with the fields that ``data.with`` adds.

The conditions of ``data.where`` on fields of the file are checked first. Then ``data.with`` adds fields, and the
conditions on the added fields are checked::

    source = RowSource(config, files)
    for row in source: row.values["joined"]
    source.read(0, row.offset, row.length, row.part, row.place)
    source.left_out, source.joined      # number of rows that data.where excludes; joined file -> sha256

Rows are streamed. Of a joined file, only an index of its rows and a few joined values are kept in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.values import KeyMissing, RowScope, roots_of, scoped, uses_scope
from bench.datasets.rows.conditions import Conditions, split_conditions
from bench.datasets.rows.config_names import NameGroup, paths_of_data
from bench.datasets.rows.data_file import DataFile, file_sha256
from bench.datasets.rows.field_steps import JoinedFiles, JoinedRows, open_step, stem
from bench.datasets.rows.reading import LARGE_DATA, ReadingPass
from bench.datasets.rows.row import FileRow, RowPlace
from bench.datasets.rows.row_reader import RowFile
from bench.datasets.rows.row_values import value_of
from bench.datasets.rows.table_rows import without_empty_cells
from bench.errors import DataError
from bench.visible_text import counted

_JOINED = re.compile(r"(?P<field>\w+)(?:\[(?P<index>\d+)\])?\.?(?P<rest>.*?)(?: \(row [^()]*\))?", re.DOTALL)
"""regular expression for an error message; its groups are the field, the index of the joined row, and the problem"""


class RowSource:
    """All rows of a benchmark, from all its files. ``data.with`` adds fields to each row."""

    def __init__(self, config: BenchmarkConfig, files: Sequence[DataFile]) -> None:
        data = config.data
        rows = value_of(data.rows)
        self.config = config
        self.files = [
            RowFile.open(file.path, file.format, name=stem(file.name), given=data.columns, rows=rows) for file in files
        ]
        self.label = self.files[0].label
        self.joined: dict[str, str] = {}
        folders = [folder for file in files for folder in (file.folder, file.path.parent)]
        self.library = JoinedFiles(tuple(dict.fromkeys(folders)), self.joined)
        self.steps = [open_step(name, step, self.library) for name, step in data.with_.items()]
        early, late = split_conditions(data.where, frozenset(data.with_))
        self.before, self.after = Conditions(early, "data.where"), Conditions(late, "data.where")
        self.plain = not (self.steps or data.where or len(files) > 1 or data.rows)
        self.scopes = bool(self.steps) or uses_scope(config.model_dump(mode="json", include=_READ))
        self.names = NameGroup.of_paths("no row has this field", paths_of_data(config))
        self.left_out = 0
        """number of rows that ``data.where`` excluded when the rows were last read"""

    def __iter__(self) -> Iterator[FileRow]:
        """Yield every row that meets ``data.where``, in file order.

        A row that cannot be read has an error instead of values.
        """
        index = self.left_out = 0
        for number, file in enumerate(self.files):
            for row in file:
                place = row.place if self.plain else replace(row.place, index=index, number=row.place.index)
                if row.values is not None:
                    done = self._completed(replace(row, place=place, file=number))
                    if done is None:
                        self.left_out += 1
                        continue
                    yield done
                else:
                    yield replace(row, place=place, file=number)
                index += 1

    @property
    def is_large(self) -> bool:
        """Return True when the data has 20 MB or more. Reading it takes more than about a second."""
        return sum(self._sizes()) >= LARGE_DATA

    @property
    def size(self) -> int:
        """Return the size of all files in bytes, with the joined files."""
        joined = filter(None, map(self.library.find, self.joined))
        return sum(path.stat().st_size for path in {*(file.path for file in self.files), *joined})

    def _sizes(self) -> list[int]:
        return [file.path.stat().st_size for file in self.files]

    def with_progress(self) -> Iterable[FileRow]:
        """Return all rows. If the data is large, progress is reported while the rows are read."""
        if not self.is_large:
            return self
        sizes = self._sizes()
        what = f"reading {self.config.name}"
        if any(file.rows_in_all is not None for file in self.files):
            rows = sum(file.rows_in_all or 0 for file in self.files)
            return ReadingPass(what, rows, "rows").over(self, lambda number, _: number)
        before = [0, *accumulate(sizes)]
        return ReadingPass(what, before[-1], "MB").over(self, lambda _, row: before[row.file] + row.offset + row.length)

    def _completed(self, row: FileRow) -> FileRow | None:
        assert row.values is not None
        try:
            values = self._complete(row.values, row, row.place)
        except DataError as error:
            return replace(row, values=None, error=error)
        return None if values is None else replace(row, values=values, file_values=row.values)

    def read(self, file: int, offset: int, length: int, part: int, place: RowPlace) -> Mapping[str, object]:
        """Read one row again by its position, and add the fields of ``data.with``."""
        keys, values = self.files[file].read(offset, length, part)
        assert isinstance(values, Mapping)
        row = FileRow(place=place, offset=offset, length=length, values=values, file=file, keys=keys)
        found = self._complete(values, row, place)
        assert found is not None
        return found

    def _complete(self, values: Mapping[str, object], row: FileRow, place: RowPlace) -> Mapping[str, object] | None:
        """Return the row with the fields that ``data.with`` adds, or None if ``data.where`` excludes the row."""
        if not self.scopes and self.plain:
            return values
        scope = RowScope(self.files[row.file].name, place.row, row.keys)
        whole = scoped(values, scope)
        try:
            if self.names.open:
                self.names.search([whole])
            if self.before and not self.before.hold([without_empty_cells(whole)], place):
                return None
            joined_ids: dict[str, str] = {}
            for step in self.steps:
                whole = scoped({**whole, **step.added(without_empty_cells(whole), place, joined_ids)}, scope)
            if self.names.open:
                self.names.search([whole])
            if self.after and not self.after.hold([without_empty_cells(whole)], place):
                return None
        except KeyMissing as error:
            raise place.error("", str(error), hint="count the [*] of the path from the end: $keys[-1]") from error
        return scoped(whole, replace(scope, joined_ids=joined_ids))

    def missing_names(self, *, of_file: bool = False) -> Iterator[str]:
        """Yield a message for each name in the config section ``data`` that no row contains.

        The message begins with the place in the config. If ``of_file`` is true, there are no messages about fields that
        ``data.with`` adds: if a step fails, its field is missing although its name is right.
        """
        added = self.config.data.with_.keys() if of_file else set[str]()
        for sort in (self.names, *(step.names for step in self.steps)):
            for name, rest in sort.missing_names():
                if not roots_of(name.text) & added:
                    place, written = self.config.place(*name.key), self.config.written(*name.key)
                    yield f'{place}: {written} names "{name.text}", but {rest}'

    def left_out_of_joined(self) -> Iterator[str]:
        """Yield a note for each step of ``data.with`` whose conditions exclude rows of the joined files."""
        for step in self.steps:
            if isinstance(step, JoinedRows) and (count := sum(step.left_out.values())):
                files = ", ".join(list(step.left_out)[:3])
                yield f"data.with.{step.name}.where excludes {counted(count, 'row(|s)')} of {files}"

    def at_origin(self, row: FileRow, error: DataError) -> DataError:
        """Return the error with the place of the joined row, if the error is about a row that is joined to ``row``.

        All rows to which one faulty row is joined then give the same error. Any other error is returned unchanged.
        """
        found = _JOINED.fullmatch(error.message)
        step = next((step for step in self.steps if found and step.name == found["field"]), None)
        if found is None or not isinstance(step, JoinedRows) or row.values is None or error.message.startswith("data."):
            return error
        if row.values.get(step.name) is None:
            return error
        where = step.origin(row.values, int(found["index"] or 0), row.place)
        message = f"{found['rest']}, joined by data.with.{step.name}"
        return DataError(message.strip(), where=where, hint=error.hint)

    def digest_of(self, name: str) -> str | None:
        """Return the current SHA-256 of a joined file, or None if the file is missing."""
        path = self.library.find(name)
        return None if path is None else file_sha256(path)

    def label_of(self, file: int) -> str:
        """Return the path of the file at index ``file``, for error messages."""
        return self.files[file].label


_READ = {"data", "fields", "corpus", "visibility", "abstention", "evidence"}
"""config sections that contain paths and templates"""
