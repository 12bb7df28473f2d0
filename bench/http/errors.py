"""Decide which error an HTTP status or a lost connection means, and whether the request may be sent again.

The table shows what each status means by default. A config may replace single rows. Inside this package, an attempt
reports its result to the retry loop by a ``Signal`` exception. The functions of this module convert a ``Signal`` to an
error.

Example::

    429, 420, 430       RateLimited   always repeated; also a 400, 403 or 409 whose body or header means a rate limit
    408 425 5xx, lost   Unavailable   repeated when the request may be repeated, or was never sent
    401 403             AuthError     stops the job
    402, plan used up   QuotaError    stops the job
    407                 AuthError     stops the job: the proxy refuses
    unreachable         Unreachable   stops the job: certificate, TLS, unknown host, bad address
    3xx, other 4xx      Rejected      never repeated
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from bench.errors import AuthError, CallError, MappingError, QuotaError, RateLimited, Rejected, Unavailable, Unreachable
from bench.events import redact
from bench.http.endpoint import Endpoint
from bench.http.message import ReportedUsage, Response
from bench.patterns import pattern


class Signal(Exception):
    """The base class of the exceptions by which an attempt tells the retry loop what happened."""


class RequestNotSent(Signal):
    """Raised if the request cannot have reached the server."""

    def __init__(self, reason: str, *, timed_out: bool = False, final: bool = False, every_call: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out
        self.final = final
        """True if every retry would fail in the same way, for example because the URL cannot be sent"""
        self.every_call = every_call
        """True if no call can reach this server: bad certificate, no TLS or unknown host. The call is retried unless
        ``final``."""


class ResponseLost(Signal):
    """Raised if the request was sent, but no complete response arrived."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class ResponseTooLarge(Signal):
    """Raised if a response is larger than the endpoint allows. The response was not read completely."""


class PauseTooLong(Signal):
    """Raised if the endpoint is paused for longer than this call may wait."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"the service allows no request for another {wait_s:.0f} s")
        self.wait_s = wait_s


@dataclass(slots=True)
class AttemptFailed(Signal):
    """Raised when one attempt has failed."""

    error: CallError
    repeat: bool
    """True if a retry is safe and may succeed"""
    refused: bool = False
    """True if a rate limit refused the request (429); refusals are counted separately from lost responses"""
    wait_s: float | None = None
    """time in seconds that the server asked to wait; None if it did not say"""
    status: int | None = None
    reported: ReportedUsage | None = None
    """usage and cost that the response reports, although it cannot be used"""

    def __post_init__(self) -> None:
        Exception.__init__(self, str(self.error))


SHOWN_OF_BODY = 500
READ_FOR_QUOTA = 4000
READ_FOR_TEXT = 20_000
QUOTA_STATUSES = frozenset({400, 402, 403, 429})
QUOTA_WORDS = ("insufficient_quota", "billing_hard_limit_reached", "credit balance is too low")
PLAN_WORDS = (
    "quota exceeded", "quota_exceeded", "monthly limit", "usage limit", "plan limit", "upgrade your plan",
    "out of credits", "insufficient credits", "insufficient_credits", "insufficient balance", "insufficient_balance",
    "payment required", "payment_required", "billing_not_active",
)  # fmt: skip
"""words that mean a used-up plan if they are in a short body with status 400 or 403"""
SHORT_BODY = 600
TRANSIENT_STATUSES = frozenset({408, 425})
RATE_LIMIT_STATUSES = frozenset({420, 430})
"""statuses that some services use with the meaning of 429"""
MAYBE_RATE_LIMIT_STATUSES = frozenset({400, 403, 409})
RATE_CODES = frozenset(
    {
        "429", "rate_limit", "rate_limited", "ratelimited", "rate_limit_error", "rate_limit_exceeded",
        "ratelimitexceeded", "ratelimitexceedederror", "rate_limit_reached", "too_many_requests", "toomanyrequests",
        "toomanyrequestsexception", "throttled", "throttling", "throttlingexception", "requestlimitexceeded",
        "slow_down", "slowdown",
    }
)  # fmt: skip
"""error codes, in lower case, that mean a rate limit even if the status is not 429"""
_RATE_WORDS = pattern(
    r"rate.?limit\w*\W+(?:\w+\W+){0,2}(?:exceeded|reached|hit)|too many requests|request was throttled"
)


def failure_of_status(
    endpoint: Endpoint, response: Response, *, repeatable: bool, wait_s: float | None
) -> AttemptFailed:
    """Return the failed attempt for an unsuccessful status. Its error keeps the start of the response body."""
    failed = _classify_status(endpoint, response, repeatable=repeatable, wait_s=wait_s)
    failed.error.body = response.body[:READ_FOR_TEXT].decode("utf-8", "replace")
    return failed


def _classify_status(
    endpoint: Endpoint, response: Response, *, repeatable: bool, wait_s: float | None
) -> AttemptFailed:
    status = response.status
    text = _text(endpoint, response)
    action = endpoint.statuses.get(status)
    if action == "stop":
        return AttemptFailed(_stopping_error(endpoint, status, text), repeat=False, status=status)
    if action == "fail":
        return AttemptFailed(Rejected(text), repeat=False, status=status)
    if action is None and (status == 402 or _is_plan_used_up(response)):
        return AttemptFailed(QuotaError(text), repeat=False, status=status)
    if action is None and _is_rate_limited(response):
        return AttemptFailed(
            RateLimited(text, retry_after_s=wait_s), repeat=True, refused=True, wait_s=wait_s, status=status
        )
    if action is None and status in (401, 403):
        return AttemptFailed(_stopping_error(endpoint, status, text), repeat=False, status=status)
    if action is None and status == 407:
        hint = "check user and password in HTTP_PROXY or HTTPS_PROXY, then resume"
        return AttemptFailed(
            AuthError(f"the proxy refuses the request: {text}", hint=hint), repeat=False, status=status
        )
    if status == 429 or status in RATE_LIMIT_STATUSES:
        return AttemptFailed(
            RateLimited(text, retry_after_s=wait_s), repeat=True, refused=True, wait_s=wait_s, status=status
        )
    if action == "retry" and status < 500:
        return AttemptFailed(Unavailable(text), repeat=True, wait_s=wait_s, status=status)
    if action == "retry" or status in TRANSIENT_STATUSES or status >= 500:
        return AttemptFailed(Unavailable(text), repeat=repeatable, wait_s=wait_s, status=status)
    return AttemptFailed(Rejected(text), repeat=False, status=status)


def failure_of_body(error: CallError, response: Response, *, repeatable: bool) -> AttemptFailed:
    """Return the failed attempt for a response whose status is a success, but whose body reports ``error``."""
    if isinstance(error, RateLimited):
        return AttemptFailed(error, repeat=True, refused=True, wait_s=error.retry_after_s, status=response.status)
    return AttemptFailed(error, repeat=repeatable and isinstance(error, Unavailable), status=response.status)


def failure_of_silence(
    endpoint: Endpoint,
    request: str,
    signal: RequestNotSent | ResponseLost | ResponseTooLarge | PauseTooLong,
    *,
    repeatable: bool,
) -> AttemptFailed:
    """Return the failed attempt for a request without a complete response. ``request`` has method and path."""
    text = redact(f"{endpoint.name}: {request}: {signal}")
    match signal:
        case RequestNotSent(every_call=True):
            return AttemptFailed(Unreachable(text), repeat=not signal.final)
        case RequestNotSent(final=True):
            return AttemptFailed(Rejected(text), repeat=False)
        case RequestNotSent():
            return AttemptFailed(Unavailable(text, timed_out=signal.timed_out), repeat=True)
        case ResponseLost():
            return AttemptFailed(Unavailable(text, timed_out=signal.timed_out), repeat=repeatable)
        case ResponseTooLarge():
            text = f"{endpoint.name}: {request}: the answer is larger than {endpoint.max_response_bytes} bytes"
            hint = 'request less per call, or raise "max_response_bytes"'
            return AttemptFailed(MappingError(text, hint=hint), repeat=False)
        case PauseTooLong():
            text = f"{text} (Retry-After), longer than a call may wait"
            return AttemptFailed(RateLimited(text, retry_after_s=signal.wait_s), repeat=False)
        case _:
            assert_never(signal)


def _stopping_error(endpoint: Endpoint, status: int, text: str) -> CallError:
    if status not in (401, 403):
        return QuotaError(text)
    if endpoint.key_variable is None:
        return AuthError(text)
    return AuthError(
        f"{text} (key: {endpoint.key_variable})", hint=f"check the key in {endpoint.key_variable}, then resume"
    )


def _is_plan_used_up(response: Response) -> bool:
    if response.status not in QUOTA_STATUSES:
        return False
    body = response.body[:READ_FOR_QUOTA].decode("utf-8", "replace").lower()
    short = response.status != 429 and len(response.body) <= SHORT_BODY
    return any(word in body for word in QUOTA_WORDS) or (short and any(word in body for word in PLAN_WORDS))


def _is_rate_limited(response: Response) -> bool:
    """Return True if the header or body of a response with status 400, 403 or 409 means a rate limit."""
    if response.status not in MAYBE_RATE_LIMIT_STATUSES or len(response.body) > READ_FOR_QUOTA:
        return False
    if response.status == 403 and "Retry-After" in response.headers:
        return True
    try:
        tree = response.json()
    except MappingError:
        tree = {}
    return names_rate_limit(tree) or _RATE_WORDS.search(response.text[:SHORT_BODY].lower()) is not None


def names_rate_limit(tree: object) -> bool:
    """Return True if a JSON body, or the object ``error`` in it, has an error code that means a rate limit."""
    error = tree.get("error") if isinstance(tree, dict) else None
    nodes = [node for node in (tree, error) if isinstance(node, dict)]
    codes = [error, *(node.get(name) for node in nodes for name in ("code", "type", "error_code", "__type", "status"))]
    return any(str(code).lower() in RATE_CODES for code in codes if isinstance(code, str | int))


def _text(endpoint: Endpoint, response: Response) -> str:
    text = f"{endpoint.name}: {response.request} -> {response.status}"
    location = response.headers.get("Location", "")
    if 300 <= response.status < 400 and location:
        text += f", a redirect to {location} that is not followed"
    body = redact(" ".join(response.body[:READ_FOR_TEXT].decode("utf-8", "replace").split()))[:SHOWN_OF_BODY]
    return redact(text) + (f": {body}" if body else "")
