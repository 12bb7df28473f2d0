"""Each shipped config passes the sixteen checks of the contract with its fake."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.providers.doctor import examine
from tests.fleet.fleet import FAKES, context_at, quick


async def test_mem0_with_infer_false_fulfills_the_contract(tmp_path: Path) -> None:
    verbatim = {"endpoints.add.body.infer": False, "endpoints.add.response": {}, "wait": "sentinel"}
    config = quick("mem0", verbatim)
    async with FAKES["mem0"]().running() as fake, context_at(config, fake, tmp_path) as context:
        report = await examine(config, context)
    assert report.ok, report.as_json()


@pytest.mark.parametrize("rounds", [0, 1], ids=["at-once", "later"])
@pytest.mark.parametrize("name", FAKES)
async def test_shipped_config_fulfills_the_contract(name: str, rounds: int, tmp_path: Path) -> None:
    config = quick(name)
    async with FAKES[name]().running() as fake:
        if rounds and not fake.background:
            pytest.skip("answers an add when it is done")
        fake.shelf.rounds = rounds
        async with context_at(config, fake, tmp_path) as context:
            report = await examine(config, context)
    undated = "dates come back"  # most services give no date; the hit then has that of its memory
    checks = [check for check in report.checks if check.name != undated or check.outcome == "fail"]
    failed = [f"{check.name}: {check.detail}" for check in checks if check.outcome != "pass"]
    assert failed == []
