"""Find out whether a 2xx response means a failure, by the rules of ``errors.error_when`` or by common keys of the body.

Example::

    BodyErrors.compile((ErrorRule(path="$.errno", not_equals=0, message="$.errmsg"),)).read(response)
    # Rejected: POST /blobs -> 200: errors.error_when[0] "$.errno" is 5: quota of blobs reached

If a body means "try again", the call is sent again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bench.config.jsonpath import Path, compile_path
from bench.config.traffic import ErrorRule
from bench.errors import (
    AuthError,
    CallError,
    IngestFailed,
    MappingError,
    QuotaError,
    RateLimited,
    Rejected,
    Unavailable,
)
from bench.events import redact
from bench.http.errors import names_rate_limit
from bench.patterns import pattern
from bench.providers.declarative.response import ENVELOPE_KEYS, compact
from bench.untyped_values import number, whole_number

if TYPE_CHECKING:
    from bench.http import ReportedUsage, Response


ERROR_CLASSES: dict[str, type[CallError]] = {
    "auth": AuthError,
    "quota": QuotaError,
    "rate_limited": RateLimited,
    "unavailable": Unavailable,
    "rejected": Rejected,
    "ingest_failed": IngestFailed,
}
SHOWN_OF_VALUE = 200
ERROR_KEYS = ("error", "errors")
SUCCESS_FLAGS = ("success", "ok")
STATUS_KEYS = ("status", "state", "statusCode", "status_code", "code", "result")
ERROR_NUMBER_KEYS = (
    "errno", "err_no", "errcode", "errCode", "err_code", "error_code", "errorCode", "retcode", "ret_code",
)  # fmt: skip
"""keys of error numbers; by convention, 0 means no error"""
NO_ERROR = frozenset({0, 200})
CODE_KEYS = ("code", "statusCode", "status_code", "status", "resultCode", "result_code")
"""keys whose number may be the code of an error, such as -1 or 50001"""
STATE_KEYS = frozenset((*SUCCESS_FLAGS, *STATUS_KEYS, *ERROR_NUMBER_KEYS, *CODE_KEYS))
FAILED_STATES = frozenset({"error", "failed", "failure", "fail"})
INCOMPLETE_STATUSES = frozenset({202, 206, 207})
"""HTTP statuses with which a search says that its result is incomplete"""
INCOMPLETE_FLAGS = (
    "timed_out", "terminated_early", "degraded", "partial", "is_partial", "partial_results", "incomplete",
    "incomplete_results",
)  # fmt: skip
PART_COUNTS = {"_shards": 1, "_clusters": 3}
"""key of an object with the counts ``failed``, ``skipped`` and ``partial`` -> number of these counts that are checked
A search is incomplete if a checked count is not 0. With the number 1, only ``failed`` is checked."""
MESSAGE_KEYS = ("message", "msg", "detail", "reason", "warning", "info")
NON_RESULT_KEYS = frozenset(
    (*MESSAGE_KEYS, *STATUS_KEYS, "request_id", "requestId", "trace_id", "traceId", "timestamp")
)
"""keys that never contain a result; a response with only these keys has no result"""
_FAILURE_WORDS = pattern(
    r"rate.?limit|too many|quota|exceed|\berrors?\b|exception|\bfail(?:ed|ure|s)?\b|unavailab|time.?out"
    r"|timed out|overload"
    r"|unauthori[sz]ed|forbidden|denied|not ready|not allowed|still (?:loading|indexing|starting)|maintenance|try again"
    r"|\bbusy\b|expired|invalid|insufficient"
    r"|错误|錯誤|失败|失敗|异常|異常|超时|超時|エラー|오류|실패|\w*fehler\b|fehlgeschlagen|\berreur|échec|échou|\bfall[oó]\b"
    r"|\bfalha|\berrore|ошибк",
    re.IGNORECASE,
)
_FAILURE_COUNT_KEY = pattern(
    r"(?:n|num|number_of|total)?_?(?:failed|failures?|rejected|errors?)_?"
    r"(?:count|items|ids|documents|docs|memories|records|objects|messages|episodes)?",
    re.IGNORECASE,
)
"""keys that hold the number or the list of the elements that an add could not store"""
_DONE_ALREADY = pattern(r"exist|duplicate|not found|no such|nothing to", re.IGNORECASE)
"""words in the message of a call that had nothing to do, such as the clear of an empty namespace"""
SEARCH_CHECK_KEYS = STATE_KEYS.union(INCOMPLETE_FLAGS, PART_COUNTS, MESSAGE_KEYS, ERROR_KEYS, ENVELOPE_KEYS)
"""every key that the check of a search response reads; a response without these keys needs no further check"""
HINT = "if it is not an error, add a rule under errors.error_when, which takes precedence"
CheckKind = Literal["add", "search", "change", "other"]
"""Kind of a request, which decides when its response is an error.
An "add" must have stored everything. A "search" must be complete. A "change" (also a setup, a count or a lookup) must
not report a failure. For "other", only an error message without a result is an error."""


@dataclass(frozen=True, slots=True)
class BodyErrors:
    """The compiled rules of ``errors.error_when``, in the order of the config."""

    rules: tuple[tuple[ErrorRule, Path, Path | None], ...]

    @classmethod
    def compile(cls, rules: tuple[ErrorRule, ...]) -> BodyErrors:
        """Compile the paths of the rules. A rule's message is a path if it starts with "$", otherwise a plain text."""
        texts = [rule.message or "" for rule in rules]
        messages = [compile_path(text) if text.startswith("$") else None for text in texts]
        return cls(tuple((rule, compile_path(rule.path), path) for rule, path in zip(rules, messages, strict=True)))

    def read(
        self, response: Response, *, check_kind: CheckKind = "other", partial: bool = False, ok: Container[int] = ()
    ) -> ReportedUsage | None:
        """Raise an error if a 2xx response reports a failure.

        The first matching rule of ``errors.error_when`` sets the error. If the config has no rules, common keys of the
        body are checked. A response whose status is in ``ok`` is not checked. Of the bodies that are not JSON, only an
        HTML page raises an error (MappingError). With ``partial``, failures of single elements of an add are ignored.
        The result is always None, because no usage is read.
        """
        if not 200 <= response.status < 300 or response.status in ok:
            return None
        if not self.rules and check_kind == "other" and b'"error' not in response.body and response.body[:1] != b"<":
            return None
        try:
            tree = response.json()
        except MappingError:
            if response.body.lstrip()[:1] == b"<":  # a page that someone else answered with, such as a login
                raise
            return None
        if not self.rules and check_kind != "other" and names_rate_limit(tree):
            raise RateLimited(redact(f"{response.request} -> {response.status}: {_shown(tree)}"))
        if not self.rules:
            _refuse_failure(tree, response, check_kind, partial=partial)
        for index, (rule, path, message) in enumerate(self.rules):
            found = path.all(tree)
            if _matches(rule, found):
                raise self._error(index, rule, found, message.all(tree) if message else [rule.message], response)
        return None

    def _error(
        self, index: int, rule: ErrorRule, found: list[object], message: list[object], response: Response
    ) -> CallError:
        shown = _shown(found[0]) if found else "missing"
        reason = "; ".join(compact(part) for part in message if part is not None)[:SHOWN_OF_VALUE]
        text = f'{response.request} -> {response.status}: errors.error_when[{index}] "{rule.path}" is {shown}'
        return ERROR_CLASSES[rule.kind](redact(f"{text}: {reason}" if reason else text))


def _refuse_failure(tree: object, response: Response, check_kind: CheckKind, *, partial: bool) -> None:
    """Raise an error for a body that reports that the call, or a part of the call, failed.

    Raises:
        IngestFailed: an add was not stored.
        Unavailable: a search gave no result or only a part of it, a change was not made, or another call got an error.
    """
    if check_kind == "add":
        if failure := _add_failure(tree, partial=partial):
            text = f"{response.request} -> {response.status}: the memory was not stored: {failure}"
            raise IngestFailed(redact(text), hint=HINT)
        return
    if check_kind == "search":
        failure = _incompleteness(tree, response.status)
        if failure:
            raise Unavailable(
                redact(f"{response.request} -> {response.status}: the result is not complete: {failure}"), hint=HINT
            )
        return
    if failure := _error_instead_of_result(tree):
        text = f"{response.request} -> {response.status}: an error instead of a result: {failure}"
        raise Unavailable(redact(text), hint=HINT)
    if check_kind == "change" and (failure := _refused_change(tree)):
        text = f"{response.request} -> {response.status}: the service did not carry out the call: {failure}"
        raise Unavailable(redact(text), hint=HINT)


def _add_failure(tree: object, *, partial: bool) -> str:
    """Return the text of the failure that an add's response reports, or "" if there is no failure.

    Failures of single elements are ignored if ``partial`` is True.
    """
    failure = _reported_failure(tree) or _message_alone(tree)
    if failure or partial:
        return failure
    lists = tree.values() if isinstance(tree, dict) else [tree]
    elements = [element for one in lists if isinstance(one, list) for element in one]
    return _in_envelope(_counted_failures, tree) or next(filter(None, map(_failure_of_element, elements)), "")


def _reported_failure(tree: object) -> str:
    return _in_envelope(_failure, tree) or _in_envelope(_error_message, tree) or _in_envelope(_failure_by_code, tree)


def _error_instead_of_result(tree: object) -> str:
    """Return the error message of a response whose results are empty; return "" if there is no such error."""
    message = _error_message(tree)
    if not message or not isinstance(tree, dict):
        return ""
    others = [value for name, value in tree.items() if name not in ERROR_KEYS and isinstance(value, list | dict)]
    return message if [] in others and not any(others) else ""


def _refused_change(tree: object) -> str:
    """Return the text of the failure that the response to a change reports, or "" if there is no failure.

    A change is, for example, a setup call. A message such as "already exists" is not a failure.
    """
    failure = _reported_failure(tree)
    return "" if _DONE_ALREADY.search(failure) else failure


def _failure(node: object) -> str:
    """Return ``node`` as text if its status keys or flags report a failure; else return ""."""
    if not isinstance(node, dict) or STATE_KEYS.isdisjoint(node):
        return ""
    failed = (
        any(node.get(name) is False for name in SUCCESS_FLAGS)
        or any(_is_failure(node.get(name)) for name in STATUS_KEYS)
        or any((code := number(node.get(name))) is not None and code not in NO_ERROR for name in ERROR_NUMBER_KEYS)
    )
    return _shown(node) if failed else ""


def _shown(value: object) -> str:
    return compact(value)[:SHOWN_OF_VALUE]


def _is_failure(status: object) -> bool:
    if isinstance(status, dict):
        return bool(_error_message(status) or _failure(status))
    if isinstance(status, str) and status.lower() in FAILED_STATES:
        return True
    return 400 <= (whole_number(status) or 0) < 600


def _failure_by_code(node: object) -> str:
    """Return ``node`` as text if it has a failure code; else return "".

    A code means failure if it is negative, or an HTTP status followed by more digits, such as 50001.
    """
    if not isinstance(node, dict):
        return ""
    for name in CODE_KEYS:
        code = number(node.get(name))
        if code is not None and (code < 0 or 40_000 <= code < 60_000 or 400_000 <= code < 600_000):
            return _shown(node)
    return ""


def _error_message(node: object) -> str:
    if not isinstance(node, dict):
        return ""
    error = next((node[name] for name in ERROR_KEYS if node.get(name)), None)
    if isinstance(error, dict) and not any(error.values()):  # {"code": 0, "message": ""}
        return ""
    return _shown(error) if error is True or isinstance(error, str | list | dict) else ""


def _failure_of_element(node: object) -> str:
    return _in_envelope(_failure, node) or (_shown(node) if _in_envelope(_error_message, node) else "")


def _counted_failures(node: object) -> str:
    """Return ``node`` as text if it has a count or a list of failed elements; else return "".

    The fields of objects inside ``node`` are checked too.
    """
    if not isinstance(node, dict):
        return ""
    blocks = [node, *(value for value in node.values() if isinstance(value, dict))]
    found = [value for one in blocks for name, value in one.items() if _FAILURE_COUNT_KEY.fullmatch(str(name))]
    return _shown(node) if any(isinstance(one, list) or type(one) is int for one in found if one) else ""


def _incompleteness(tree: object, status: int) -> str:
    """Return why a search result is incomplete, or "" if it is complete. A result with hits can be incomplete too."""
    if status in INCOMPLETE_STATUSES:
        return f"status {status} means that the answer is not complete"
    if isinstance(tree, dict) and SEARCH_CHECK_KEYS.isdisjoint(tree):
        return ""
    reason = _in_envelope(_failure, tree) or _in_envelope(_incomplete_part, tree) or _error_beside_result(tree)
    return reason or _in_envelope(_failure_beside_nothing, tree)


def _error_beside_result(tree: object) -> str:
    """Return the error message that a response has in addition to its result.

    Return "" if the response has no error message, or no result.

    A response with only an error fails later, when no result is found at the configured path.
    """
    if not isinstance(tree, dict):
        return ""
    result = any(isinstance(value, list | dict) for name, value in tree.items() if name not in ERROR_KEYS)
    return _in_envelope(_error_message, tree) if result else ""


def _failure_beside_nothing(node: object) -> str:
    """Return the failure message or failure code of an object whose result is empty; return "" if there is none."""
    if not isinstance(node, dict):
        return ""
    inner = [node[name] for name in ENVELOPE_KEYS if isinstance(node.get(name), dict)]
    lists = [value for one in (node, *inner) for value in one.values() if isinstance(value, list)]
    if any(lists):
        return ""
    message = _message_of_failure(node) if lists else ""
    is_empty = lists or None in (value for name, value in node.items() if name not in NON_RESULT_KEYS)
    return message or (_failure_by_code(node) if is_empty else "")


def _message_alone(tree: object) -> str:
    """Return the message of an add's response if the response has no result and the message reports a failure.

    Return "" for any other response.
    """
    return _message_of_failure(tree) if isinstance(tree, dict) and tree and NON_RESULT_KEYS.issuperset(tree) else ""


def _message_of_failure(node: Mapping[str, object]) -> str:
    messages = (node[name] for name in MESSAGE_KEYS if isinstance(node.get(name), str))
    return next((str(text)[:SHOWN_OF_VALUE] for text in messages if reports_failure(str(text))), "")


def reports_failure(text: str) -> bool:
    """Return True when a message reports a failure, in English or one of several other languages."""
    return _FAILURE_WORDS.search(text[:SHOWN_OF_VALUE]) is not None


def _incomplete_part(node: object) -> str:
    if not isinstance(node, dict):
        return ""
    flag = next((name for name in INCOMPLETE_FLAGS if node.get(name) is True), None)
    for name in PART_COUNTS:
        parts = node.get(name)
        if isinstance(parts, dict) and any(
            parts.get(key) for key in ("failed", "skipped", "partial")[: PART_COUNTS[name]]
        ):
            return _shown({name: parts})
    return f"{flag} is true" if flag else ""


def _in_envelope(reads: Callable[[object], str], tree: object) -> str:
    """Return the first text that ``reads`` finds in ``tree`` and the objects inside; return "" if there is none.

    The objects are under the keys ``data``, ``result`` and ``response``.
    """
    if not isinstance(tree, dict):
        return ""
    return reads(tree) or next(filter(None, (reads(tree[name]) for name in ENVELOPE_KEYS if name in tree)), "")


def _matches(rule: ErrorRule, found: list[object]) -> bool:
    """Return True if the rule matches the first value that its path finds.

    If the path finds nothing, only an ``exists`` rule can match.
    """
    (test,) = rule.tests
    if test == "exists":
        return bool(found) == rule.exists
    if not found:
        return False
    value, wanted = found[0], getattr(rule, test)
    match test:
        case "equals":
            return bool(value == wanted)
        case "not_equals":
            return bool(value != wanted)
        case "in_":
            return value in (wanted or [])
        case "not_in":
            return value not in (wanted or [])
        case _:
            return (value not in (None, "", [], {}, 0, False)) is wanted
