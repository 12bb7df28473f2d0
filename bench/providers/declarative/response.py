"""Read a provider's response by path. A path without a match is a MappingError, never "no results".

Also in this module:

* Errors inside a 2xx response: by the rules of ``errors.error_when``, or else by common error keys.

Example::

    answer = ServiceResponse(response)
    answer.value(Field.at("search.response.results", "$.results"))
    # MappingError: search.response.results "$.results": nothing there; body: {"hits":[{"id":"x1"...
    BodyErrors.compile((ErrorRule(path="$.errno", not_equals=0, message="$.errmsg"),)).read(response)
    # Rejected: POST /blobs -> 200: errors.error_when[0] "$.errno" is 5: quota of blobs reached

The rules run inside the retry loop of the call, so that a body that means "try again" is retried like a status.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Self

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
from bench.scalars import number, whole_number
from bench.values import dataclass as value_dataclass

if TYPE_CHECKING:
    from bench.http import ReportedUsage, Response


SHOWN_OF_BODY = 300
WHOLE_BODY = object()
"""marker for the whole body"""


@value_dataclass(frozen=True, slots=True)
class ResponsePath:
    """One path of the config with its key."""

    key: str
    path: Path

    @classmethod
    def at(cls, key: str, text: str) -> Self:
        """Compile the path ``text`` of the key ``key``."""
        return cls(key, compile_path(text))

    def __str__(self) -> str:
        return f'{self.key} "{self.path.text}"'


@value_dataclass(frozen=True)
class ServiceResponse:
    """One successful response of the service."""

    response: Response

    @property
    def status(self) -> int:
        """Return the HTTP status: a 2xx, or one of ``treat_as_ok`` or ``ok_status``."""
        return self.response.status

    @property
    def ok(self) -> bool:
        """Return True for a 2xx."""
        return 200 <= self.response.status < 300

    @cached_property
    def tree(self) -> object:
        """Return the body as JSON; raise MappingError when it is not JSON."""
        return self.response.json()

    def error(self, field: ResponsePath | str, problem: str) -> MappingError:
        """Return the error for a field that does not match this body."""
        shown = redact(self.response.text[: SHOWN_OF_BODY * 4])[:SHOWN_OF_BODY]
        return MappingError(f"{field}: {problem}; body: {shown}")

    def value(self, field: ResponsePath, node: object = WHOLE_BODY) -> object:
        """Return the only value below ``node`` (the whole body by default); null is a value."""
        found = field.path.all(self.tree if node is WHOLE_BODY else node)
        if len(found) != 1:
            raise self.error(field, "nothing there" if not found else f"{len(found)} values found, expected one")
        return found[0]

    def values(self, field: ResponsePath, node: object = WHOLE_BODY) -> list[object]:
        """Return all values below ``node``; for a single list its elements."""
        found = field.path.all(self.tree if node is WHOLE_BODY else node)
        if not found and field.path.single:
            raise self.error(field, "nothing there")
        if field.path.single and isinstance(found[0], list):
            return list(found[0])
        return found

    def rows(self, field: ResponsePath, *, missing_is_empty: bool = False) -> list[object]:
        """Return the list at a path."""
        found = field.path.all(self.tree)
        if not field.path.single:
            return found
        if not found or (found[0] is None and missing_is_empty):
            if missing_is_empty:
                return []
            raise self.error(field, "nothing there")
        if not isinstance(found[0], list):
            raise self.error(field, f"expected a list, found {json_type(found[0])}")
        return found[0]


def json_type(value: object) -> str:
    """Return the name of a JSON value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    words = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return words.get(type(value), type(value).__name__)


def as_ids(value: object) -> list[str]:
    """Return the ids in a value: a text, a number, or a list of them."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [found for inner in value for found in as_ids(inner)]
    if value is None or isinstance(value, bool | dict):
        return []
    return [str(value)]


def compact(value: object) -> str:
    """Return a JSON value as text; a text is returned unchanged."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


KINDS: dict[str, type[CallError]] = {
    "auth": AuthError,
    "quota": QuotaError,
    "rate_limited": RateLimited,
    "unavailable": Unavailable,
    "rejected": Rejected,
    "ingest_failed": IngestFailed,
}
SHOWN_OF_VALUE = 200
ERROR_KEYS = ("error", "errors")
FLAGS = ("success", "ok")
STATUSES = ("status", "state", "statusCode", "status_code", "code", "result")
ERROR_NUMBERS = (
    "errno", "err_no", "errcode", "errCode", "err_code", "error_code", "errorCode", "retcode", "ret_code",
)  # fmt: skip
"""keys of error numbers; by convention, 0 means no error"""
NO_ERROR = frozenset({0, 200})
CODES = ("code", "statusCode", "status_code", "status", "resultCode", "result_code")
"""keys whose number may be the code of an error, such as -1 or 50001"""
TELLING = frozenset((*FLAGS, *STATUSES, *ERROR_NUMBERS, *CODES))
FAILED = frozenset({"error", "failed", "failure", "fail"})
INCOMPLETE = frozenset({202, 206, 207})
"""statuses of an incomplete search"""
CUT_SHORT = (
    "timed_out",
    "terminated_early",
    "degraded",
    "partial",
    "is_partial",
    "partial_results",
    "incomplete",
    "incomplete_results",
)
PARTS = {"_shards": 1, "_clusters": 3}
"""keys of the counts of the parts of a search -> how many of their keys (failed, skipped, partial) mean a lost part"""
ENVELOPES = ("data", "result", "response")
MORE = (
    "has_more", "hasMore", "has_next", "hasNext", "has_next_page", "hasNextPage", "next_cursor", "nextCursor",
    "next_page", "next_page_token", "nextPageToken", "next",
)  # fmt: skip
TOTALS = (
    "total", "total_count", "totalCount", "total_results", "totalResults", "total_hits", "totalHits",
    "total_items", "totalItems",
)  # fmt: skip
PAGINGS = ("pagination", "paging", "page_info", "pageInfo", "meta", "page", "hits")
MESSAGES = ("message", "msg", "detail", "reason", "warning", "info")
ABOUT_CALL = frozenset((*MESSAGES, *STATUSES, "request_id", "requestId", "trace_id", "traceId", "timestamp"))
"""keys of a response that contains only a message"""
_SAYS_FAILED = pattern(
    r"rate.?limit|too many|quota|exceed|\berrors?\b|exception|\bfail(?:ed|ure|s)?\b|unavailab|time.?out"
    r"|timed out|overload"
    r"|unauthori[sz]ed|forbidden|denied|not ready|not allowed|still (?:loading|indexing|starting)|maintenance|try again"
    r"|\bbusy\b|expired|invalid|insufficient"
    r"|错误|錯誤|失败|失敗|异常|異常|超时|超時|エラー|오류|실패|\w*fehler\b|fehlgeschlagen|\berreur|échec|échou|\bfall[oó]\b"
    r"|\bfalha|\berrore|ошибк",
    re.IGNORECASE,
)
_FAILED_ONES = pattern(
    r"(?:n|num|number_of|total)?_?(?:failed|failures?|rejected|errors?)_?"
    r"(?:count|items|ids|documents|docs|memories|records|objects|messages|episodes)?",
    re.IGNORECASE,
)
"""keys of the number or the list of elements of an add that failed"""
_IS_THERE_OR_GONE = pattern(r"exist|duplicate|not found|no such|nothing to", re.IGNORECASE)
"""messages of a call whose effect is there already, such as clearing an empty namespace"""
LOOKED_AT = TELLING.union(CUT_SHORT, PARTS, MESSAGES, ERROR_KEYS, ENVELOPES)
"""all keys that the check of a search reads"""
HINT = "if it is not an error, add a rule under errors.error_when, which takes precedence"

Judged = Literal["add", "search", "change", "other"]
"""kind of check: an add must have stored everything, a search must be complete, a setup, clear or delete must have
been done, a count or lookup must be one; other responses are only checked for an error without a result"""


@dataclass(frozen=True, slots=True)
class BodyErrors:
    """The compiled rules, in the order of the file."""

    rules: tuple[tuple[ErrorRule, Path, Path | None], ...]

    @classmethod
    def compile(cls, rules: tuple[ErrorRule, ...]) -> BodyErrors:
        """Compile the paths of the rules; a message may be a path or a text."""
        return cls(tuple((rule, compile_path(rule.path), _message_path(rule)) for rule in rules))

    def read(
        self, response: Response, *, judged: Judged = "other", partial: bool = False, ok: Container[int] = ()
    ) -> ReportedUsage | None:
        """Raise the error of the first rule that matches; without rules, the error that common keys of the body report.

        A page of HTML raises MappingError. Other bodies that are not JSON, and statuses in ``ok``, are not checked.

        ``partial``: the config reads the elements of an add itself.
        """
        if not 200 <= response.status < 300 or response.status in ok:
            return None
        if not self.rules and judged == "other" and b'"error' not in response.body and response.body[:1] != b"<":
            return None
        try:
            tree = response.json()
        except MappingError:
            if response.body.lstrip()[:1] == b"<":  # a page that someone else answered with, such as a login
                raise
            return None
        if not self.rules and judged != "other" and names_rate_limit(tree):
            raise RateLimited(redact(f"{response.request} -> {response.status}: {compact(tree)[:SHOWN_OF_VALUE]}"))
        if not self.rules:
            _refuse_failure(tree, response, judged, partial=partial)
        for index, (rule, path, message) in enumerate(self.rules):
            found = path.all(tree)
            if holds(rule, found):
                raise self._error(index, rule, found, message.all(tree) if message else [rule.message], response)
        return None

    def _error(
        self, index: int, rule: ErrorRule, found: list[object], message: list[object], response: Response
    ) -> CallError:
        shown = compact(found[0])[:SHOWN_OF_VALUE] if found else "there"
        said = "; ".join(compact(part) for part in message if part is not None)[:SHOWN_OF_VALUE]
        text = f'{response.request} -> {response.status}: errors.error_when[{index}] "{rule.path}" is {shown}'
        return KINDS[rule.kind](redact(f"{text}: {said}" if said else text))


def _refuse_failure(tree: object, response: Response, judged: Judged, *, partial: bool) -> None:
    """Raise an error for a body that reports a failure of the call or of a part of it.

    Raises:
        IngestFailed: an add was not stored.
        Unavailable: a search gave no result or only a part of it, a change was not made, or another call got an error.
    """
    if judged == "add":
        said = _first(_failure, tree) or _first(_error_told, tree) or _first(_failure_by_code, tree)
        said = said or _message_alone(tree)
        said = said or ("" if partial else _first(_failures_counted, tree))
        said = said or ("" if partial else next(filter(None, map(_failure_of_element, _elements(tree))), ""))
        if said:
            text = f"{response.request} -> {response.status}: the memory was not stored: {said}"
            raise IngestFailed(redact(text), hint=HINT)
        return
    if judged == "search":
        said = _incomplete(tree, response.status)
        if said:
            raise Unavailable(
                redact(f"{response.request} -> {response.status}: the result is not complete: {said}"), hint=HINT
            )
        return
    if said := _error_instead(tree):
        text = f"{response.request} -> {response.status}: an error instead of a result: {said}"
        raise Unavailable(redact(text), hint=HINT)
    if judged == "change" and (said := _refused(tree)):
        text = f"{response.request} -> {response.status}: the service did not carry out the call: {said}"
        raise Unavailable(redact(text), hint=HINT)


def _error_instead(tree: object) -> str:
    """Return the error next to empty results; else an empty text."""
    said = _error_told(tree)
    if not said or not isinstance(tree, dict):
        return ""
    others = [value for name, value in tree.items() if name not in ERROR_KEYS and isinstance(value, list | dict)]
    return said if [] in others and not any(others) else ""


def _refused(tree: object) -> str:
    """Return the failure of a change; empty when there is none, or what it makes or removes exists or is gone."""
    said = _first(_failure, tree) or _first(_error_told, tree) or _first(_failure_by_code, tree)
    return "" if _IS_THERE_OR_GONE.search(said) else said


def _failure(node: object) -> str:
    """Return the text of an object that reports a failure; else an empty text."""
    if not isinstance(node, dict):
        return ""
    if TELLING.isdisjoint(node):
        return ""
    failed = any(node.get(name) is False for name in FLAGS) or any(_is_failure(node.get(name)) for name in STATUSES)
    return compact(node)[:SHOWN_OF_VALUE] if failed or _has_error_number(node) else ""


def _is_failure(status: object) -> bool:
    if isinstance(status, dict):
        return bool(_error_told(status) or _failure(status))
    if isinstance(status, str) and status.lower() in FAILED:
        return True
    return 400 <= (whole_number(status) or 0) < 600


def _has_error_number(node: Mapping[str, object]) -> bool:
    return any((code := number(node.get(name))) is not None and code not in NO_ERROR for name in ERROR_NUMBERS)


def _failure_by_code(node: object) -> str:
    """Return the text of an object with the code of a failure: negative, or an HTTP status with more digits (50001)."""
    if not isinstance(node, dict):
        return ""
    for name in CODES:
        code = number(node.get(name))
        if code is not None and (code < 0 or 40_000 <= code < 60_000 or 400_000 <= code < 600_000):
            return compact(node)[:SHOWN_OF_VALUE]
    return ""


def _error_told(node: object) -> str:
    if not isinstance(node, dict):
        return ""
    told = next((node[name] for name in ERROR_KEYS if node.get(name)), None)
    if isinstance(told, dict) and not any(told.values()):  # {"code": 0, "message": ""}
        return ""
    return compact(told)[:SHOWN_OF_VALUE] if told is True or isinstance(told, str | list | dict) else ""


def _failure_of_element(node: object) -> str:
    return _first(_failure, node) or (compact(node)[:SHOWN_OF_VALUE] if _first(_error_told, node) else "")


def _failures_counted(node: object) -> str:
    """Return the text of an object that counts or lists failed elements, itself or in a block such as ``summary``."""
    if not isinstance(node, dict):
        return ""
    blocks = [node, *(value for value in node.values() if isinstance(value, dict))]
    found = [value for one in blocks for name, value in one.items() if _FAILED_ONES.fullmatch(str(name))]
    return (
        compact(node)[:SHOWN_OF_VALUE] if any(isinstance(one, list) or type(one) is int for one in found if one) else ""
    )


def _elements(tree: object) -> list[object]:
    """Return the elements of a response: of the list itself, or of the lists in it."""
    lists = [tree] if not isinstance(tree, dict) else list(tree.values())
    return [element for one in lists if isinstance(one, list) for element in one]


def _incomplete(tree: object, status: int) -> str:
    """Return the reason why a search is incomplete, even if it has hits; else an empty text."""
    if status in INCOMPLETE:
        return f"status {status} means that the answer is not complete"
    if isinstance(tree, dict) and LOOKED_AT.isdisjoint(tree):
        return ""
    said = _first(_failure, tree) or _first(_cut_short, tree) or _error_beside_result(tree)
    return said or _first(_failure_beside_nothing, tree)


def _error_beside_result(tree: object) -> str:
    """Return an error next to a result; an error alone is reported by the path that finds no result."""
    if not isinstance(tree, dict):
        return ""
    result = any(isinstance(value, list | dict) for name, value in tree.items() if name not in ERROR_KEYS)
    return _first(_error_told, tree) if result else ""


def _failure_beside_nothing(node: object) -> str:
    """Return the message or the code of a failure next to an empty result; else an empty text."""
    if not isinstance(node, dict):
        return ""
    inner = [node[name] for name in ENVELOPES if isinstance(node.get(name), dict)]
    lists = [value for one in (node, *inner) for value in one.values() if isinstance(value, list)]
    if any(lists):
        return ""
    said = _message_of_failure(node) if lists else ""
    is_empty = lists or None in (value for name, value in node.items() if name not in ABOUT_CALL)
    return said or (_failure_by_code(node) if is_empty else "")


def _message_alone(tree: object) -> str:
    """Return the message of a failure in an add's response that has nothing else; else an empty text."""
    return _message_of_failure(tree) if isinstance(tree, dict) and tree and ABOUT_CALL.issuperset(tree) else ""


def _message_of_failure(node: Mapping[str, object]) -> str:
    told = (node[name] for name in MESSAGES if isinstance(node.get(name), str))
    return next((str(text)[:SHOWN_OF_VALUE] for text in told if reports_failure(str(text))), "")


def reports_failure(text: str) -> bool:
    """Return True when a message reports a failure, in English or in one of some other languages."""
    return _SAYS_FAILED.search(text[:SHOWN_OF_VALUE]) is not None


def _cut_short(node: object) -> str:
    if not isinstance(node, dict):
        return ""
    flag = next((name for name in CUT_SHORT if node.get(name) is True), None)
    for name in PARTS:
        parts = node.get(name)
        if isinstance(parts, dict) and any(parts.get(key) for key in ("failed", "skipped", "partial")[: PARTS[name]]):
            return compact({name: parts})[:SHOWN_OF_VALUE]
    return f"{flag} is true" if flag else ""


def reports_more(tree: object, returned: int) -> bool:
    """Return True when a response, or its paging block, reports more hits than it contains."""
    if not isinstance(tree, dict):
        return False
    blocks = _text_blocks(tree)
    if any(total > returned for total in _totals(blocks)):
        return True
    return any(block.get(name) not in (None, False, "", 0, "null") for block in blocks for name in MORE)


def _text_blocks(tree: Mapping[str, object]) -> list[dict[str, object]]:
    """Return a response and the objects in it that hold its result or paging."""
    return [one for one in (tree, *map(tree.get, (*ENVELOPES, *PAGINGS))) if isinstance(one, dict)]


def _totals(blocks: Sequence[Mapping[str, object]]) -> list[int]:
    """Return the totals in blocks; a total may be an object with a value."""
    found = [block.get(name) for block in blocks for name in TOTALS]
    values = [one.get("value") if isinstance(one, dict) else one for one in found]
    return [one for one in values if type(one) is int]


_LEAST_PAGE, _PAGE_STEPS = 10, (5, 8, 12)
"""the length of a page is at least this, and a multiple of one of these, such as 10, 25, 64 or 100"""


def may_be_a_page(tree: object, count: int) -> bool:
    """Return True when a count in a response may be the length of the first page only.

    This is so when a total is larger, or a list has this length and the response reports more. It is also so when a
    list has this length, the length is usual for pages, and no total confirms it.
    """
    is_size = count >= _LEAST_PAGE and not all(count % size for size in _PAGE_STEPS)
    if isinstance(tree, list):
        return is_size and len(tree) == count
    if not isinstance(tree, dict) or count == 0:
        return False
    blocks = _text_blocks(tree)
    totals = _totals(blocks)
    is_length = any(isinstance(one, list) and len(one) == count for block in blocks for one in block.values())
    if any(total > count for total in totals) or (is_length and reports_more(tree, count)):
        return True
    return is_size and is_length and count not in totals


def _first(reads: Callable[[object], str], tree: object) -> str:
    """Return the result of ``reads`` for a response, or else for the object in its envelope."""
    if not isinstance(tree, dict):
        return ""
    return reads(tree) or next(filter(None, (reads(tree[name]) for name in ENVELOPES if name in tree)), "")


def holds(rule: ErrorRule, found: list[object]) -> bool:
    """Return True when a rule matches the first value at its path; with no value, only an ``exists`` rule can match."""
    (test,) = rule.tests
    if test == "exists":
        return bool(found) == rule.exists
    if not found:
        return False
    value = found[0]
    match test:
        case "equals":
            return value == rule.equals
        case "not_equals":
            return value != rule.not_equals
        case "in_":
            return value in (rule.in_ or [])
        case "not_in":
            return value not in (rule.not_in or [])
        case _:
            return (value not in (None, "", [], {}, 0, False)) == rule.non_empty


def _message_path(rule: ErrorRule) -> Path | None:
    text = rule.message
    return compile_path(text) if text and text.startswith("$") else None
