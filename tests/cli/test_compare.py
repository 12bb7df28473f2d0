"""``bench compare``, ``bench leaderboard`` and static pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]
Ran = Callable[..., None]


@pytest.fixture
def runs(ran: Ran) -> None:
    ran("--run-id", "r", "--providers", "bm25", "random", "oracle", "--answering-model", "none")


@pytest.fixture
def five(ran: Ran, runs: None) -> None:
    """One more run of another ``k``."""
    ran("--run-id", "five", "--providers", "bm25", "--answering-model", "none", "-k", "5")


def document(bench: Bench, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bench(*arguments, "--json").stdout)
    return found


def test_compare_reports_a_clear_difference_in_words_and_numbers(bench: Bench, runs: None) -> None:
    found = document(bench, "compare", "r:bm25", "r:random", "--metric", "ndcg@10")
    (pair,) = found["comparisons"]
    assert pair["like_for_like"]["ok"] is True
    headline = next(row for row in pair["rows"] if row["family"] == "headline")
    assert headline["verdict"].startswith("A higher") and headline["better"] == "a"
    assert headline["interval"]["low"] > 0 and headline["p_adjusted"] < 0.05
    assert headline["wins"] + headline["losses"] + headline["ties"] == headline["n"] == 143
    text = bench("compare", "r:bm25", "r:random", "--metric", "ndcg@10").stdout
    assert "conclusion:" in text


def test_a_run_compared_with_itself_has_no_detectable_difference_and_a_nonzero_interval_width(
    bench: Bench, runs: None
) -> None:
    (pair,) = document(bench, "compare", "r:bm25", "r:bm25")["comparisons"]
    headline = next(row for row in pair["rows"] if row["family"] == "headline")
    assert headline["delta"] == 0
    assert "no detectable difference" in headline["verdict"]
    assert headline["interval"]["low"] < headline["interval"]["high"]


def test_compare_by_provider_name_takes_the_newest_run_and_prints_it(bench: Bench, runs: None) -> None:
    done = bench("compare", "--benchmark", "demo", "--providers", "bm25", "oracle")
    assert "bm25: run r of" in done.stderr


def test_compare_rejects_sides_with_different_settings_unless_forced(bench: Bench, five: None) -> None:
    output = bench("compare", "r:bm25", "five:bm25", check=2).stderr
    assert "k: A has 10, B has 5" in output
    assert "NOT LIKE FOR LIKE" in bench("compare", "r:bm25", "five:bm25", "--force").stdout


def test_fail_on_regression_exits_4_only_for_a_regression(bench: Bench, runs: None) -> None:
    bench("compare", "r:bm25", "r:random", "--fail-on-regression", "ndcg_at_10:2", check=4)
    bench("compare", "r:bm25", "r:bm25", "--fail-on-regression", "ndcg_at_10:0")
    bench("compare", "r:bm25", "r:random", "--fail-on-regression", "ndcg_at_10", check=2)


def test_leaderboard_ranks_comparable_rows_by_value_and_puts_others_into_another_table(
    bench: Bench, five: None
) -> None:
    tables = document(bench, "leaderboard")["tables"]
    assert sorted(len(table["rows"]) for table in tables) == [1, 2, 3] or len(tables) == 2
    ranked = max(tables, key=lambda table: len(table["rows"]))["rows"]
    values = [row["metrics"][row["headline"]]["value"] for row in ranked]
    bounds = [row["bound"] for row in ranked]
    assert bounds == sorted(bounds), "bounds are listed below ranked rows"
    assert values[1:] == sorted(values[1:], reverse=True)
    for view in ("overall", "benchmark", "type", "provider", "model"):
        assert bench("leaderboard", "--view", view).stdout.strip()


def test_static_pages_have_no_script_and_no_link(bench: Bench, runs: None, tmp_path: Path) -> None:
    bench("leaderboard", "--html", "board.html")
    bench("results", "r", "--html", "run.html")
    for name in ("board.html", "run.html"):
        page = (tmp_path / name).read_text(encoding="utf-8")
        assert "<script" not in page and "http" not in page.replace("http-equiv", "")
        assert "bm25" in page


def test_results_rebuild_recreates_the_deleted_database(bench: Bench, runs: None, tmp_path: Path) -> None:
    before = document(bench, "leaderboard")
    (tmp_path / "results/results.sqlite").unlink()
    assert "no complete valid run" in bench("leaderboard").stdout
    bench("results", "--rebuild")
    assert document(bench, "leaderboard") == before


def test_compare_by_provider_name_prefers_runs_with_the_same_settings(bench: Bench, five: None) -> None:
    done = bench("compare", "--benchmark", "demo", "--providers", "bm25,oracle")
    assert "bm25: run r of" in done.stderr and "like for like: yes" in done.stdout
    assert (
        "no complete valid run" in bench("compare", "--benchmark", "demo", "--providers", "bm25", "x", check=2).stderr
    )


def test_each_leaderboard_view_separates_rows_that_are_not_comparable(bench: Bench, five: None) -> None:
    by_benchmark = document(bench, "leaderboard")["tables"]
    assert sorted(len(table["rows"]) for table in by_benchmark) == [1, 3]
    for table in [*by_benchmark, *document(bench, "leaderboard", "--view", "model")["tables"]]:
        assert len({(row["k"], row["track"], row["models"]["judge"]) for row in table["rows"]}) == 1
    (overall,) = document(bench, "leaderboard", "--view", "overall")["tables"]
    assert [row["provider"] for row in overall["rows"]] == ["bm25", "oracle", "random"]
    (matrix,) = document(bench, "leaderboard", "--view", "provider")["tables"]
    places = {row["provider"]: [place["k"] for place in row["places"]] for row in matrix["rows"]}
    assert sorted(places["bm25"]) == [5, 10] and places["oracle"] == [10]


def test_the_overall_view_omits_providers_that_lack_a_benchmark_and_names_them(bench: Bench, runs: None) -> None:
    command = ("run", "-q", "--run-id", "legal", "--benchmarks", "legal-rag", "--answering-model", "none")
    bench(*command, "--providers", "bm25", "--limit", "5")
    (table,) = document(bench, "leaderboard", "--view", "overall")["tables"]
    assert [row["provider"] for row in table["rows"]] == ["bm25"]
    assert any("oracle" in note and "legal-rag" in note for note in table["notes"])
    assert "no run of" in bench("leaderboard", "--benchmark", "nothing", check=2).stderr


def test_fail_on_regression_tests_its_own_metric_whatever_metric_is_shown(bench: Bench, runs: None) -> None:
    shown = ("compare", "r:bm25", "r:random", "--metric", "mrr", "--fail-on-regression", "ndcg@10:2")
    done = bench(*shown, check=4)
    assert "regression: ndcg_at_10" in done.stderr and "ndcg" not in done.stdout


def test_leaderboard_shows_latency_and_cost_whatever_metrics_the_benchmark_lists(
    bench: Bench, runs: None, tmp_path: Path
) -> None:
    flags = ("--providers", "bm25", "--answering-model", "none", "--metrics", "mrr", "--limit", "10")
    bench("run", "-q", "--run-id", "one", *flags)
    rows = [row for table in document(bench, "leaderboard")["tables"] for row in table["rows"]]
    assert [row["run_id"] for row in rows if row["headline"] == "mrr"] == ["one"]
    assert all(row["search_p50_ms"] > 0 and row["cost_usd"] is None for row in rows)
    assert "search p50 (ms)" in bench("leaderboard").stdout


def test_results_compare_compares_providers_of_the_named_run(bench: Bench, runs: None) -> None:
    bench(
        "run", "-q", "--run-id", "later", "--providers", "bm25", "random", "--answering-model", "none", "--limit", "20"
    )
    own = bench("results", "r", "--compare", "bm25", "random")
    assert own.stdout == bench("compare", "r:bm25", "r:random").stdout
    assert own.stderr == "", "no run had to be chosen"
    assert document(bench, "results", "r", "--compare", "bm25,random") == document(
        bench, "compare", "r:bm25", "r:random"
    )
    newest = bench("results", "--compare", "bm25", "random", "--benchmark", "demo")
    assert "bm25: run later of" in newest.stderr


def test_results_compare_rejects_an_unknown_provider_and_a_single_side(bench: Bench, runs: None) -> None:
    done = bench("results", "r", "--compare", "bm25", "nobody", check=2)
    assert done.stderr.startswith("error: run r has no job nobody\nhint: jobs of this run: demo x bm25")
    assert "a comparison needs two sides" in bench("results", "r", "--compare", "bm25", check=2).stderr


def test_two_output_formats_at_once_are_rejected(bench: Bench, runs: None) -> None:
    for words, names in (
        (("results", "r", "--json", "--csv"), "--json and --csv"),
        (("results", "r", "--markdown", "--csv"), "--markdown and --csv"),
        (("results", "r", "--json", "--html", "x.html"), "--json and --html"),
        (("leaderboard", "--csv", "--html", "x.html"), "--csv and --html"),
        (("compare", "r:bm25", "r:random", "--json", "--markdown"), "--json and --markdown"),
    ):
        done = bench(*words, check=2)
        assert f"{names} exclude each other" in done.stdout + done.stderr
    assert (
        "--compare cannot be used with --csv or --html"
        in bench("results", "r", "--compare", "bm25", "random", "--csv", check=2).stderr
    )


def test_an_unwritable_html_file_is_reported_by_the_path_that_was_given(
    bench: Bench, runs: None, tmp_path: Path
) -> None:
    done = bench("results", "r", "--html", "nodir/x.html", check=2)
    assert done.stderr.startswith("error: nodir/x.html: No such file or directory\n")
    (tmp_path / "folder").mkdir()
    done = bench("results", "r", "--html", "folder", check=2)
    assert done.stderr.startswith("error: folder: Is a directory\n")
    assert not list(tmp_path.glob("*.part"))
