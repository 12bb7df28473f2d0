"""Each check of the doctor finds its fault, and a provider without faults passes all checks."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.providers.doctor import ATTEMPT_MS, DoctorReport, _with_short_timeouts, examine
from tests.contract.running import context_for
from tests.local_server import LocalServers
from tests.providers.declared import declared
from tests.rows import each_row

SHELF = '''
"""Stores memories in lists of this process."""
from dataclasses import replace
from datetime import timedelta

from bench.errors import CallError, NotCleared, QuotaError, Rejected, Unavailable
from bench.model import Found, Hit, Ingested, Readiness
from bench.providers import Batching, Waiting


class Shelf:
    version, durability, on_unknown = "1", "process", "repeat"
    wait, batching = Waiting(interval_s=0.001, timeout_s=0.2), Batching(max_items=2)

    def __init__(self, config, context):
        self.key = context.environment.require("SHELF_KEY", user=config.name).get_secret_value()
        self.spaces = {}

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    def rows(self, space):
        return self.spaces.setdefault(space.namespace, {})

    async def ingest(self, space, memories):
        rejected = {}
        self.rows(space).update({one.id: one for one in memories})
        return Ingested(ids={one.id: (one.id,) for one in memories}, rejected=rejected)

    async def ready(self, space, ingested):
        return Readiness(state="ready")

    def hit(self, one):
        return Hit(id=one.id, content=one.content, source_ids=(one.id,), when=one.when)

    async def search(self, space, query):
        words = set(query.text.lower().split())
        rank = lambda one: len(words & set(one.content.lower().split()))
        found = sorted((one for one in self.rows(space).values() if rank(one)), key=rank, reverse=True)
        hits = tuple(self.hit(one) for one in found)[: query.k]
        return Found(hits=hits, requested=query.k, returned=len(found))

    async def clear(self, space):
        return len(self.spaces.pop(space.namespace, {}))

    async def count(self, space):
        return len(self.rows(space))

    async def upstream_version(self):
        return "shelf 7"
'''
KEY = "sk-shelf-0123456789abcdef"


def shelf(folder: Path, *changes: tuple[str, str]) -> ProviderConfig:
    text = SHELF
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "shelf.py").write_text(text, encoding="utf-8")
    return load_provider(Source.parse("name: shelf\ntype: local\nadapter: ./shelf.py:Shelf\n", folder / "shelf.yaml"))


async def examined(folder: Path, *changes: tuple[str, str], keep: bool = False) -> DoctorReport:
    config = shelf(folder, *changes)
    async with context_for(config, folder, {"SHELF_KEY": KEY}) as context:
        return await examine(config, context, keep=keep)


def failures(report: DoctorReport) -> dict[str, str]:
    return {check.name: check.detail for check in report.checks if check.outcome == "fail"}


async def test_a_provider_without_faults_passes_every_check(tmp_path: Path) -> None:
    report = await examined(tmp_path)
    assert (report.ok, report.provider, report.version, report.refused) == (True, "shelf", "shelf 7", False)
    assert [(check.name, check.outcome, check.detail) for check in report.checks] == [
        ("version", "pass", "shelf 7"),
        ("setup twice", "pass", "nothing to set up"),
        ("empty namespace", "pass", "contains nothing"),
        ("add", "pass", "3 memories"),
        ("ready", "pass", "after 0.0 s"),
        ("found by own text", "pass", "by id"),
        ("dates come back", "pass", "with the hits"),
        ("long question", "pass", "1000 characters"),
        ("k is kept", "pass", report.checks[8].detail),
        ("namespaces apart", "pass", "the second does not see the first"),
        ("adding again", "pass", "repeat: each memory once"),
        ("text survives", "pass",
         "newlines, quotes, emoji, right-to-left text, placeholders, 10,000 characters"),
        ("empty query", "pass", "0 hits"),
        ("clear", "pass", "cleared twice; nothing is left"),
        ("other namespace lives", "pass", "still there"),
        ("no secret shown", "pass", "not visible in log, journal or errors"),
    ]  # fmt: skip
    assert all(check.latency_ms >= 0 for check in report.checks)


STORE = "self.rows(space).update({one.id: one for one in memories})"
HIT = "return Hit(id=one.id, content=one.content, source_ids=(one.id,), when=one.when)"
CUT = "tuple(self.hit(one) for one in found)[: query.k]"
CLEAR = "return len(self.spaces.pop(space.namespace, {}))"


@each_row(
    ("old", "new", "question", "detail"),
    [
        ('return "shelf 7"', 'return " "', "version", "the provider reports an empty version"),
        (
            "return len(self.rows(space))", "return 5", "empty namespace",
            "a new namespace is not empty: memories stored 5, hits of a search 0; expected 0 and 0",
        ),
        ("rejected = {}", "rejected = {memories[0].id: 'too long'}", "add", "the service rejected 2 memories: "),
        (
            'return Readiness(state="ready")', 'return Readiness(state="failed", detail="no disk")',
            "ready", "the provider reports that indexing failed: no disk",
        ),
        (
            'return Readiness(state="ready")', 'return Readiness(state="pending", detail="1 of 3")',
            "ready", "not_ready: not ready within 0.2 s: 1 of 3",
        ),
        (
            STORE, "pass", "found by own text",
            'a search for the text of a stored memory has no hits: "Ana moved to Lisbon'),
        (
            HIT, HIT.replace("source_ids=(one.id,)", "source_ids=('x',)"),
            "found by own text",
            'the memory "Ana moved to Lisbon in May because of a " is not among the first 3 hits of a search for its '
            "own text",
        ),
        (
            HIT, HIT.replace("when=one.when", "when=one.when and one.when + timedelta(days=1)"),
            "found by own text", "the hit of m0-",
        ),
        (
            CUT, CUT.replace("query.k", "query.k + 1"), "k is kept",
            "expected 1 hit for k = 1 and at most 2 hits for k = 2, but k = 1 gives ",
        ),
        (
            CUT, CUT.replace("query.k", "query.k - 1"), "k is kept",
            "expected 1 hit for k = 1 and at most 2 hits for k = 2, but k = 1 gives 0, k = 2 gives 1",
        ),
        (
            "self.spaces.setdefault(space.namespace, {})", 'self.spaces.setdefault("all", {})',
            "namespaces apart", "a search in the second namespace finds ",
        ),
        (
            STORE, "self.rows(space).update({f'{one.id}.{len(self.rows(space))}': one for one in memories})",
            "adding again", 'on_unknown "repeat" is wrong, because the service stores a repeated batch again: [',
        ),
        (HIT, HIT.replace("content=one.content", "content=one.content[:300]"), "text survives",
         "long-1 is returned with a changed text"),
        (HIT, HIT.replace("content=one.content", "content=one.content[-9990:]"), "text survives",
         "long-1 is returned with a changed text"),
        (
            HIT, HIT.replace("content=one.content", "content=one.content.replace(chr(10), ' ')"),
            "text survives", "awkward-1 is returned with a changed text: found [",
        ),
        (CLEAR, "return 0", "clear", "5 memories are left after clearing"),
        (CLEAR, "self.spaces.clear()", "other namespace lives", "clearing one namespace also cleared the other"),
        (CLEAR, 'raise NotCleared("still 2 there")', "clear", "not_cleared: still 2 there"),
        (
            "words = set(query.text.lower().split())",
            'words = set(query.text.lower().split())\n        if not words:\n            raise Unavailable("crashed")',
            "empty query", "unavailable: crashed",
        ),
        (
            "words = set(query.text.lower().split())",
            "words = set(query.text.lower().split())\n        if not words:\n            raise Rejected(self.key)",
            "no secret shown", "a secret is visible in an error or detail",
        ),
        (
            "rejected = {}", "rejected = {}\n        import logging\n        logging.getLogger().warning(self.key)",
            "no secret shown", "a secret is visible in the log",
        ),
        (
            "rejected=rejected)", "rejected=rejected, captures={'seen': [self.key]})",
            "no secret shown", "a secret is visible in the journal",
        ),
    ],
)  # fmt: skip
async def test_each_fault_fails_its_own_check(tmp_path: Path, old: str, new: str, question: str, detail: str) -> None:
    found = failures(await examined(tmp_path, (old, new)))
    assert found.get(question, str(found)).startswith(detail)
    assert KEY not in str(found)


async def test_a_check_that_depends_on_a_failed_one_is_skipped(tmp_path: Path) -> None:
    report = await examined(tmp_path, ("rejected = {}", "rejected = {memories[0].id: 'no'}"))
    results = {check.name: check.detail for check in report.checks if check.outcome == "skip"}
    assert results == {
        "ready": 'needs "add", which failed',
        "found by own text": 'needs "add", which failed',
        "dates come back": 'needs "add", which failed',
        "long question": 'needs "add", which failed',
        "k is kept": 'needs "add", which failed',
        "namespaces apart": 'needs "add", which failed',
        "adding again": 'needs "add", which failed',
        "text survives": 'needs "add", which failed',
        "empty query": 'needs "add", which failed',
        "other namespace lives": 'needs "add", which failed',
    }
    assert not report.ok


async def test_the_empty_query_check_is_skipped_if_every_search_fails(tmp_path: Path) -> None:
    change = ("words = set(query.text", 'raise Rejected("HTTP 404")\n        words = set(query.text')
    found = {check.name: (check.outcome, check.detail) for check in (await examined(tmp_path, change)).checks}
    assert found["found by own text"] == ("fail", "rejected: HTTP 404")
    assert found["empty query"] == ("skip", 'needs "found by own text", which failed')


@pytest.mark.parametrize(
    ("error", "refused"), [('QuotaError("plan used up")', True), ('Unavailable("gone", timed_out=True)', False)]
)
async def test_after_a_quota_error_or_timeout_no_further_call_is_made(
    tmp_path: Path, error: str, refused: bool
) -> None:
    report = await examined(tmp_path, ("rejected = {}", f"raise {error}"))
    assert (list(failures(report)), report.refused) == (["add"], refused)
    skipped = {check.detail for check in report.checks[4:-1]}
    assert skipped == {'not run, because of "add"'}
    assert report.checks[-1].outcome == "pass"


async def test_checks_that_do_not_apply_are_skipped_with_a_reason(tmp_path: Path) -> None:
    forgetful = await examined(tmp_path, ("version, durability", "keeps_store = False\n    version, durability"))
    assert forgetful.ok
    results = {check.name: (check.outcome, check.detail) for check in forgetful.checks}
    assert results["empty namespace"] == results["ready"] == ("skip", "the provider stores nothing")
    assert results["clear"] == ("pass", "nothing to clear")
    unbounded = await examined(tmp_path, ("version, durability", "unbounded = True\n    version, durability"))
    assert {check.name: check.detail for check in unbounded.checks}[
        "k is kept"
    ] == "the provider returns all memories by design"
    assert unbounded.ok


async def test_a_service_that_rewrites_texts_skips_the_check_of_texts(tmp_path: Path) -> None:
    report = await examined(tmp_path, (HIT, HIT.replace("content=one.content", "content='fact: ' + one.content")))
    results = {check.name: (check.outcome, check.detail) for check in report.checks}
    assert results["found by own text"] == ("pass", "by id")
    assert results["text survives"] == ("skip", "the service changes the texts that it stores")


async def test_hits_without_ids_are_found_by_text_and_this_is_reported(tmp_path: Path) -> None:
    report = await examined(tmp_path, (HIT, HIT.replace("source_ids=(one.id,), ", "")))
    assert report.ok
    assert {check.name: check.detail for check in report.checks}["found by own text"].startswith("by text; hits have")


@pytest.mark.parametrize("keep", [False, True])
async def test_memories_are_left_behind_only_with_keep(tmp_path: Path, keep: bool) -> None:
    left = tmp_path / "left"
    leaving = (
        "async def __aexit__(self, *exc):\n        return None",
        "async def __aexit__(self, *exc):\n        from pathlib import Path\n"
        f"        Path({str(left)!r}).write_text(str(sum(map(len, self.spaces.values()))))",
    )
    await examined(tmp_path, leaving, keep=keep)
    assert (int(left.read_text()) > 0) is keep


async def examined_over_http(
    folder: Path, changes: dict[str, object], search_status: int = 200
) -> dict[str, tuple[str, str]]:
    """Examine a service that stores texts by namespace and returns all of them in every search."""
    texts_of: dict[str, list[str]] = {}

    async def serve(request: web.Request) -> web.Response:
        if request.method == "DELETE":
            texts_of.pop(request.path.rpartition("/")[2], None)
            return web.json_response({})
        body = await request.json()
        texts = texts_of.setdefault(body["user"], [])
        if request.path == "/add":
            texts.append(body["text"])
        status = search_status if request.path == "/search" else 200
        return web.json_response({"results": [{"text": text} for text in texts]}, status=status)

    servers = LocalServers()
    config = declared({"wait": {"timeout_s": 1, "interval_ms": 1}, "rateLimit.maxRetries": 0, **changes})
    try:
        async with context_for(config, folder, {"ACME_URL": await servers.start(serve)}) as context:
            report = await examine(config, context)
    finally:
        await servers.close()
    return {check.name: (check.outcome, check.detail) for check in report.checks}


async def test_a_service_that_ignores_k_fails_the_check_of_k(tmp_path: Path) -> None:
    found = await examined_over_http(tmp_path, {})
    text = "the search sends k, but the service ignores it: k = 1 gives 3, k = 2 gives 3"
    assert found["k is kept"] == ("fail", text)


async def test_a_service_without_k_passes_and_the_cut_is_reported(tmp_path: Path) -> None:
    found = await examined_over_http(tmp_path, {"endpoints.search.body": {"q": "$.query", "user": "$.runTag"}})
    assert found["k is kept"] == ("pass", "1 and 2, cut by bench: the service returns 3 for k = 1 and 3 for k = 2")
    assert found["empty query"][0] == "pass"


async def test_the_empty_query_check_is_skipped_if_every_search_is_404(tmp_path: Path) -> None:
    found = await examined_over_http(tmp_path, {}, search_status=404)
    assert found["empty query"][0] == "skip", found


def test_short_timeouts_apply_only_where_the_config_sets_no_timeout() -> None:
    look: dict[str, object] = {"method": "GET", "path": "/count", "value": "$"}
    slow = _with_short_timeouts(declared({"connection.timeout": 120_000, "endpoints.count": look}))
    assert slow.connection.timeout == 120_000 and slow.endpoints and slow.endpoints.count
    assert slow.endpoints.count.timeout == ATTEMPT_MS
    assert slow.sha256 == declared({"endpoints.count": look}).sha256, "a timeout does not change the requests"
    assert _with_short_timeouts(declared({})).connection.timeout == ATTEMPT_MS
    own = _with_short_timeouts(declared({"endpoints.count": {**look, "timeout": 40_000}}))
    assert own.endpoints and own.endpoints.count and own.endpoints.count.timeout == 40_000


async def test_the_doctor_stops_at_a_service_that_hangs(tmp_path: Path) -> None:
    gone = 'raise Unavailable("gone", timed_out=True)'
    lines: list[str] = []
    config = shelf(tmp_path, ("rejected = {}", gone), (CLEAR, gone))
    async with context_for(config, tmp_path, {"SHELF_KEY": KEY}) as context:
        report = await examine(config, context, tell=lines.append)
    assert report.hung is not None and (report.hung.name, report.hung.detail) == ("add", "timeout: gone")
    assert [text for text in lines if "was not cleared: gone" in text]


AGAIN = 'version, durability, on_unknown = "1", "process", "repeat"'


async def test_the_check_of_adding_again_needs_the_memories_to_be_found(tmp_path: Path) -> None:
    refuses = STORE.replace("self.rows", "self.cleared or self.rows")
    changes = (
        (AGAIN, AGAIN.replace("repeat", "reset")),
        (CLEAR, f"self.cleared = True\n        {CLEAR}"),
        (STORE, refuses),
    )
    report = await examined(tmp_path, *changes, ("self.spaces = {}", "self.spaces = {}\n        self.cleared = False"))
    assert failures(report)["adding again"] == "a memory is not found after it was added a second time"


@pytest.mark.parametrize(("some", "outcome"), [(True, "pass"), (False, "fail")])
async def test_missing_dates_fail_the_check_only_if_all_are_missing(tmp_path: Path, some: bool, outcome: str) -> None:
    held: list[dict[str, str]] = []

    async def serve(request: web.Request) -> web.Response:
        if request.method == "DELETE":
            held.clear()
            return web.json_response({})
        body = await request.json()
        if request.path == "/add":
            held.append(body)
        words = set(str(body.get("q", "")).split())
        found = sorted(held, key=lambda one: -len(words & set(one["text"].split())))
        rows = [{"text": one["text"], "when": one["when"] if some and "Ana" in one["text"] else None} for one in found]
        return web.json_response({"results": rows})

    changes = {
        "endpoints.add.body": {"text": "$.content", "when": "$.when"},
        "endpoints.search.body": {"q": "$.query"},
        "endpoints.search.response": {"results": "$.results", "contentField": "$.text", "when": "$.when"},
    }
    servers = LocalServers()
    try:
        async with context_for(declared(changes), tmp_path, {"ACME_URL": await servers.start(serve)}) as context:
            report = await examine(declared(changes), context)
    finally:
        await servers.close()
    found = {check.name: check.outcome for check in report.checks}
    assert (found["found by own text"], found["dates come back"]) == ("pass", outcome)


@each_row(
    ("changes", "check", "detail"),
    [
        ({}, "k is kept", "1 and 2; 12 for k = 12"),
        (
            {"page.cursor": "$.nxt"}, "k is kept",
            "the search returned 5 of 12 hits, although the response reports more: correct search.page.cursor "
            '"$.nxt", or raise search.page.max_pages',
        ),
        (
            {"page.max_pages": 2}, "k is kept",
            "the search returned 10 of 12 hits, although the response reports more: correct search.page.cursor "
            '"$.next", or raise search.page.max_pages',
        ),
        (
            {"page.param": "form"}, "k is kept",
            "the request for the second page returned the first page again (5 hits): correct search.page.param "
            '"form"',
        ),
        ({"response.score.field": "$.scroe"}, "found by own text",
         "no hit has a score, although search.response.score is set: correct its path"),
    ],
)  # fmt: skip
async def test_wrong_paths_of_pages_and_scores_fail_their_check(
    tmp_path: Path, changes: dict[str, object], check: str, detail: str
) -> None:
    spaces: dict[str, list[str]] = {}

    async def serve(request: web.Request) -> web.Response:
        if request.method == "DELETE":
            spaces.pop(request.path.rpartition("/")[2], None)
            return web.json_response({})
        body = await request.json()
        held = spaces.setdefault(body["user"], [])
        if request.path == "/add":
            held.append(body["text"])
            return web.json_response({})
        words = set(body["q"].split())
        found = sorted(
            (text for text in held if words & set(text.split())), key=lambda one: -len(words & set(one.split()))
        )
        start, found = int(request.query.get("from", "0")), found[: body["n"]]
        rows = [{"text": text, "score": 1} for text in found[start : start + 5]]
        return web.json_response(
            {"results": rows, "total": str(len(found)), "next": start + 5 if found[start + 5 :] else None}
        )

    config = declared(
        {
            "endpoints.search.page": {"cursor": "$.next", "param": "from"},
            "endpoints.search.response.score": {"field": "$.score"},
            "wait": {"timeout_s": 0.5, "interval_ms": 1},
            **{f"endpoints.search.{key}": value for key, value in changes.items()},
        }
    )
    servers = LocalServers()
    try:
        async with context_for(config, tmp_path, {"ACME_URL": await servers.start(serve)}) as context:
            report = await examine(config, context)
    finally:
        await servers.close()
    found = {one.name: (one.outcome, one.detail) for one in report.checks}
    assert found[check] == ("fail" if changes else "pass", detail)


@pytest.mark.parametrize(
    ("response", "hint"),
    [
        (
            {"id_map": {"name": "own", "key": "$.id", "value": "sent"}},
            "id_from: [{metadata: KEY}], or use [{contentHash",
        ),
        ({"ids": "$.job"}, "remove response.ids, and use a wait.request about the namespace"),
    ],
)
async def test_ids_that_are_only_in_a_header_fail_with_the_ways_around(
    tmp_path: Path, response: dict[str, object], hint: str
) -> None:
    async def serve(request: web.Request) -> web.Response:
        if request.path == "/add":
            return web.Response(status=202, headers={"X-Memory-Id": "m1"})
        return web.json_response({"results": []})

    used = {"endpoints.search.response.id_from": [{"captured": "own", "field": "$.id"}]} if "id_map" in response else {}
    config = declared({"endpoints.add.response": response, **used})
    servers = LocalServers()
    try:
        async with context_for(config, tmp_path, {"ACME_URL": await servers.start(serve)}) as context:
            detail = failures(await examine(config, context))["add"]
    finally:
        await servers.close()
    assert detail.startswith("mapping: POST /add -> 202: expected JSON, but the body is empty; ") and hint in detail


async def test_a_service_that_is_never_ready_is_awaited_once(tmp_path: Path) -> None:
    looks = 0

    async def serve(request: web.Request) -> web.Response:
        nonlocal looks
        looks += 1
        return web.json_response({}, status=503)

    health = {"method": "GET", "path": "/health", "ready_timeout_s": 0.05}
    servers = LocalServers()
    config = declared({"endpoints.health": health, "rateLimit.maxRetries": 0})
    try:
        async with context_for(config, tmp_path, {"ACME_URL": await servers.start(serve)}) as context:
            report = await examine(config, context)
    finally:
        await servers.close()
    (failed,) = failures(report).values()
    assert failed == "unavailable: acme still returns status 503 after 0.05 s" and looks < 5
    assert {check.outcome for check in report.checks[3:-1]} == {"skip"}
