"""Reports as tables: cells, jobs of a table, width, and all formats."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.journal import RunState
from bench.journal.records import UsageTotals
from bench.metrics.overlay import GoldScores
from bench.model import Interval, Measurement, State, Usage
from bench.plan.job_record import ModelNames, OverlayRecord
from bench.report.fold import IsolationProof, JobReport, Report
from bench.report.rendering import CSV_HEAD, csv_text, grids_page, markdown
from bench.report.result_files import report_markdown
from bench.report.results_document import done_job, metric_json, report_json, results_json
from bench.report.tables import Grid, breakdown, job_texts, matrix, number, overview, safe_row, with_interval
from bench.visible_text import HIDDEN
from tests.rows import each_row
from tests.small_journal import measuring, record

SPAN = Interval(low=0.25, high=0.75, level=0.95, method="wilson")


def measured(metric: str = "accuracy", value: float | None = 0.5, n: int = 4, **more: object) -> Measurement:
    plain = Measurement(
        metric=metric, definition=f"{metric}/1", value=value, value_failures_as_zero=value, n=n,
        interval=SPAN if value is not None else None,
    )  # fmt: skip
    return replace(plain, **more)  # type: ignore[arg-type]


def typed(sizes: Mapping[str, int], value: float = 0.5) -> Mapping[str, Mapping[str, Measurement]]:
    return {"question_type": {label: measured(n=n, value=value if n else None) for label, n in sizes.items()}}


def job(
    provider: str = "x",
    *,
    of: Mapping[str, object] | None = None,
    metrics: tuple[Measurement, ...] | None = None,
    **more: object,
) -> JobReport:
    found = (measured(),) if metrics is None else metrics
    plain = JobReport(
        record=record(provider, **(of or {})), n_planned=4, counts={State.CORRECT: 2, State.INCORRECT: 2},
        failed_repeats=0, error_kinds={}, metrics={one.metric: one for one in found}, spent={},
        isolation=IsolationProof(level="probe"),
    )  # fmt: skip
    return replace(plain, **more)  # type: ignore[arg-type]


def report(*jobs: JobReport, status: RunState = RunState.COMPLETE) -> Report:
    return Report(run_id="r1", status=status, reason="", plan_digest="d" * 64, gaps=(), jobs=jobs)


# ------------------------------------------------------------------------------ cells


@each_row(
    ("value", "unit", "text"),
    [
        (None, None, "-"), (0.5, None, "0.5000"), (1.0, None, "1.0000"), (-1.0, None, "-1.0000"), (1.25, None, "1.2"),
        (160.04, None, "160.0"), (0.0, "USD", "0"), (0.0001234, "USD", "0.000123"), (12.5, "USD", "12.5"),
        (100.0, "USD", "100"), (3.14159, "ms", "3.14"), (99.994, "ms", "99.99"), (1234.5, "ms", "1234"),
        (7.0, "ms", "7.00"),         (0.5, "tokens", "0.5000"), (1500.0, "tokens", "1500.0"),
    ],
)  # fmt: skip
def test_number_has_the_digits_of_its_unit(value: float | None, unit: str | None, text: str) -> None:
    assert number(value, unit) == text


def test_a_value_is_shown_with_its_interval_if_any() -> None:
    assert with_interval(measured()) == "0.5000 [0.2500, 0.7500]"
    assert with_interval(measured(interval=None)) == "0.5000"
    assert with_interval(measured(value=None)) == "-"
    money = measured("cost_total", 0.25, unit="USD", interval=replace(SPAN, low=0.1))
    assert with_interval(money) == "0.25 [0.1, 0.75]"


@given(st.lists(st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False), st.integers(), st.text(max_size=8))))
def test_csv_text_cells_are_never_formulas_and_numbers_stay_numbers(cells: list[object]) -> None:
    for before, after in zip(cells, safe_row(cells), strict=True):
        if isinstance(before, str):
            assert isinstance(after, str) and after in (before, f"'{before}")
            assert not after.startswith(("=", "+", "-", "@", "\t", "\r")) or math.isfinite(
                float(after.replace(",", "."))
            )
        else:
            assert after is before


def test_a_number_with_a_sign_keeps_its_text_in_csv() -> None:
    kept = ["-5", "-12.5", "+49", "-3,5"]
    escaped = ["-5+1", "+49 30 123", "--limit", "-1\n", "=1", "-", "-A1"]
    assert safe_row([*kept, *escaped]) == [*kept, *(f"'{text}" for text in escaped)]


# ------------------------------------------------------------------------------ overview


def test_the_overview_shows_value_interval_failures_as_zero_and_counts() -> None:
    one = measured(value_failures_as_zero=0.25, n_failed=4, n_excluded=3, breakdown=typed({"b": 1, "a": 3}))
    other = measured(value=0.75)
    (grid,) = overview(report(job(metrics=(one,), counts={State.CORRECT: 2}), job("y", metrics=(other,))))
    assert grid.title == "facts 1 | k=10 | models: acme/m1"
    assert grid.head == ("provider", "accuracy", "failures as 0", "n", "failed", "excluded", "a", "b")
    assert grid.rows == (
        ("y", "0.7500 [0.2500, 0.7500]", "0.7500", "4", "0", "0", "-", "-"),
        ("x", "0.5000 [0.2500, 0.7500]", "-", "4", "2 (2 pending)", "3", "0.5000", "0.5000"),
    )
    assert [grid.head[at] for at in grid.optional] == ["failures as 0"], "without failures it equals the score"
    assert grid.breaks == ()
    assert grid.right == (1, 2, 3, 4, 5, 6, 7)


def test_models_have_a_column_if_they_differ() -> None:
    names = [
        ModelNames(embedding=None, answering="acme/m1", judge=None),
        ModelNames(embedding="(builtin)", answering=None, judge="acme/j"),
        ModelNames(embedding="acme/e", answering="acme/m1", judge=None),
    ]
    (grid,) = overview(report(*(job(of={"models": one}) for one in names)))
    assert grid.head[:2] == ("provider", "models") and "models:" not in grid.title
    assert [row[1] for row in grid.rows] == ["acme/m1", "none, judge acme/j", "acme/m1, embedding acme/e"]
    assert grid.right[0] == 2


INVALID = {"invalid": ("too many",), "counts": {State.ERROR: 3}, "metrics": (measured(n=0, n_failed=4),)}
EXCLUDED = {"invalid": ("a leak",), "metrics": (measured(n=2, n_failed=1, n_excluded=1),)}
NO_NUMBER = {
    "all failed": ("INVALID", INVALID, ("0", "3 (1 pending)", "0"), ("x: INVALID, too many",)),
    "some excluded": ("INVALID", EXCLUDED, ("2", "1", "1"), ("x: INVALID, a leak",)),
    "skipped": ("skipped", {"of": {"skipped": "no key"}, "counts": {}, "n_planned": 0}, ("0", "0", "0"), ()),
    "pending": ("-", {"metrics": (), "counts": {}}, ("0", "0 (4 pending)", "0"), ()),
}  # fmt: skip


@pytest.mark.parametrize("why", NO_NUMBER)
def test_a_job_without_a_value_shows_the_reason_and_its_counts(why: str) -> None:
    word, changes, counts, notes = NO_NUMBER[why]
    (grid,) = overview(report(job(**changes), job("y", metrics=(measured(breakdown=typed({"a": 4})),))))  # type: ignore[arg-type]
    assert grid.rows[-1][:6] == ("x", word, "-", *counts)
    assert grid.rows[-1][6:] == ("",) * (len(grid.head) - 6)
    assert grid.notes == notes


def test_the_counts_of_an_INVALID_job_are_those_of_the_metric_of_the_column() -> None:
    of = measuring("accuracy", "hit_at_5")
    unscored, found = measured(value=None, n=0, n_failed=4), measured("hit_at_5", n=3, n_excluded=1)
    one = job(of=of, invalid=("no verdicts",), metrics=(unscored, found))
    (grid,) = overview(report(one))
    assert (grid.head[1], grid.rows[0][1:6]) == ("accuracy", ("INVALID", "-", "0", "4", "0"))
    alone = {**of, "models": ModelNames(embedding=None, answering=None, judge=None)}
    for failed in (0, 1):
        unscored = measured(value=None, n=0, n_failed=failed, n_excluded=4 - failed)
        (grid,) = overview(report(job(of=alone, invalid=("a leak",), metrics=(unscored, found))))
        assert (grid.head[1], grid.rows[0][1:6]) == ("hit_at_5", ("INVALID", "-", "3", "0", "1"))


def test_the_title_shows_each_k_of_the_table() -> None:
    (grid,) = overview(report(*(job(f"x@k{k}", of={"k": k}) for k in (10, 3))))
    assert grid.title.startswith("facts 1 | k=3, 10 |")


def test_the_title_shows_selection_track_state_and_clusters() -> None:
    of = {"selection": {"limit": 20, "items": ["a", "b"]}, "track": "vendor", "cluster_by": "corpus"}
    clustered = measured(interval=replace(SPAN, method="cluster_t"))
    (grid,) = overview(report(job(of=of, metrics=(clustered,)), status=RunState.PAUSED))
    assert grid.title == (
        "facts 1 | k=10 | limit=20, items=a b | partial (paused) | track vendor | 95% intervals over corpus clusters "
        "| models: acme/m1"
    )
    for interval in (None, SPAN):
        (grid,) = overview(report(job(of={"cluster_by": "corpus"}, metrics=(measured(interval=interval),))))
        assert "clusters" not in grid.title


def test_the_title_and_the_results_name_the_rule_that_combines_epochs() -> None:
    shown = report(job(of={"epochs": 3, "epochs_reducer": "max"}))
    (grid,) = overview(shown)
    assert grid.title.startswith("facts 1 | k=10 | 3 epochs (max) | ")
    assert results_json(shown)["jobs"][0]["epochs_reducer"] == "max"


def test_benchmarks_tracks_and_headlines_have_separate_tables() -> None:
    jobs = [
        job("a"), job("b", of={"benchmark": "tales"}), job("c", of={"track": "vendor"}), job("d"),
        job("e", metrics=(measured("mrr"),)), job("f", invalid=("bad",)),
    ]  # fmt: skip
    grids = overview(report(*jobs))
    assert [[row[0] for row in grid.rows] for grid in grids] == [["a", "d", "f"], ["b"], ["c"], ["e"]]


def test_a_retrieval_only_job_with_answer_metrics_gets_a_note() -> None:
    of = {"models": ModelNames(embedding=None, answering=None, judge=None), **measuring("accuracy", "hit_at_5")}
    (grid,) = overview(report(job(of=of, notes=("k is large",)), job("y", of=of)))
    assert grid.notes == ("retrieval only: answer metrics need --answering-model", "x: k is large")
    (scored,) = overview(replace(report(job(of=of, notes=("k is large",))), stored=False))
    assert scored.notes == ("x: k is large",), "bench score has no flag for an answering model"


def test_the_matrix_of_a_retrieval_only_job_omits_answer_metrics() -> None:
    of = {"models": ModelNames(embedding=None, answering=None, judge=None), **measuring("accuracy", "hit_at_5")}
    metrics = (measured(value=None), measured("hit_at_5"))
    assert [row[0] for row in matrix(report(job(of=of, metrics=metrics)))[0].rows] == ["hit_at_5"]


@each_row(("width", "shown"), [(300, 6), (114, 2), (70, 0), (10, 0)])
def test_the_overview_shows_the_largest_question_types_that_fit(width: int, shown: int) -> None:
    sizes = {f"type-{at}-name": at for at in range(1, 9)}
    (grid,) = overview(report(job(metrics=(measured(breakdown=typed(sizes)),))), width=width)
    assert len(grid.head) - 6 == shown
    assert list(grid.head[6:]) == [f"type-{at}-name" for at in range(8, 8 - shown, -1)]
    assert grid.notes == ("bench results r1 --by question_type shows all 8 types",)


def test_question_types_without_a_value_or_name_have_no_column() -> None:
    (grid,) = overview(report(job(metrics=(measured(breakdown=typed({"a": 2, "b": 0, "(none)": 2})),))))
    assert grid.head[6:] == ("a",) and grid.notes == ()


def test_the_width_of_a_grid_includes_separators() -> None:
    assert Grid(title="t", head=("a", "bb"), rows=(("cccc", "d"),)).width == 4 + 3 + 2 + 3


# ------------------------------------------------------------------------------ matrix and breakdown


def test_the_matrix_shows_each_metric_of_each_job() -> None:
    jobs = [
        job("x", metrics=(measured(), measured("latency_p50", 12.0, unit="ms"))),
        job("y", metrics=(measured("mrr", 0.25), measured(value=None, n=0))),
        job("z", metrics=(measured(),), invalid=("bad",)),
    ]
    first, second = matrix(report(*jobs))
    assert first.head == ("metric", "x", "z") and first.right == (1, 2)
    assert first.rows == (("accuracy", "0.5000", "-"), ("latency_p50 (ms)", "12.00", "-"))
    assert second.rows == (("mrr", "0.2500"), ("accuracy", "-"))


def test_rows_are_sorted_by_value_with_controls_below_a_line() -> None:
    jobs = [
        job("low", metrics=(measured(value=0.1),)), job("oracle", metrics=(measured(value=1.0),)),
        job("bad", invalid=("too many",)), job("high", metrics=(measured(value=0.9),)), job("random"),
    ]  # fmt: skip
    (grid,) = overview(report(*jobs))
    assert [row[0] for row in grid.rows] == ["high", "low", "bad", "oracle (control)", "random (control)"]
    assert grid.breaks == (3,)
    assert matrix(report(*jobs))[0].head == ("metric", "high", "low", "bad", "oracle", "random")


def test_columns_about_failures_are_optional_if_no_item_failed() -> None:
    (grid,) = overview(report(job(metrics=(measured(value_failures_as_zero=0.5),), counts={State.CORRECT: 4})))
    assert [grid.head[at] for at in grid.optional] == ["excluded", "failed", "failures as 0"]


def test_job_texts_contain_the_models_that_differ() -> None:
    def of(embedding: str | None, answering: str | None, judge: str | None = None) -> JobReport:
        return job(of={"models": ModelNames(embedding=embedding, answering=answering, judge=judge)})

    assert job_texts([of(None, "m1"), of(None, "m2")]) == ["x / m1", "x / m2"]
    assert job_texts([of("e1", "m1"), of(None, "m1")]) == ["x", "x"], "a missing embedding model is not a difference"
    assert job_texts([of("e1", "m1"), of("e2", None, "j")]) == ["x / e1 / m1 / none", "x / e2 / none / j"]


def test_a_breakdown_has_labels_as_rows_and_jobs_as_columns() -> None:
    jobs = [
        job("x", metrics=(measured(breakdown=typed({"a": 3, "b": 1})),)),
        job("y", metrics=(measured(breakdown=typed({"b": 2}, 0.75)),)),
        job("z", metrics=(measured(breakdown=typed({"a": 1})),), invalid=("bad",)),
        job("w"),
    ]
    (grid,) = breakdown(report(*jobs), "question_type")
    assert grid.title == "facts: accuracy by question_type"
    assert grid.head == ("question_type", "n", "x", "y")
    assert grid.rows == (("a", "3", "0.5000", "-"), ("b", "1", "0.5000", "0.7500"))
    assert breakdown(report(*jobs), "speaker") == []


# ------------------------------------------------------------------------------ markdown, csv, html

HOSTILE = ("a|b", "<script>alert(1)</script>", "[x](javascript:alert(1))", "![x](http://evil)", "`code`", "**bold**",
           "line\nbreak\r\n# head", "\x1b[31m\u202e", "&lt;", "=1+1", "[0.1, 0.2]")  # fmt: skip


@each_row("text", HOSTILE)
def test_markdown_cells_are_escaped_text_on_one_line(text: str) -> None:
    from markdown_it import MarkdownIt

    grid = Grid(title=text, head=("a", "b"), rows=((text, "1"),), right=(1,), notes=(text,))
    made = markdown(grid)
    assert not HIDDEN.search(made)
    page = MarkdownIt("commonmark").enable("table").render(made)
    tags = Tags()
    tags.feed(page)
    assert tags.names <= {"h3", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}, tags.names
    assert tags.names >= {"h3", "table", "ul"} and page.count("<td") == 2
    visible = " ".join(text.replace("\r", "\\x0d").split())
    for sign, code in (("\x1b", "\\x1b"), ("\u202e", "\\u202e")):
        visible = visible.replace(sign, code)
    assert tags.text.count(visible) == 3, tags.text


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        assert not [name for name, _ in attributes if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_markdown_aligns_number_columns_right() -> None:
    grid = Grid(title="t", head=("a", "b"), rows=(("x", "1"),), right=(1,), notes=("n",))
    assert markdown(grid) == "### t\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n\n- n\n"
    assert markdown(replace(grid, notes=())) == "### t\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n"


@each_row("text", HOSTILE)
def test_a_static_page_escapes_text_and_loads_no_resource(text: str) -> None:
    grid = Grid(title=text, head=(text, "b"), rows=((text, "1"),), right=(1,), notes=(text,))
    page = grids_page(text, [grid])
    assert (
        not HIDDEN.search(page)
        and "default-src 'none'" in page
        and "http" not in page.replace("http-equiv", "").replace("http://evil", "")
    )
    tags = Tags()
    tags.feed(page)
    assert not tags.names & {"script", "img", "a", "link", "iframe"}
    shown = text.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e").replace("\r", "\\x0d")
    assert tags.text.count(shown) == 6, "title, heading, grid, column, cell and note"


def test_the_page_of_a_run_contains_all_its_tables() -> None:
    found = report(job(metrics=(measured(breakdown=typed({"a": 4})),)))
    page = grids_page("Run r1", [*overview(found), *matrix(found), *breakdown(found, "question_type")])
    assert page.count("<table>") == 3 and "<h1>Run r1</h1>" in page and page.count("<td class='number'>") >= 8


def test_csv_has_one_line_per_metric_and_label_with_unrounded_values() -> None:
    third = measured(
        value=1 / 3, n_failed=1, n_excluded=2, breakdown={"question_type": {"=x": measured(interval=None)}}
    )
    of = {"models": ModelNames(embedding="acme/e", answering="acme/m1", judge="acme/j")}
    head, *rows = csv.reader(io.StringIO(csv_text(report(job(of=of, metrics=(third,)))), newline=""))
    assert tuple(head) == CSV_HEAD
    assert rows == [
        ["facts", "x", "acme/e", "acme/m1", "acme/j", "uniform", "True", "accuracy", "accuracy/1", "", "",
         "0.3333333333333333", "0.3333333333333333", "4", "2", "1", "0.25", "0.75", "0"],
        ["facts", "x", "acme/e", "acme/m1", "acme/j", "uniform", "True", "accuracy", "accuracy/1", "question_type",
         "'=x", "0.5", "0.5", "4", "0", "0", "", "", "0"],
    ]  # fmt: skip


def test_the_markdown_report_begins_with_the_state() -> None:
    text = report_markdown(report(job(), status=RunState.STOPPED))
    assert text.startswith("# Run r1\n\nState: stopped, numbers can still change. Plan `dddddddddddddddd`.\n")
    assert "State: complete. Plan" in report_markdown(report(job()))


# ------------------------------------------------------------------------------ json


def test_metric_json_contains_method_and_unknown_count_of_costs() -> None:
    money = measured(
        "cost_total", 1.5, unit="USD", n_unknown=2, method="prices", note="at least", excluded_reasons={"b": 1, "a": 2}
    )
    assert metric_json(money) == {
        "definition": "cost_total/1", "value": 1.5, "value_failures_as_zero": 1.5, "n": 4, "n_excluded": 0,
        "n_failed": 0, "interval": {"low": 0.25, "high": 0.75, "level": 0.95, "method": "wilson"}, "breakdown": {},
        "unit": "USD", "n_unknown": 2, "method": "prices", "estimated": False,
        "excluded": {"a": 2, "b": 1}, "note": "at least",
    }  # fmt: skip
    plain = metric_json(measured(interval=None, breakdown=typed({"a": 1})))
    assert set(plain) == {
        "definition", "value", "value_failures_as_zero", "n", "n_excluded", "n_failed", "interval", "breakdown",
    }  # fmt: skip
    assert plain["interval"] is None
    assert plain["breakdown"]["question_type"]["a"]["n"] == 1  # type: ignore[index]


SPENT = UsageTotals(
    calls=2, errors=1, usage=Usage(input_tokens=5, output_tokens=1, total_tokens=6), cost_usd="0.5", unknown_costs=1
)


def rich() -> Report:
    of = measuring("accuracy", "latency_p50", "cost_total")
    metrics = (measured(), measured("latency_p50", 3.0, unit="ms"), measured("cost_total", 0.1, unit="USD"))
    one = job(
        of=of, metrics=metrics, spent={"lane-x": {"embedding": SPENT}, "job-x": {"embedding": SPENT}}, notes=("n",)
    )
    return report(
        one, job("y", of=of, metrics=metrics, counts={State.ERROR: 1}, error_kinds={"timeout": 1}, invalid=("bad",))
    )


def test_results_json_has_plan_outcomes_and_usage_of_each_job() -> None:
    found = results_json(rich())
    assert [found[name] for name in ("run_id", "status", "partial")] == ["r1", "complete", False]
    jobs = found["jobs"]
    assert isinstance(jobs, list)
    first, second = jobs
    assert set(first) >= {
        "benchmark", "provider", "models", "track", "n_planned", "n_scored", "n_pending", "counts", "valid", "metrics",
        "error_kinds", "usage", "isolation", "notes", "skipped", "selection", "k", "invalid",
    }  # fmt: skip
    assert (first["n_planned"], first["n_scored"], first["n_pending"], first["counts"]) == (
        4, 4, 0, {"correct": 2, "incorrect": 2},
    )  # fmt: skip
    assert first["usage"]["embedding"]["calls"] == 4 and first["usage"]["embedding"]["cost_usd"] == "1.0"
    assert set(first["usage"]) == {"answering", "judge", "embedding", "provider"}
    assert first["usage"]["judge"]["calls"] == 0
    assert (second["valid"], second["invalid"], second["error_kinds"], second["n_pending"]) == (
        False, ["bad"], {"timeout": 1}, 3,
    )  # fmt: skip


def test_report_json_separates_reproducible_results_from_measurements() -> None:
    found = report_json(rich())
    results, taken = found["results"], found["measured"]
    assert isinstance(results, dict) and isinstance(taken, dict)
    assert set(results) == {"plan_digest", "partial", "jobs"}
    assert set(taken) == {"run_id", "status", "reason", "gaps", "jobs"}
    for fixed, timed in zip(results["jobs"], taken["jobs"], strict=True):
        assert set(fixed["metrics"]) == {"accuracy"} and set(timed["metrics"]) == {"latency_p50", "cost_total"}
        output = {"usage", "memory_cost", "isolation", "notes", "signs", "judge_calibration"}
        assert not output & set(fixed)
        assert set(timed) == {"benchmark", "provider", "metrics"} | output
    text = str(results)
    assert "r1" not in text, "the run id is not part of the results"


def test_done_job_has_the_headline_of_a_valid_job() -> None:
    first, second = (done_job(one) for one in rich().jobs)
    headline = first["headline"]
    assert isinstance(headline, dict)
    assert (headline["metric"], headline["value"], second["headline"]) == ("accuracy", 0.5, None)
    assert set(first) >= {"benchmark", "provider", "models", "n_planned", "counts", "valid", "usage", "n_pending"}


def test_results_json_has_overlay_scores_and_above_ceiling() -> None:
    overlay = OverlayRecord(name="audit", sha256="0" * 64, source="us", items={"q1": "wrong", "q2": "vague"})
    scores = GoldScores(raw=0.9, corrected=0.7, ceiling=0.8, n=10, n_listed=2)
    one = job(of={"overlay": overlay}, gold={"accuracy": scores})
    jobs = results_json(report(one, job("y")))["jobs"]
    assert isinstance(jobs, list)
    assert jobs[0]["gold"] == {
        "overlay": "audit", "sha256": "0" * 64, "source": "us", "n_listed": 2,
        "metrics": {
            "accuracy": {"raw": 0.9, "corrected": 0.7, "ceiling": 0.8, "n": 10, "n_listed": 2, "above_ceiling": True}
        },
    }  # fmt: skip
    assert "gold" not in jobs[1]


def test_metric_json_has_the_spread_of_repeated_items() -> None:
    assert metric_json(measured(spread=0.25))["spread"] == 0.25
    assert "spread" not in metric_json(measured())
