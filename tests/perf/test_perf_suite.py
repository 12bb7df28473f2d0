"""The measuring tools: counters of the stub, medians, goals, and measured runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest
from figures import Figure, Skipped, child, interleaved, medians, table
from journal_scale import bare, fill, report, scan
from scale_check import Case, measure, predict
from stub import stats, stub
from usage import used_by
from workspace import CALLS_AN_ITEM, write

PERF = Path(__file__).resolve().parents[2] / "perf"


def post(url: str, body: bytes = b"{}") -> int:
    request = urllib.request.Request(url, data=body, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


@pytest.mark.usefixtures("forked_children")
def test_the_stub_counts_calls_and_the_maximum_in_flight() -> None:
    with stub(latency_ms=200) as url, ThreadPoolExecutor(5) as workers:
        assert list(workers.map(post, [f"{url}/search"] * 5)) == [200] * 5
        seen = stats(url, forget=True)
        assert (seen["calls"], seen["max_in_flight"]) == (5, 5)
        assert stats(url)["calls"] == 0


@pytest.mark.usefixtures("forked_children")
def test_the_stub_counts_retries_before_retry_after() -> None:
    with stub(faults=1.0) as url:
        refused = next(body for number in range(50) if post(url, body := str(number).encode()) == 429)
        post(url, refused)
        assert stats(url)["early"] == 1


@pytest.mark.usefixtures("forked_children")
def test_the_stub_repeats_the_same_faults() -> None:
    answers = []
    for _ in range(2):
        with stub(faults=0.3) as url:
            answers.append([post(url, str(number).encode()) for number in range(40)])
    assert answers[0] == answers[1]
    assert {0, 200, 429, 503} == set(answers[0])


def test_interleaved_alternates_and_returns_both_medians() -> None:
    order: list[str] = []
    floors, ours = iter([3.0, 1.0, 2.0]), iter([5.0, 40.0, 6.0])

    def take(name: str, source: object) -> float:
        order.append(name)
        return float(next(source))  # type: ignore[call-overload]

    assert interleaved(3, lambda: take("floor", floors), lambda: take("ours", ours)) == (2.0, 6.0)
    assert order == ["floor", "ours"] * 3


def test_a_skipped_measure_is_in_the_table_with_its_reason() -> None:
    text = table(
        [Figure(id="P6", what="scan", value=0.3, goal="<= 0.5 s", ok=True), Skipped(id="P5", why="needs root")]
    )
    assert "SKIPPED: needs root" in text
    assert "ok" in text


@pytest.mark.usefixtures("forked_children")
def test_markdown_of_several_runs_shows_median_spread_and_goal(tmp_path: Path) -> None:
    for name, wall, calls in (("a", 1.01, 1500), ("b", 1.09, 1700), ("c", 1.03, None)):
        figures = [asdict(Figure(id="P1", what="wall", value=wall, goal="<= 1.04", ok=wall <= 1.04))]
        figures.append(asdict(Skipped(id="P5", why="needs root")))
        if calls is not None:
            figures.append(asdict(Figure(id="P1", what="calls", value=calls, goal=">= 1650 x", ok=calls >= 1650)))
        run = {"machine": {"cores": 2, "load": wall}, "figures": figures}
        (tmp_path / f"{name}.json").write_text(json.dumps(run), encoding="utf-8")
    files = [str(tmp_path / f"{name}.json") for name in "abc"]
    command = [sys.executable, str(PERF / "run.py"), "--markdown", "--from", *files]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert text.splitlines() == [
        "| id | what | median | min to max | goal | |",
        "|---|---|---|---|---|---|",
        "| P1 | wall | 1.03 | 1.01 to 1.09 | <= 1.04 | met |",
        "| P1 | calls | 1,600 | 1,500 to 1,700 (2 of 3 runs) | >= 1650 x | **missed** |",
        "| P5 | skipped: needs root | | | | |",
        "",
        "Taken on: cores 2, load 1.01 / 1.09 / 1.03.",
    ]


def test_a_figure_that_one_run_could_not_judge_has_no_verdict() -> None:
    runs = [[asdict(Figure(id="P1", what="wall", value=1.0, goal="<= 1.04", ok=ok))] for ok in (True, None)]
    assert [one.ok for one in medians(runs) if isinstance(one, Figure)] == [None]


@pytest.mark.usefixtures("forked_children")
def test_an_unknown_measure_is_rejected() -> None:
    command = [sys.executable, str(PERF / "run.py"), "--only", "P99"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "P99" in found.stderr


async def test_a_filled_journal_is_scanned_and_folded_completely(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    await fill(folder, 400)
    assert (await scan(folder))["found"] == 400
    assert (await report(folder))["items"] == 200
    assert bare(folder)["items"] == 200


@pytest.mark.usefixtures("forked_children")
def test_a_measured_run_makes_the_same_calls_per_item_as_its_floor(tmp_path: Path) -> None:
    with stub() as url:
        write(tmp_path, items=12, url=url)
        (tmp_path / "url").write_text(url, encoding="utf-8")
        floor = child("child.py", "floor", str(tmp_path), "--items", "12", "--concurrency", "4")
        assert floor["status"] == "complete"
        assert stats(url, forget=True)["calls"] == 4 + 12 * CALLS_AN_ITEM, "an add for each of the four corpora"
        ours = child("child.py", "ours", str(tmp_path), "--concurrency", "4")
        assert (ours["status"], ours["exit_code"]) == ("complete", 0)
        assert stats(url, forget=True)["calls"] == 4 + 12 * CALLS_AN_ITEM
        two = child("child.py", "ours", str(tmp_path), "--concurrency", "4", "--flags", '{"workers": 2}')
        assert (two["status"], two["exit_code"]) == ("complete", 0)
        assert stats(url)["calls"] == 4 + 12 * CALLS_AN_ITEM


@pytest.mark.usefixtures("forked_children")
def test_the_wall_time_of_a_real_run_is_near_its_prediction() -> None:
    limits = {"rates": {"add": 10, "search": 20}, "tokens_a_minute": 3_000_000}
    case = Case(name="all", items=24, latency_ms=200, concurrency=8, turns=6, batch=2, k=(3, 5), **limits)
    measured_s, refused, lost = measure(case)
    predicted_s, _ = predict(case, refused, lost)
    assert (refused, lost) == (0, 0)
    assert 0.9 * predicted_s < measured_s < 2 * predicted_s


@pytest.mark.usefixtures("forked_children")
def test_figures_include_the_machine() -> None:
    found = json.loads(
        subprocess.run(
            [sys.executable, "-c", "import json, figures; print(json.dumps(figures.machine()))"],
            cwd=PERF,
            capture_output=True,
            check=True,
        ).stdout
    )
    assert found["cores"] >= 1


def test_measured_memory_excludes_that_of_the_parent_process(tmp_path: Path) -> None:
    held = bytearray(150 * 2**20)
    say = "import sys; sys.path.insert(0, sys.argv[1]); from usage import peak_mb; print(peak_mb(), file=sys.stderr)"
    found = used_by([sys.executable, "-c", say, str(PERF)], folder=tmp_path, variables=dict(os.environ))
    own = subprocess.run([sys.executable, "-c", say, str(PERF)], capture_output=True, text=True, check=True).stderr
    assert len(held) / 2**20 == 150
    assert found["rss_mb"] < 100
    assert float(own) < 100


def test_used_by_raises_with_the_output_of_a_failed_command(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"gave 3:\n(?s:.*)no such thing"):
        used_by(
            [sys.executable, "-c", "import sys; print('no such thing'); sys.exit(3)"],
            folder=tmp_path,
            variables=dict(os.environ),
        )


def test_used_by_measures_cpu_wall_time_and_memory_of_the_command(tmp_path: Path) -> None:
    busy = "import time; held = bytearray(60 * 2**20)\nwhile time.process_time() < 0.3: pass"
    found = used_by([sys.executable, "-c", busy], folder=tmp_path, variables=dict(os.environ))
    assert found["cpu_s"] >= 0.3
    assert found["wall_s"] >= 0.3
    assert found["rss_mb"] > 60
