"""The pages in a real browser: log in, start, watch and compare runs; no request goes to another host."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.small_world import World
from tests.web.browser import CHROMIUM, browsing
from tests.web.workspaces import ServiceProcess, bench, visiting

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="CHROMIUM IS NOT INSTALLED: the pages were not driven")

OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"


async def test_a_run_is_started_watched_and_compared_in_a_browser(
    tmp_path: Path, fault_server: Callable[..., str]
) -> None:
    url = fault_server("search:latency:ms=1200")
    world = World.make(tmp_path / "w", url, corpora=1, items=60)
    service = ServiceProcess(world.workspace, variables=world.variables)
    try:
        async with browsing() as browser:
            await browser.open(f"{service.url}/login?token={service.token}", "document.title === 'Runs'")
            chosen = "benchmarks=facts&providers=faulty&providers=oracle&run_id=seen"
            await browser.open(f"{service.url}/new?{chosen}", "document.querySelector('button.start')")
            await browser.value("document.querySelector('button.start').click()")
            await browser.until("document.querySelector('[data-live]')", 30)
            first = "document.querySelector('main progress').value"
            await browser.value("window.kept = true")
            await browser.until(f"{first} > 5", 60)
            await browser.until(
                "/^\\d+ % [|] ETA .* steps.s/.test(document.title + document.body.textContent.replace(/\\s+/g, ' '))",
                60,
            )
            assert await browser.value("window.kept"), "live updates do not reload the page"
            await browser.until("document.querySelector('.state.complete')", 90)

            await browser.open(f"{service.url}/runs/seen/items", "document.querySelector('tbody[data-keys] tr')")
            await browser.press("j")
            await browser.press("j")
            assert await browser.value("document.querySelectorAll('tr.at').length") == 1
            await browser.press("Enter")
            await browser.until("location.pathname.startsWith('/runs/seen/items/')")
            assert await browser.value("document.querySelectorAll('.hit.evidence').length") >= 1

            await browser.open(f"{service.url}/compare?a=seen:faulty&b=seen:oracle", "document.querySelector('h2')")
            assert "Like for like" in await browser.value("document.body.textContent")
            assert browser.problems == []
            hosts = {one.split("/")[2] for one in browser.requests if one.startswith("http")}
            assert hosts == {service.url.removeprefix("http://")}
    finally:
        assert service.end() == 143


async def test_no_page_overflows_a_phone_screen_or_reports_an_error(finished: Path, tmp_path: Path) -> None:
    async with visiting(finished) as visit, browsing() as browser:
        slug = (await visit.document("/runs/r1/items"))["items"][0]["slug"]
        item = f"/runs/r1/items/{slug}"
        paths = ("/", "/runs/r1", "/runs/r1/items", item, "/compare?a=r1:bm25&b=r1:oracle", "/leaderboard", "/configs")
        for path in paths:
            await browser.open(visit.site.url + path, "document.querySelector('h1')")
            for width in (1280, 390):
                await browser.size(width)
                assert not await browser.value(OVERFLOWS), (path, width)
        assert browser.problems == []
        assert all(url.startswith((visit.site.url, "data:", "about:")) for url in browser.requests)


async def test_a_failed_item_is_reached_by_keys_and_shows_its_error(
    tmp_path: Path, fault_server: Callable[..., str]
) -> None:
    url = fault_server("search:status:code=422,match=K0x3")
    world = World.make(tmp_path / "w", url, corpora=1, items=8)
    await world.run(providers=["faulty", "oracle"], answering_model="builtin/extractive", run_id="r1", max_error_rate=1)
    async with visiting(world.workspace) as visit, browsing() as browser:
        await browser.open(f"{visit.site.url}/runs/r1", "document.querySelector('a.state.error')")
        await browser.value("document.querySelector('a.state.error').click()")
        await browser.until("location.search.includes('state=error') && document.querySelector('tbody[data-keys] tr')")
        assert await browser.value("document.querySelectorAll('tbody[data-keys] tr').length") == 1
        await browser.press("j")
        await browser.press("Enter")
        await browser.until("location.pathname.startsWith('/runs/r1/items/')")
        shown = await browser.value("document.body.textContent")
        assert "422" in shown and "error" in shown, shown
        await browser.value("for (const one of document.querySelectorAll('details')) one.open = true")
        assert browser.problems == []


async def test_the_compare_form_compares_two_selected_providers(finished: Path, tmp_path: Path) -> None:
    async with visiting(finished) as visit, browsing() as browser:
        await browser.open(f"{visit.site.url}/compare", "document.querySelector('select[name=a]')")
        await browser.value(
            "(() => { const form = document.querySelector('form[action=\"/compare\"]');"
            "form.a.value = 'r1:bm25'; form.b.value = 'r1:oracle'; form.submit(); })()"
        )
        await browser.until("document.querySelector('.verdict')")
        shown = await browser.value("document.body.textContent")
        assert "Like for like" in shown and "wins / losses / ties" in shown and "MDE" in shown
        assert await browser.value("document.querySelectorAll('.state.yes').length") > 5
        assert browser.problems == []


async def test_charts_are_drawn_and_the_leaderboard_links_to_the_run(finished: Path, tmp_path: Path) -> None:
    async with visiting(finished) as visit, browsing() as browser:
        await browser.open(f"{visit.site.url}/runs/r1", "document.querySelector('figure.chart')")
        for drawn in ("circle.dot", "rect.bar", "path.area"):
            width = f"document.querySelector('{drawn}').getBoundingClientRect().width"
            assert await browser.value(width) > 0, drawn
        for view in ("benchmark", "type", "provider", "overall", "model"):
            await browser.open(f"{visit.site.url}/leaderboard?view={view}", "document.querySelector('table')")
            assert not await browser.value(OVERFLOWS), view
        await browser.value("document.querySelector('td a[href=\"/runs/r1\"]').click()")
        await browser.until("location.pathname === '/runs/r1'")
        assert browser.problems == []


async def test_a_filter_changes_the_list_without_reloading_the_page(finished: Path, tmp_path: Path) -> None:
    async with visiting(finished) as visit, browsing() as browser:
        await browser.open(f"{visit.site.url}/runs/r1/items", "window.htmx")
        await browser.value("window.kept = true")
        await browser.value(
            "(() => { const field = document.querySelector('select[name=state]'); field.value = 'incorrect';"
            "field.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        await browser.until("location.search.includes('state=incorrect')")
        assert await browser.value("window.kept") and browser.problems == []


async def test_the_verify_page_accepts_a_valid_receipt_and_rejects_a_changed_one(
    finished: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    shutil.copytree(finished, workspace)
    bench(workspace, "keys", "new", "ops", "--key-dir", str(tmp_path / "private"))
    bench(workspace, "sign", "r1", "--provider", "bm25", "--key", str(tmp_path / "private" / "ops.key"))
    (receipt,) = (workspace / "results" / "r1" / "receipts").glob("*[A-Z0-9].json")
    items, public = receipt.with_suffix(".items.jsonl"), workspace / "keys" / "ops.pub"
    async with visiting(workspace) as visit, browsing() as browser:
        await browser.open(f"{visit.site.url}/receipts", "document.querySelector('.state.VALID')")
        await browser.open(f"{visit.site.url}/leaderboard", "document.querySelector('a[href^=\"/receipts/r1/\"]')")
        await browser.open(f"{visit.site.url}/verify.html", "document.querySelector('#files')")
        await browser.give("#files", receipt, items, public)
        await browser.until("document.querySelector('#verdict').textContent.startsWith('VALID')")
        items.write_bytes(items.read_bytes().replace(b'"mrr":', b'"mrr":1', 1))
        await browser.open(f"{visit.site.url}/verify.html", "document.querySelector('#files')")
        await browser.give("#files", receipt, items, public)
        await browser.until("document.querySelector('#verdict').textContent.startsWith('INVALID')")
        text = receipt.read_text()
        receipt.write_text(text.replace('"bm25"', '"bm26"', 1))
        await browser.open(f"{visit.site.url}/verify.html", "document.querySelector('#files')")
        await browser.give("#files", receipt, public)
        await browser.until("document.querySelector('#verdict').textContent.startsWith('INVALID')")
        assert browser.problems == []
        assert all(url.startswith((visit.site.url, "data:", "about:", "blob:")) for url in browser.requests)


async def test_the_verify_page_shows_a_file_that_is_not_a_receipt_as_invalid(finished: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"provider": "<img src=x onerror=alert(1)>"}')
    async with visiting(finished) as visit, browsing() as browser:
        await browser.open(f"{visit.site.url}/verify.html", "document.querySelector('#files')")
        await browser.give("#files", bad)
        await browser.until("document.querySelector('#verdict').textContent.startsWith('INVALID')")
        assert await browser.value("document.querySelectorAll('img').length") == 0
