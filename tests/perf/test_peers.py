"""The table of other programs: medians, reasons of missing values, and results after a kill."""

from __future__ import annotations

import sys
from pathlib import Path

import peers
import pytest
from peer_tasks import ENTRANTS, Entrant
from peers import HEADER, Kill, PeerRow, Taken, killed, measure, table, within
from stub import stub

PEERS = [one for one in ENTRANTS if one.packages]
BENCH = next(one for one in ENTRANTS if one.name == "bench")


def taken(wall_s: float) -> Taken:
    return Taken(wall_s=wall_s, calls_s=1.5, cpu_s=3.98, rss_mb=90, start_cpu_s=2.0, load=1)


def cells(row: PeerRow) -> dict[str, str]:
    return dict(zip(HEADER, row.cells(2000, 100), strict=True))


def test_a_row_shows_medians_of_rounds_and_their_ratio_to_the_ideal() -> None:
    found = cells(PeerRow(name="p", version="1", taken=[taken(9), taken(2), taken(3)]))
    assert (found["wall, s"], found["wall / ideal"], found["calls / ideal"]) == ("3.0 (2.0-9.0)", "3.0", "1.50")


def test_cpu_per_item_excludes_the_start_of_the_program() -> None:
    found = cells(PeerRow(name="p", version="1", taken=[taken(2)]))
    assert found["CPU per item, ms"] == "1.00 (1.00-1.00)"
    assert found["CPU of a start, s"].startswith("2.0 ")


def test_the_kill_that_lost_most_answers_is_shown() -> None:
    kills = [Kill(answered=1000, kept=990), Kill(answered=1010, kept=900), Kill(answered=1020, kept=1020)]
    assert cells(PeerRow(name="p", version="1", taken=[taken(2)], kills=kills))[HEADER[-1]] == "900 of 1,010"


@pytest.mark.parametrize("markdown", [False, True])
def test_a_program_that_cannot_be_installed_is_a_row_with_its_reason(
    markdown: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peers, "HOME", tmp_path)
    absent = Entrant(name="p", environment="p", packages=("./absent==1",), command=lambda work: ["true"])
    rows = measure([absent], items=30, rounds=1, concurrency=2)
    assert "skipped: " in table(rows, items=30, concurrency=2, markdown=markdown).splitlines()[-1]


@pytest.mark.usefixtures("forked_children")
def test_a_program_that_makes_no_call_is_a_row_with_its_reason() -> None:
    idle = Entrant(name="idle", command=lambda work: [sys.executable, "-c", "print('nothing to do')"])
    (row,) = measure([idle], items=30, rounds=1, concurrency=2)
    assert row.skipped == "exit 0, 0 calls, 20 of 20 samples: nothing to do"


def test_each_peer_has_an_exact_version() -> None:
    assert PEERS
    for peer in PEERS:
        assert all(("@" if peer.npm else "==") in package for package in peer.packages)


def test_a_killed_bench_run_keeps_answered_items() -> None:
    with stub(latency_ms=50, chat="so") as url:
        found = within(lambda work: killed(BENCH, work), url, 50, 5)
    assert 0 < found.kept <= found.answered < 50
