"""The examples of the guide validate and load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.datasets import open_benchmark
from bench.datasets.dataset_json import describe
from bench.datasets.validation import validate_benchmark
from bench.errors import DataError
from tests.datasets.conftest import Workspace


def _blocks(root: Path, language: str) -> list[str]:
    text = (root / "docs" / "add-a-benchmark.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}(?: [^\n]*)?\n(.*?)```", text, re.DOTALL)


def test_the_examples_of_the_guide_validate_and_load(root: Path, tmp_path: Path) -> None:
    _, rows, manifest, _, _, trips = _blocks(root, "json")
    benchmarks = tmp_path / "configs" / "benchmarks"
    (benchmarks / "ferries").mkdir(parents=True)
    (benchmarks / "ferries" / "data.jsonl").write_text(rows, encoding="utf-8")
    (benchmarks / "ferries" / "manifest.json").write_text(manifest, encoding="utf-8")
    (tmp_path / "datasets" / "trips").mkdir(parents=True)
    (tmp_path / "datasets" / "trips" / "trips.json").write_text(trips, encoding="utf-8")
    (benchmarks / "trips.yaml").write_text(_blocks(root, "yaml")[0], encoding="utf-8")
    catalog = Catalog.load(tmp_path)
    for name, items, memories in (("ferries", 2, 2), ("trips", 1, 2)):
        report = validate_benchmark(catalog.find("benchmarks", name).path, catalog)
        assert report.ok, [str(error) for error in report.errors]
        dataset = open_benchmark(catalog.benchmark(name), tmp_path)
        assert (dataset.counts.items, dataset.counts.memories) == (items, memories)
        assert describe(dataset)["items"] == items


def test_a_deletion_target_must_be_a_memory_of_its_corpus(workspace: Workspace) -> None:
    row = {"id": "d1", "c": "x", "t": "d1", "v": "x?", "d": "x"}
    keys: dict[str, object] = {
        "ingestion": {
            "strategy": "add-delete-verify",
            "add_content_field": "c",
            "delete_target_field": "t",
            "verify_query_field": "v",
        },
        "query": {"question_field": "v"},
        "evaluation": {"protocol": "deletion-check", "verification_query_field": "v", "deleted_content_field": "d"},
    }
    workspace.manifest("gone", [row], **keys)
    deletion = workspace.open("gone").item("d1").deletion
    assert deletion is not None and (deletion.target, deletion.verify_query, deletion.deleted_content) == (
        "d1",
        "x?",
        "x",
    )
    workspace.manifest("gone", [{**row, "t": "d9"}], **keys)
    with pytest.raises(DataError, match=r'data\.jsonl:1: t is not a memory of the corpus "d1".*"d9"'):
        workspace.open("gone")


def test_rows_with_equal_corpus_field_form_one_corpus(workspace: Workspace) -> None:
    ingestion = {"strategy": "simple", "content_field": "c", "corpus_field": "s", "evidence_field": "g"}
    rows = [
        {"id": "a", "s": "x", "c": "one", "question": "q", "answer": "1", "g": ["b"]},
        {"id": "b", "s": "x", "c": "two", "question": "q", "answer": "2", "g": ["nobody"]},
        {"id": "c", "s": "y", "c": "three", "question": "q", "answer": "3", "g": []},
    ]
    workspace.manifest("shelf", rows, ingestion=ingestion)
    dataset = workspace.open("shelf")
    assert [[ref.id for ref in dataset.items_of(corpus)] for corpus in dataset.corpora()] == [["a", "b"], ["c"]]
    assert dataset.item("a").evidence.sessions == ("b",)
    assert dict(dataset.counts.flags) == {"evidence_unresolved": 1, "evidence_missing": 1}
    assert dataset.counts.corpora == 2
