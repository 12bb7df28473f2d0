"""Names that become files and folders, on whatever system they are copied to.

Example::

    portable("run.2")       # "run.2"
    portable("CON")         # ValueError; so are "nul.txt" and "end."
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

_TAKEN = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?|.*\.")


def portable(name: str) -> str:
    """Give the name back; ValueError when it is a device of Windows or ends with the dot that Windows drops."""
    if _TAKEN.fullmatch(name):
        raise ValueError(f'"{name}" cannot be a file name on every system: it is a device there, or ends with a dot')
    return name


LOWER_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"


def _lower_name(value: str) -> str:
    if re.fullmatch(LOWER_NAME, value) is None:
        raise ValueError(f'"{value}" is no name: lower case letters, digits, ".", "_" and "-", at most 64')
    return portable(value)


LowerName = Annotated[str, AfterValidator(_lower_name), Field(json_schema_extra={"pattern": LOWER_NAME})]
"""how runs name a provider, or a model's endpoint"""
