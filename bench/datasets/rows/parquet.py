"""Read the rows of a parquet file, with only a few rows in memory. Fields with null or NaN are left out of a row.

A row is identified by its number in the file, counted from 0::

    rows = ParquetRows(path, "data.parquet")
    for number, values, size in rows: ...
    rows.read(12)
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench.datasets.rows.row import FloatText
from bench.errors import DataError

_BATCH_BYTES = 4 << 20
_MOST_ROWS = 512

Row = tuple[int, dict[str, object], int]
"""number of the row, its values, and the approximate size of the values in bytes"""


class ParquetRows:
    """The rows of a parquet file. Rows that are read in order are decoded only once."""

    def __init__(self, path: Path, label: str) -> None:
        self.label = label
        self.file = _open_parquet(path, label)
        groups = [self.file.metadata.row_group(index) for index in range(self.file.num_row_groups)]
        self.ends = list(accumulate(group.num_rows for group in groups))
        self.sizes = [group.total_byte_size / max(group.num_rows, 1) for group in groups]
        self._next = -1
        self._rest: Iterator[Row] = iter(())

    def __iter__(self) -> Iterator[Row]:
        """Yield every row in file order."""
        return self._from(0)

    def read(self, number: int) -> dict[str, object]:
        """Read the row with this number, counted from 0. An IndexError is raised if there are fewer rows."""
        if number != self._next:
            self._rest = self._from(number)
        self._next = number + 1
        found = next(self._rest, None)
        if found is None:
            raise IndexError(number)
        return found[1]

    def _from(self, first: int) -> Iterator[Row]:
        start = 0
        for group, end in enumerate(self.ends):
            if first < end:
                yield from self._group(group, start, max(first, start))
            start = end

    def _group(self, group: int, start: int, first: int) -> Iterator[Row]:
        import pyarrow

        rows = min(_MOST_ROWS, max(1, int(_BATCH_BYTES / max(self.sizes[group], 1))))
        try:
            for batch in self.file.iter_batches(batch_size=rows, row_groups=[group], use_threads=False):
                size = batch.nbytes // max(batch.num_rows, 1)
                for part in range(max(0, first - start), batch.num_rows):
                    (values,) = batch.slice(part, 1).to_pylist()
                    yield start + part, _without_null(values), size
                start += batch.num_rows
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # bytes that are not UTF-8 too
            text = f"the row group {group} cannot be read: {_first_line(error)}"
            raise DataError(text, where=self.label, hint="download the file again") from error


def _without_null(values: dict[str, object]) -> dict[str, object]:
    return {name: _json_value(value) for name, value in values.items() if not _is_null(value)}


def _is_null(value: object) -> bool:
    """Return True for null and NaN. The library pandas writes NaN for a missing number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _json_value(value: object) -> object:
    """Convert a value of parquet to a JSON value. Fields of a map that are null or NaN are left out."""
    if isinstance(value, dict):
        return _without_null(value)
    if isinstance(value, list):
        return [None if _is_null(child) else _json_value(child) for child in value]
    if isinstance(value, float):
        return FloatText(json.dumps(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _open_parquet(path: Path, label: str) -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        text = "parquet needs the extra: pip install memorybench[parquet]"
        raise DataError(text, where=label, hint="or convert the file to jsonl") from error
    try:
        return parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(
            f"the file is not valid parquet: {_first_line(error)}", where=label, hint="download the file again"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["torn"])[0]
