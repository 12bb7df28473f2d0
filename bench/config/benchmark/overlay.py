"""Read overlay files, which list disputed gold answers: ``overlays/NAME.yaml`` next to the benchmark config.

Example::

    benchmark: codes
    dataset_sha256: 3f0c...
    source: our own audit
    items: [{id: c2, kind: wrong_answer, note: the text says 7, corrected_answer: 7}]

:mod:`bench.plan.benchmark` checks that an overlay fits the dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import BeforeValidator, Field

from bench.config.file import ConfigModel, Source, load
from bench.errors import ConfigError


def _text(value: object) -> object:
    """Convert an id or answer that is a number to text; return any other value unchanged."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Text = Annotated[str, BeforeValidator(_text)]
NonEmptyText = Annotated[str, Field(min_length=1), BeforeValidator(_text)]


class DoubtedItem(ConfigModel):
    """One item with a disputed gold answer."""

    id: NonEmptyText
    """id of the item"""
    kind: NonEmptyText
    """kind of doubt in one word, such as wrong_answer, ambiguous or typo"""
    note: Text | None = None
    """reason for the doubt"""
    corrected_answer: Text | None = None
    """corrected gold answer"""


class OverlayFile(ConfigModel):
    """The whole overlay file."""

    benchmark: str | None = None
    """name of the benchmark"""
    dataset_sha256: Text
    """SHA-256 of the data, as bench describe shows it; for several files, one value covers all files"""
    source: str | None = None
    """author of the list"""
    items: tuple[DoubtedItem, ...]
    """the disputed items, without repeats"""


def read_overlay(source: Source) -> OverlayFile:
    """Read an overlay file.

    Raises:
        ConfigError: the file has problems; the error lists all of them with line and column.
    """
    file = load(source, OverlayFile)
    problems = list(_repeated_items(source, file))
    if problems:
        raise ConfigError.of(problems)
    return file


def _repeated_items(source: Source, file: OverlayFile) -> Iterator[ConfigError]:
    met: set[str] = set()
    for index, item in enumerate(file.items):
        if item.id in met:
            where = source.place(("items", index, "id"))
            yield ConfigError(f'item "{item.id}" is listed twice', where=where, hint="keep one of the two entries")
        met.add(item.id)
