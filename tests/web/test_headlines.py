"""Headlines of pages: INVALID next to the state, unranked bounds, pending items separate from failed ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from bench.journal import ProbeRow, RunState
from bench.model import State
from bench.plan.job_record import ModelNames
from bench.report.summary import rebuild
from bench.web.formatting import day, plain_value
from tests.full_journal import WRONG, ItemData, write_run
from tests.small_journal import measuring, record
from tests.web.browser import CHROMIUM, browsing
from tests.web.workspaces import Visit, visiting

NAMES = measuring("accuracy")
LONG = "acme-memory-cloud-enterprise-edition-eu-central"


def right(at: int, **more: Any) -> ItemData:
    return replace(ItemData(item=f"q{at}", corpus=f"c{at % 6}", values={"accuracy": 1.0}), **more)


def wrong(at: int, **more: Any) -> ItemData:
    return replace(right(at), state=State.INCORRECT, verdicts=(WRONG,), values={"accuracy": 0.0}, **more)


def failed(at: int) -> ItemData:
    return replace(right(at), state=State.ERROR, outcome="unavailable", message="acme.search -> 500", hits=())


def share(count: int, of: int = 12, **more: Any) -> list[ItemData]:
    return [right(at, **more) if at < count else wrong(at, **more) for at in range(of)]


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    """Run ``r1``: two systems, three bounds, and one whose items all failed."""
    jobs = {LONG: share(8), "bm25": share(6), "oracle": share(11), "no-memory": share(1), "random": share(2)}
    jobs_of_run = [(record(name, **NAMES), items) for name, items in jobs.items()]
    await write_run(tmp_path, "r1", [*jobs_of_run, (record("flaky", **NAMES), [failed(at) for at in range(12)])])
    await rebuild(tmp_path)
    return tmp_path


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


async def text_of(visit: Visit, path: str) -> str:
    status, html = await visit.get(path)
    assert status == 200, html
    return html


async def test_a_run_whose_items_all_failed_is_shown_as_invalid_not_complete(tmp_path: Path) -> None:
    await write_run(tmp_path, "r1", [(record("flaky", **NAMES), [failed(at) for at in range(4)])])
    async with visiting(tmp_path) as visit:
        row = (await visit.document("/runs"))["runs"][0]
        assert (row["state"], row["jobs"], row["invalid_jobs"], row["headline"]) == ("complete", 1, 1, None)
        for path in ("/", "/runs/r1", "/report/r1", "/?state=invalid"):
            html = await text_of(visit, path)
            assert 'class="state complete"' not in html and "1 of 1 job INVALID" in plain(html), path
        assert "INVALID | r1" in await text_of(visit, "/runs/r1")
        assert "No run here" in await text_of(visit, "/?state=paused")


async def test_an_invalid_job_shows_the_reason_and_its_most_frequent_failure(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        text = plain(await text_of(visit, "/runs/r1"))
    assert "12 of 12 items failed (error or not_ready): above the allowed 2%" in text
    assert "The most frequent, 12 times: acme.search -&gt; 500." in text


async def test_a_failed_isolation_check_shows_every_job_of_a_shared_build_as_invalid(tmp_path: Path) -> None:
    jobs = [(record("a@k1", **NAMES), share(2)), (record("a@k2", shares="lane-a@k1", **NAMES), share(2))]
    probe = ProbeRow(lane="lane-a@k1", corpus="c0", attempt=1, kind="canary", passed=False)
    await write_run(tmp_path, "r1", jobs, more=[probe])
    async with visiting(tmp_path) as visit:
        found = await visit.document("/runs/r1")
        text = plain(await text_of(visit, "/runs/r1"))
    reason = 'an isolation probe found foreign memories in a namespace: corpus "c0" returned a memory of another corpus'
    assert [job["invalid"] for job in found["progress"]["jobs"]] == [[reason], [reason]]
    assert found["progress"]["invalid_jobs"] == 2 and "2 of 2 jobs INVALID" in text


async def test_the_headline_of_a_run_is_the_best_system_and_never_a_bound(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        best = (await visit.document("/runs"))["runs"][0]["headline"]
    assert (best["provider"], best["bound"], best["metric"]) == (LONG, False, "accuracy")
    assert best["value"] == pytest.approx(8 / 12) and best["interval"]["low"] < best["value"]


async def test_bounds_are_drawn_as_lines_and_not_ranked(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        html = await text_of(visit, "/leaderboard")
        (table,) = (await visit.document("/leaderboard"))["tables"]
        run = await text_of(visit, "/runs/r1")
    assert run.count('<span class="soft">(control)</span>') == 3 and 'id="read-control"' in run
    assert table["saying"][0].startswith(f"{LONG} leads on accuracy") and table["leaders"] == [
        f"r1:{LONG}", "r1:bm25",
    ]  # fmt: skip
    points = re.findall(r"<g><title>([^:]+):", html)
    assert points and not {"oracle", "no-memory", "random"} & set(points)
    assert html.count('<span class="soft">(control)</span>') == 3 and 'id="read-control"' in html
    assert 'class="bound"' in html and "oracle 0.92" in html and "Compare the two" in html
    assert "bench compare" not in html


async def test_an_invalid_job_is_named_below_its_table_as_not_ranked(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        (table,) = (await visit.document("/leaderboard"))["tables"]
        text = plain(await text_of(visit, "/leaderboard"))
    assert [one["provider"] for one in table["not_ranked"]] == ["flaky"]
    assert "Not ranked, because INVALID: flaky" in text


async def test_the_summary_of_a_question_type_matches_its_table(tmp_path: Path) -> None:
    one, two = {"question_type": "one"}, {"question_type": "two"}
    a = [*share(6, labels=one), *(replace(wrong(at + 50), labels=two) for at in range(12))]
    b = [*share(4, labels=one), *(replace(right(at + 50), labels=two) for at in range(12))]
    await write_run(tmp_path, "r1", [(record("a", **NAMES), a), (record("b", **NAMES), b)])
    await rebuild(tmp_path)
    async with visiting(tmp_path) as visit:
        for kind, first in (("one", "a"), ("two", "b")):
            (table,) = (await visit.document(f"/leaderboard?type={kind}"))["tables"]
            assert table["rows"][0]["provider"] == first
            assert table["saying"][0].startswith(f"{kind}: {first} leads on accuracy"), table["saying"]


async def test_pending_items_do_not_count_as_failed_and_give_no_interval(tmp_path: Path) -> None:
    await write_run(tmp_path, "r1", [(record("x", **NAMES), share(3, of=4))], state=RunState.PAUSED, planned=50)
    async with visiting(tmp_path) as visit:
        html = await text_of(visit, "/runs/r1")
    text = plain(html)
    assert "so far 0.75" in text and "n 4 of 50" in text and "failures as 0:" not in text.split("How to read this")[0]
    assert "0 failed" in text and "pending 46" in text


async def test_two_answering_models_of_one_run_can_be_compared(tmp_path: Path) -> None:
    jobs = []
    for model, count in (("acme/big", 9), ("acme/small", 3)):
        own = {**NAMES, "models": ModelNames(embedding=None, answering=model, judge=None)}
        jobs.append((record("bm25", key=model, answer_owner=f"answer-{model}", **own), share(count)))
    await write_run(tmp_path, "r1", jobs)
    await rebuild(tmp_path)
    sides = ["r1:bm25:acme/big", "r1:bm25:acme/small"]
    async with visiting(tmp_path) as visit:
        assert (await visit.document("/runs"))["runs"][0]["sides"] == ["bm25:acme/big", "bm25:acme/small"]
        form = await text_of(visit, "/compare")
        html = await text_of(visit, f"/compare?a={sides[0]}&b={sides[1]}")
        board = await text_of(visit, "/leaderboard?view=model")
    assert all(f'<option value="{one}"' in form for one in sides)
    assert "bm25 with acme/big" in plain(html) and 'class="note"' not in html
    assert f"/compare?{urlencode({'a': sides[0], 'b': sides[1]})}".replace("&", "&amp;") in board


async def test_the_leaderboard_by_type_links_each_cell_to_its_items(workspace: Path) -> None:
    two = ({"question_type": "one"}, {"question_type": "two"})
    items = [replace(one, labels=two[at % 2]) for at, one in enumerate(share(7))]
    await write_run(workspace, "r2", [(record("split", **NAMES), items)])
    await rebuild(workspace)
    async with visiting(workspace) as visit:
        html = await text_of(visit, "/leaderboard?view=type")
    assert "/runs/r2/items?provider=split&amp;benchmark=facts&amp;type=two" in html and "n 6" in plain(html)


async def test_the_verify_page_has_the_navigation_of_the_other_pages(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        html = await text_of(visit, "/verify.html")
    assert '<a href="/leaderboard">' in html and '<a href="/verify.html" aria-current="page">' in html


async def test_no_page_shows_python_literals(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        for path in ("/", "/runs/r1", "/report/r1", "/compare?a=r1:bm25&b=r1:oracle", "/leaderboard", "/receipts",
                     "/runs/r1/items", "/configs"):  # fmt: skip
            text = plain(await text_of(visit, path))
            assert "{&#39;" not in text and "None" not in text and "True" not in text, path


def test_plain_value_and_day_format_values_for_reading() -> None:
    assert plain_value({"n": 400, "sha256": "ab", "limit": None}) == "n 400, sha256 ab"
    assert plain_value([True, None, 2]) == "yes, –, 2"
    assert day("2023-07-06T20:18:00+00:00") == "6 Jul 2023, 20:18" and day("2023-07-06") == "6 Jul 2023"
    assert day("yesterday") == "yesterday" and day(None) == "–"


@pytest.mark.skipif(CHROMIUM is None, reason="CHROMIUM IS NOT INSTALLED: the pages were not driven")
async def test_a_refresh_of_the_list_keeps_focus_and_row_height(workspace: Path, tmp_path: Path) -> None:
    async with visiting(workspace) as visit, browsing() as browser:
        await browser.open(f"{visit.site.url}/?", "document.querySelector('[data-poll]')")
        await browser.value(
            "(() => { const link = document.querySelector('#runs td a'); link.focus(); window.kept = link;"
            "document.querySelector('#runs').dataset.poll = '1'; })()"
        )
        note = workspace / "results" / "results.sqlite"
        await write_run(workspace, "r2", [(record("bm25", **NAMES), share(5))])
        await browser.until("document.querySelectorAll('#runs tbody tr').length === 2", 30)
        assert note.exists() and await browser.value("document.activeElement.tagName") == "A"
        assert await browser.value("document.body.contains(window.kept)")
        reason = json.dumps("x" * 200)
        await browser.value(f"document.querySelector('#runs .clip').textContent = {reason}")
        size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await browser.call("Emulation.setDeviceMetricsOverride", **size)
        rows = "[...document.querySelectorAll('#runs tbody tr')].map(row => row.getBoundingClientRect().height)"
        assert max(await browser.value(rows)) < 100
        assert browser.problems == []
