"""Each page and document over real HTTP: status, valid HTML and content."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.web.workspaces import Visit, visiting

PAGES = (
    "/",
    "/runs/r1",
    "/runs/r1/items",
    "/runs/r1/items?provider=bm25&state=incorrect&sort=type",
    "/report/r1",
    "/report/r1?per_day=5000",
    "/compare",
    "/compare?a=r1:bm25&b=r1:oracle",
    "/leaderboard",
    "/receipts",
    "/configs",
    "/configs/providers/chroma",
    "/providers/bm25",
    "/providers/mem0",
    "/verify.html",
    "/favicon.ico",
)
DOCUMENTS = (
    "/runs",
    "/runs/r1",
    "/runs/r1/results",
    "/runs/r1/items",
    "/compare?a=r1:bm25&b=r1:oracle",
    "/leaderboard",
    "/receipts",
    "/configs",
    "/openapi.json",
    "/healthz",
    "/readyz",
)
VOID = {"meta", "link", "input", "br"}


class Strict(HTMLParser):
    """Refuses tags that do not nest, inline scripts, inline styles and event attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = dict(attributes)
        assert not [name for name in names if name.startswith("on") or name == "style"], (tag, names)
        if tag == "script":
            assert names.get("src"), "an inline script"
        self.sources += [str(names[name]) for name in ("src", "href", "action") if name in names]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        # the templates omit no optional end tag
        assert self.open and self.open.pop() == tag, tag


def checked(text: str) -> Strict:
    parser = Strict()
    parser.feed(text)
    parser.close()
    assert parser.open == [], parser.open
    return parser


async def first_item(visit: Visit) -> str:
    return str((await visit.document("/runs/r1/items"))["items"][0]["slug"])


async def test_each_page_is_200_with_nested_tags_and_without_inline_code(finished: Path) -> None:
    async with visiting(finished) as visit:
        item = await first_item(visit)
        for path in (*PAGES, f"/runs/r1/items/{item}"):
            status, text = await visit.get(path)
            assert status == 200, (path, text)
            if path not in ("/verify.html", "/favicon.ico"):
                parser = checked(text)
                assert all(source.startswith(("/", "?", "#")) for source in parser.sources), path


async def test_each_document_is_json_and_in_the_openapi_document(finished: Path) -> None:
    async with visiting(finished) as visit:
        described = set((await visit.document("/openapi.json"))["paths"])
        for path in DOCUMENTS:
            await visit.document(path)
            plain = "/api/v1" + path.partition("?")[0].replace("r1", "{run_id}")
            assert plain in described, plain


async def test_the_openapi_document_is_the_same_in_explore_and_serve(finished: Path) -> None:
    async with visiting(finished) as reading:
        first = await reading.document("/openapi.json")
    async with visiting(finished, runs=True) as running:
        assert await running.document("/openapi.json") == first


async def test_the_results_document_equals_results_json_of_the_command_line(finished: Path) -> None:
    from bench.journal import Reader
    from bench.report import fold, results_json

    async with visiting(finished) as visit:
        shown = await visit.document("/runs/r1/results")
    async with Reader.open(finished / "checkpoints" / "r1") as reader:
        expected = json.loads(json.dumps(results_json(await fold(reader))))
    for job in shown["jobs"]:
        assert job.pop("times")["search"]["n"] == 20
        assert job.pop("ends")[-1][1] == 20
    assert shown == expected


async def test_an_item_marks_its_evidence_among_the_hits(finished: Path) -> None:
    async with visiting(finished) as visit:
        document = await visit.document(f"/runs/r1/items/{await first_item(visit)}?provider=oracle")
        (side,) = document["sides"]
        assert any(hit["evidence"] for hit in side["hits"])
        assert side["attempts"] and side["context"] and side["verdicts"]


async def test_pages_of_items_cover_each_item_once_in_each_order(finished: Path) -> None:
    async with visiting(finished) as visit:
        for sort in ("item", "state", "type"):
            seen: list[str] = []
            cursor: str | None = ""
            while cursor is not None:
                page = await visit.document(f"/runs/r1/items?limit=7&sort={sort}&cursor={cursor}")
                seen += [item["item_id"] for item in page["items"]]
                cursor = page["cursor"]
            assert len(seen) == len(set(seen)) == 20, sort


async def test_item_filters_apply_to_each_listed_item(finished: Path) -> None:
    async with visiting(finished) as visit:
        page = await visit.document("/runs/r1/items?provider=bm25&state=incorrect")
        assert page["items"] and all(one["cells"][0]["state"] == "incorrect" for one in page["items"])
        kind = page["question_types"][0]
        page = await visit.document(f"/runs/r1/items?type={kind}")
        assert page["items"] and {one["question_type"] for one in page["items"]} == {kind}
        words = page["items"][0]["question"].split()
        page = await visit.document(f"/runs/r1/items?q={words[-1].strip('?')}")
        assert any(words[-1] in one["question"] for one in page["items"])


async def test_the_event_stream_of_a_finished_run_ends_after_its_state(finished: Path) -> None:
    async with visiting(finished) as visit:
        status, text = await visit.get("/api/v1/runs/r1/events")
        kinds = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
        assert status == 200 and "state" in kinds and kinds[-1] == "end"
        ids = [int(line.removeprefix("id: ")) for line in text.splitlines() if line.startswith("id: ")]
        _, again = await visit.get("/api/v1/runs/r1/events", headers={"Last-Event-ID": str(max(ids))})
        assert "event: event" not in again and "event: state" in again


@pytest.mark.parametrize("path", ["/runs/nope", "/runs/r1/items/nope", "/configs/providers/nope", "/nope"])
async def test_an_unknown_path_is_404_with_a_hint(finished: Path, path: str) -> None:
    async with visiting(finished) as visit:
        status, text = await visit.get(path)
        assert status == 404
        checked(text)
        status, text = await visit.get(f"/api/v1{path}")
        assert status == 404 and set(json.loads(text)["error"]) == {"kind", "message", "hint"}


async def test_a_comparison_with_an_unknown_run_is_404_and_with_an_unknown_provider_named(finished: Path) -> None:
    async with visiting(finished) as visit:
        status, text = await visit.get("/compare?a=r1:bm25&b=nope:oracle")
        assert status == 404, text
        status, text = await visit.get("/compare?a=r1:bm25&b=r1:nope")
        assert status == 200 and "nope" in text


async def test_request_metrics_are_labeled_by_route_not_by_path(finished: Path) -> None:
    async with visiting(finished) as visit:
        await visit.get("/runs/r1")
        _, text = await visit.get("/api/v1/metrics")
        assert 'route="/runs/{run_id}"' in text and "/runs/r1" not in text
