"""Where in a dataset file something stands, as errors say it.

``data.jsonl:3``, ``data.csv:4`` (line of the row), ``data.json: [0].haystack_dates[1]`` (index of the row)::

    RowPlace(file="data.jsonl", index=2, line=3).error("question", "is missing")
    # DataError: data.jsonl:3: question is missing
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.config.findings import quote
from bench.errors import DataError

_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlace:
    """One row of one file."""

    file: str
    index: int
    """from 0"""
    line: int | None = None
    """None: a JSON file, whose rows are known by index"""
    row_id: str | None = None

    def named(self, row_id: str) -> RowPlace:
        """The same place, with the row's id."""
        return RowPlace(file=self.file, index=self.index, line=self.line, row_id=row_id)

    def __str__(self) -> str:
        return f"{self.file}: [{self.index}]" if self.line is None else f"{self.file}:{self.line}"

    def error(self, field: str, message: str, value: object = _ABSENT, *, hint: str | None = None) -> DataError:
        """Word one finding: the place, the field, what is wrong, and the value (100 characters at most)."""
        joint = "" if not field or field.startswith("[") else "."
        where = f"{self}{joint}{field}" if self.line is None else str(self)
        shown = "" if value is _ABSENT else f": {quote(value)}"
        row = f" (row {self.row_id})" if self.row_id else ""
        return DataError(f"{field or 'row'} {message}{shown}{row}", where=where, hint=hint)
