"""Read answers from the result files of vendors of memory systems, and map each answer to an item of a benchmark.

Example::

    found = read_vendor(Path("mem0_results.json"), dataset)
    found.shape, len(found.rows), found.unmapped           # "mem0", 1539, ("...",)

A row is mapped by its id. If its id is unknown, the row is mapped by its question. If several items have this question,
the expected answer decides. Rows that cannot be mapped are only counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.datasets import Dataset
from bench.engine.external_rows import ExternalRow
from bench.errors import DataError, UsageError
from bench.model import Item
from bench.visible_text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorShape:
    """A known format of result files: the names of the fields in its rows."""

    name: str
    question: str
    answer: tuple[str, ...]
    """possible names of the answer field; the first name that the row has is used"""
    expected: str
    id: str | None = None

    def fits(self, row: Mapping[str, object]) -> bool:
        """Return True when a row has the fields of this format."""
        needed = (self.question, self.expected, *((self.id,) if self.id else ()))
        return all(name in row for name in needed) and self.answer_of(row) is not None

    def answer_of(self, row: Mapping[str, object]) -> str | None:
        """Return the answer in a row; None if the row has no answer."""
        found = next((row[name] for name in self.answer if name in row), None)
        if isinstance(found, dict) and found:
            found = _at_largest_k(found)
        return found if isinstance(found, str) else None


SHAPES = (
    VendorShape(
        name="memorybench", id="questionId", question="question", answer=("hypothesis",), expected="groundTruth"
    ),
    VendorShape(name="amb", id="query_id", question="query", answer=("answer",), expected="gold_answers"),
    VendorShape(
        name="evermemos", id="question_id", question="question", answer=("generated_answer", "answer"),
        expected="golden_answer",
    ),
    VendorShape(
        name="mem0", id="question_id", question="question", answer=("cutoff_results",), expected="ground_truth_answer"
    ),
    VendorShape(name="zep", question="question", answer=("answer", "hypothesis"), expected="golden_answer"),
    VendorShape(name="zep", question="question", answer=("response", "answer"), expected="gold_answer"),
    VendorShape(name="mem0", question="question", answer=("response",), expected="answer"),
)  # fmt: skip
HINT = 'known formats: mem0, zep, memorybench, amb, evermemos, or JSON lines {"item": ID, "answer": TEXT}'


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorAnswers:
    """The content of a vendor's file, mapped to the items of a benchmark."""

    shape: str
    rows: tuple[ExternalRow, ...]
    n: int
    """number of rows in the file"""
    unmapped: tuple[str, ...]
    """id or question of each row that was mapped to no item"""
    repeated: int = 0
    """number of rows that were ignored because an earlier row has the same item"""

    @property
    def text(self) -> str:
        """Return a note with the number of mapped and unmapped rows, and the first unmapped row."""
        first = f', first "{self.unmapped[0][:80]}"' if self.unmapped else ""
        again = f", {self.repeated} for an item that already has a row" if self.repeated else ""
        return (
            f"{self.shape}: {len(self.rows)} of {counted(self.n, 'row(|s)')} mapped to items, {len(self.unmapped)} not "
            f"mapped{first}{again}"
        )


def read_vendor(path: Path, dataset: Dataset) -> VendorAnswers:
    """Read a vendor's file, and map its rows to the items of ``dataset``.

    Raises:
        UsageError: the file cannot be read.
        DataError: the file is not JSON, has an unknown format, or no row can be mapped.
    """
    try:
        tree: object = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="name an existing file") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"the file is not JSON: {error}", where=str(path), hint=HINT) from error
    shape, found = _rows(tree)
    if shape is None:
        raise DataError("no row has the fields of a known format", where=str(path), hint=HINT)
    known = ItemIndex.of(dataset)
    rows: dict[str, ExternalRow] = {}
    unmapped: list[str] = []
    repeated = 0
    for at, row in enumerate(found, 1):
        item, answer = known.item(shape, row), shape.answer_of(row)
        if item is None or answer is None:
            unmapped.append(str(row.get(shape.id or shape.question)))
        elif item in rows:
            repeated += 1
        else:
            rows[item] = ExternalRow(item=item, where=f"{path}, row {at}", answer=answer)
    if not rows:
        rows_read = counted(len(found), "row(|s)")
        raise DataError(
            f"no row is an answer to an item of {dataset.name} ({rows_read} read)",
            where=str(path),
            hint=f"check that these are answers to {dataset.name}",
        )
    return VendorAnswers(
        shape=shape.name, rows=tuple(rows.values()), n=len(found), unmapped=tuple(unmapped), repeated=repeated
    )


def _at_largest_k(cutoffs: Mapping[str, object]) -> object:
    """Return the answer with the largest k from answers for several k: {"top_10": {"generated_answer": ...}, ...}."""
    k = {name: "".join(filter(str.isdecimal, name)) for name in cutoffs}
    found = cutoffs[max(k, key=lambda name: (len(k[name]), k[name]))]
    return found.get("generated_answer") if isinstance(found, dict) else None


def _rows(tree: object) -> tuple[VendorShape | None, list[Mapping[str, object]]]:
    """Return the first format of ``SHAPES`` that some object in the file has, and all objects with this format.

    Return (None, []) if the file has no known format.
    """
    every = list(_objects(tree))
    for shape in SHAPES:
        found = [row for row in every if shape.fits(row)]
        if found:
            return shape, found
    return None, []


def _objects(tree: object) -> Iterator[Mapping[str, object]]:
    """Yield every JSON object in a JSON value, at any depth, in order."""
    pending = [tree]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            yield one
            pending += reversed(list(one.values()))
        elif isinstance(one, list):
            pending += reversed(one)


@dataclass(frozen=True, slots=True)
class ItemIndex:
    """An index of the items of a benchmark, by id and by question."""

    dataset: Dataset
    by_question: Mapping[str, Sequence[Item]]

    @classmethod
    def of(cls, dataset: Dataset) -> ItemIndex:
        found: dict[str, list[Item]] = {}
        for ref in dataset.items():
            item = dataset.item(ref)
            found.setdefault(_plain(item.question), []).append(item)
        return cls(dataset, found)

    def item(self, shape: VendorShape, row: Mapping[str, object]) -> str | None:
        named = row.get(shape.id) if shape.id else None
        if isinstance(named, str) and self.dataset.index_of(named) is not None:
            return named
        candidates = self.by_question.get(_plain(row.get(shape.question)), ())
        if len(candidates) < 2:
            return candidates[0].id if candidates else None
        expected = row.get(shape.expected)
        wanted = {_plain(one) for one in (expected if isinstance(expected, list) else [expected])}
        fitting = [item for item in candidates if wanted & {_plain(answer) for answer in item.answers}]
        return fitting[0].id if len(fitting) == 1 else None


def _plain(value: object) -> str:
    return " ".join(str(value).split()).lower()
