"""Hits in a valid format with misleading contents are an error, or noted with their count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from bench.journal import Reader
from bench.report.fold import fold
from bench.report.results_document import report_json, results_json
from tests.reality.conftest import WorldOn, job_report
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER, World

Hits = list[dict[str, Any]]
MAPPED = PROVIDER.replace('{ids: "$.job_id"}', "{id_map: {name: given, key: $.id, value: sent}}").replace(
    ', scoreField: "$.score"', ", id_from: [{captured: given, field: $.id}]"
)
WITHOUT_IDS = PROVIDER.replace(', scoreField: "$.score"', ", id_from: none")


def answering(change: Callable[[MemoryStub, Mapping[str, Any], Hits], Hits]) -> MemoryStub:
    stub = MemoryStub()

    def search(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        hits: Hits = list(stub.usual("search", request, body)["results"])  # type: ignore[call-overload]
        return web.json_response({"results": change(stub, body, hits)})

    stub.answers = {"search": search}
    return stub


def umlauts(world: World) -> None:
    path = world.workspace / "datasets/facts.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("The vault", "Der Schlüssel für"), encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "noted"),
    [
        (lambda text: text.encode().decode("latin-1"), True),
        (lambda text: text.encode("ascii", "replace").decode(), True),
        (lambda text: text.replace("ü", "\ufffd"), True),
        (lambda text: text.replace("ü", "&uuml;"), True),
        (lambda text: text, False),
        (lambda text: text[:30], False),
        (lambda text: "In short: " + text, False),
    ],
)
async def test_hits_with_broken_characters_are_noted(
    spoil: Callable[[str], str], noted: bool, world_on: WorldOn
) -> None:
    stub = answering(lambda _stub, _body, hits: [{**hit, "memory": spoil(hit["memory"])} for hit in hits])
    world = await world_on(stub, corpora=1, items=3)
    umlauts(world)
    job = await job_report(world, await world.run(providers="faulty", isolation="off"))
    assert any("with broken characters" in note for note in job.notes) is noted


async def test_a_question_among_its_own_hits_is_noted(world_on: WorldOn) -> None:
    stub = answering(lambda _stub, body, hits: [{"id": "q", "memory": body["query"]}, *hits])
    world = await world_on(stub, corpora=1, items=3)
    job = await job_report(world, await world.run(providers="faulty", isolation="off"))
    assert any(note.startswith("the question itself is among the hits in 3 of 3 searches") for note in job.notes)


def parts(hits: Hits) -> Hits:
    """Two hits of each memory."""
    return [{**hit, "id": f"{hit['id']}-{at}"} for hit in hits for at in (1, 2)]


def neighbors(hits: Hits) -> Hits:
    return [{**hit, "memory": "\n".join(["and before that", hit["memory"], hit["memory"][::-1]])} for hit in hits]


@pytest.mark.parametrize(
    ("change", "noted"),
    [
        (parts, "several hits map to the same memory in 3 of 3 searches"),
        (neighbors, "each hit contains its memory and at least as much other text in 3 of 3 searches"),
        (
            lambda hits: [{**hit, "memory": hit["memory"].upper()} for hit in hits],
            "memories with other upper or lower case in 3 of 3",
        ),
        (lambda hits: hits if "K0x1" not in hits[0]["memory"] else [], "1 of 3 searches returned no hit"),
        (
            lambda hits: [{**hit, "memory": "The vault"} for hit in hits],
            "all hits have the same text in 3 of 3 searches",
        ),
        (
            lambda hits: [{**hit, "memory": "redacted"} for hit in hits],
            "all hits have the same text in 3 of 3 searches",
        ),
        (lambda hits: hits, ""),
    ],
)
async def test_each_suspicious_change_of_hits_has_exactly_its_own_note(
    change: Callable[[Hits], Hits], noted: str, world_on: WorldOn
) -> None:
    world = await world_on(answering(lambda _stub, _body, hits: change(hits)), corpora=1, items=3)
    job = await job_report(world, await world.run(providers="faulty", isolation="off"))
    every = (
        "map to the same memory",
        "much other text",
        "with other upper or lower case",
        "returned no hit",
        "the same text",
        "no word with",
    )
    assert [note for note in job.notes if any(words in note for words in every)] == [
        note for note in job.notes if noted and noted in note
    ]
    assert not noted or any(noted in note for note in job.notes)


@pytest.mark.parametrize("declared", [False, True])
async def test_hits_that_map_to_no_memory_are_noted_unless_id_from_is_none(declared: bool, world_on: WorldOn) -> None:
    stub = answering(lambda _stub, _body, hits: [{"memory": hit["memory"]} for hit in hits])
    world = await world_on(stub, corpora=1, items=3)
    if declared:
        world.provider("faulty", base=WITHOUT_IDS)
    job = await job_report(world, await world.run(providers="faulty", isolation="off"))
    assert any("cannot be mapped to memories" in note for note in job.notes) is not declared


@pytest.mark.parametrize("ids", [False, True])
async def test_the_same_hits_for_every_question_are_a_sign_with_and_without_ids(ids: bool, world_on: WorldOn) -> None:
    def constant(stub: MemoryStub, body: Mapping[str, Any], _hits: Hits) -> Hits:
        kept = stub.spaces.get(str(body["namespace"]), [])
        return [{"memory": one["content"], **({"id": one["id"]} if ids else {})} for one in kept[:5]]

    world = await world_on(answering(constant), corpora=2, items=12, sessions=12)
    if not ids:
        world.provider("faulty", base=WITHOUT_IDS)
    outcome = await world.run(providers="faulty", isolation="off")
    async with Reader.open(world.workspace / "checkpoints" / outcome.run_id) as reader:
        report = await fold(reader)
    documents: Any = (results_json(report), report_json(report))
    job, measured = documents[0]["jobs"][0], documents[1]["measured"]["jobs"][0]
    assert measured["signs"] == job["signs"]
    (sign,) = [one for one in job["signs"] if one["kind"] == "same_hits"]
    assert (sign["count"], sign["of"], len(sign["items"])) == (24, 24, 24)
    assert sign["text"] in job["notes"]


@pytest.mark.parametrize(("dropped", "noted"), [((3, 4), True), ((), False)])
async def test_a_service_that_counts_fewer_memories_than_it_acknowledged_is_noted(
    dropped: tuple[int, ...], noted: bool, world_on: WorldOn
) -> None:
    stub = MemoryStub({"add": lambda call, _r, _b: web.json_response({"job_id": "j"}) if call in dropped else None})
    world = await world_on(stub, corpora=1, items=6, sessions=6)
    world.provider("faulty", extra="wait: {interval_ms: 1, timeout_s: 0.1}\n")
    job = await job_report(world, await world.run(providers="faulty"))
    text = "in 1 of 1 corpus, the service counts 4 memories, but it acknowledged 6"
    assert any(note.startswith(text) for note in job.notes) is noted


@pytest.mark.parametrize(
    ("given", "named"), [(lambda call: min(call, 5), 5), (lambda call: None if call > 4 else call, 4), (int, 6)]
)
async def test_memories_without_their_own_id_are_noted(
    given: Callable[[int], int | None], named: int, world_on: WorldOn
) -> None:
    ids: dict[object, int | None] = {}
    stub = answering(lambda _stub, _body, hits: [{**hit, "id": ids[hit["id"]]} for hit in hits])

    def add(call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        stub.usual("add", request, body)
        ids[body["id"]] = given(call)
        return web.json_response({"id": given(call)})

    stub.answers = {**stub.answers, "add": add}
    world = await world_on(stub, corpora=1, items=6, sessions=6)
    world.provider("faulty", base=MAPPED)
    job = await job_report(world, await world.run(providers="faulty"))
    text = f"in 1 of 1 corpus, only {named} of 6 memories got an id of their own"
    assert any(note.startswith(text) for note in job.notes) is (named < 6), job.notes


@pytest.mark.parametrize(
    "body", [{"message": "3 memories", "results": []}, {"code": 200, "msg": "ok", "errno": 0, "results": []}]
)
async def test_an_empty_result_with_a_harmless_message_is_accepted(body: dict[str, Any], world_on: WorldOn) -> None:
    stub = MemoryStub({"search": lambda _call, _r, _b: web.json_response(body)})
    world = await world_on(stub, corpora=1, items=2)
    outcome = await world.run(providers="faulty", isolation="off")
    assert outcome.exit_code == 0


@pytest.mark.parametrize("body", [{"message": "Quota exceeded"}, {"code": 509, "message": "later"}, {"errcode": 40001}])
async def test_an_add_response_with_only_a_failure_message_is_an_ingest_failure(
    body: dict[str, Any], world_on: WorldOn
) -> None:
    world = await world_on(MemoryStub({"add": lambda _c, _r, _b: web.json_response(body)}), corpora=1, items=2)
    world.provider("faulty", base=PROVIDER.replace('response: {ids: "$.job_id"}', ""))
    outcome = await world.run(providers="faulty")
    assert {row[0] for row in world.query(outcome.run_id, "select outcome from score")} == {"ingest_failed"}


def in_pages(param: str, size: int = 2) -> MemoryStub:
    """Return a stub that returns hits in pages, and reads the start of a page from the URL parameter ``param``."""
    stub = MemoryStub()

    def search(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        hits: Hits = list(stub.usual("search", request, body)["results"])  # type: ignore[call-overload]
        start = int(request.query.get(param, "0"))
        end = start + size
        return web.json_response({"results": hits[start:end], "at": {"next": str(end) if end < len(hits) else ""}})

    stub.answers = {"search": search}
    return stub


@pytest.mark.parametrize(("param", "repeats"), [("start", False), ("strat", True)])
async def test_a_page_that_repeats_is_left_out_and_noted(param: str, repeats: bool, world_on: WorldOn) -> None:
    world = await world_on(in_pages("start"), corpora=2, items=12, sessions=12)
    page = f"    page: {{cursor: $.at.next, param: {param}}}\n"
    world.write("configs/providers/faulty.yaml", PROVIDER.replace("  count:", f"{page}  count:"))
    job = await job_report(world, await world.run(providers="faulty", isolation="off"))
    notes = [note for note in job.notes if "page" in note or "more than once" in note]
    text = "24 of 24 searches got the same page again instead of the next page: correct search.page.param"
    assert len(notes) == repeats and all(text in note for note in notes)


@pytest.mark.parametrize(("path", "noted"), [("$.score", False), ("$.scroe", True), ("$.metadata.score", True)])
async def test_a_path_of_the_score_that_finds_nothing_is_noted(path: str, noted: bool, world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=3)
    world.write("configs/providers/faulty.yaml", PROVIDER.replace('"$.score"', f'"{path}"'))
    job = await job_report(world, await world.run(providers="faulty", isolation="off"))
    text = "no hit has a score in 3 of 3 searches, although search.response.score is set: correct its path"
    assert any(text in note for note in job.notes) is noted
