"""The findings of a check, and the verdict from all findings.

    findings = [ok("parse"), fail("digest", "result_digest", "...")]
    overall_verdict(findings)      # ReceiptVerdict.INVALID

Codes are stable: programs and the static page use the same ones. The worst verdict wins; as exit codes, from worst to
best: 5, 3, 4, 7, 0.
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
    """The verdicts on a receipt."""

    VALID = "VALID"
    UNTRUSTED = "UNTRUSTED"
    SUPERSEDED = "SUPERSEDED"
    RETRACTED = "RETRACTED"
    INVALID = "INVALID"
    POLICY = "POLICY"

    @property
    def exit_code(self) -> int:
        """The exit code of the verdict."""
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
    """One outcome of one check; a check may have several."""

    check: str
    status: Status
    code: str | None = None
    detail: str = ""

    def value(self) -> dict[str, JSON]:
        """Return the JSON value; ``code`` only if the finding has a code."""
        told: dict[str, JSON] = {"id": self.check, "status": str(self.status), "detail": self.detail}
        return told if self.code is None else {**told, "code": self.code}

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
    """Return a finding: the check passed."""
    return Finding(check=check, status="ok", detail=detail)


def skip(check: str, detail: str) -> Finding:
    """Return a finding: the check was not made; ``detail`` is the reason."""
    return Finding(check=check, status="skip", detail=detail)


def warn(check: str, code: str, detail: str) -> Finding:
    """Return a warning: something that a reader should know, but that does not make the receipt invalid."""
    return Finding(check=check, status="warn", code=code, detail=detail)


def fail(check: str, code: str, detail: str) -> Finding:
    """Return a finding: the check failed."""
    return Finding(check=check, status="fail", code=code, detail=detail)


def worst(verdicts: Iterable[ReceiptVerdict]) -> ReceiptVerdict:
    """Return the worst of several verdicts; VALID for none."""
    found = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in found), ReceiptVerdict.VALID)


def overall_verdict(findings: Iterable[Finding]) -> ReceiptVerdict:
    """Return the verdict that follows from all findings."""
    return worst(finding.verdict for finding in findings)


def or_ok(check: str, findings: Sequence[Finding], detail: str = "") -> list[Finding]:
    """Return the findings of a check, or one ``ok`` if there are none."""
    return list(findings) or [ok(check, detail)]
