"""Layout of pages with seven systems, long names and reasons and an INVALID job: no overflow, limited height."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from bench.report.summary import rebuild
from tests.full_journal import write_run
from tests.small_journal import record
from tests.web.browser import CHROMIUM, Browser, browsing
from tests.web.test_headlines import LONG, NAMES, failed, share
from tests.web.workspaces import visiting

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="CHROMIUM IS NOT INSTALLED: the pages were not driven")
WORDS = "Ann said on the way to the harbour that it was Oslo and not Bergen where the red bicycle was repaired. " * 8
REASON = "acme.search -> 500 Internal Server Error: upstream connect error or disconnect before headers. " * 2
ITEM = "/runs/r1/items/q1"
PAGES = {
    "/": 900, "/runs/r1": 4000, "/report/r1": 4000, "/runs/r1/items": 2000, "/runs/r1/items?sort=latency": 2000,
    ITEM: 6000, f"{ITEM}?provider=bm25": 6000,
    "/compare": 900, f"/compare?a=r1:{LONG}&b=r1:bm25": 6000, "/leaderboard": 4000, "/leaderboard?view=type": 4000,
    "/receipts": 900, "/configs": 9000, "/configs/providers/mem0": 2000, "/providers/bm25": 1200, "/new": 1200,
    "/new?providers=bm25&limit=5": 1200, "/verify.html": 900,
}  # fmt: skip
"""path -> its greatest height in pixels at a width of 1280"""
AXE = importlib.util.find_spec("axe_core_python")
OVER = "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"
CLIPPED = """[...document.querySelectorAll('main td, main th, main p, main dd')].filter(one => one.clientWidth
    && getComputedStyle(one).overflowX === 'hidden' && one.scrollWidth > one.clientWidth + 1
    && !one.closest('[title]') && !one.querySelector('[title]')).map(one => one.textContent)"""
CUT = """[...document.querySelectorAll('.wide')].filter(one => one.scrollWidth > one.clientWidth + 1
    && !one.closest('details:not([open])')).map(one => one.getAttribute('aria-label'))"""
ROWS = """Math.max(0, ...[...document.querySelectorAll('#runs tr, table.grid tr, section.report table.cards tbody tr')]
    .map(one => one.getBoundingClientRect().height))"""
FINDINGS = "axe.run().then(found => found.violations.map(one => one.id + ' ' + one.nodes[0].target.join(' ')))"


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    """Run ``r1`` of seven jobs over two question types; ten long hits per item, one job is INVALID."""
    kinds = ({"question_type": "one"}, {"question_type": "temporal-reasoning-with-knowledge-updates"})
    jobs = []
    for name, count in {"oracle": 11, "no-memory": 1, "random": 2, "full-context": 7, LONG: 8, "bm25": 6}.items():
        items = [replace(one, labels=kinds[at % 2], hits=[WORDS] * 10) for at, one in enumerate(share(count))]
        jobs.append((record(name, **NAMES), items))
    flaky = [replace(failed(at), message=REASON) for at in range(12)]
    await write_run(tmp_path, "r1", [*jobs, (record("flaky", **NAMES), flaky)], extra={"note": "w" * 200})
    await rebuild(tmp_path)
    return tmp_path


async def looking(browser: Browser, url: str, width: int, scheme: str = "light") -> None:
    """Open a page at this width and wait until it is complete."""
    await browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    await browser.size(width, 900)
    await browser.open(url, "document.querySelector('h1') && !document.querySelector('[data-again], [data-busy]')")


@needs_browser
async def test_pages_with_long_names_and_reasons_do_not_clip_overflow_or_exceed_their_height(
    workspace: Path, tmp_path: Path
) -> None:
    async with visiting(workspace, runs=True) as visit, browsing() as browser:
        await browser.open(visit.site.login)
        for path, height in PAGES.items():
            await looking(browser, visit.site.url + path, 1280)
            assert await browser.value("document.documentElement.scrollHeight") <= height, path
            assert await browser.value(CLIPPED) == [] and await browser.value(CUT) == [], path
            assert await browser.value(ROWS) <= 130, path
            assert not await browser.value(OVER), path
        assert browser.problems == []


@needs_browser
async def test_the_compare_form_lists_the_systems_of_the_selected_run(workspace: Path, tmp_path: Path) -> None:
    await write_run(workspace, "r2", [(record("zep", **NAMES), share(5)), (record("bm25", **NAMES), share(5))])
    async with visiting(workspace) as visit, browsing() as browser:
        await browser.open(f"{visit.site.url}/compare?run_a=r1&run_b=r1", "document.querySelector('[name=run_b]')")
        await browser.value(
            "(() => { const run = document.querySelector('[name=run_b]'); run.value = 'r2';"
            "run.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        await browser.until("[...document.querySelectorAll('[name=b] option')].some(one => one.value === 'r2:zep')")
        assert await browser.value("document.querySelector('[name=run_a]').value") == "r1"
        await browser.open(f"{visit.site.url}/runs/r1", "document.querySelector('a.help')")
        await browser.value("document.querySelector('a.help').click()")
        await browser.until("document.querySelector('details.glossary').open && document.querySelector('dt:target')")
        assert browser.problems == []


@pytest.mark.long
@needs_browser
@pytest.mark.skipif(AXE is None, reason="axe-core-python is not installed: accessibility was not checked")
async def test_axe_finds_no_violation_on_any_page_in_both_schemes_and_three_widths(
    workspace: Path, tmp_path: Path
) -> None:
    assert AXE is not None and AXE.origin is not None
    script = Path(AXE.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    async with visiting(workspace, runs=True) as visit, browsing() as browser:
        await browser.open(visit.site.login)
        for path in PAGES:
            for width in (1280, 768, 390):
                for scheme in ("light", "dark"):
                    await looking(browser, visit.site.url + path, width, scheme)
                    await browser.call("Runtime.evaluate", expression=script)
                    assert await browser.value(FINDINGS) == [], (path, width, scheme)
                    assert not await browser.value(OVER), (path, width)
