"""Import nltk without scipy, which nltk loads for statistics that bench does not call, in two seconds of CPU time.

Users have no scipy, unless something else of theirs needs it. Tests that need it import it as usual.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class WithoutScipy(MetaPathFinder):
    """Hide scipy from nltk while nltk is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = getattr(sys.modules.get("nltk"), "__spec__", None)
        if fullname == "scipy" and getattr(spec, "_initializing", False):
            raise ModuleNotFoundError("nltk is imported without scipy", name=fullname)
        return None


def register() -> None:
    """Let every import of nltk in this process begin without scipy."""
    sys.meta_path.insert(0, WithoutScipy())
