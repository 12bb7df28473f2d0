"""What an examination found: one answer a question, and whether all of them are good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "fail", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question and its answer."""

    name: str
    outcome: Outcome
    detail: str = ""
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The answers in order."""

    provider: str
    version: str
    checks: tuple[Check, ...]
    refused: bool = False
    """the provider refuses the key, or the plan is used up: nobody can say whether the rest would pass"""
    hung: Check | None = None
    """the question to which no answer came in time"""
    address: str = ""
    """where the service is; empty for one without an address"""

    @property
    def ok(self) -> bool:
        """True when no check failed; a skipped one says why."""
        return all(check.outcome != "fail" for check in self.checks)

    def as_json(self) -> dict[str, object]:
        """The tree of ``bench doctor --json``."""
        return {
            "provider": self.provider,
            "version": self.version,
            "ok": self.ok,
            "checks": [
                {
                    "name": check.name,
                    "outcome": check.outcome,
                    "detail": check.detail,
                    "latency_ms": round(check.latency_ms, 3),
                }
                for check in self.checks
            ],
        }
