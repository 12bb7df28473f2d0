"""``bench sheet``: 19 facts of a run or a receipt; unknown facts are listed as missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.receipt.evidence_sheet import FACTS
from tests.reality.chat_stub import completion, serving

Bench = Callable[..., Any]
RUN = ("--run-id", "r", "--providers", "bm25", "--limit", "3")
RIGHT = {"correctness": 1, "faithfulness": 1, "reasoning": ""}


def facts(bench: Bench, target: str) -> dict[str, dict[str, Any]]:
    (sheet,) = json.loads(bench("sheet", target, "--json").stdout)["sheets"]
    assert [one["name"] for one in sheet["facts"]] == list(FACTS) and len(FACTS) == 19
    assert sheet["n_known"] + sheet["n_missing"] == 19
    return {one["name"]: one for one in sheet["facts"]}


@pytest.fixture
def receipt(bench: Bench, ran: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    ran(*RUN, "--answering-model", "builtin/extractive")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    bench("keys", "new", "-q")
    return str(bench("sign", "r").stdout.split()[-1])


def test_the_sheet_of_a_run_lists_known_and_missing_facts(bench: Bench, ran: Callable[..., None]) -> None:
    ran(*RUN, "--answering-model", "builtin/extractive")
    found = facts(bench, "r")
    missing = {name for name, one in found.items() if not one["known"]}
    assert missing == {"repeats", "signature"}
    assert found["signature"]["missing"] == "bench sign r" and found["signature"]["value"] is None
    assert found["context share"]["value"].endswith("(1 corpus), budget 120000 tokens")
    assert "3 planned, 3 scored" in found["items"]["value"]
    assert found["judge error"]["value"] == "no judge: scored by rule"
    text = bench("sheet", "r").stdout
    assert "| 18 | repeats | missing: each item ran once; use --epochs 3 |" in text
    assert "- 17 of 19 facts are known, 2 are missing" in text


def test_a_signed_run_names_its_receipt_in_its_sheet_and_a_receipt_has_its_own_sheet(
    bench: Bench, receipt: str
) -> None:
    assert facts(bench, "r")["signature"]["value"].startswith("receipt ")
    found = facts(bench, receipt)
    assert found["signature"]["value"].startswith("VALID: key sha256:")
    assert {name for name, one in found.items() if not one["known"]} == {"repeats"}
    assert found["dataset"]["value"] == facts(bench, "r")["dataset"]["value"]
    assert found["context share"]["value"] == facts(bench, "r")["context share"]["value"]


def test_the_sheet_of_an_old_receipt_takes_context_share_from_its_items_file(bench: Bench, receipt: str) -> None:
    path = Path(receipt)
    document = json.loads(path.read_text())
    del document["memoryCost"]
    path.write_text(json.dumps(document))
    assert facts(bench, receipt)["context share"]["value"].endswith(
        "tokens of context per question, budget 120000 tokens"
    )
    path.with_suffix(".items.jsonl").unlink()
    assert facts(bench, receipt)["context share"]["missing"] == "the items file is not next to the receipt"


def test_a_partly_known_fact_is_listed_as_missing(
    bench: Bench, ran: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with serving(lambda body: completion(json.dumps(RIGHT))) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        ran(*RUN, "--answering-model", "openai/unheard-of")
        bench("rescore", "r", "--evaluators", "llm-judge", "--judge-model", "openai/judge")
    bench("keys", "new", "-q")
    receipt = bench("sign", "r").stdout.split()[-1]
    for target in ("r", receipt):
        found = facts(bench, target)
        assert not found["cost per query"]["known"] and found["cost of build"]["known"]
        assert found["cost per query"]["missing"] == "the price of some calls; set prices in the run file"
        assert found["cost per query"]["value"].startswith("search p50")
        prompts = found["judge prompt"]["value"]
        assert prompts.startswith("default sha256 ") and "(of questions without an answer in the data)" in prompts
    assert "| 17 | cost per query | missing: the price of some calls" in bench("sheet", "r").stdout


def test_sheet_html_has_a_title_and_unknown_jobs_or_files_are_errors(bench: Bench, ran: Callable[..., None]) -> None:
    ran(*RUN, "--answering-model", "builtin/extractive")
    bench("sheet", "r", "--html", "sheet.html")
    assert "Evidence sheet: demo x bm25, run r" in Path("sheet.html").read_text()
    assert "run r has no job of acme" in bench("sheet", "r", "--provider", "acme", check=2).stderr
    Path("other.json").write_text("{}")
    assert "not a receipt" in bench("sheet", "other.json", check=2).stderr
