"""The table of real systems says of each how it compares with exact cosine, and what could not be measured."""

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
def test_a_row_says_how_it_compares_with_exact_cosine(hit: float, ndcg: float, why: str, note: str) -> None:
    assert _against(FleetRow(system="s", metrics={"hit_at_10": hit, "ndcg_at_10": ndcg}), EXACT, why) == note


def test_what_failed_is_a_row_with_its_reason() -> None:
    failed = FleetRow(system="chroma", note="failed: it did not start")
    line = table([EXACT, failed]).splitlines()[-1]
    assert line.startswith("chroma ") and line.endswith(" failed: it did not start")


def test_an_unknown_system_is_refused_before_anything_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chrome"]) == 2
    assert "known: chroma, pgvector" in capsys.readouterr().err


def test_every_system_is_installed_with_a_pinned_version() -> None:
    packages = servers.PACKAGES | servers.OPT_IN
    for system in SYSTEMS.values():
        assert "==" in packages[system.package][0]
    assert {system for system, _ in ALIASES.values()} <= SYSTEMS.keys()
