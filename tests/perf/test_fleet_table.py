"""The table of real systems: comparison with exact cosine search, and failures."""

from __future__ import annotations

import pytest

from perf.fleet import ALIASES, SYSTEMS, FleetRow, _against, main, table
from tests.contract import servers

EXACT = FleetRow(system="vector", metrics={"hit_at_10": 0.9, "ndcg_at_10": 0.7})


@pytest.mark.parametrize(
    ("hit", "ndcg", "why", "note"),
    [
        (0.9, 0.7, "", "equal"),
        (0.9, 0.695, "", "within noise (-0.0050)"),
        (0.9, 0.6, "", "-0.1000: not explained: look at its run"),
        (0.99, 0.8, "other units", "+0.1000: other units"),
    ],
)
def test_a_row_shows_the_difference_to_exact_cosine_search(hit: float, ndcg: float, why: str, note: str) -> None:
    assert _against(FleetRow(system="s", metrics={"hit_at_10": hit, "ndcg_at_10": ndcg}), EXACT, why) == note


def test_a_failed_system_is_a_row_with_its_reason() -> None:
    failed = FleetRow(system="chroma", note="failed: it did not start")
    line = table([EXACT, failed]).splitlines()[-1]
    assert line.startswith("chroma ") and line.endswith(" failed: it did not start")


def test_an_unknown_system_is_rejected_before_an_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chrome"]) == 2
    assert "known: chroma, pgvector" in capsys.readouterr().err


def test_each_system_has_a_pinned_version() -> None:
    packages = servers.PACKAGES | servers.OPT_IN
    for system in SYSTEMS.values():
        assert "==" in packages[system.package][0]
    assert {system for system, _ in ALIASES.values()} <= SYSTEMS.keys()
