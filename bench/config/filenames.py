"""Names that become files and folders, on whatever system they are copied to, and run ids, which become both.

Example::

    portable("run.2")            # "run.2"
    portable("CON")              # ValueError; so are "nul.txt" and "end."
    check_run_id("nightly")      # "nightly"
    check_run_id("published")    # ValueError: the public log is results/published
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""one part of a path that leads nowhere else"""
_TAKEN = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?|.*\.")
_RESERVED = re.compile(
    r"(?i:published|readme\.md|results\.sqlite.*|journal\.sqlite.*|shards|pause"
    r"|receipts|run\.log.*|report\.(?:json|md)|items\.jsonl)"
)
"""what bench itself keeps in the folders that hold a run's folder, or looks for in the folder above a copied journal"""


def portable(name: str) -> str:
    """Give the name back; ValueError when it is a device of Windows or ends with the dot that Windows drops."""
    if _TAKEN.fullmatch(name):
        raise ValueError(f'"{name}" cannot be a file name on every system: it is a device there, or ends with a dot')
    return name


def check_run_id(text: str) -> str:
    """Return the run id; raise ValueError when it cannot name a new run in any letter case."""
    if not SEGMENT.fullmatch(text):
        raise ValueError("a run id is 1 to 100 of A-Z a-z 0-9 . _ - and begins with no dot")
    return unreserved(portable(text))


def unreserved(name: str) -> str:
    """Return the name of a run's folder; raise ValueError when bench keeps something of its own under it."""
    if _RESERVED.fullmatch(name):
        raise ValueError(f'"{name}" is reserved: bench keeps files of its own under this name; choose another run id')
    return name


LOWER_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"


def _lower_name(value: str) -> str:
    if re.fullmatch(LOWER_NAME, value) is None:
        raise ValueError(f'"{value}" is no name: lower case letters, digits, ".", "_" and "-", at most 64')
    return portable(value)


LowerName = Annotated[str, AfterValidator(_lower_name), Field(json_schema_extra={"pattern": LOWER_NAME})]
"""how runs name a provider, or a model's endpoint"""
