"""How a run that goes on is told: plain lines, JSON events, or the table of :mod:`bench.cli.live`. All only poll.

``display_for(flags)`` chooses one; :func:`follow` drives it while the engine works::

    display = display_for(global_flags.current.get())
    async with follow(display):
        outcome = await execute(plan, settings, display)
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from bench.cli import console
from bench.cli.global_flags import Globals
from bench.cli.ticking import ticking
from bench.engine.progress import Progress

if TYPE_CHECKING:
    from bench.engine.outcome import Outcome
    from bench.engine.stopping import Stop

PLAIN_EVERY_S = 10.0


class Display(Protocol):
    """An observer of the engine that is also ticked while the run goes on."""

    every_s: float

    def launched(self, progress: Progress) -> None: ...

    def stopping(self, reason: Stop, in_flight: int) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...

    def tick(self) -> None: ...

    def close(self) -> None: ...


def display_for(flags: Globals) -> Display:
    """Live on a terminal, plain lines elsewhere, JSON events with ``--json``, nothing with ``none``."""
    if flags.json or flags.display == "json":
        return JsonDisplay()
    if flags.display == "none" or flags.quiet:
        return QuietDisplay()
    if flags.display == "live" or (flags.display == "auto" and console.is_terminal(sys.stderr)):
        from bench.cli.live import LiveDisplay

        return LiveDisplay(color=console.has_color(sys.stderr))
    return PlainDisplay()


@asynccontextmanager
async def follow(display: Display) -> AsyncIterator[None]:
    """Tick the display while the block runs; close it afterwards, also on an error."""
    try:
        async with ticking(display.every_s, display.tick):
            yield
    finally:
        display.close()


def launch_text(progress: Progress) -> list[str]:
    """Run id, benchmarks, providers, models and start, a line each."""
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
    """The message that must be seen within 200 ms of a signal."""
    return f"stopping ({reason}): {in_flight} requests in flight get 8 s; once more to stop now"


def seconds_text(seconds: float | None) -> str:
    """``3m 20s``; an unknown time is a dash."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {whole % 60:02d}s" if minutes else f"{whole}s"


def totals_text(progress: Progress) -> str:
    """One line on the whole run."""
    parts = [
        f"{progress.ended}/{progress.planned} items",
        f"{progress.rate_per_s:.1f} phases/s",
        f"in flight {progress.in_flight}",
        f"oldest {seconds_text(progress.oldest_s)}",
        f"429s {progress.rate_limited}",
        f"cost {cost_text(progress)}",
        f"ETA {seconds_text(progress.eta_s)}",
    ]
    return ", ".join(parts)


def cost_text(progress: Progress) -> str:
    """Money so far; "at least" while some calls have no known price."""
    text = f"USD {progress.cost_usd:.4f}"
    return f"at least {text}" if progress.unknown_costs else text


class QuietDisplay:
    """Says nothing but that the run stops."""

    every_s = PLAIN_EVERY_S

    def launched(self, progress: Progress) -> None: ...

    def stopping(self, reason: Stop, in_flight: int) -> None:
        console.note(stop_text(reason, in_flight))

    def finished(self, outcome: Outcome) -> None: ...

    def tick(self) -> None: ...

    def close(self) -> None: ...


class PlainDisplay:
    """A line at launch, one at least every ten seconds, no escape codes."""

    every_s = PLAIN_EVERY_S

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def launched(self, progress: Progress) -> None:
        self._progress = progress
        for text in launch_text(progress):
            console.note(text)

    def stopping(self, reason: Stop, in_flight: int) -> None:
        console.note(stop_text(reason, in_flight))

    def finished(self, outcome: Outcome) -> None:
        self.tick()

    def tick(self) -> None:
        if self._progress is not None:
            while self._progress.events:
                console.note(self._progress.events.popleft())
            console.note(totals_text(self._progress))

    def close(self) -> None: ...


class JsonDisplay:
    """One JSON object a line on stdout: launch, progress, stopping. The command itself prints ``done``."""

    every_s = PLAIN_EVERY_S

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def launched(self, progress: Progress) -> None:
        self._progress = progress
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
        console.note(stop_text(reason, in_flight))

    def finished(self, outcome: Outcome) -> None:
        self.tick()

    def tick(self) -> None:
        progress = self._progress
        if progress is None:
            return
        progress.events.clear()
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
            }
        )

    def close(self) -> None: ...
