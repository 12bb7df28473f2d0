"""Displays of a running run: at launch, in progress, while it stops, and as JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as some

from bench import stats
from bench.cli import run_display as display
from bench.cli import run_display as live
from bench.cli.commands.schema import schema_of
from bench.cli.global_flags import Globals, current
from bench.cli.run_display import (
    Display,
    JsonDisplay,
    LiveDisplay,
    PlainDisplay,
    bar_text,
    column_names,
    display_for,
    follow,
    job_cells,
    score_text,
    seconds_text,
    totals_text,
)
from bench.engine.progress import Count, JobProgress, LaneProgress, Progress
from bench.engine.stopping import Stop
from bench.model import Phase, State
from tests.rows import each_row

Capture = pytest.CaptureFixture[str]
FLAGS = Globals()


class Clock:
    """A clock that changes only when a test sets it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def progress(*jobs: JobProgress, clock: Clock | None = None) -> Progress:
    """Return the progress of some jobs; each lane has ten searches, three done and one failed."""
    found = Progress(clock=clock or Clock())
    found.run_id = "r"
    for job in jobs:
        lane = job.key.partition("|")[0]
        found.lanes[lane] = LaneProgress(lane)
        found.lanes[lane].phases[Phase.SEARCH] = Count(total=10, done=3, failed=1)
        found.jobs[job.key] = job
    return found


def job(provider: str = "bm25", *, benchmark: str = "demo", answering: str | None = "m", **more: Any) -> JobProgress:
    key = f"{benchmark}/{provider}|{answering or 'none'}|none"
    named: dict[str, Any] = {"judge": None, "planned": 10, **more}
    return JobProgress(key, benchmark, provider, answering, **named)


@pytest.fixture(autouse=True)
def flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("CI", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    token = current.set(FLAGS)
    yield
    current.reset(token)


# ------------------------------------------------------------------------- which


@pytest.mark.parametrize(
    ("changes", "terminal", "expected"),
    [
        ({}, False, PlainDisplay),
        ({}, True, LiveDisplay),
        ({"display": "plain"}, True, PlainDisplay),
        ({"display": "live"}, False, LiveDisplay),
        ({"display": "none"}, True, Display),
        ({"display": "json"}, True, JsonDisplay),
        ({"json": True}, True, JsonDisplay),
        ({"json": True, "display": "none"}, True, JsonDisplay),
        ({"json": True, "quiet": True}, False, JsonDisplay),
        ({"quiet": True}, True, Display),
        ({"quiet": True, "display": "live"}, True, Display),
    ],
)
def test_the_display_follows_the_flags_and_otherwise_the_kind_of_stream(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], terminal: bool, expected: type[object]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert type(display_for(replace(FLAGS, **changes))) is expected


# ------------------------------------------------------------------------- texts


@each_row(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0s"),
        (0.99, "0s"),
        (59.9, "59s"),
        (60, "1m 00s"),
        (200, "3m 20s"),
        (3599, "59m 59s"),
        (3600, "1h 00m"),
        (93_784, "26h 03m"),
    ],
)
def test_seconds_text_uses_hours_minutes_and_seconds(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@given(some.floats(0, 10**7))
def test_seconds_text_has_at_most_two_parts_and_none_reaches_sixty(seconds: float) -> None:
    parts = seconds_text(seconds).split()
    assert 1 <= len(parts) <= 2
    assert all(int(part[:-1]) < 60 for part in parts if part[-1] in "ms")


def test_the_launch_text_lists_run_benchmarks_providers_models_and_start() -> None:
    found = progress(
        job("bm25", answering="acme/a", judge="acme/j"), job("x", answering=None), job("bm25", benchmark="other")
    )
    *lines, started = display.launch_text(found)
    assert lines == [
        "run        r",
        "benchmarks demo, other",
        "providers  bm25, x",
        "models     acme/a, acme/j, m",
    ]
    assert started.startswith("started    20") and started.endswith("Z")


def test_the_launch_text_of_a_run_without_models_shows_none() -> None:
    assert "models     none" in display.launch_text(progress(job(answering=None)))


@each_row("reason", list(Stop))
def test_the_stop_text_shows_reason_requests_in_flight_and_timeout(reason: Stop) -> None:
    text = display.stop_text(reason, 3)
    assert text == (
        f"stopping ({reason.value}): waiting up to 8 s for 3 requests in flight; press Ctrl-C again to stop now"
    )


def test_the_totals_text_is_one_line_with_progress_cost_and_eta() -> None:
    clock = Clock()
    found = progress(job(), clock=clock)
    found.jobs["demo/bm25|m|none"].states[State.CORRECT] = 4
    found.cost_usd, found.rate_limited = Decimal("1.23456"), 7
    clock.now += 20
    assert totals_text(found) == (
        "4/10 items (40%), 0 memories ingested, 0.0 steps/s, 0 requests in flight, slowest -, rate limited 7 times, "
        "cost USD 1.23456, ETA 30s"
    )
    found.unknown_costs = 1
    assert "cost at least USD 1.23456" in totals_text(found)


# --------------------------------------------------------------------- three of them


def test_the_quiet_display_prints_only_the_stop_text(capsys: Capture) -> None:
    quiet = Display()
    quiet.launched(progress(job()))
    quiet.tick()
    quiet.stopping(Stop.SIGINT, 1)
    quiet.close()
    assert capsys.readouterr() == ("", display.stop_text(Stop.SIGINT, 1) + "\n")


def test_the_plain_display_prints_events_and_then_totals(capsys: Capture) -> None:
    plain, found = PlainDisplay(), progress(job())
    plain.tick()
    assert capsys.readouterr().err == "", "no output before the launch"
    plain.launched(found)
    assert capsys.readouterr().err.splitlines()[0] == "run        r"
    found.events.extend(["corpus c: cleared", "lane stopped \x1b[31m"])
    plain.tick()
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", ["corpus c: cleared", "lane stopped \\x1b[31m", totals_text(found)])
    plain.stopping(Stop.PAUSED, 2)
    plain.close()
    assert capsys.readouterr().err == display.stop_text(Stop.PAUSED, 2) + "\n"


def test_the_json_display_prints_one_line_per_event_that_matches_the_schema(capsys: Capture) -> None:
    from jsonschema import validate  # type: ignore[import-untyped]

    json_display, found = JsonDisplay(), progress(job(judge="j"), job("x", answering=None))
    json_display.tick()
    assert capsys.readouterr().out == ""
    json_display.launched(found)
    found.events.append("for people")
    json_display.tick()
    json_display.stopping(Stop.MAX_COST, 2)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["launch", "progress", "stopping"]
    for line in lines:
        validate(line, schema_of("event"))
    launch, now, stopping = lines
    assert [one["answering"] for one in launch["jobs"]] == ["m", None]
    assert launch["jobs"][0] == {
        "benchmark": "demo", "provider": "bm25", "answering": "m", "judge": "j", "n_planned": 10,
    }  # fmt: skip
    assert (now["planned"], now["ended"], now["oldest_request_s"], now["eta_s"]) == (20, 0, None, None)
    assert stopping == {"event": "stopping", "reason": "max_cost", "in_flight": 2}
    assert not found.events


def test_the_json_display_prints_the_stop_text_to_stderr(capsys: Capture) -> None:
    JsonDisplay().stopping(Stop.SIGTERM, 0)
    assert capsys.readouterr().err == display.stop_text(Stop.SIGTERM, 0) + "\n"


# ------------------------------------------------------------------------- follow


class Counting(Display):
    every_s = 0.001

    def __init__(self) -> None:
        self.ticks, self.closed = 0, 0

    def tick(self) -> None:
        self.ticks += 1

    def close(self) -> None:
        self.closed += 1


async def test_follow_ticks_the_display_while_the_block_runs_and_closes_it_once() -> None:
    counting = Counting()
    async with follow(counting):
        while counting.ticks < 2:
            await anyio.sleep(0.001)
        assert counting.closed == 0
    assert counting.closed == 1


async def test_an_exception_in_the_block_of_follow_is_raised_unchanged_and_closes_the_display() -> None:
    counting = Counting()
    with pytest.raises(ZeroDivisionError):
        async with follow(counting):
            raise ZeroDivisionError
    assert counting.closed == 1


async def test_an_exception_in_the_display_ends_the_block_of_follow() -> None:
    class Broken(Counting):
        def tick(self) -> None:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        async with follow(Broken()):
            await anyio.sleep(5)


# ------------------------------------------------------------------- the live table


@each_row(
    ("jobs", "names"),
    [
        ([job("a")], ["provider"]),
        ([job("a"), job("b")], ["provider"]),
        ([job("a"), job("a", benchmark="other")], ["benchmark", "provider"]),
        ([job("a"), job("a", answering="n")], ["provider", "answering"]),
        ([job("a"), job("b", benchmark="o", answering=None)], ["benchmark", "provider", "answering"]),
    ],
)
def test_a_name_that_all_jobs_share_has_no_column(jobs: list[JobProgress], names: list[str]) -> None:
    assert column_names(progress(*jobs)) == [*names, "ingest", "search", "answer", "evaluate", "score"]


def test_a_row_shows_the_counts_of_its_own_lane_if_names_share_a_prefix() -> None:
    plain, variant = job("bm25"), job("bm25@wide")
    found = progress(plain, variant)
    found.lanes["demo/bm25@wide"].phases[Phase.SEARCH] = Count(total=99, done=99)
    head = ["provider", "search"]
    assert job_cells(found, plain, head, 0) == ["bm25", "4/10"]
    assert job_cells(found, variant, head, 0) == ["bm25@wide", "99/99"]


def test_a_row_escapes_names_and_shows_why_a_job_stopped() -> None:
    one = job("\x1b[31mp", answering=None, stopped="401: the key is refused")
    found = progress(one)
    assert job_cells(found, one, ["benchmark", "provider", "answering", "score"], 0) == [
        "demo", "\\x1b[31mp", "none", "401: the key is refused",
    ]  # fmt: skip


@each_row(
    ("values", "text"),
    [
        ({}, "-"),
        ({"c1": [1, 1, 1, 0]}, "0.750 [0.301, 0.954] n=4"),
        ({"c1": [0, 0]}, "0.000 [0.000, 0.658] n=2"),
        ({"c1": [1, 1, 0, 1], "c2": [0, 0, 1, 0], "c3": [1, 0, 1, 1]}, "0.583 [0.000, 1.000] n=12"),
        ({"c1": [0.5, 0.25, 0.75]}, "0.500 [0.000, 1.000] n=3"),
    ],
)
def test_the_running_score_shows_the_interval_of_the_final_table_and_n(
    values: dict[str, list[float]], text: str
) -> None:
    scores = {corpus: (len(own), sum(own), sum(one * one for one in own)) for corpus, own in values.items()}
    assert score_text(job(scores=scores, clustered=True)) == text
    if values:
        every = [one for own in values.values() for one in own]
        clusters = [corpus for corpus, own in values.items() for _ in own]
        found = stats.interval_of(stats.Tally.of(every, clusters))
        assert found is not None and f"[{found.low:.3f}, {found.high:.3f}]" in text


@given(done=some.integers(0, 300), total=some.integers(1, 200), cells=some.integers(0, 12))
def test_a_bar_has_its_number_of_cells_and_fills_from_the_left(done: int, total: int, cells: int) -> None:
    text = bar_text(done, total, cells)
    drawn, _, numbers = text.rpartition(" ")
    assert numbers == f"{done}/{total}"
    assert len(drawn) == cells
    assert drawn == "█" * drawn.count("█") + "░" * drawn.count("░")
    assert (drawn.count("█") == cells) is (done >= total or cells == 0)


def test_the_live_display_draws_the_table_events_and_stop_text(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    found, shown = progress(job("bm25"), job("x")), LiveDisplay(color=False)
    shown.tick()
    shown.stopping(Stop.SIGINT, 0)
    assert capsys.readouterr().err == display.stop_text(Stop.SIGINT, 0) + "\n", "before the launch: a plain line"
    shown.launched(found)
    found.events.append("corpus [c]: \x1b[31mcleared")
    found.jobs["demo/x|m|none"].stopped = "refused"
    shown.finished(None)  # type: ignore[arg-type]  # it only ticks
    shown.stopping(Stop.SIGINT, 5)
    shown.close()
    shown.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert "providers  bm25, x" in err
    assert "███░░░░░ 4/10" in err
    assert "refused" in err and "0/20 items" in err
    assert "corpus [c]: \\x1b[31mcleared" in err
    assert "waiting up to 8 s for 5 requests in flight" in err


@pytest.mark.parametrize(("columns", "bars"), [("109", False), ("110", True)])
def test_bars_are_drawn_from_110_columns(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: str, bars: bool
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = LiveDisplay(color=True)
    shown.launched(progress(job()))
    shown.close()
    assert ("░" in capsys.readouterr().err) is bars
    assert live.COLUMNS_FOR_BARS == 110
