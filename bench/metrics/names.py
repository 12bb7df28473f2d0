"""Spelling of metric names: one canonical form, the cut at K, near matches.

Example::

    canonical("nDCG@10")                  # "ndcg_at_10"
    split_cut("ndcg_at_10")               # ("ndcg", 10)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_CUT = re.compile(r"(?P<base>.+)_at_(?P<k>[0-9]{1,9}|k)")


def canonical(name: str) -> str:
    """Lower case, ``-`` to ``_``, ``@`` to ``_at_``."""
    return name.strip().lower().replace("-", "_").replace("@", "_at_")


def split_cut(name: str) -> tuple[str, int | str | None]:
    """The base and the K of a canonical name; K is ``"k"`` in the generic form and None without a cut."""
    found = _CUT.fullmatch(name)
    if found is None:
        return name, None
    k = found["k"]
    return found["base"], k if k == "k" else int(k)


def near(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that look like ``name``, best first."""
    return difflib.get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)


def or_list(names: Iterable[str]) -> str:
    """``"a"``, ``"b" or "c"`` for a hint."""
    quoted = [f'"{name}"' for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + f" or {quoted[-1]}" if quoted else ""
