"""The SQL statements of the journal, by name. They come from the ``.sql`` files in the folder of this module::

READ = blocks("read")
await connection.execute(READ["finished"], (owner, phase))
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def blocks(file: str) -> dict[str, str]:
    """Return the statements of ``file.sql`` as a mapping from name to SQL text."""
    text = (files(__name__) / f"{file}.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
