"""The findings of a check, and the verdict from all findings.

    findings = [ok("parse"), fail("digest", "result_digest", "...")]
    overall_verdict(findings)      # ReceiptVerdict.INVALID

The code of a finding never changes its meaning, so programs can rely on it. The worst finding decides the verdict. From
worst to best, the exit codes are 5, 3, 4, 7 and 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from bench.canonical import JSON

Status = Literal["ok", "warn", "fail", "skip"]

CHECKS = (
    "parse",
    "schema",
    "signature",
    "trust",
    "items",
    "recompute",
    "digest",
    "invariants",
    "log",
    "runs",
    "policy",
)
UNTRUSTED_CODES = frozenset({"key_unknown", "key_retired", "key_revoked", "key_role"})


class ReceiptVerdict(StrEnum):
    """The possible verdicts on a receipt or a log."""

    VALID = "VALID"
    UNTRUSTED = "UNTRUSTED"
    SUPERSEDED = "SUPERSEDED"
    RETRACTED = "RETRACTED"
    INVALID = "INVALID"
    POLICY = "POLICY"

    @property
    def exit_code(self) -> int:
        """The exit code of the program for this verdict."""
        return _EXIT_CODES[self]


_EXIT_CODES = {
    ReceiptVerdict.VALID: 0,
    ReceiptVerdict.UNTRUSTED: 3,
    ReceiptVerdict.SUPERSEDED: 4,
    ReceiptVerdict.RETRACTED: 4,
    ReceiptVerdict.INVALID: 5,
    ReceiptVerdict.POLICY: 7,
}
_WORST_FIRST = (
    ReceiptVerdict.INVALID,
    ReceiptVerdict.UNTRUSTED,
    ReceiptVerdict.RETRACTED,
    ReceiptVerdict.SUPERSEDED,
    ReceiptVerdict.POLICY,
    ReceiptVerdict.VALID,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check. A check can have several findings."""

    check: str
    status: Status
    code: str | None = None
    detail: str = ""

    def value(self) -> dict[str, JSON]:
        """Return the finding as a JSON value, with the key ``code`` only if the finding has a code."""
        document: dict[str, JSON] = {"id": self.check, "status": str(self.status), "detail": self.detail}
        return document if self.code is None else {**document, "code": self.code}

    @property
    def verdict(self) -> ReceiptVerdict:
        """The verdict on the receipt if this were the only finding."""
        if self.status != "fail":
            return ReceiptVerdict.VALID
        if self.code in UNTRUSTED_CODES:
            return ReceiptVerdict.UNTRUSTED
        if self.code in ("superseded", "retracted"):
            return ReceiptVerdict(str(self.code).upper())
        return ReceiptVerdict.POLICY if self.check == "policy" else ReceiptVerdict.INVALID


def ok(check: str, detail: str = "") -> Finding:
    """Return the finding that a check passed."""
    return Finding(check=check, status="ok", detail=detail)


def skip(check: str, detail: str, *, code: str | None = None) -> Finding:
    """Return the finding that a check was not made; ``detail`` is the reason."""
    return Finding(check=check, status="skip", code=code, detail=detail)


def warn(check: str, code: str, detail: str) -> Finding:
    """Return a warning of a check. A warning does not make the receipt invalid."""
    return Finding(check=check, status="warn", code=code, detail=detail)


def fail(check: str, code: str, detail: str) -> Finding:
    """Return the finding that a check failed; ``code`` is the stable name of the fault."""
    return Finding(check=check, status="fail", code=code, detail=detail)


def worst(verdicts: Iterable[ReceiptVerdict]) -> ReceiptVerdict:
    """Return the worst of the verdicts; VALID if there are no verdicts."""
    found = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in found), ReceiptVerdict.VALID)


def overall_verdict(findings: Iterable[Finding]) -> ReceiptVerdict:
    """Return the worst verdict of all findings; VALID if no finding is a failure."""
    return worst(finding.verdict for finding in findings)


def or_ok(check: str, findings: Sequence[Finding], detail: str = "") -> list[Finding]:
    """Return ``findings``; if this list is empty, return one finding that the check passed."""
    return list(findings) or [ok(check, detail)]
