"""Read and write the items file of a receipt: one line of canonical JSON for each item and epoch, sorted.

Example::

    with ItemsWriter(path) as writer:
        for row in rows:                      # any order
            writer.add(row)
    writer.per_query                           # file, count, bytes, sha256, both Merkle roots
    with rare_garbage_collection():
        for row in rows: ...

Rows are sorted in a temporary file, so that a hundred thousand rows need little memory. ``read_items`` yields each
line, with its problem if the line is not valid.

``rare_garbage_collection`` makes work on many rows faster. Rows have no reference cycles, so garbage collection would
free nothing.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Annotated, BinaryIO, Literal, NamedTuple, NotRequired, Self, TypedDict

from pydantic import Field

from bench.canonical import JSON, dumps_with_part, read_line, sha256_hex
from bench.errors import CanonicalError
from bench.receipt.base_model import (
    ClosedModel,
    Flag,
    Hex64,
    Name,
    Natural,
    Number,
    Positive,
    SchemaMismatch,
    Text,
    validate,
)
from bench.receipt.files import error_naming, name_in_errors
from bench.receipt.merkle import Frontier, leaf_hash
from bench.receipt.schema import PerQuery
from bench.receipt.schema_results import State
from bench.untyped_values import Json

DETERMINISTIC_FIELDS = ("itemId", "epoch", "gold", "labels", "retrieved", "metrics")
MAX_LINE = 16 * 1024 * 1024


class ItemVerdict(ClosedModel):
    """The verdict of an evaluator. The prompt and the reply of the judge are replaced by hashes."""

    evaluator: Name
    class_: Annotated[Literal["deterministic", "judged"], Field(alias="class")]
    value: Number | None
    correct: Flag | None
    model: Text | None
    prompt_sha256: Hex64 | None
    raw_sha256: Hex64 | None


class Tokens(ClosedModel):
    """Token counts of one item; null if a count is unknown."""

    context: Natural | None
    prompt: Natural | None
    completion: Natural | None


class ItemRow(ClosedModel):
    """The result of one item in one epoch. ``answer`` is present only with --with-answers, and ``grades`` only if the
    dataset grades its evidence.
    """

    item_id: Name
    epoch: Positive
    corpus_id: Text
    state: State
    error_kind: Name | None
    attempts: Natural
    labels: dict[str, Text]
    gold: tuple[Text, ...]
    retrieved: tuple[tuple[Text, ...], ...] | None
    returned: Natural
    metrics: dict[str, Number | None]
    verdicts: tuple[ItemVerdict, ...]
    answer_sha256: Hex64 | None
    tokens: Tokens | None
    latency_us: dict[str, Natural]
    cost_usd_micros: Natural | None
    answer: Text | None = None
    grades: tuple[Number, ...] | None = None
    """grade of each id of ``gold``; None if the dataset has no grades"""

    @property
    def order(self) -> tuple[bytes, int]:
        """The key by which rows are sorted in the file: item id as UTF-8 bytes, then epoch."""
        return (self.item_id.encode("utf-8"), self.epoch)

    @property
    def graded(self) -> bool:
        """True if each id of ``gold`` has a grade and all grades are above 0."""
        return bool(self.grades) and len(self.grades or ()) == len(self.gold) and min(self.grades or (0,)) > 0


class RunningDigests:
    """Computes the digests of an items file while its lines are added one by one.

    The digests are the SHA-256 of the file, the Merkle root over its lines, and the Merkle root over the deterministic
    fields of each line.
    """

    def __init__(self) -> None:
        self._file = sha256()
        self._bytes = 0
        self._lines = Frontier()
        self._deterministic = Frontier()

    def add(self, line: bytes, deterministic_leaf: bytes) -> None:
        """Add one line without its line feed. ``deterministic_leaf`` is the leaf hash of its deterministic fields."""
        self.add_raw(line + b"\n")
        self._lines.append(leaf_hash(line))
        self._deterministic.append(deterministic_leaf)

    def add_raw(self, data: bytes) -> None:
        """Add bytes that are not a complete line, for example the end of a truncated file."""
        self._file.update(data)
        self._bytes += len(data)

    def per_query(self, file: str) -> PerQuery:
        """Return the section ``perQuery`` of a receipt for the lines so far; ``file`` is the name of the items file."""
        return PerQuery(
            format="jcs-lines/1",
            file=file,
            count=self._lines.size,
            bytes=self._bytes,
            sha256=self._file.hexdigest(),
            merkle_root=self._lines.root().hex(),
            deterministic_root=self._deterministic.root().hex(),
        )


# ------------------------------------------------------------------------ writing


class RowValue(TypedDict):
    """An ``ItemRow`` as the JSON that is written to the file."""

    itemId: str
    epoch: int
    corpusId: str
    state: str
    errorKind: str | None
    attempts: int
    labels: Mapping[str, str]
    gold: Sequence[str]
    retrieved: Sequence[Sequence[str]] | None
    returned: int
    metrics: Mapping[str, float | None]
    verdicts: Sequence[Json]
    answerSha256: str | None
    tokens: Json | None
    latencyUs: Mapping[str, int]
    costUsdMicros: int | None
    answer: NotRequired[str]
    grades: NotRequired[Sequence[float]]


class ItemsWriter:
    """Collects rows in any order, and writes them sorted to a new file when the ``with`` block ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: list[tuple[bytes, int, int, int, bytes]] = []

    def __enter__(self) -> Self:
        with name_in_errors(self.path):
            self._spool: BinaryIO = tempfile.TemporaryFile(dir=self.path.parent)
        return self

    def add(self, row: RowValue) -> None:
        """Add one row to the temporary file."""
        line, deterministic = dumps_with_part(row, DETERMINISTIC_FIELDS)
        order = (row["itemId"].encode("utf-8"), row["epoch"])
        self._places.append((*order, self._spool.tell(), len(line), leaf_hash(deterministic)))
        try:
            self._spool.write(line)
        except OSError as error:
            raise error_naming(error, self.path) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with name_in_errors(self.path), self._spool:
            if kind is None:
                self.per_query = self._write()

    def _write(self) -> PerQuery:
        digests = RunningDigests()
        self._spool.flush()
        spool = self._spool.fileno()
        with self.path.open("xb") as out:
            for _, _, offset, length, deterministic_leaf in sorted(self._places):
                line = os.pread(spool, length, offset)
                out.write(line + b"\n")
                digests.add(line, deterministic_leaf)
        return digests.per_query(self.path.name)


# ------------------------------------------------------------------------ reading


class ReadLine(NamedTuple):
    """One line of an items file: its 1-based number, its row, and its problem.

    ``row`` is None if the line cannot be read as a row. ``problem`` is None if the line is valid.
    """

    number: int
    row: ItemRow | None
    problem: str | None


def read_items(file: BinaryIO, digests: RunningDigests) -> Iterator[ReadLine]:
    """Yield each line of an items file, and add the line to ``digests``. An invalid line raises no error."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        yield _read_line(number, line, digests)


def _read_line(number: int, line: bytes, digests: RunningDigests) -> ReadLine:
    if not line.endswith(b"\n"):
        digests.add_raw(line)
        return ReadLine(number=number, row=None, problem="the line does not end with LF, or is too long")
    body = line[:-1]
    try:
        value, deterministic, canonical = read_line(body, DETERMINISTIC_FIELDS)
    except CanonicalError as error:
        digests.add(body, leaf_hash(b"null"))
        return ReadLine(number=number, row=None, problem=f"{error.code}: {error}")
    digests.add(body, leaf_hash(deterministic))
    if not canonical:
        return ReadLine(number=number, row=None, problem="the line is not in canonical form")
    return _validated_line(number, value)


def _validated_line(number: int, value: JSON) -> ReadLine:
    try:
        row = validate(ItemRow, value)
    except SchemaMismatch as mismatch:
        return ReadLine(number=number, row=None, problem=str(mismatch))
    return ReadLine(number=number, row=row, problem=_inconsistency(row, value))


def _inconsistency(row: ItemRow, value: JSON) -> str | None:
    assert isinstance(value, dict)
    if any(earlier >= later for earlier, later in zip(row.gold, row.gold[1:], strict=False)):
        return "gold must be sorted and without repetition"
    if "grades" in value and not row.graded:
        return "grades must have one number above 0 for each element of gold"
    if (row.error_kind is None) is (row.state == "error"):
        return "errorKind must be present if the state is error, and only then"
    if row.retrieved is not None and row.returned < len(row.retrieved):
        return "returned is smaller than the number of retrieved hits"
    if "answer" in value and (row.answer is None or row.answer_sha256 != sha256_hex(row.answer.encode("utf-8"))):
        return "the answer does not match its sha256"
    return None


THRESHOLD_FACTOR = 100


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Run the garbage collector a hundred times less often in the ``with`` block."""
    usual = gc.get_threshold()
    gc.set_threshold(usual[0] * THRESHOLD_FACTOR, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
