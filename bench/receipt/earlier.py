"""Whether a receipt that lies there already says the same: then a second sign of an unchanged job makes none.

    earlier(folder.glob("*.json"), body, key)         # the file of the one that holds, None without one

Two receipts of one job differ by more than their names only when something in the run has changed: a rescore, a retry,
or answers put into the items file. What is never the same twice (id, hour, name of the items file) is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.canonical import JSON, parse_file, without
from bench.errors import CanonicalError
from bench.receipt.findings import Verdict
from bench.receipt.keyfiles import SigningKey
from bench.receipt.stored import tree
from bench.receipt.trusted import TrustStore
from bench.receipt.verify import Question, verify_file

OWN = ("receiptId", "issuedAt", "signer", "signature")


def earlier(files: Iterable[Path], body: Mapping[str, JSON], key: SigningKey) -> Path | None:
    """The receipt by the same key, with its items file beside it, that states what ``body`` would."""
    trust = Question(trust=TrustStore.pin([key.public]))
    return next((path for path in sorted(files) if _states(path, body) and _holds(path, trust)), None)


def items_of(path: Path) -> Path:
    """The items file beside a receipt."""
    return path.parent / str(tree(tree(parse_file(path)).get("perQuery")).get("file"))


def _states(path: Path, body: Mapping[str, JSON]) -> bool:
    try:
        found = parse_file(path)
    except (OSError, CanonicalError):
        return False
    return isinstance(found, dict) and _statement(found) == _statement(body)


def _statement(document: Mapping[str, JSON]) -> dict[str, JSON]:
    rows = document.get("perQuery")
    kept = {name: value for name, value in document.items() if name not in OWN}
    return {**kept, "perQuery": without(rows, "file") if isinstance(rows, dict) else rows}


def _holds(path: Path, trust: Question) -> bool:
    return items_of(path).is_file() and verify_file(path, trust).verdict is Verdict.VALID
