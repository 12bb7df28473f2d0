"""The static site: all pages of a run as files that link to each other, without a server."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from bench.errors import UsageError
from bench.web.site_export import SiteExport, address_of, export_site, file_of
from tests.full_journal import write_run
from tests.small_journal import record
from tests.web.browser import CHROMIUM, browsing
from tests.web.test_headlines import right, wrong
from tests.web.test_pages import checked

HOSTILE = "../q 1/ü?#"


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    """Runs ``r1`` and ``r2``; an item of r1 has an id that is not a valid file name."""
    items = [wrong(0), right(1, item=HOSTILE), right(2)]
    await write_run(tmp_path, "r1", [(record(name), items) for name in ("bm25", "x")])
    await write_run(tmp_path, "r2", [(record("bm25"), [right(0)])])
    return tmp_path


def links(text: str) -> list[str]:
    return [unescape(one) for one in re.findall(r' (?:href|src)="([^"]*)"', text)]


def pages_of(site: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html") if path.name != "verify.html"}


async def exported(workspace: Path, *runs: str) -> tuple[Path, SiteExport]:
    site = workspace / "site"
    return site, await export_site(workspace, site, frozenset(runs))


async def test_site_pages_link_only_to_files_of_the_site_and_need_no_server(workspace: Path) -> None:
    site, written = await exported(workspace)
    assert written.problems == [] and written.files == len([path for path in site.rglob("*") if path.is_file()])
    pages = pages_of(site)
    assert len(pages) > 10
    for page, text in pages.items():
        checked(text)
        assert "<form" not in text and "htmx" not in text and "data-live" not in text and "data-poll" not in text, page
        for link in links(text):
            path, _, part = link.partition("#")
            aim = (page.parent / unquote(path)).resolve() if path else page
            assert aim.is_file() and site.resolve() in aim.parents, (page, link)
            assert not part or f'id="{unquote(part)}"' in aim.read_text(encoding="utf-8"), (page, link)


async def test_the_site_of_one_run_does_not_contain_or_name_another_run(workspace: Path) -> None:
    site, _ = await exported(workspace, "r1")
    assert (site / "report" / "r1" / "index.html").is_file()
    assert not (site / "runs" / "r2").exists() and not (site / "leaderboard").exists()
    assert not [page for page, text in pages_of(site).items() if "r2" in text]


async def test_a_site_without_runs_refers_to_the_receipts(tmp_path: Path) -> None:
    site, _ = await exported(tmp_path)
    for name in ("index.html", "leaderboard/index.html"):
        page_text = re.sub(r"<[^>]+>", "", (site / name).read_text(encoding="utf-8"))
        assert "is on this site. Its signed results are under Receipts." in page_text


async def test_export_site_rejects_a_folder_with_other_files_and_an_unknown_run(workspace: Path) -> None:
    with pytest.raises(UsageError, match="already exists, and bench did not write it"):
        await export_site(workspace, workspace)
    with pytest.raises(UsageError, match="there is no run r9"):
        await export_site(workspace, workspace / "site", frozenset({"r9"}))


def test_file_of_maps_an_address_to_a_valid_file_name() -> None:
    assert file_of("/") == "index.html" and file_of("/runs/r1") == "runs/r1/index.html"
    assert file_of("/runs/r1/items?state=error") != file_of("/runs/r1/items?state=correct")
    assert ".." not in file_of("/runs/r1/items/..") and "%" not in file_of("/runs/r1/items/a%2Fb")
    assert address_of("/runs/r1/items/q1?provider=a&q=b", frozenset()) == "/runs/r1/items/q1"
    assert address_of("https://elsewhere/runs/r1", frozenset()) is None
    assert address_of("/configs", frozenset()) is None and address_of("/compare", frozenset()) is None


@pytest.mark.skipif(CHROMIUM is None, reason="CHROMIUM IS NOT INSTALLED: the site was not opened")
async def test_a_browser_opens_an_item_from_the_first_page_without_a_server(workspace: Path) -> None:
    site, _ = await exported(workspace, "r1")
    async with browsing() as browser:
        await browser.open(f"file://{site}/index.html", "document.querySelector('tbody a')")
        assert await browser.value("getComputedStyle(document.querySelector('header')).borderBottomWidth") == "1px"
        for link in ("tbody a", "td.who a", "tbody[data-keys] a", "a[rel=next]"):
            here = await browser.value("location.pathname")
            await browser.value(f"document.querySelector('{link}').click()")
            await browser.until(f"location.pathname !== '{here}'")
        assert await browser.value("document.querySelectorAll('.sides section').length") == 2
        assert browser.problems == []
        assert all(url.startswith("file://") for url in browser.requests)
