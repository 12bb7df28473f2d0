"""Gold overlays: scores are shown raw, corrected, and with their ceiling."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small_world import write_codes

Bench = Callable[..., Any]
RUN = ("run", "--benchmarks", "codes", "--providers", "bm25", "--answering-model", "builtin/scripted", "--run-id")


@pytest.fixture
def overlay(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Four items, each answered with its own number; the overlay lists what it is given."""
    rows = [{"id": f"c{n}", "content": f"Code {n}.", "question": f"Code {n}?", "answer": f"{n}"} for n in range(4)]
    rows[3]["answer"] = "7"
    folder = write_codes(tmp_path, rows)
    (folder / "overlays").mkdir()
    script = [{"match": f"Code {n}\\?", "reply": f"{n}"} for n in range(4)]
    (tmp_path / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in script))
    monkeypatch.setenv("MEMORYBENCH_SCRIPT", str(tmp_path / "script.jsonl"))
    digest = json.loads(bench("describe", "codes", "--json").stdout)["dataset"]["sha256"]

    def write(*items: dict[str, str], **changes: str) -> None:
        tree = {"benchmark": "codes", "dataset_sha256": digest, "source": "an audit", "items": items, **changes}
        (folder / "overlays/audit.yaml").write_text(json.dumps(tree))
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, "overlay": "audit"}))

    return write


def gold(bench: Bench, run: str) -> dict[str, Any]:
    (job,) = json.loads(bench("results", run, "--json").stdout)["jobs"]
    found: dict[str, Any] = job["gold"]
    return found


def test_items_of_an_overlay_are_excluded_from_the_corrected_score(bench: Bench, overlay: Callable[..., None]) -> None:
    overlay({"id": "c3", "kind": "wrong_answer"})
    bench(*RUN, "r")
    found = gold(bench, "r")
    assert found["overlay"] == "audit" and found["n_listed"] == 1
    scores = found["metrics"]["correctness"]
    assert (scores["raw"], scores["corrected"], scores["ceiling"]) == (0.75, 1.0, 0.75)
    assert scores["above_ceiling"] is False
    assert "ceiling 0.7500" in bench("results", "r").stdout


def test_an_overlay_can_be_given_as_a_file_path(bench: Bench, overlay: Callable[..., None], tmp_path: Path) -> None:
    overlay({"id": "c3", "kind": "wrong_gold"})
    manifest = next(tmp_path.rglob("codes/manifest.json"))
    manifest.write_text(manifest.read_text().replace('"overlay": "audit"', '"overlay": "overlays/audit.yaml"'))
    bench(*RUN, "r")
    assert gold(bench, "r")["n_listed"] == 1


def test_a_raw_score_above_the_ceiling_is_flagged(bench: Bench, overlay: Callable[..., None]) -> None:
    overlay({"id": "c0", "kind": "ambiguous"}, {"id": "c1", "kind": "ambiguous"})
    bench(*RUN, "r")
    scores = gold(bench, "r")["metrics"]["correctness"]
    assert scores["raw"] == 0.75 and scores["ceiling"] == 0.5 and scores["above_ceiling"] is True
    assert "above the ceiling" in bench("results", "r").stdout


def test_rescore_scores_overlay_items_against_their_corrected_answer(
    bench: Bench, overlay: Callable[..., None]
) -> None:
    bench(*RUN, "r")
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert "gold" not in job
    overlay({"id": "c3", "kind": "wrong_answer", "corrected_answer": "3"}, {"id": "c0", "kind": "ambiguous"})
    bench("rescore", "r")
    scores = gold(bench, "r")["metrics"]["correctness"]
    assert scores["raw"] == 0.75, "the gold of the dataset is unchanged"
    assert scores["corrected"] == 1.0 and scores["ceiling"] == 0.5 and scores["n_listed"] == 2


@pytest.mark.parametrize(
    ("items", "changes", "text"),
    [
        (({"id": "c9", "kind": "x"},), {}, 'no item "c9"'),
        (({"id": "c1"},), {}, "kind"),
        (({"id": "c1", "kind": "x"},), {"benchmark": "locomo"}, "is for locomo"),
        (({"id": "c1", "kind": "x"},), {"dataset_sha256": "0" * 64}, "is for the dataset"),
        (({"id": "c1", "kind": "x", "nte": "y"},), {}, "note"),
    ],
)
def test_an_overlay_that_does_not_match_the_benchmark_is_rejected_before_the_run(
    bench: Bench, overlay: Callable[..., None], items: tuple[dict[str, str], ...], changes: dict[str, str], text: str
) -> None:
    overlay(*items, **changes)
    assert text in bench(*RUN, "r", check=2).stderr
    assert not Path("checkpoints").exists()
