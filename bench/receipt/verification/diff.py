"""Compare two receipts: configuration, code, machine, scores and items.

Example::

    found = diff(Path("a.json"), Path("b.json"))
    found.equal, found.changes, found.items[:10]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bench.canonical import JSON, parse_file
from bench.errors import CanonicalError, UsageError, VerificationError
from bench.plan.identity import changes
from bench.receipt.base_model import SchemaMismatch, json_of
from bench.receipt.digests import config_of
from bench.receipt.items_file import ItemRow, RunningDigests, read_items
from bench.receipt.log.log_check import file_sha256
from bench.receipt.schema import Receipt, read_receipt

DIFFERS = 8
SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptChange:
    """One field in which two receipts differ: its path and its value in each receipt.

    ``part`` is config, selection, code, environment, counts or score.
    """

    part: str
    path: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptDifference:
    """All differences between two receipts; ``equal`` is true if their result digests are equal."""

    equal: bool
    changes: tuple[ReceiptChange, ...]
    items: tuple[str, ...] | None
    """ids of items with different gold, labels, hits, scores or states; None if an items file is missing"""

    @property
    def exit_code(self) -> int:
        """0 if the result digests are equal, else 8."""
        return 0 if self.equal else DIFFERS

    @property
    def like_for_like(self) -> bool:
        """True if both receipts have the same configuration and the same selection of items."""
        return not any(change.part in ("config", "selection") for change in self.changes)

    def value(self) -> dict[str, JSON]:
        """Return the differences as a JSON value."""
        return {
            "equal": self.equal,
            "exitCode": self.exit_code,
            "likeForLike": self.like_for_like,
            "changes": [
                {"part": change.part, "path": change.path, "a": change.a, "b": change.b} for change in self.changes
            ],
            "items": None if self.items is None else list(self.items),
        }


def diff(a: Path, b: Path) -> ReceiptDifference:
    """Compare two receipt files, without checking their signatures.

    Raises:
        UsageError: a file cannot be read.
        VerificationError: a file is not a receipt, or an items file is not the one that was signed.
    """
    one, other = load(a), load(b)
    return compare(one, other, _items_beside(a, one), _items_beside(b, other))


def load(path: Path) -> Receipt:
    """Read and validate a receipt, without checking its signature.

    Raises:
        UsageError: the file cannot be read.
        VerificationError: the file is not a valid receipt document.
    """
    try:
        return read_receipt(parse_file(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a receipt file") from error
    except CanonicalError as error:
        raise VerificationError(error.code, str(error), where=str(path)) from error
    except SchemaMismatch as mismatch:
        raise VerificationError(mismatch.code, mismatch.message, where=str(path)) from mismatch


def compare(one: Receipt, other: Receipt, items_a: Path | None, items_b: Path | None) -> ReceiptDifference:
    """Compare two receipts. If both paths are given, also compare the items files."""
    items = None if items_a is None or items_b is None else tuple(_changed_items(items_a, items_b))
    return ReceiptDifference(
        equal=one.result_digest == other.result_digest,
        changes=tuple(_changes(one, other)),
        items=items,
    )


def _changes(one: Receipt, other: Receipt) -> Iterator[ReceiptChange]:
    for part, left, right in (
        ("config", config_of(one), config_of(other)),
        ("selection", json_of(one.benchmark.selection), json_of(other.benchmark.selection)),
        ("code", _code(one), _code(other)),
        ("environment", _environment(one), _environment(other)),
        ("counts", json_of(one.counts), json_of(other.counts)),
        ("score", _scores(one), _scores(other)),
    ):
        for path, a, b in changes(left, right):
            yield ReceiptChange(part=part, path=path, a=a, b=b)


def _code(receipt: Receipt) -> dict[str, JSON]:
    environment = receipt.environment
    return {
        "benchVersion": receipt.bench_version,
        "git": json_of(environment.git),
        "codeTreeSha256": environment.code_tree_sha256,
        "lockSha256": environment.lock_sha256,
    }


def _environment(receipt: Receipt) -> dict[str, JSON]:
    environment = json_of(receipt.environment)
    return {
        name: environment[name]
        for name in environment
        if name not in ("git", "codeTreeSha256", "lockSha256", "hostHash")
    }


def _scores(receipt: Receipt) -> dict[str, JSON]:
    by_class = {"deterministic": receipt.scores.deterministic, "judged": receipt.scores.judged}
    return {
        kind: {
            name: {"value": score.value, "n": score.n, "nExcluded": score.n_excluded, "nFailed": score.n_failed}
            for name, score in scores.items()
        }
        for kind, scores in by_class.items()
    }


# -------------------------------------------------------------------------- items


def _items_beside(path: Path, receipt: Receipt) -> Path | None:
    items = path.parent / receipt.per_query.file
    if not items.is_file():
        return None
    if file_sha256(items) != receipt.per_query.sha256:
        raise VerificationError("items_sha256", "the items file is not the one that was signed", where=str(items))
    return items


def _changed_items(a: Path, b: Path) -> Iterator[str]:
    """Yield the id of each item that only one items file has, or whose gold, labels, hits, scores or state differ."""
    with a.open("rb") as file_a, b.open("rb") as file_b:
        rows_a, rows_b = _rows(file_a), _rows(file_b)
        one, other = next(rows_a, None), next(rows_b, None)
        while one is not None or other is not None:
            if other is None or (one is not None and one.order < other.order):
                assert one is not None
                yield one.item_id
                one = next(rows_a, None)
            elif one is None or other.order < one.order:
                yield other.item_id
                other = next(rows_b, None)
            else:
                if _deterministic(one) != _deterministic(other):
                    yield one.item_id
                one, other = next(rows_a, None), next(rows_b, None)


def _rows(file: BinaryIO) -> Iterator[ItemRow]:
    return (line.row for line in read_items(file, RunningDigests()) if line.row is not None)


def _deterministic(row: ItemRow) -> tuple[object, ...]:
    return (row.gold, row.labels, row.retrieved, row.metrics, row.state)
