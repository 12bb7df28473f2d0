"""Names that become files and folders, on whatever system they are copied to.

Example::

    portable("run.2")       # "run.2"
    portable("CON")         # ValueError; so are "nul.txt" and "end."
"""

from __future__ import annotations

import re

_TAKEN = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?|.*\.")


def portable(name: str) -> str:
    """Give the name back; ValueError when it is a device of Windows or ends with the dot that Windows drops."""
    if _TAKEN.fullmatch(name):
        raise ValueError(f'"{name}" cannot be a file name on every system: it is a device there, or ends with a dot')
    return name
