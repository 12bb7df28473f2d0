"""What one attempt tells the retry loop. None of these ever leaves this package.

A signal says what happened on the wire; :mod:`bench.http.classify` says what it means.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.errors import CallError


class Signal(Exception):
    """The root."""


class NotSent(Signal):
    """The request cannot have reached the server."""

    def __init__(
        self, reason: str, *, timed_out: bool = False, hopeless: bool = False, every_call: bool = False
    ) -> None:
        super().__init__(reason)
        self.timed_out = timed_out
        self.hopeless = hopeless
        """the same attempt would fail again: a header or address that cannot be sent"""
        self.every_call = every_call
        """no call can reach this server: bad certificate, no TLS, unknown host; without ``hopeless`` worth a retry"""


class Lost(Signal):
    """Sent, perhaps received, and no whole answer came back."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class TooLarge(Signal):
    """The answer is larger than the endpoint allows; it was not read to its end."""


class ClosedTooLong(Signal):
    """The endpoint stays closed for longer than this call may wait."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"closed for another {wait_s:.0f} s")
        self.wait_s = wait_s


@dataclass(slots=True)
class AttemptFailed(Signal):
    """One attempt ended without an answer that counts."""

    error: CallError
    repeat: bool
    """a further attempt may help and may do no harm"""
    refused: bool = False
    """push-back (429): counted apart from lost answers"""
    wait_s: float | None = None
    """what the server asked for"""
    status: int | None = None

    def __post_init__(self) -> None:
        Exception.__init__(self, str(self.error))
