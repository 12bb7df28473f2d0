"""Reading the loosely typed JSON of a journal: what is not of the wanted type counts as not there.

tree(meta.extra.get("operation")).get("concurrency")
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

UNKNOWN = "unknown"
NO_DIGEST = "0" * 64


def tree(value: object) -> Mapping[str, object]:
    """An object, else an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def integer(value: object) -> int:
    """A whole number, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def text_or_none(value: object) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value else None


def commit_or_none(value: object) -> str | None:
    """A whole commit hash; what an image build may declare instead, a short one or a branch, names no commit."""
    return value if isinstance(value, str) and re.fullmatch("[0-9a-f]{40}", value) else None
