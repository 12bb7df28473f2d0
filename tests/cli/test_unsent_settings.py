"""A setting that a model rejects is named in the results and in the receipt, because it was not sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bench
from tests.reality.chat_stub import Reply, completion, serving
from tests.small_world import write_codes

NOTE = "openai/m rejects the setting temperature: it was not sent for 2 answers"


def without_temperature(body: dict[str, Any]) -> Reply:
    if "temperature" in body:
        return 400, {"error": {"message": "Unsupported parameter: temperature", "param": "temperature"}}
    return completion("1")


def test_a_rejected_temperature_is_in_the_results_and_in_the_signed_receipt(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": f"c{n}", "content": f"The code is {n}.", "question": f"Code {n}?", "answer": str(n)} for n in "12"]
    write_codes(tmp_path, rows)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    with serving(without_temperature) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        done = bench("run", "-q", "--run-id", "r", "codes", "bm25", "--answering-model", "openai/m")
    assert NOTE in done.stdout
    assert "rejects the setting seed" not in done.stdout
    bench("keys", "new", "me")
    bench("sign", "r")
    (path,) = Path("results/r/receipts").glob("*.json")
    assert NOTE in json.loads(path.read_text())["reproducibility"]["reasons"]
    assert bench("verify", str(path), check=None).stdout.startswith("VALID")
