"""What must be equal for two runs to measure the same thing: a tree, its digest, and a readable difference.

Example::

    digest(tree)                         # "9f2c..." over the canonical JSON of the tree
    changes(old, new)                    # [("settings.k", "10", "20")]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from bench import canonical

ABSENT = "(absent)"
SHOWN = 120


def digest(identity: Mapping[str, object]) -> str:
    """Hash the canonical JSON of an identity tree."""
    return sha256(canonical.dumps(identity)).hexdigest()


def changes(old: object, new: object, path: str = "") -> list[tuple[str, str, str]]:
    """List every leaf in which two trees differ as (path, old, new), in the order of the paths."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = sorted({*old, *new})
        return [
            change
            for name in names
            for change in changes(old.get(name, _GONE), new.get(name, _GONE), f"{path}.{name}" if path else str(name))
        ]
    if _is_list(old) and _is_list(new) and len(old) == len(new):  # type: ignore[arg-type]
        pairs = enumerate(zip(old, new, strict=True))  # type: ignore[call-overload]
        return [change for at, (one, other) in pairs for change in changes(one, other, f"{path}[{at}]")]
    return [] if old == new else [(path, _shown(old), _shown(new))]


class _Gone:
    """A key that one side does not have."""


_GONE = _Gone()


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown(value: object) -> str:
    if isinstance(value, _Gone):
        return ABSENT
    text = value if isinstance(value, str) else canonical.dumps(value).decode()
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
