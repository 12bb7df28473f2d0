"""Show the progress of a run as plain lines, as JSON events, or as a table that is redrawn on a terminal.

The table has one row per job, with a bar for each phase and the current score. On a narrow terminal, it has numbers
instead of bars.

Example::

    display = display_for(global_flags.current.get())
    async with follow(display):
        outcome = await execute(plan, settings, display)
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio

from bench.cli import console
from bench.cli.global_flags import Globals
from bench.engine.progress import JobProgress, Progress
from bench.errors import innermost_exception
from bench.model import Phase
from bench.visible_text import counted, money_text, visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from bench.engine.outcome import Outcome
    from bench.engine.stopping import Stop


PLAIN_EVERY_S = 10.0
SHOWN_WAIT_S = 2.0
"""shortest wait for an index that is shown, because most indexes are ready after a moment"""


def display_for(flags: Globals) -> Display:
    """Return the display that the global flags select.

    By default, it is a live table on a terminal, and plain lines elsewhere.
    """
    if flags.json or flags.display == "json":
        return JsonDisplay()
    if flags.display == "none" or flags.quiet:
        return Display()
    if flags.display == "live" or (flags.display == "auto" and console.is_terminal(sys.stderr)):
        return LiveDisplay(color=console.has_color(sys.stderr))
    return PlainDisplay()


@asynccontextmanager
async def follow(display: Display) -> AsyncIterator[None]:
    """Update the display while the ``with`` block runs, and close the display afterwards, also after an error."""
    try:
        async with ticking(display.every_s, display.tick):
            yield
    finally:
        display.close()


def launch_text(progress: Progress) -> list[str]:
    """Return the lines to print at the start of a run: run id, benchmarks, providers, models and start time."""
    jobs = list(progress.jobs.values())
    models = sorted({model for job in jobs for model in (job.answering, job.judge) if model and model != "none"})
    return [
        f"run        {progress.run_id}",
        f"benchmarks {', '.join(dict.fromkeys(job.benchmark for job in jobs))}",
        f"providers  {', '.join(dict.fromkeys(job.provider for job in jobs))}",
        f"models     {', '.join(models) or 'none'}",
        f"started    {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    ]


def stop_text(reason: Stop, in_flight: int) -> str:
    """Return the message to print when a stop is requested."""
    return (
        f"stopping ({reason}): waiting up to 8 s for {counted(in_flight, 'request(|s)')} in flight; "
        f"press Ctrl-C again to stop now"
    )


def seconds_text(seconds: float | None) -> str:
    """Format a number of seconds, for example ``3m 20s``; None becomes a dash."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {whole % 60:02d}s" if minutes else f"{whole}s"


def totals_text(progress: Progress) -> str:
    """Return one line with the totals of the run, such as ended items, cost and remaining time."""
    parts = [
        f"{progress.ended}/{counted(progress.planned, 'item(|s)')}{share_text(progress.ended, progress.planned)}",
        counted(progress.memories, "memor(y|ies) ingested"),
        f"{progress.rate_per_s:.1f} steps/s",
        counted(progress.in_flight, "request(|s) in flight"),
        f"slowest {seconds_text(progress.oldest_s)}",
        f"rate limited {counted(progress.rate_limited, 'time(|s)')}",
        f"cost {cost_text(progress)}",
        f"ETA {seconds_text(progress.eta_s)}",
    ]
    wait = progress.index_wait()
    return ", ".join([*parts, f"waiting {wait.text}"] if wait is not None and wait.waited_s >= SHOWN_WAIT_S else parts)


def share_text(part: int, whole: int) -> str:
    """Format a share, for example `` (40%)``. The percentage is rounded down, so that 100% means that all is done."""
    return f" ({100 * part // whole}%)" if whole else ""


def cost_text(progress: Progress) -> str:
    """Format the cost so far, with "at least" if the price of some calls is unknown."""
    text = f"USD {money_text(progress.cost_usd)}"
    return f"at least {text}" if progress.unknown_costs else text


class Display:
    """An observer of the engine that prints a message only if the run is stopped. The other displays extend it."""

    every_s = PLAIN_EVERY_S
    """seconds between two calls of ``tick``"""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def launched(self, progress: Progress) -> None:
        self._progress = progress

    def stopping(self, reason: Stop, in_flight: int) -> None:
        console.note(stop_text(reason, in_flight))

    def finished(self, outcome: Outcome) -> None:
        self.tick()

    def tick(self) -> None:
        """Show the progress of the run."""

    def close(self) -> None:
        """End the display; called after the run, also after an error."""


class PlainDisplay(Display):
    """Plain lines without escape codes: some lines at the start of the run, then one line every ten seconds."""

    def launched(self, progress: Progress) -> None:
        super().launched(progress)
        for text in launch_text(progress):
            console.note(text)

    def tick(self) -> None:
        if self._progress is not None:
            while self._progress.events:
                console.note(self._progress.events.popleft())
            console.note(totals_text(self._progress))


class JsonDisplay(Display):
    """Events on stdout, as one JSON object per line: launch, progress and stopping.

    The command itself prints the event ``done``.
    """

    def launched(self, progress: Progress) -> None:
        super().launched(progress)
        jobs = [
            {
                "benchmark": job.benchmark,
                "provider": job.provider,
                "answering": job.answering,
                "judge": job.judge,
                "n_planned": job.planned,
            }
            for job in progress.jobs.values()
        ]
        started = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        console.json_line({"event": "launch", "run_id": progress.run_id, "started_at": started, "jobs": jobs})

    def stopping(self, reason: Stop, in_flight: int) -> None:
        console.json_line({"event": "stopping", "reason": str(reason), "in_flight": in_flight})
        super().stopping(reason, in_flight)

    def tick(self) -> None:
        progress = self._progress
        if progress is None:
            return
        progress.events.clear()
        wait = progress.index_wait()
        console.json_line(
            {
                "event": "progress",
                "run_id": progress.run_id,
                "planned": progress.planned,
                "ended": progress.ended,
                "in_flight": progress.in_flight,
                "oldest_request_s": progress.oldest_s,
                "rate_per_s": progress.rate_per_s,
                "rate_limited": progress.rate_limited,
                "cost_usd": str(progress.cost_usd),
                "cost_unknown_calls": progress.unknown_costs,
                "eta_s": progress.eta_s,
                "elapsed_s": progress.elapsed_s,
                "index_wait": wait.to_json() if wait else None,
            }
        )


EVERY_S = 0.25
BAR_CELLS = 8
COLUMNS_FOR_BARS = 110
"""minimum width of a terminal in columns for bars of phases; a narrower terminal shows only numbers"""
BARS = (Phase.INGEST, Phase.SEARCH, Phase.ANSWER)


class LiveDisplay(Display):
    """A table of jobs on stderr that is redrawn in place."""

    every_s = EVERY_S

    def __init__(self, *, color: bool) -> None:
        super().__init__()
        self._color = color
        self._live: Live | None = None

    def launched(self, progress: Progress) -> None:
        from rich.console import Console
        from rich.live import Live

        for text in launch_text(progress):
            console.note(text)
        super().launched(progress)
        screen = Console(file=sys.stderr, no_color=not self._color, force_terminal=True)
        self._live = Live(self._picture(progress), console=screen, auto_refresh=False, transient=True)
        self._live.start()

    def stopping(self, reason: Stop, in_flight: int) -> None:
        self._show_line(stop_text(reason, in_flight))

    def tick(self) -> None:
        if self._live is None or self._progress is None:
            return
        while self._progress.events:
            self._show_line(self._progress.events.popleft())
        self._live.update(self._picture(self._progress), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show_line(self, text: str) -> None:
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
        for name in (head := column_names(progress)):
            table.add_column(name, no_wrap=name not in NAMES)
        cells = BAR_CELLS if console.width() >= COLUMNS_FOR_BARS else 0
        for job in progress.jobs.values():
            table.add_row(*(Text(text) for text in job_cells(progress, job, head, cells)))
        return Group(table, Text(totals_text(progress), style=faint))


NAMES = ("benchmark", "provider", "answering")


def column_names(progress: Progress) -> list[str]:
    """Return the names of the columns; a benchmark or model that all jobs share gets no column."""
    jobs = list(progress.jobs.values())
    same = {
        "benchmark": len({job.benchmark for job in jobs}) == 1,
        "answering": len({job.answering for job in jobs}) == 1,
    }
    return [*(name for name in NAMES if not same.get(name)), *map(str, BARS), str(Phase.EVALUATE), "score"]


def job_cells(progress: Progress, job: JobProgress, head: list[str], cells: int) -> list[str]:
    """Return the cells of a job for the columns in ``head``; ``cells`` is the width of a bar, 0 for no bar."""
    lane = next(lane for key, lane in progress.lanes.items() if job.key.startswith(f"{key}|"))
    texts = {
        "benchmark": visible(job.benchmark),
        "provider": visible(job.provider),
        "answering": job.answering or "none",
        "score": job.stopped or score_text(job),
        str(Phase.EVALUATE): bar_text(job.ended, job.planned, cells),
    }
    for phase in BARS:
        count = lane.phases[phase]
        texts[str(phase)] = bar_text(count.done + count.failed, count.total, cells)
    if cells and lane.memories and lane.phases[Phase.INGEST].total:
        texts[str(Phase.INGEST)] += f" ({counted(lane.memories, 'memor(y|ies)')})"
    if job.earlier and job.ended >= job.planned and all(texts[str(phase)] == "-" for phase in BARS):
        texts |= dict.fromkeys(map(str, BARS), "done")
    return [texts[name] for name in head]


def score_text(job: JobProgress) -> str:
    """Format the score of a job so far, with its interval over the items that have been scored."""
    if job.score is None:
        return "-"
    from bench.stats import RunningSums, interval_of

    found = interval_of(RunningSums(job.scores.values(), clustered=job.clustered))
    bounds = f" [{found.low:.3f}, {found.high:.3f}]" if found is not None else ""
    return f"{job.score:.3f}{bounds} n={job.scored}"


def bar_text(done: int, total: int, cells: int = BAR_CELLS) -> str:
    """Format a bar of ``cells`` characters with its numbers. A phase without work (``total`` 0) becomes a dash."""
    if total == 0:
        return "-"
    full = min(cells, cells * done // total)
    return f"{'█' * full}{'░' * (cells - full)} {done}/{total}".lstrip()


@asynccontextmanager
async def ticking(every_s: float, tick: Callable[[], None]) -> AsyncIterator[None]:
    """Call ``tick`` every ``every_s`` seconds while the ``with`` block runs.

    An exception that the block raises is not wrapped in an exception group.
    """

    async def tick_forever() -> None:
        while True:
            await anyio.sleep(every_s)
            tick()

    try:
        async with anyio.create_task_group() as ticker:
            ticker.start_soon(tick_forever)
            yield
            ticker.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise innermost_exception(group) from group
