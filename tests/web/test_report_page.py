"""The one-page report: summary, table, losses, and the same as a self-contained file."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from bench.journal import Reader
from bench.model import Phase, State
from bench.report import fold
from bench.report.item_outcomes import item_outcomes
from bench.report.summary import rebuild
from bench.web.documents.report_documents import report_page_file
from bench.web.report_page import ORDER, report_page_of
from tests.full_journal import call, write_run
from tests.rows import each_row
from tests.small_journal import measuring, record
from tests.web.browser import CHROMIUM, browsing
from tests.web.test_headlines import LONG, NAMES, failed, plain, right, share, text_of, wrong
from tests.web.test_pages import checked
from tests.web.workspaces import visiting


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    """Run ``r1`` of seven jobs over two question types; one of them is INVALID."""
    kinds = ({"question_type": "one"}, {"question_type": "two"})
    jobs = {"oracle": 11, "no-memory": 1, "random": 2, "full-context": 7, LONG: 8, "bm25": 6}
    jobs_of_run = []
    for name, count in jobs.items():
        items = [replace(one, labels=kinds[at % 2]) for at, one in enumerate(share(count))]
        jobs_of_run.append((record(name, **NAMES), items))
    await write_run(tmp_path, "r1", [*jobs_of_run, (record("flaky", **NAMES), [failed(at) for at in range(12)])])
    await rebuild(tmp_path)
    return tmp_path


async def test_the_summary_names_the_best_system_with_interval_p_value_and_gap(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        text = plain(await text_of(visit, "/report/r1"))
    assert f"{LONG} has the best accuracy: 0.67" in text and "0.17 ahead of bm25" in text
    assert "Compared item by item: " in text and "p = " in text
    assert "Without a memory, accuracy is 0.08, with all the evidence 0.92" in text
    assert "closes 70% of that gap" in text and "INVALID, without a number: flaky" in text


async def test_the_report_names_ties_losses_and_shared_notes(tmp_path: Path) -> None:
    jobs = [(record(name, **measuring("accuracy")), share(count)) for name, count in (("a", 8), ("b", 8), ("c", 5))]
    await write_run(tmp_path, "r1", jobs)
    await rebuild(tmp_path)
    async with visiting(tmp_path) as visit:
        text = plain(await text_of(visit, "/report/r1?per_day=1000"))
        run = await visit.document("/runs/r1")
    assert "a and b have the best accuracy: 0.67" in text and "0.25 ahead of c" in text
    assert all(f"items that {name} lost" in text for name in "abc")
    for job in run["results"]["jobs"]:
        job["notes"] = ["recall means little"]
    run["results"]["jobs"][2]["notes"].append("a judge was doubted")
    (group,) = report_page_of(run, None)["groups"]
    assert group["notes"] == ["all: recall means little", "c: a judge was doubted"]


async def test_each_loss_is_counted_at_the_step_where_the_item_was_lost(tmp_path: Path) -> None:
    items = [
        right(0),
        wrong(1),
        wrong(2, retrieved=(("s9",),)),
        wrong(3, retrieved=(("s9",),), beyond=(("s1",),), context_hits=1),
        wrong(4, not_ingested=("s1",)),
        failed(5),
    ]
    await write_run(tmp_path, "r1", [(record("x", **measuring("accuracy")), items)], request={"max_error_rate": 1})
    async with Reader.open(tmp_path / "checkpoints" / "r1") as reader:
        found = await item_outcomes(reader)
    (job,) = found["jobs"]  # type: ignore[misc]
    assert job["right"] == 1 and job["losses"] == {
        "error": 1, "not_ingested": 1, "not_retrieved": 1, "below_cut": 1, "answer_wrong": 1,
    }  # fmt: skip
    assert job["ranks"][:4] == [1, 1, 0, 2]
    async with visiting(tmp_path) as visit:
        text = await text_of(visit, "/report/r1")
    for words in ("no right answer: 1 of 6", "not returned: 1 of 6", "before the prompt: 1 of 6", "failed: 1 of 6"):
        assert words in text, words


async def test_the_report_file_is_self_contained_and_has_the_same_charts(workspace: Path) -> None:
    async with Reader.open(workspace / "checkpoints" / "r1") as reader:
        text = await report_page_file(reader, await fold(reader), workspace)
    assert "<svg" in text and "seg-right" in text and "<script" not in text and "http-equiv" in text
    assert not [one for one in ("href=", "src=", "url(", "http://", "https://") if one in text]
    assert f"{LONG} has the best accuracy" in plain(text) and "Compared item by item" in plain(text)
    async with visiting(workspace) as visit:
        status, again, headers = await visit.ask("GET", "/report/r1?download=1")
    assert status == 200 and headers["Content-Disposition"] == 'attachment; filename="r1.html"'
    assert "<script" not in again and "href=" not in again


async def test_results_can_be_downloaded_as_csv_and_markdown(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        status, text, headers = await visit.ask("GET", "/runs/r1/results.csv")
        assert (status, headers.getone("Content-Type").partition(";")[0]) == (200, "text/csv")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert {row["provider"] for row in rows} >= {LONG, "bm25"}
        assert "# Run r1" in await text_of(visit, "/runs/r1/results.md")
        assert (await visit.get("/runs/r1/results.exe"))[0] == 404


@each_row(("cost", "thousand", "month"), [("0.01", "10.00", "300.00"), ("0.0000002", "0.0002", "0.006")])
async def test_per_day_traffic_has_a_price_if_calls_have_one(
    cost: str, thousand: str, month: str, tmp_path: Path
) -> None:
    priced = [replace(right(at), calls={Phase.ANSWER: (call("answering", cost=cost),)}) for at in range(6)]
    await write_run(tmp_path, "r1", [(record("x", **NAMES), priced)])
    async with visiting(tmp_path) as visit:
        text = plain(await text_of(visit, "/report/r1?per_day=1000"))
    assert f" {thousand} " in text and f"1,000 questions a day cost per month (30 days): x USD {month}." in text


@pytest.mark.skipif(CHROMIUM is None, reason="CHROMIUM IS NOT INSTALLED: the pages were not driven")
async def test_the_report_of_seven_systems_fits_each_screen_width(workspace: Path, tmp_path: Path) -> None:
    over = "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"
    async with visiting(workspace) as visit, browsing() as browser:
        for path in ("/runs/r1", "/report/r1"):
            for width, most in ((1400, 4000), (768, 5000), (390, 9000)):
                size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
                await browser.call("Emulation.setDeviceMetricsOverride", **size)
                await browser.open(visit.site.url + path, "document.querySelector('section.report')")
                assert await browser.value("document.documentElement.scrollHeight") < most, (path, width)
                assert not await browser.value(over), (path, width)
        seen = "document.querySelector('.cards td strong').getBoundingClientRect().right <= innerWidth"
        assert await browser.value(seen), "a phone shows the value of the best system"
        assert browser.problems == []


async def test_pages_with_charts_have_nested_tags(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        for path in ("/runs/r1", "/report/r1", "/leaderboard", "/"):
            checked(await text_of(visit, path))


def test_the_bar_of_states_contains_each_state() -> None:
    assert set(ORDER) == set(State)
