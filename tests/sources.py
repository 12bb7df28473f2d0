"""The source code of the program as syntax trees, parsed once for all tests that inspect it.

Parsing takes over two seconds of each process that does it, so these tests are all in ``tests/packaging``.
"""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

import bench

PACKAGE = Path(bench.__file__).parent


@cache
def nodes() -> dict[Path, tuple[ast.AST, ...]]:
    """Return path -> all nodes of its tree, in the order of ``ast.walk``: ``nodes()[Path("bench/errors.py")][0]``.

    A million objects are created that stay, so the garbage collector looks neither at them now nor after later tests.
    """
    gc.disable()
    try:
        return {
            path.relative_to(PACKAGE.parent): tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            for path in sorted(PACKAGE.rglob("*.py"))
        }
    finally:
        gc.freeze()
        gc.enable()
