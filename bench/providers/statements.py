"""Read named SQL statements from a ``.sql`` file next to a module.

Example::

    SQL = statements(__file__, "namespace_file.sql")
    SQL["count"]                                # "SELECT count(*) FROM memories"

A statement begins with ``-- name: NAME`` and ends before the next such line.
"""

from __future__ import annotations

import re
from pathlib import Path


def statements(module_file: str, name: str) -> dict[str, str]:
    """Return the SQL statements in the file ``name``, which is in the folder of ``module_file``, by their names."""
    text = (Path(module_file).parent / name).read_text(encoding="utf-8")
    blocks = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {key: body.strip().rstrip(";") for key, body in zip(blocks[1::2], blocks[2::2], strict=True)}
