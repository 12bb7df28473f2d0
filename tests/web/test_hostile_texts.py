"""Hostile text of datasets, providers, judges, configs and errors: pages show it as text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench.journal import Event
from bench.model import Phase, State, Verdict
from bench.plan.job_record import ModelNames
from bench.report.summary import rebuild
from bench.web.errors import slug_of
from tests.full_journal import ItemData, call, write_run
from tests.small_journal import measuring, record
from tests.web.test_pages import checked
from tests.web.workspaces import visiting

MARK = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> {{7*7}} {% x %} javascript:alert(3) &lt;b&gt;"
HIDDEN = "\x1b\x00\x07\u202e\u2066\u200b\ufeff\x85\u2028"
ITEMS = (
    MARK,
    HIDDEN,
    "../../etc/passwd",
    "a/b?c#d",
    "~YQ",
    "~",
    "%2e%2e",
    ".",
    "-",
    "ü ø",
    "\ud800",
    "x" * 500,
    "C:\\x",
)
ADDRESSES = (
    "/", "/?q=%3Cscript%3E&state=%22%3E&sort=%27", "/runs/r1", "/runs/r1/items", "/runs/r1/items?q=%3Cscript%3E",
    "/runs/r1/items?type=%3Cimg%3E&provider=%3Cb%3E", "/compare?a=r1:%3Cb%3E&b=r1:x", "/compare?a=r1:x&b=r1:y",
    "/compare?a=%3Cscript%3E:x&b=r1:x", "/leaderboard", "/leaderboard?view=type", "/leaderboard?view=%3Cb%3E",
    "/leaderboard?type=%3Cscript%3E&model=%22&benchmark=%27", "/nope/%3Cscript%3E", "/configs/%3Cb%3E/x",
)  # fmt: skip


class Text(HTMLParser):
    """The visible text and the attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.tags: set[str] = set()

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.parts += [value for _, value in attributes if value]


def texts(page: str) -> str:
    parser = Text()
    parser.feed(page)
    assert not parser.tags & {"img", "b2", "iframe", "object"}
    return "".join(parser.parts)


def evil(item: str, **more: object) -> ItemData:
    """An item that is hostile in every field."""
    verdict = Verdict(
        evaluator=MARK,
        value=0.5,
        correct=False,
        reason=MARK + HIDDEN,
        judged=True,
        model=MARK,
        raw=MARK,
        prompt_name=MARK,
    )
    plain: dict[str, object] = {
        "item": item, "corpus": MARK, "question": MARK + HIDDEN, "expected": (MARK, HIDDEN), "answer": MARK + HIDDEN,
        "hits": [MARK, HIDDEN, ""], "retrieved": [[MARK], [HIDDEN], []], "gold": (MARK,), "verdicts": (verdict,),
        "labels": {"question_type": MARK, "group": MARK}, "metadata": {MARK: MARK}, "values": {"accuracy": 0.5},
        "state": State.PARTIAL, "calls": {Phase.SEARCH: (call("provider", endpoint=MARK, outcome=MARK),)},
    }  # fmt: skip
    return ItemData(**{**plain, **more})  # type: ignore[arg-type]


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    models = ModelNames(embedding=MARK, answering=MARK, judge=MARK)
    own = {
        "models": models,
        "provider_type": MARK,
        "selection": {"items": [MARK]},
        "track": MARK,
        **measuring("accuracy"),
    }
    failed = evil("failed", state=State.ERROR, outcome="timeout", message=MARK + HIDDEN)
    items = [*map(evil, ITEMS), failed]
    jobs = [
        (record("x", prompts={MARK: "a" * 64}, dataset={"sha256": MARK, "license": MARK}, **own), items),
        (record("y", skipped=None, prompts={MARK: "a" * 64}, dataset={"sha256": MARK, "license": MARK}, **own), items),
    ]
    events = [Event(kind="odd", scope="job-x", message=MARK + HIDDEN)]
    folder = await write_run(
        tmp_path, "r1", jobs, more=events, extra={"note": MARK + HIDDEN, "labels": {MARK: MARK}},
        request={"max_error_rate": 0.5},
    )  # fmt: skip
    assert folder.is_dir()
    await write_run(tmp_path, "r2", [(record("z", skipped=MARK, **own), [])], planned=1)
    await rebuild(tmp_path)
    return tmp_path


async def test_each_page_escapes_hostile_text(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        items = [f"/runs/r1/items/{slug_of(item)}" for item in (*ITEMS, "failed")]
        for address in (*ADDRESSES, *items, "/runs/r2", "/runs/r2/items"):
            status, page = await visit.get(address)
            assert status in (200, 400, 404), (address, status, page[:2000])
            checked(page)
            texts(page)
            assert "<script>alert" not in page, address
            assert not set(HIDDEN) & set(page), (address, set(HIDDEN) & set(page))


async def test_an_item_with_a_hostile_id_has_a_page_with_all_its_texts(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        for item in ITEMS:
            status, page = await visit.get(f"/runs/r1/items/{slug_of(item)}")
            assert status == 200, item
            shown = texts(page)
            assert shown.count(MARK) >= 12, "question, expected, evidence, answer, verdicts, hits, prompt, calls"
            assert "\\x1b\\x00\\x07\\u202e\\u2066\\u200b\\ufeff\\x85\\u2028" in shown
            document = await visit.document(f"/runs/r1/items/{slug_of(item)}")
            assert document["about"]["question"] == MARK + HIDDEN, "a document has the unchanged text"


async def test_the_items_document_has_a_working_slug_for_each_hostile_id(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        rows = (await visit.document("/runs/r1/items?limit=500"))["items"]
        assert len(rows) == len(ITEMS) + 1
        for row in rows:
            status, _ = await visit.get(f"/api/v1/runs/r1/items/{row['slug']}")
            assert status == 200, row["item_id"]


async def test_pages_of_items_with_hostile_ids_cover_each_item_once(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        seen: list[str] = []
        cursor = ""
        while cursor is not None:
            page = await visit.document(f"/runs/r1/items?limit=3&cursor={cursor}")
            seen += [item["item_id"] for item in page["items"]]
            cursor = page["cursor"]
        assert len(seen) == len(set(seen)) == len(ITEMS) + 1


async def test_documents_have_the_json_content_type_and_ascii_text(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        for path in (
            "/runs",
            "/runs/r1",
            "/runs/r1/items",
            "/runs/r1/results",
            "/leaderboard",
            "/compare?a=r1:x&b=r1:y",
        ):
            status, text, headers = await visit.ask("GET", f"/api/v1{path}")
            assert status == 200, text
            assert (
                headers["Content-Type"].startswith("application/json")
                and headers["X-Content-Type-Options"] == "nosniff"
            )
            json.loads(text)
            assert text.isascii()


async def test_an_event_stream_has_hostile_text_only_in_its_data_lines(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        _, text = await visit.get("/api/v1/runs/r1/events")
    lines = text.splitlines()
    assert all(line.startswith(("id: ", "event: ", "data: ")) or not line for line in lines)
    events_sent = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert MARK + HIDDEN in [one.get("message") for one in events_sent]
