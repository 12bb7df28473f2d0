"""Read values from a provider's response by their paths. A path without a match is an error, never an empty result.

``reports_more`` finds out from totals and paging fields whether the service has more results than it returned.

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
from bench.fast_dataclass import dataclass

if TYPE_CHECKING:
    from bench.http import Response


SHOWN_OF_BODY = 300

WHOLE_BODY = object()
"""default of ``node``: read from the whole body"""


@dataclass(frozen=True, slots=True)
class ResponsePath:
    """A compiled path into a response, with the config key where it is written, for error messages."""

    key: str
    path: Path

    @classmethod
    def at(cls, key: str, text: str) -> Self:
        """Compile the path ``text``, which the config has at ``key``."""
        return cls(key, compile_path(text))

    def __str__(self) -> str:
        return f'{self.key} "{self.path.text}"'


@dataclass(frozen=True)
class ServiceResponse:
    """A response of the service that counts as successful, with methods to read values by path."""

    response: Response

    @property
    def status(self) -> int:
        """Return the HTTP status. It is 2xx, or a status that the config allows by ``treat_as_ok`` or ``ok_status``."""
        return self.response.status

    @property
    def ok(self) -> bool:
        """Return True if the status is 2xx."""
        return 200 <= self.response.status < 300

    @cached_property
    def tree(self) -> object:
        """Return the body parsed as JSON; raise MappingError if the body is not JSON."""
        return self.response.json()

    def error(self, field: ResponsePath | str, problem: str) -> MappingError:
        """Return the error for a path that does not fit this response. The message quotes the start of the body."""
        shown = redact(self.response.text[: SHOWN_OF_BODY * 4])[:SHOWN_OF_BODY]
        return MappingError(f"{field}: {problem}; body: {shown}")

    def value(self, field: ResponsePath, node: object = WHOLE_BODY) -> object:
        """Return the one value that a path finds in ``node`` (by default the whole body). The value may be null.

        Raises:
            MappingError: the path finds no value, or more than one.
        """
        found = field.path.all(self.tree if node is WHOLE_BODY else node)
        if len(found) != 1:
            raise self.error(field, "nothing there" if not found else f"{len(found)} values found, expected one")
        return found[0]

    def values(self, field: ResponsePath, node: object = WHOLE_BODY) -> list[object]:
        """Return all values that a path finds in ``node``. If the only value is a list, return its elements."""
        found = field.path.all(self.tree if node is WHOLE_BODY else node)
        if not found and field.path.single:
            raise self.error(field, "nothing there")
        if field.path.single and isinstance(found[0], list):
            return list(found[0])
        return found

    def rows(self, field: ResponsePath, *, missing_is_empty: bool = False) -> list[object]:
        """Return the list that a path finds in the body; with ``missing_is_empty``, a missing list is [].

        Raises:
            MappingError: the path finds nothing, or a value that is not a list.
        """
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
    """Return a word for the JSON type of a value, such as "a list", for error messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    words = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return words.get(type(value), type(value).__name__)


def as_ids(value: object) -> list[str]:
    """Return the ids in a value: a text or a number is one id, a list has the ids of its elements."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [found for inner in value for found in as_ids(inner)]
    if value is None or isinstance(value, bool | dict):
        return []
    return [str(value)]


def compact(value: object) -> str:
    """Return a value as JSON without spaces. A string is returned unchanged."""
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
    """Return True if a total or a paging field of the response shows that there are more hits than ``returned``."""
    if not isinstance(tree, dict):
        return False
    blocks = _blocks(tree)
    if any(total > returned for total in _totals(blocks)):
        return True
    return any(block.get(name) not in (None, False, "", 0, "null") for block in blocks for name in MORE_KEYS)


def _blocks(tree: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the response itself and the objects in it that may contain results or paging fields."""
    return [one for one in (tree, *map(tree.get, (*ENVELOPE_KEYS, *PAGING_KEYS))) if isinstance(one, dict)]


def _totals(blocks: Sequence[Mapping[str, object]]) -> list[int]:
    """Return the total counts in ``blocks``.

    A total is an integer or its digits as text, or an object with one of these in ``value``.
    """
    found = [block.get(name) for block in blocks for name in TOTAL_KEYS]
    values = [one.get("value") if isinstance(one, dict) else one for one in found]
    texts = [one for one in values if isinstance(one, str) and one.isascii() and one.isdecimal()]
    return [*(one for one in values if type(one) is int), *map(int, texts)]


_LEAST_PAGE, _PAGE_STEPS = 10, (5, 8, 12)
"""usual page sizes: at least 10, and a multiple of 5, 8 or 12"""


def may_be_a_page(tree: object, count: int) -> bool:
    """Return True if ``count`` may be only the length of the first page of results.

    A larger total or a paging field shows that there are more results. Without such a field, a list of ``count``
    elements may be a page if ``count`` is a usual page size and no total equals ``count``.
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
