"""Errors that hide inside a 2xx body: the rules of ``errors.error_when``.

Runs inside the retry loop of the call, so that a body that says "try again" is treated like the status would be::

    BodyErrors.of((ErrorRule(path="$.errno", not_equals=0, message="$.errmsg"),)).read(response)
    # Rejected: POST /blobs -> 200: errors.error_when[0] "$.errno" is 5: quota of blobs reached
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.traffic import ErrorRule
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
from bench.providers.declarative.answer import compact

if TYPE_CHECKING:
    from bench.http import Metered, Response

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


@dataclass(frozen=True, slots=True)
class BodyErrors:
    """The compiled rules, in the order of the file."""

    rules: tuple[tuple[ErrorRule, Path, Path | None], ...]

    @classmethod
    def of(cls, rules: tuple[ErrorRule, ...]) -> BodyErrors:
        """Compile the paths of the rules; a message may be a path or a text."""
        return cls(tuple((rule, compile_path(rule.path), _message_path(rule)) for rule in rules))

    def read(self, response: Response) -> Metered | None:
        """Raise what the first rule that holds says; a body that is no JSON, or of a status in ``treat_as_ok``, says
        nothing here."""
        if not 200 <= response.status < 300 or not (self.rules or b'"error' in response.body):
            return None
        try:
            tree = response.json()
        except MappingError:
            return None
        if not self.rules:
            _refuse_error_beside_nothing(tree, response)
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


def _refuse_error_beside_nothing(tree: object, response: Response) -> None:
    """Refuse a body that tells an error and whose only lists are empty: "no results" is not what it says.

    Raises:
        Unavailable: unless the file has rules of its own.
    """
    if not isinstance(tree, dict):
        return
    told = next((tree[name] for name in ERROR_KEYS if tree.get(name)), None)
    others = [value for name, value in tree.items() if name not in ERROR_KEYS and isinstance(value, list | dict)]
    if isinstance(told, str | list | dict) and [] in others and not any(others):
        said = compact(told)[:SHOWN_OF_VALUE]
        hint = 'if it is none, say so: errors: {error_when: [{path: "$.error", equals: "..."}]} has the last word'
        raise Unavailable(redact(f"{response.request} -> {response.status}: error and no result: {said}"), hint=hint)


def holds(rule: ErrorRule, found: list[object]) -> bool:
    """Say whether a rule holds for the values at its path; a missing value only matters to ``exists``."""
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
