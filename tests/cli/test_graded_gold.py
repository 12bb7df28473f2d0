"""Graded gold: grades of a dataset are the gains of nDCG, in results, exports and receipts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]
CONFIG = """
name: graded
version: "1"
data:
  type: local
  path: datasets/queries.jsonl
  with:
    gold: {file: datasets/qrels.tsv, key: query-id, by: id, many: true}
    docs: {file: datasets/docs.jsonl}
schema: {itemId: id, question: text, context: {field: docs, type: session, itemSchema: {id: id, content: text}}}
corpus: {field: "${'all'}"}
evidence: {turnIdsField: "$.gold[*]", reference: corpus-id, grade: score}
ingestion: {mode: incremental}
evaluation: {method: none}
metrics: [ndcg_at_10, map, recall_fraction_at_10, {name: ndcg_at_5, config: {gain: exponential}}]
"""
WORDS = ("ferry", "harbor", "lights", "rope", "tide", "crane")


@pytest.fixture
def qrels(tmp_path: Path) -> dict[str, dict[str, int]]:
    """A workspace of 24 documents and 8 queries with grades from -1 to 3."""
    chance = random.Random(4)
    docs = {f"d{n}": " ".join(chance.choices(WORDS, k=5)) for n in range(24)}
    queries = {f"q{n}": " ".join(chance.sample(WORDS, 2)) for n in range(8)}
    grades = {query: {name: chance.choice((-1, 0, 1, 2, 3)) for name in chance.sample(sorted(docs), 9)}
              for query in queries}  # fmt: skip
    folder = tmp_path / "datasets"
    folder.mkdir()
    for name, rows in (("docs", docs), ("queries", queries)):
        lines = [json.dumps({"id": key, "text": text}) for key, text in rows.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    lines = [f"{query}\t{name}\t{grade}" for query, held in grades.items() for name, grade in held.items()]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    (tmp_path / "configs" / "benchmarks").mkdir(parents=True)
    (tmp_path / "configs" / "benchmarks" / "graded.yaml").write_text(CONFIG)
    return grades


def test_graded_ndcg_map_and_recall_equal_those_of_trec_eval(
    bench: Bench, qrels: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    bench("run", "graded", "bm25", "--run-id", "r")
    bench("export", "r", "--format", "trec", "--output", "trec")
    ranked: dict[str, dict[str, float]] = {}
    for line in (tmp_path / "trec" / "graded__bm25.run").read_text().splitlines():
        query, _, name, _, score, _ = line.split()
        ranked.setdefault(query, {})[name] = float(score)
    written = {tuple(line.split()[::2]): line.split()[3] for line in
               (tmp_path / "trec" / "graded__bm25.qrels").read_text().splitlines()}  # fmt: skip
    assert written == {(q, d): str(grade) for q, held in qrels.items() for d, grade in held.items() if grade > 0}
    import pytrec_eval  # loads numpy

    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut", "map_cut", "recall"}).evaluate(ranked)
    metrics = json.loads(bench("results", "r", "--json").stdout)["jobs"][0]["metrics"]
    for name, measure in (("ndcg_at_10", "ndcg_cut_10"), ("map", "map_cut_10"), ("recall_fraction_at_10", "recall_10")):
        mean = sum(one[measure] for one in theirs.values()) / len(theirs)
        assert metrics[name]["value"] == pytest.approx(mean, abs=1e-9), name
    assert metrics["ndcg_at_10"]["definition"] == "ndcg@10/1"
    assert metrics["ndcg_at_10"]["n"] == 8


def test_verify_recomputes_a_receipt_of_graded_gold_from_its_rows(
    bench: Bench, qrels: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    bench("keys", "new", "-q")
    bench("run", "graded", "bm25", "--run-id", "r")
    bench("sign", "r")
    (receipt,) = (path for path in (tmp_path / "results").rglob("*.json") if path.with_suffix(".items.jsonl").exists())
    rows = [json.loads(line) for line in receipt.with_suffix(".items.jsonl").read_text().splitlines()]
    assert [dict(zip(row["gold"], row["grades"], strict=True)) for row in rows] == [
        {name: grade for name, grade in held.items() if grade > 0} for _, held in sorted(qrels.items())
    ]
    assert bench("verify", str(receipt)).stdout.startswith("VALID")
    forged = receipt.with_suffix(".items.jsonl")
    first = json.dumps(rows[0]["grades"], separators=(",", ":"))
    forged.write_text(forged.read_text().replace(f'"grades":{first}', f'"grades":{[9] * len(rows[0]["grades"])}', 1))
    assert "score_mismatch" in bench("verify", str(receipt), check=None).stdout


def test_a_map_of_ids_to_numbers_is_read_as_graded_gold(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "configs" / "benchmarks").mkdir(parents=True)
    row = {"id": "q", "text": "rope", "docs": [{"id": "d1", "text": "rope"}, {"id": "d2", "text": "tide"}]}
    (tmp_path / "rows.json").write_text(json.dumps([row | {"gold": {"d2": 2, "d1": 0.5, "d9": 0}}]))
    schema = CONFIG[CONFIG.index("schema") : CONFIG.index("corpus")]
    end = "evidence: {turnIdsField: gold}\n" + CONFIG[CONFIG.index("ingestion") :]
    head = 'name: graded\nversion: "1"\ndata: {type: local, path: rows.json}\n'
    (tmp_path / "configs" / "benchmarks" / "graded.yaml").write_text(head + schema + end)
    evidence = json.loads(bench("describe", "graded", "--items", "--json").stdout)["evidence"]
    assert evidence == {"sessions": ["session_1"], "turns": ["d1", "d2"],
                        "grades": {"d2": 2.0, "d1": 0.5, "session_1": 2.0}}  # fmt: skip


@pytest.mark.parametrize("score", ["high", "", "nan"])
def test_a_grade_that_is_not_a_number_is_rejected_with_its_row(
    score: str, bench: Bench, qrels: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    file = tmp_path / "datasets" / "qrels.tsv"
    first, second, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, second.rpartition("\t")[0] + f"\t{score}", *rest]))
    output = bench("describe", "graded", check=2).stderr
    assert "datasets/qrels.tsv:2: score " in output and "joined by data.with.gold" in output


def test_a_grade_without_a_reference_is_rejected(
    bench: Bench, qrels: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    config = tmp_path / "configs" / "benchmarks" / "graded.yaml"
    config.write_text(CONFIG.replace("reference: corpus-id, ", ""))
    assert '"grade" needs "reference"' in bench("validate", "configs/benchmarks", check=2).stderr


def test_rows_excluded_by_the_where_of_a_joined_file_are_counted(
    bench: Bench, qrels: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    config = tmp_path / "configs" / "benchmarks" / "graded.yaml"
    config.write_text(CONFIG.replace("many: true", "many: true, where: {score: {above: 0}}"))
    dropped = sum(grade <= 0 for held in qrels.values() for grade in held.values())
    notes = json.loads(bench("describe", "graded", "--json").stdout)["notes"]
    assert [note for note in notes if note.startswith("data.with.gold.where excludes")] == [
        f"data.with.gold.where excludes {dropped} rows of datasets/qrels.tsv"
    ]
