"""Read values of a provider's response by path. A path without a match is an error, never an empty result.

Also in this module:

* Whether a response reports more results than it contains, by its totals and paging fields.

Example::

    answer = ServiceResponse(response)
    answer.value(ResponsePath.at("search.response.results", "$.results"))
    # MappingError: search.response.results "$.results": nothing there; body: {"hits":[{"id":"x1"...
    reports_more({"total": 40, "hits": [...]}, returned=10)        # True
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

from bench.config.jsonpath import Path, compile_path
from bench.errors import MappingError
from bench.events import redact
from bench.values import dataclass

if TYPE_CHECKING:
    from bench.http import Response


SHOWN_OF_BODY = 300

WHOLE_BODY = object()
"""marker for the whole body"""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True)
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
        """Return the only value at a path below ``node`` (the whole body by default); null is a value."""
        found = field.path.all(self.tree if node is WHOLE_BODY else node)
        if len(found) != 1:
            raise self.error(field, "nothing there" if not found else f"{len(found)} values found, expected one")
        return found[0]

    def values(self, field: ResponsePath, node: object = WHOLE_BODY) -> list[object]:
        """Return all values at a path below ``node``; if the only value is a list, return its elements."""
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


ENVELOPE_KEYS = ("data", "result", "response")
MORE_KEYS = (
    "has_more", "hasMore", "has_next", "hasNext", "has_next_page", "hasNextPage", "next_cursor", "nextCursor",
    "next_page", "next_page_token", "nextPageToken", "next",
)  # fmt: skip
TOTAL_KEYS = (
    "total", "total_count", "totalCount", "total_results", "totalResults", "total_hits", "totalHits",
    "total_items", "totalItems",
)  # fmt: skip
PAGING_KEYS = ("pagination", "paging", "page_info", "pageInfo", "meta", "page", "hits")


def reports_more(tree: object, returned: int) -> bool:
    """Return True when a response, or its paging block, reports more hits than it contains."""
    if not isinstance(tree, dict):
        return False
    blocks = _blocks(tree)
    if any(total > returned for total in _totals(blocks)):
        return True
    return any(block.get(name) not in (None, False, "", 0, "null") for block in blocks for name in MORE_KEYS)


def _blocks(tree: Mapping[str, object]) -> list[dict[str, object]]:
    """Return a response and the objects in it that hold its result or paging."""
    return [one for one in (tree, *map(tree.get, (*ENVELOPE_KEYS, *PAGING_KEYS))) if isinstance(one, dict)]


def _totals(blocks: Sequence[Mapping[str, object]]) -> list[int]:
    """Return the totals in blocks; a total may be an object with a value."""
    found = [block.get(name) for block in blocks for name in TOTAL_KEYS]
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
    blocks = _blocks(tree)
    totals = _totals(blocks)
    is_length = any(isinstance(one, list) and len(one) == count for block in blocks for one in block.values())
    if any(total > count for total in totals) or (is_length and reports_more(tree, count)):
        return True
    return is_size and is_length and count not in totals
