"""Commands that read a run: results, export, status, list, describe."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import forked

Bench = Callable[..., Any]
Ran = Callable[..., None]
Results = Callable[[str], dict[str, Any]]
TOLERANCE = 1e-9


@pytest.fixture
def run(ran: Ran) -> str:
    ran("--run-id", "r", "--providers", "bm25", "random", "full-context", "--limit", "20")
    return "r"


def trec(path: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for line in path.read_text().splitlines():
        parts = line.split()
        if path.suffix == ".qrels":
            found.setdefault(parts[0], {})[parts[2]] = int(parts[3])
        else:
            found.setdefault(parts[0], {})[parts[2]] = float(parts[4])
    return found


def trec_means(folder: Path, stem: str) -> dict[str, float]:
    """Return the means over the queries of the qrels; a query without a ranking counts 0."""
    qrels = trec(folder / f"{stem}.qrels")
    measures = {"success_5", "success_10", "recall_10", "ndcg_cut_10", "recip_rank"}
    import pytrec_eval  # loads numpy

    scores = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(trec(folder / f"{stem}.run"))
    names = {"success_5": "hit_at_5", "success_10": "hit_at_10", "recall_10": "recall_fraction_at_10",
             "ndcg_cut_10": "ndcg_at_10", "recip_rank": "mrr"}  # fmt: skip
    return {
        ours: sum(scores.get(query, {}).get(theirs, 0.0) for query in qrels) / len(qrels)
        for theirs, ours in names.items()
    }


def test_trec_eval_agrees_with_each_retrieval_metric_of_an_export(
    bench: Bench, run: str, results: Results, tmp_path: Path
) -> None:
    bench("export", run, "--format", "trec", "--output", "trec")
    for job in results(run)["jobs"]:
        for name, value in trec_means(tmp_path / "trec", f"demo__{job['provider']}").items():
            assert job["metrics"][name]["value"] == pytest.approx(value, abs=TOLERANCE), (job["provider"], name)


def test_each_export_format_has_one_row_per_job_and_item(bench: Bench, run: str, tmp_path: Path) -> None:
    for form in ("json", "jsonl", "csv"):
        bench("export", run, "--format", form, "--output", f"rows.{form}")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 60
    assert json.loads((tmp_path / "rows.json").read_text(encoding="utf-8")) == rows
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["item_id"] for row in table] == [row["item_id"] for row in rows]
    first = rows[0]
    assert {"run_id", "benchmark", "provider", "models", "item_id", "corpus", "question_type", "state", "question",
            "expected", "answer", "answer_model", "score", "correct", "hits", "verdicts", "metrics", "latency",
            "tokens", "cost", "metadata", "error"} <= set(first)  # fmt: skip
    assert first["question"] and first["hits"] and first["answer_model"] == "builtin/extractive"


def test_an_export_to_a_file_with_json_prints_path_and_counts(bench: Bench, run: str) -> None:
    output = [json.loads(bench("export", run, "--format", form, "--output", f"w.{form}", "--json").stdout)
            for form in ("csv", "trec")]  # fmt: skip
    assert output[0] == {"run_id": run, "format": "csv", "output": "w.csv", "rows": 60}
    assert set(output[1]) == {"run_id", "format", "output", "files"} and output[1]["files"]


def test_export_streams_to_a_closed_pipe_without_a_traceback(bench: Bench, run: str, tmp_path: Path) -> None:
    done = subprocess.run(
        f"{forked.program()}/bench export {run} --format jsonl | head -1",
        shell=True, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 141)
    assert "Traceback" not in done.stderr and json.loads(done.stdout)["run_id"] == run


def test_the_parquet_export_has_the_same_rows(bench: Bench, run: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    bench("export", run, "--format", "parquet", "--output", "rows.parquet")
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.num_rows == 60
    assert {"item_id", "state", "ndcg_at_10"} <= set(table.column_names)


def test_results_by_groups_by_a_metadata_key_and_rejects_an_unknown_one(bench: Bench, run: str) -> None:
    assert "accuracy by question_type" in bench("results", run, "--by", "question_type").stdout
    done = bench("results", run, "--by", "mood", check=2)
    assert "mood" in done.stderr and "question_type" in done.stderr


def test_the_csv_of_results_has_unrounded_values(bench: Bench, run: str, results: Results) -> None:
    table = list(csv.DictReader(io.StringIO(bench("results", run, "--csv").stdout)))
    overall = {(row["provider"], row["metric"]): row["value"] for row in table if not row["dimension"]}
    for job in results(run)["jobs"]:
        for name, metric in job["metrics"].items():
            text = overall[job["provider"], name]
            assert (float(text) if text else None) == metric["value"]


def test_the_markdown_of_results_is_a_report_with_all_metrics(bench: Bench, run: str) -> None:
    text = bench("results", run, "--markdown").stdout
    assert text.startswith("# Run r") and "| provider |" in text and "demo: all metrics" in text


def test_lists_and_descriptions_parse_as_json(bench: Bench, run: str) -> None:
    for kind in ("benchmarks", "providers", "metrics", "evaluators", "models", "runs"):
        found = json.loads(bench("list", kind, "--json").stdout)
        assert found[kind], kind
    assert json.loads(bench("list", "runs", "--json").stdout)["runs"][0]["run_id"] == run
    for name in ("demo", "bm25", "ndcg@10", run):
        assert json.loads(bench("describe", name, "--json").stdout)
    assert "demo" in bench("describe", "dmo", check=2).stderr


def test_an_unknown_run_id_suggests_the_nearest_one(bench: Bench) -> None:
    bench("run", "--run-id", "monday", "--providers", "no-memory", "--limit", "3")
    for command in ("results", "status", "export", "resume"):
        assert "monday" in bench(command, "mondya", check=2).stderr


def test_a_corrupt_journal_is_rejected_and_unchanged(bench: Bench, run: str, tmp_path: Path) -> None:
    journal = tmp_path / "checkpoints/r/journal.sqlite"
    journal.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    before = journal.read_bytes()
    for command in (["results", run], ["resume", run], ["status", run]):
        done = bench(*command, check=2)
        assert "journal.sqlite" in done.stderr
    assert journal.read_bytes() == before
    assert json.loads(bench("list", "runs", "--json").stdout)["runs"][0]["state"] == "unreadable"


REFERENCE = {
    "hit_at_5": 0.9067,
    "hit_at_10": 0.9596,
    "recall_fraction_at_10": 0.9256,
    "ndcg_at_10": 0.7918,
    "mrr": 0.7650,
}
"""bm25 over LoCoMo's sessions, k = 10, retrieval only"""


def test_locomo_gives_the_reference_values_and_trec_eval_agrees(
    bench: Bench, results: Results, shared: Path, tmp_path: Path
) -> None:
    bench("download", "locomo", "--from", str(shared / "data/locomo10/locomo10.json"))
    flags = ("--benchmarks", "locomo", "--providers", "bm25", "--answering-model", "none")
    bench("run", "-q", *flags, "--run-id", "r")
    bench("export", "r", "--format", "trec", "--output", "trec")
    jobs = {job["provider"]: job for job in results("r")["jobs"]}
    for name, value in REFERENCE.items():
        metric = jobs["bm25"]["metrics"][name]
        assert metric["value"] == pytest.approx(value, abs=0.02)
        assert (metric["n"], metric["n_excluded"], metric["n_failed"]) == (1982, 4, 0)
        assert metric["breakdown"]["group"]["answerable"]["n"] == 1536
    for provider, job in jobs.items():
        for name, value in trec_means(tmp_path / "trec", f"locomo__{provider}").items():
            assert job["metrics"][name]["value"] == pytest.approx(value, abs=TOLERANCE), (provider, name)


def test_the_locomo_config_of_the_specification_runs_on_the_real_data(
    bench: Bench, results: Results, shared: Path, tmp_path: Path
) -> None:
    text = (shared / "seeds/architecture.txt").read_text(encoding="utf-8")
    block = text[text.index("### Example: LoCoMo") :].split("```yaml\n")[1].split("```")[0]
    folder = tmp_path / "configs/benchmarks"
    folder.mkdir(parents=True)
    (folder / "locomo.yaml").write_text(block, encoding="utf-8")
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/locomo10.json").symlink_to(shared / "data/locomo10/locomo10.json")
    bench("validate", str(folder / "locomo.yaml"))
    flags = ("--benchmarks", "locomo", "--providers", "bm25", "--answering-model", "none", "--judge-model", "none")
    bench("run", "-q", *flags, "--limit", "60", "--run-id", "r")
    (job,) = results("r")["jobs"]
    assert job["metrics"]["recall_at_5"]["value"] > 0.7


def test_results_with_benchmark_show_only_its_jobs_in_each_format(bench: Bench, tmp_path: Path) -> None:
    flags = ("--providers", "bm25", "--answering-model", "builtin/extractive", "--limit", "3")
    bench("run", "--run-id", "two", "--benchmarks", "demo", "legal-rag", *flags)
    whole = json.loads(bench("results", "two", "--json").stdout)
    assert [job["benchmark"] for job in whole["jobs"]] == ["demo", "legal-rag"]
    for name, job in zip(("DEMO", "legal-rag"), whole["jobs"], strict=True):
        one = json.loads(bench("results", "two", "--benchmark", name, "--json").stdout)
        assert one == {**whole, "jobs": [job]}
    shown = bench("results", "two", "--benchmark", "demo").stdout
    assert "demo" in shown and "legal-rag" not in shown
    for form in ("--markdown", "--csv"):
        text = bench("results", "two", "--benchmark", "legal-rag", form).stdout
        assert "legal-rag" in text and "demo" not in text
    bench("results", "two", "--benchmark", "legal-rag", "--html", "one.html")
    assert "demo" not in (tmp_path / "one.html").read_text(encoding="utf-8")


def test_results_of_a_benchmark_that_the_run_lacks_are_rejected(bench: Bench, run: str) -> None:
    refused = bench("results", run, "--benchmark", "locomo", "--json", check=2)
    error = json.loads(refused.stdout)["error"]
    assert error["message"] == "run r has no job of locomo"
    assert error["hint"] == "jobs of this run: demo x bm25, demo x random, demo x full-context"


COMMANDS = (
    "list runs", "describe bm25", "validate", "schema run", "new provider mine", "download demo", "plan",
    "run -q --providers bm25 --limit 2 --run-id n", "run -q --download --limit 2 --run-id d", "resume {run}",
    "retry {run}", "status {run}", "pause {run}", "clean {run}", "clean --orphans", "results {run}",
    "results --rebuild", "failures {run}", "leaderboard", "export {run}", "export {run} --format csv --output w.csv",
    "export {run} --format trec --output t", "merge {run} --into m", "doctor bm25", "clean {run} --yes",
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS)
def test_with_json_stdout_of_each_command_is_nonempty_json(bench: Bench, run: str, words: str) -> None:
    """Stdout is one document, or one object per line for commands that stream."""
    output = bench(*words.format(run=run).split(), "--json").stdout
    try:
        found = [json.loads(output)]
    except json.JSONDecodeError:
        found = [json.loads(line) for line in output.splitlines()]
    assert found and all(isinstance(one, dict | list) for one in found)
