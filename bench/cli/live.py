"""The table of jobs that moves in place on a terminal: phase bars, running score, rates, cost.

What is the same for every job stands in the launch lines and takes no column; bars shrink with the terminal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bench.cli import console
from bench.cli.display import launch_text, stop_text, totals_text
from bench.engine.progress import JobProgress, Progress
from bench.model import Phase
from bench.visible import visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from bench.engine.outcome import Outcome
    from bench.engine.stopping import Stop

EVERY_S = 0.25
BAR_CELLS = 8
COLUMNS_FOR_BARS = 110
"""A narrower terminal shows the numbers of a phase without its bar."""
BARS = (Phase.INGEST, Phase.SEARCH, Phase.ANSWER)


class LiveDisplay:
    """A table of jobs that moves in place on stderr."""

    every_s = EVERY_S

    def __init__(self, *, color: bool) -> None:
        self._color = color
        self._progress: Progress | None = None
        self._live: Live | None = None

    def launched(self, progress: Progress) -> None:
        from rich.console import Console
        from rich.live import Live

        for text in launch_text(progress):
            console.note(text)
        self._progress = progress
        screen = Console(file=sys.stderr, no_color=not self._color, force_terminal=True)
        self._live = Live(self._picture(progress), console=screen, auto_refresh=False, transient=True)
        self._live.start()

    def stopping(self, reason: Stop, in_flight: int) -> None:
        self._say(stop_text(reason, in_flight))

    def finished(self, outcome: Outcome) -> None:
        self.tick()

    def tick(self) -> None:
        if self._live is None or self._progress is None:
            return
        while self._progress.events:
            self._say(self._progress.events.popleft())
        self._live.update(self._picture(self._progress), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(visible(text), markup=False, highlight=False)
        else:
            console.note(text)

    def _picture(self, progress: Progress) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        faint = "dim" if self._color else ""
        table = Table(box=None, pad_edge=False, header_style=faint)
        for name in (head := heading(progress)):
            table.add_column(name, no_wrap=name not in NAMES)
        cells = BAR_CELLS if console.width() >= COLUMNS_FOR_BARS else 0
        for job in progress.jobs.values():
            table.add_row(*(Text(text) for text in row(progress, job, head, cells)))
        return Group(table, Text(totals_text(progress), style=faint))


NAMES = ("benchmark", "provider", "answering")


def heading(progress: Progress) -> list[str]:
    """The columns of a run: only names in which its jobs differ, the provider always."""
    jobs = list(progress.jobs.values())
    same = {
        "benchmark": len({job.benchmark for job in jobs}) == 1,
        "answering": len({job.answering for job in jobs}) == 1,
    }
    return [*(name for name in NAMES if not same.get(name)), *map(str, BARS), str(Phase.EVALUATE), "score"]


def row(progress: Progress, job: JobProgress, head: list[str], cells: int) -> list[str]:
    """The cells of one job under ``head``."""
    lane = next(lane for key, lane in progress.lanes.items() if job.key.startswith(f"{key}|"))
    texts = {
        "benchmark": visible(job.benchmark),
        "provider": visible(job.provider),
        "answering": job.answering or "none",
        "score": job.stopped or score_text(job),
        str(Phase.EVALUATE): bar(job.ended, job.planned, cells),
    }
    for phase in BARS:
        count = lane.phases[phase]
        texts[str(phase)] = bar(count.done + count.failed, count.total, cells)
    return [texts[name] for name in head]


def score_text(job: JobProgress) -> str:
    """The running score with the interval that the final table would give to what is scored so far."""
    if job.score is None:
        return "-"
    from bench.stats import Sums, interval_of

    found = interval_of(Sums(job.scores.values(), clustered=job.clustered))
    bounds = f" [{found.low:.3f}, {found.high:.3f}]" if found is not None else ""
    return f"{job.score:.3f}{bounds} n={job.scored}"


def bar(done: int, total: int, cells: int = BAR_CELLS) -> str:
    """A bar of ``cells`` characters and its numbers; a phase that has nothing to do is a dash."""
    if total == 0:
        return "-"
    full = min(cells, cells * done // total)
    return f"{'█' * full}{'░' * (cells - full)} {done}/{total}".lstrip()
