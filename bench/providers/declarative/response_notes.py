"""Find values in a response that explain an empty result, such as an error code that the config does not read.

Example::

    remarks({"code": 7, "msg": "internal", "took": 3, "results": []})      # ('code: 7', 'msg: "internal"')
    results = ResponsePath.at("search.response.results", "$.results")
    explain_empty({"code": 7, "results": None}, [results], usual=set())           # '$.results: null, code: 7'

These values are called remarks. Ids, times and counts are left out, so that the same cause gives the same text in many
responses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence

from bench.events import redact
from bench.patterns import pattern
from bench.providers.declarative.body_errors import MESSAGE_KEYS, NO_ERROR, reports_failure
from bench.providers.declarative.response import ENVELOPE_KEYS, ResponsePath, compact

MAX_REMARKS = 3
MAX_CHARS = 80
MAX_DEPTH = 2
WARNINGS = frozenset({"warning", "warnings"})
_OUTCOME_NAME = pattern(
    r"code|stat(?:e|us)|err|fail|warn|msg|message|reason|detail|notice|exception|result$|^ret$|stale|degraded|indexing"
    r"|pending|partial",
    re.IGNORECASE,
)
"""matches field names whose values tell how a call ended"""
_GOOD_NAME = pattern(
    r"success|succeed|ok$|acknowledged|complete|done|ready|valid|exact|found|cache|final", re.IGNORECASE
)
_GOOD_TEXT = pattern(
    r"(?:ok|okay|success\w*|succeeded|done|completed?|ready|true|none|null|green|0|200)?|.*成功.*", re.IGNORECASE
)


def remarks(tree: object, echoes: Collection[object] = ()) -> tuple[str, ...]:
    """Return the fields that may explain an empty result, each as "name: value".

    Values that repeat a value of the request (``echoes``) are left out.
    """
    return tuple(_remarks(tree, echoes, MAX_DEPTH))


def explain_empty(
    tree: object, results: Sequence[ResponsePath], *, usual: Collection[str], echoes: Collection[object] = ()
) -> str:
    """Return why a response has no results: the path whose list is missing, and the remarks not in ``usual``."""
    missing = [
        f"{field.path.text}: {'null' if found else 'missing'}"
        for field in results
        if field.path.single and (found := field.path.all(tree)) in ([], [None])
    ]
    other = [one for one in remarks(tree, echoes) if one not in usual]
    return redact(", ".join((*missing[:1], *other[:MAX_REMARKS])))


def warning(tree: object) -> str:
    """Return the warning that a response contains next to its hits, or "".

    A warning is a field named ``warning``, or a message that reports a failure.
    """
    nodes = [tree, *(tree.get(name) for name in ENVELOPE_KEYS)] if isinstance(tree, dict) else []
    for node in nodes:
        for name, value in node.items() if isinstance(node, dict) else ():
            if value and name in WARNINGS and isinstance(value, str | list | dict):
                return redact(f"{name}: {compact(value)[:MAX_CHARS]}")
            if name in MESSAGE_KEYS and isinstance(value, str) and reports_failure(value):
                return redact(f"{name}: {json.dumps(value[:MAX_CHARS], ensure_ascii=False)}")
    return ""


def _remarks(node: object, echoes: Collection[object], depth: int) -> list[str]:
    found: list[str] = []
    for name, value in node.items() if isinstance(node, dict) else ():
        if isinstance(value, dict) and depth:
            found += _remarks(value, echoes, depth - 1)
        elif isinstance(value, list) and value:
            found.append(f"{name}: [...]")
        elif isinstance(value, str | int) and value not in echoes and _is_notable(str(name), value):
            shown = value[:MAX_CHARS] if isinstance(value, str) else value
            found.append(f"{name}: {json.dumps(shown, ensure_ascii=False)}")
    return found


def _is_notable(name: str, value: str | int) -> bool:
    named = _OUTCOME_NAME.search(name) is not None
    if isinstance(value, bool):
        return value and named and not _GOOD_NAME.search(name)
    if isinstance(value, int):
        return named and value not in NO_ERROR
    if _GOOD_TEXT.fullmatch(value.strip()):
        return False
    return named or not value.isascii() or len(value.split()) > 1
