"""Report progress while large data is read. The command line sets ``progress_sink.to`` to a function that shows it.

Example::

    progress_sink.to = lambda progress: print(progress.text)
    for row in ReadingPass("reading", "mine", size, "MB").over(rows, position): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Literal, TypeVar

REPORT_EVERY_S = 0.5
"""minimum seconds between two reports"""
LARGE_DATA = 20_000_000
"""minimum size in bytes of data whose reading is reported; parsing so much data takes about one second"""

Part = TypeVar("Part")
Unit = Literal["MB", "rows", "corpora"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingProgress:
    """The progress of reading one dataset. At the end, ``done`` equals ``total``."""

    what: str
    done: int
    total: int
    unit: Unit
    seconds: float

    @property
    def text(self) -> str:
        """Return the progress as one line of text, without a line break at the end."""
        scale = 1_000_000 if self.unit == "MB" else 1
        left = self.seconds * (self.total - self.done) / max(self.done, 1)
        share = 100 * self.done // max(self.total, 1)
        return (
            f"{self.what}: {self.done // scale:,} of {self.total // scale:,} {self.unit}, {share}%, {left:,.0f} s left"
        )


@dataclass(slots=True)
class ProgressSink:
    """The holder of the function that receives progress reports. If ``to`` is None, nothing is reported."""

    to: Callable[[ReadingProgress], None] | None = None


progress_sink = ProgressSink()


@dataclass(frozen=True, slots=True)
class ReadingPass:
    """One complete reading of the data. ``total`` is in bytes for the unit MB, otherwise in rows or corpora."""

    what: str
    total: int
    unit: Unit

    def over(self, parts: Iterable[Part], position: Callable[[int, Part], int]) -> Iterator[Part]:
        """Yield all parts, and report the progress about every half second.

        ``position(number, part)`` returns how much data has been read when this part ends. ``number`` counts the parts
        from 1.
        """
        start = last_report = monotonic()
        reported = False
        for number, part in enumerate(parts, 1):
            yield part
            now = monotonic()
            if progress_sink.to is not None and now - last_report >= REPORT_EVERY_S:
                last_report, reported = now, True
                self._report(min(position(number, part), self.total), now - start)
        if reported:
            self._report(self.total, monotonic() - start)

    def _report(self, done: int, seconds: float) -> None:
        if progress_sink.to is not None:
            progress_sink.to(
                ReadingProgress(what=self.what, done=done, total=self.total, unit=self.unit, seconds=seconds)
            )
