"""Item lists and item pages: filters, orders, neighbors and the evidence of failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.journal import Reader
from bench.report.item_outcomes import item_outcomes
from bench.web.documents.item_filter import ItemFilter, position_of, positions
from bench.web.formatting import judge_reason, pieces
from tests.full_journal import write_run
from tests.rows import each_row
from tests.small_journal import record
from tests.small_world import BENCHMARK, World
from tests.web.browser import CHROMIUM, browsing
from tests.web.test_headlines import NAMES, failed, plain, right, text_of, wrong
from tests.web.workspaces import visiting

A = [
    right(0),
    wrong(1, answer="Bergen by the sea", hits=("It was Oslo in June",), provider_us=99_700),
    wrong(2, provider_us=199_700, retrieved=(("s9",),), answer="Paris", hits=("Nothing of use",)),
    wrong(3, provider_us=299_700, retrieved=(("s9",),), answer="Rome", hits=("Nothing at all",)),
    failed(4),
]
B = [right(0), right(1), right(2, hits=("Ann said it was Oslo",)), wrong(3, retrieved=(("s9",),)), right(4)]


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    """Run ``r1``: two systems over five items of one corpus."""
    jobs = [(record("a", **NAMES), A), (record("b", **NAMES), B)]
    one = [(job, [replace(item, corpus="c") for item in items]) for job, items in jobs]
    await write_run(tmp_path, "r1", one, request={"max_error_rate": 1})
    return tmp_path


SHOWN = [
    ({"show": "differ"}, ["q1", "q2"]),
    ({"show": "all_wrong"}, ["q3"]),
    ({"show": "found_wrong", "provider": "a"}, ["q1"]),
    ({"show": "missed", "provider": "a"}, ["q2", "q3"]),
    ({"show": "missed"}, ["q2", "q3"]),
    ({"loss": "not_retrieved", "provider": "b"}, ["q3"]),
    ({"error": "unavailable"}, ["q4"]),
    ({"state": "incorrect", "provider": "a"}, ["q1", "q2", "q3"]),
    ({"state": "incorrect", "show": "differ"}, ["q1", "q2"]),
    ({"type": "none"}, []),
    ({}, ["q0", "q1", "q2", "q3", "q4"]),
]


@pytest.mark.parametrize(("query", "items"), SHOWN)
async def test_a_filter_selects_its_items(workspace: Path, query: dict[str, str], items: list[str]) -> None:
    async with Reader.open(workspace / "checkpoints" / "r1") as reader:
        outcomes: Any = await item_outcomes(reader)
    assert [outcomes["units"][at][1] for at in positions(outcomes, ItemFilter.of(query))] == items


async def test_a_filtered_list_has_total_pages_and_ranks(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        first = await visit.document("/runs/r1/items?show=missed&provider=a&limit=1")
        assert (first["total"], first["cursor"], first["previous"]) == (2, "1", None)
        last = await visit.document("/runs/r1/items?show=missed&provider=a&limit=1&cursor=1")
        assert ([one["item_id"] for one in last["items"]], last["cursor"], last["previous"]) == (["q3"], None, "0")
        whole = await visit.document("/runs/r1/items")
        assert whole["total"] == 5 and [row["cells"][0].get("rank") for row in whole["items"]] == [1, 1, 0, 0, 0]
        for query in ("show=nope", "loss=nope", "show=differ&cursor=x"):
            assert (await visit.get(f"/api/v1/runs/r1/items?{query}"))[0] == 400, query


ORDERED = [
    ("sort=state&by=a", ["q4", "q1", "q2", "q3", "q0"]),
    ("sort=state&by=b", ["q3", "q0", "q1", "q2", "q4"]),
    ("sort=value&provider=a", ["q1", "q2", "q3", "q0", "q4"]),
    ("sort=rank", ["q2", "q3", "q4", "q0", "q1"]),
    ("sort=differ", ["q1", "q2", "q0", "q3", "q4"]),
    ("sort=latency&by=a", ["q3", "q2", "q1", "q0", "q4"]),
    ("sort=differ&state=incorrect", ["q1", "q2", "q3"]),
    ("sort=item&show=missed", ["q2", "q3"]),
]


@pytest.mark.parametrize(("query", "items"), ORDERED)
async def test_items_are_listed_in_the_selected_order(workspace: Path, query: str, items: list[str]) -> None:
    async with visiting(workspace) as visit:
        whole = await visit.document(f"/runs/r1/items?{query}")
        second = await visit.document(f"/runs/r1/items?{query}&limit=1&cursor=1")
    assert [one["item_id"] for one in whole["items"]] == items and whole["total"] == len(items)
    assert [one["item_id"] for one in second["items"]] == items[1:2] and (second["first"], second["previous"]) == (
        2,
        "0",
    )


async def test_a_text_search_combines_with_each_filter_and_order(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        found = await visit.document("/runs/r1/items?sort=state&by=a&q=q3")
        none = await visit.document("/runs/r1/items?show=missed&q=q1")
        first = await visit.document("/runs/r1/items?sort=differ&q=q&limit=2")
        second = await visit.document(f"/runs/r1/items?sort=differ&q=q&limit=2&cursor={first['cursor']}")
    assert [one["item_id"] for one in found["items"]] == ["q3"] and none["items"] == []
    assert [one["item_id"] for one in (*first["items"], *second["items"])] == ["q1", "q2", "q0", "q3"]


async def test_a_column_heading_sorts_the_list_and_item_links_keep_the_order(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        html = await text_of(visit, "/runs/r1/items?sort=latency&by=a&limit=1&cursor=1")
        item = await text_of(visit, "/runs/r1/items/q2?sort=latency&by=a")
    assert 'href="?sort=state&amp;by=b&amp;limit=1"' in html and "2 to 2 of 5 items" in plain(html)
    assert 'href="/runs/r1/items/q2?sort=latency&amp;by=a"' in html and "200 ms" in plain(html)
    assert 'rel="prev" href="/runs/r1/items/q3?sort=latency&amp;by=a"' in item and "2 of 5" in plain(item)


async def test_an_item_page_links_to_its_neighbors_in_the_filter(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        listed = await text_of(visit, "/runs/r1/items?provider=a&state=incorrect")
        assert 'href="/runs/r1/items/q2?provider=a&amp;state=incorrect"' in listed
        html = await text_of(visit, "/runs/r1/items/q2?provider=a&state=incorrect")
    assert "2 of 3" in plain(html)
    assert 'rel="prev" href="/runs/r1/items/q1?provider=a&amp;state=incorrect"' in html
    assert 'rel="next" href="/runs/r1/items/q3?provider=a&amp;state=incorrect"' in html
    assert 'rel="up" href="/runs/r1/items?provider=a&amp;state=incorrect"' in html


async def test_missed_evidence_is_shown_with_the_text_that_another_system_returned(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        side = (await visit.document("/runs/r1/items/q2?provider=a"))["sides"][0]
        html = await text_of(visit, "/runs/r1/items/q2?provider=a")
        none = await text_of(visit, "/runs/r1/items/q3?provider=a")
    assert side["missed"] == [{"id": "s1", "text": "Ann said it was Oslo"}]
    assert html.index("missed evidence: s1") < html.index("Returned") and "<mark>Oslo</mark>" in html
    assert "its text is not in the journal" in none


async def test_an_item_page_shows_two_providers_side_by_side(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        sides = (await visit.document("/runs/r1/items/q1?provider=a,b"))["sides"]
        html = await text_of(visit, "/runs/r1/items/q1?provider=a")
    assert [side["provider"] for side in sides] == ["a", "b"]
    assert "<mark>Bergen</mark>" in html.replace("<mark>Bergen by the sea</mark>", "<mark>Bergen</mark>")


async def test_an_item_shows_the_prompt_and_reply_of_the_judge(tmp_path: Path) -> None:
    world = World.make(tmp_path, None, corpora=1, items=1)
    text = BENCHMARK.replace("method: contains", "method: llm-judge, judgePrompts: {default: 'Is ${answer} right?'}")
    world.write("configs/benchmarks/facts.yaml", text)
    script = world.write("script.jsonl", '{"match": ".", "reply": "no"}\n')
    world.variables["MEMORYBENCH_SCRIPT"] = str(script)
    await world.run(providers="bm25", answering_model="builtin/extractive", judge_model="builtin/scripted", run_id="r1")
    async with visiting(tmp_path) as visit:
        (item,) = (await visit.document("/runs/r1/items"))["items"]
        (side,) = (await visit.document(f"/runs/r1/items/{item['slug']}"))["sides"]
        html = plain(await text_of(visit, f"/runs/r1/items/{item['slug']}"))
    (asked,) = side["judge_prompts"]
    assert asked == {"evaluator": "llm-judge", "role": "user", "content": "Is W0y0 right?"}
    assert side["verdicts"][0]["raw"] == "no" and "What the judge was asked llm-judge Is W0y0 right?" in html


def test_an_item_outside_the_filter_has_no_neighbors() -> None:
    job = {"job": "j", "provider": "a", "benchmark": "x", "states": ["correct"], "errors": [None],
           "item_losses": [None], "ranks": [1], "values": [None]}  # fmt: skip
    outcomes: Any = {"units": [["c", "q1"]], "types": [None], "jobs": [job]}
    assert position_of(outcomes, ItemFilter(state="error"), "q1") is None
    assert position_of(outcomes, ItemFilter(sort="value"), "q1") == position_of(outcomes, ItemFilter(sort="item"), "q1")
    assert position_of(outcomes, ItemFilter(), "q1") == {"at": 1, "of": 1, "previous": None, "next": None}


def test_matching_words_are_marked_whole_without_short_ones() -> None:
    assert pieces("It was Oslo, in June", "oslo june it") == [
        ("It was ", False), ("Oslo", True), (", in ", False), ("June", True),
    ]  # fmt: skip
    assert pieces("Oslo", "oslo", same=False) == [("Oslo", False)] and pieces(None, None) == []


@each_row(
    ("raw", "reason"),
    [
        ('{"reasoning": "the date differs", "score": 0}', "the date differs"),
        ('Sure: {"explanation": "same city"} end', "same city"),
        ({"reason": "as a mapping"}, "as a mapping"),
        ("CORRECT", ""), ("{not json}", ""), (None, ""), ("[" * 5000, ""),
    ],
)  # fmt: skip
def test_judge_reason_extracts_the_reason_from_a_reply(raw: object, reason: str) -> None:
    assert judge_reason(raw) == reason


@pytest.mark.skipif(CHROMIUM is None, reason="CHROMIUM IS NOT INSTALLED: the pages were not driven")
async def test_keys_j_k_and_u_move_between_failed_items_and_the_list(workspace: Path, tmp_path: Path) -> None:
    async with visiting(workspace) as visit, browsing() as browser:
        first = f"{visit.site.url}/runs/r1/items/q1?provider=a&state=incorrect"
        await browser.open(first, "document.querySelector('h1')")
        await browser.press("j")
        await browser.until("location.pathname.endsWith('/q2') && location.search.includes('state=incorrect')")
        await browser.press("k")
        await browser.until("location.pathname.endsWith('/q1')")
        assert await browser.value("document.documentElement.scrollHeight") < 6000
        await browser.press("u")
        await browser.until("location.pathname.endsWith('/items') && location.search.includes('provider=a')")
        assert browser.problems == []


async def test_the_compare_page_has_a_chart_and_both_answers_of_flipped_items(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        html = await text_of(visit, "/compare?a=r1:a&b=r1:b&force=1")
        (pair,) = (await visit.document("/compare?a=r1:a&b=r1:b&force=1"))["comparisons"]
    assert "around no difference" in html and "right of it A" in html
    assert {row["item"] for row in pair["flipped"]["b"]} >= {"q1", "q2"} and not pair["flipped"]["a"]
    row = next(one for one in pair["flipped"]["b"] if one["item"] == "q1")
    assert (row["a"], row["b"], row["expected"]) == ("Bergen by the sea", "Oslo", ["Oslo"])
    assert 'href="/runs/r1/items/q1?provider=a%2Cb"' in html
