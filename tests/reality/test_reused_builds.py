"""A stored build is searched by other runs: it is compared first, and not cleared while they use it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from aiohttp import web

from bench.errors import BenchError, ConfigError, IdentityError
from bench.model import State
from tests.cli.conftest import Bench, Done
from tests.cli.test_builds import in_thread
from tests.engine.scripted_store import ScriptedStore
from tests.local_server import LocalServers
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.scenarios.left import results_of
from tests.small_world import PROVIDER, World

VERSION = '  version: {method: GET, path: /v1/version, value: "$.version"}\n'
KEPT = {"providers": "faulty", "answering_model": "none"}


async def ended_with(code: int, bench: Bench, *arguments: str) -> Done:
    return await anyio.to_thread.run_sync(lambda: bench(*arguments, check=code))


def served(stub: MemoryStub, version: str = "1.0") -> MemoryStub:
    """Return the server with an endpoint for its version."""
    stub.answers = {**stub.answers, "version": lambda *_: web.json_response({"version": version})}
    return stub


def with_version(world: World, **replaced: str) -> None:
    world.provider("faulty", base=PROVIDER.replace("  count:", VERSION + "  count:"), **replaced)


async def ingested(world: World, **flags: object) -> None:
    outcome = await world.run(**{**KEPT, "run_id": "r1", "cleanup": "never", **flags})
    assert outcome.exit_code == 0


def rows(world: World) -> list[dict[str, Any]]:
    path = world.workspace / "datasets" / "facts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_rows(world: World, changed: list[dict[str, Any]]) -> None:
    path = world.workspace / "datasets" / "facts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in changed))


# ----------------------------------------------------------------- the same build


async def test_a_run_with_reuse_build_searches_the_stored_memories_and_sends_no_add(
    world_on: WorldOn, bench: Bench
) -> None:
    stub = served(MemoryStub())
    world = await world_on(stub, corpora=2, items=3, sessions=2)
    with_version(world)
    await ingested(world, prices={"faulty": {"add": "1", "search": "0"}})
    adds = stub.calls("add")
    again = await world.run(**KEPT, k=3, run_id="r2", reuse_build="r1", prices={"faulty": {"add": "1", "search": "0"}})
    assert (again.exit_code, again.cost_usd) == (0, "0"), "the ingest was paid by the other run"
    assert sum(again.jobs[0].states.values()) == again.jobs[0].states[State.MEASURED] == 6
    assert stub.calls("add") == adds == 4 and not stub.cleared
    assert sum(len(kept) for kept in stub.spaces.values()) == 4
    shown = (await in_thread(bench, "results", "r2")).stdout
    assert "build facts/faulty of run r1 (reused)" in " ".join(shown.split())
    found = json.loads((await in_thread(bench, "results", "r2", "--json")).stdout)["jobs"][0]
    assert found["build"]["reused"]["run"] == "r1" and found["build"]["reused"]["cost_usd"] == "4"


async def test_a_reused_build_gives_the_same_results_as_a_new_build(world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=2, items=4)
    await ingested(world)
    reused = await world.run(**KEPT, run_id="r2", reuse_build="auto", k=(1, 4))
    own = await world.run(**KEPT, run_id="r3", k=(1, 4))
    assert [(job.states, job.valid) for job in reused.jobs] == [(job.states, job.valid) for job in own.jobs]
    values = (
        "SELECT name, corpus, unit, outcome, hex(packed) FROM score JOIN owner ON owner.id = owner ORDER BY 1, 2, 3"
    )
    assert len(world.query("r3", values)) == 16
    assert world.query("r2", values) == world.query("r3", values)


async def test_a_build_can_be_reused_with_other_search_settings(world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=1, items=3)
    await ingested(world)
    adds = stub.calls("add")
    settings = {"faulty@b.endpoints.search.path": "/v1/other/search", "faulty@b.capabilities.max_k": "2"}
    other = await world.run(**{**KEPT, "providers": "faulty@b"}, set=settings, reuse_build="r1")
    assert other.exit_code == 0
    assert stub.calls("add") == adds


async def test_reuse_build_auto_uses_the_newest_matching_build_or_ingests(world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=1, items=3, sessions=2)
    first = await world.run(**KEPT, reuse_build="auto", cleanup="never", run_id="r1")
    assert (first.exit_code, stub.calls("add")) == (0, 2), "there was no build yet"
    await ingested(world, run_id="other", set={"faulty.ingest.unit": "turn"})
    adds = stub.calls("add")
    assert (await world.run(**KEPT, reuse_build="auto", run_id="r3")).exit_code == 0
    assert stub.calls("add") == adds
    stub.spaces.clear()
    assert (await world.run(**KEPT, reuse_build="auto", run_id="r4")).exit_code == 0
    assert stub.calls("add") == adds + 2
    (noted,) = world.query("r4", "SELECT message FROM event WHERE message LIKE 'build %'")
    assert "has other contents than before: corpora.c0.count: 2 -> 0" in str(noted)


async def test_fork_from_ingest_uses_the_flags_and_memories_of_the_forked_run(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=1, items=3)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    await ingested(world)
    adds = stub.calls("add")
    forked = await ended_with(0, bench, "fork", "r1", "--from", "ingest", "-k", "1", "2", "--run-id", "r2", "-q")
    assert forked.returncode == 0 and stub.calls("add") == adds
    jobs = json.loads((await in_thread(bench, "results", "r2", "--json")).stdout)["jobs"]
    assert [(job["provider"], job["n_planned"]) for job in jobs] == [("faulty@k1", 3), ("faulty@k2", 3)]
    both = await ended_with(2, bench, "fork", "r1", "--from", "ingest", "--reuse-build", "r1")
    assert "exclude each other" in both.stderr


# ----------------------------------------------------------------- another build


def _text(world: World, stub: MemoryStub) -> None:
    changed = rows(world)
    changed[0]["sessions"][0][-1]["content"] += " Really."
    write_rows(world, changed)


def _order(world: World, stub: MemoryStub) -> None:
    changed = rows(world)
    changed[0]["dates"] = changed[0]["dates"][::-1]
    write_rows(world, changed)


def _date(world: World, stub: MemoryStub) -> None:
    changed = rows(world)
    changed[1]["dates"][0] = "2023-01-01 10:00"
    write_rows(world, changed)


def _one_more(world: World, stub: MemoryStub) -> None:
    changed = rows(world)
    changed[0]["sessions"][1].append({"role": "user", "content": "One thing more.", "id": "more"})
    write_rows(world, changed)


def _another_corpus(world: World, stub: MemoryStub) -> None:
    changed = rows(world)
    other = json.loads(json.dumps(changed[0]).replace("c0", "c9").replace("K0", "K9").replace("W0", "W9"))
    write_rows(world, [*changed, other])


def _set(**settings: str) -> Callable[[World, MemoryStub], dict[str, object]]:
    return lambda world, stub: {"set": {name.replace("__", "."): value for name, value in settings.items()}}


def _version_of_service(world: World, stub: MemoryStub) -> None:
    served(stub, "2.0")


def _lost(world: World, stub: MemoryStub) -> None:
    stub.spaces.pop(next(name for name, kept in stub.spaces.items() if kept))


def _deleted_memory(world: World, stub: MemoryStub) -> None:
    next(kept for kept in stub.spaces.values() if kept).pop(1)


def _foreign_memory(world: World, stub: MemoryStub) -> None:
    kept = next(kept for kept in stub.spaces.values() if kept)
    kept.append({**kept[0], "id": "foreign", "content": "Another user wrote that the vault is open."})


def _replaced_memory(world: World, stub: MemoryStub) -> None:
    kept = next(kept for kept in stub.spaces.values() if kept)
    kept[0] = {**kept[0], "content": str(kept[0]["content"]).replace("opens", "shuts")}


def _swapped_namespaces(world: World, stub: MemoryStub) -> None:
    one, other = (name for name, kept in stub.spaces.items() if kept)
    stub.spaces[one], stub.spaces[other] = stub.spaces[other], stub.spaces[one]


def _failing_search(world: World, stub: MemoryStub) -> None:
    stub.answers = {**stub.answers, "search": lambda *_: web.json_response({"error": "gone"}, status=404)}


def _silent_search(world: World, stub: MemoryStub) -> None:
    stub.answers = {**stub.answers, "search": lambda *_: web.json_response({"results": []})}


def _headers(world: World, stub: MemoryStub) -> None:
    with_version(world, **{'namespace: "$.runTag", metadata': 'namespace: "$.runTag", infer: true, metadata'})


CHANGES: dict[str, tuple[Callable[[World, MemoryStub], object], str]] = {
    "text of one memory": (_text, "corpora.c0.memories"),
    "order of the sessions": (_order, "corpora.c0.memories"),
    "date of a session": (_date, "corpora.c1.memories"),
    "one turn more": (_one_more, "corpora.c0.memories"),
    "a corpus more": (_another_corpus, "corpora.c9: (absent)"),
    "unit": (_set(faulty__ingest__unit="turn"), "unit"),
    "text rule": (_set(faulty__ingest__text="dated"), "text"),
    "order of adds": (_set(faulty__ingest__order="parallel"), "provider.ingest"),
    "chunking": (_set(faulty__ingest__chunk__size="100"), 'provider.ingest: (absent) -> {"chunk":{"size":100}}'),
    "path of adds": (_set(faulty__endpoints__add__path="/v2/add"), "provider.endpoints.add.path"),
    "body of adds": (_headers, "provider.endpoints.add.body"),
    "names of namespaces": (_set(faulty__scoping__run_id_format="x-${runId}"), "provider.scoping"),
    "another address": (_set(faulty__connection__base_url="http://127.0.0.1:9"), "base_url"),
    "version of the service": (_version_of_service, "upstream: 1.0 -> 2.0"),
    "a namespace that is gone": (_lost, "count: 2 -> 0"),
    "a memory that is gone": (_deleted_memory, "count: 2 -> 1"),
    "a memory that is not ours": (_foreign_memory, "count: 2 -> 3"),
    "a memory with another text": (_replaced_memory, "corpora.c0.search."),
    "namespaces that changed places": (_swapped_namespaces, "corpora.c0.search."),
    "a search that is refused": (_failing_search, "corpora.c0: ready -> "),
    "a search that finds nothing": (_silent_search, "-> nothing"),
}


async def test_a_changed_build_is_refused_before_the_first_question(
    world_on: WorldOn, tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    stub = served(MemoryStub())
    world = await world_on(stub, corpora=2, items=2, sessions=2)
    with_version(world)
    await ingested(world)
    spaces, answers = deepcopy(stub.spaces), stub.answers
    for number, (what, (change, message)) in enumerate(CHANGES.items()):
        stub.spaces, stub.answers = deepcopy(spaces), answers
        copy = tmp_path_factory.mktemp("changed") / str(number)
        shutil.copytree(world.workspace, copy)
        with subtests.test(what):
            await check_refused(replace(world, workspace=copy), stub, change, message)


async def check_refused(
    world: World, stub: MemoryStub, change: Callable[[World, MemoryStub], object], message: str
) -> None:
    flags = change(world, stub)
    adds = stub.calls("add")
    with pytest.raises(BenchError) as refused:
        await world.run(**KEPT, run_id="r2", reuse_build="r1", **(flags if isinstance(flags, dict) else {}))
    assert isinstance(refused.value, IdentityError) and refused.value.exit_code == 2
    assert message in str(refused.value) and "--reuse-build auto" in str(refused.value.hint)
    assert stub.calls("add") == adds, "nothing was ingested"
    assert not (world.workspace / "checkpoints/r2").exists()
    assert await in_use(world) == ()


async def in_use(world: World) -> tuple[str, ...]:
    from bench.journal.build_borrowers import borrowers

    return await borrowers(world.workspace / "checkpoints/r1")


async def test_a_build_of_another_embedding_model_is_refused(world_on: WorldOn) -> None:
    """The vectors are the lengths of the texts."""

    async def embed(request: web.Request) -> web.StreamResponse:
        texts = (await request.json())["input"]
        rows = [{"index": at, "embedding": [float(len(text)), 1.0]} for at, text in enumerate(texts)]
        return web.json_response({"data": rows, "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    servers = LocalServers()
    world = await world_on(MemoryStub(), corpora=1, items=2)
    world.write("configs/models/acme.yaml", f"name: acme\ndialect: openai\nbaseUrl: {await servers.start(embed)}/v1\n")
    world.provider("faulty", extra="client_embeddings: {model: acme/lengths}\n")
    await ingested(world)
    assert (await world.run(**KEPT, run_id="r2", reuse_build="r1")).exit_code == 0
    with pytest.raises(IdentityError, match="embedding: acme/lengths -> acme/widths"):
        await world.run(**KEPT, run_id="r3", reuse_build="r1", embedding_model="acme/widths")
    await servers.close()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"reuse_build": "nothing"}, 'there is no run "nothing"'),
        ({"reuse_build": "r1", "providers": "bm25"}, "run r1 has no build of facts by bm25"),
        ({"reuse_build": "r1", "benchmarks": "demo"}, "run r1 has no build of demo by faulty"),
        ({"reuse_build": "r1", "cluster": "local:2"}, "exclude each other"),
        ({"reuse_build": "cleared"}, "cleared: to keep memories, ingest with --cleanup never"),
    ],
)
async def test_reuse_of_a_missing_or_cleared_build_is_refused_with_the_reason(
    flags: dict[str, object], message: str, world_on: WorldOn
) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=2)
    await ingested(world)
    await world.run(**KEPT, run_id="cleared")
    with pytest.raises(BenchError, match=message):
        await world.run(**{**KEPT, "run_id": "r2", **flags})


async def test_a_build_in_files_of_an_adapter_cannot_be_reused(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=2)
    ScriptedStore.install(world, durability="file")
    await ingested(world, providers="scripted")
    with pytest.raises(BenchError, match="the memories of scripted can be searched only by the run that ingested them"):
        await world.run(providers="scripted", run_id="r2", reuse_build="r1")


# ----------------------------------------------------------------- built-ins


@pytest.mark.parametrize("provider", ["bm25", "full-context"])
async def test_a_reused_build_of_a_built_in_provider_gives_the_same_results(provider: str, tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=2, items=4)
    flags = {"providers": provider, "answering_model": "builtin/extractive"}
    await ingested(world, **flags)
    again = await world.run(**flags, run_id="r2", reuse_build="r1")
    assert again.exit_code == 0
    assert await results_of(world, "r2") == await results_of(world, "r1")
    (event,) = world.query("r2", "select message from event where kind = 'reused_build'")
    assert event[0].startswith(f"build facts/{provider} of run r1 (reused)")
    assert not world.query("r2", "select 1 from corpus_row where kind = 'batch'")


@pytest.mark.parametrize(
    "change",
    [
        "update memories set content = content || '!' where position = 1",
        "update memories set at = '2020-01-01T00:00:00' where position = 2",
        "delete from memories where position = 1",
        "insert into memories (id, content) values ('x', 'of another')",
    ],
)
async def test_a_changed_build_of_a_built_in_provider_is_refused(change: str, tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=3)
    await ingested(world, providers="bm25")
    (file,) = (tmp_path / "checkpoints/r1/stores").rglob("*.sqlite")
    with closing(sqlite3.connect(file)) as store:
        store.execute(change)
        store.commit()
    with pytest.raises(IdentityError, match=r"corpora\.c0\.sha256"):
        await world.run(providers="bm25", run_id="r2", reuse_build="r1")
    file.unlink()
    with pytest.raises(IdentityError, match=r"corpora\.c0\.count: 3 -> 0"):
        await world.run(providers="bm25", run_id="r3", reuse_build="r1")


CHUNKS = """
name: chunks
type: local
adapter: bench.providers.contextual_retrieval:ContextualRetrieval
client_embeddings: {model: acme/lengths}
local: {enhancement: {enabled: false}}
"""


@pytest.mark.parametrize("provider", ["vector", "chunks"])
async def test_a_reused_build_copies_its_vectors_and_embeds_only_the_questions(
    provider: str, world_on: WorldOn
) -> None:
    texts: list[str] = []

    async def embed(request: web.Request) -> web.StreamResponse:
        sent = (await request.json())["input"]
        texts.extend(sent)
        rows = [
            {"index": at, "embedding": [float(byte) for byte in hashlib.sha256(text.encode()).digest()]}
            for at, text in enumerate(sent)
        ]
        return web.json_response({"data": rows, "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    servers = LocalServers()
    world = await world_on(MemoryStub(), corpora=1, items=3)
    world.write("configs/models/acme.yaml", f"name: acme\ndialect: openai\nbaseUrl: {await servers.start(embed)}/v1\n")
    world.write("configs/providers/chunks.yaml", CHUNKS)
    flags = {"providers": provider, "embedding_model": "acme/lengths"}
    await ingested(world, **flags)
    texts.clear()
    assert (await world.run(**flags, run_id="r2", reuse_build="r1", answering_model="none")).exit_code == 0
    assert len(texts) == 3 and all(text.endswith("?") for text in texts), "only the questions are embedded"
    await servers.close()


# ----------------------------------------------------------------- files of a class

FOLDER_STORE = '''
from bench.model import Found, Hit, Ingested, Readiness
from bench.providers import copy_store, store_digest


class Folder:
    """One file per memory, one folder per namespace."""

    durability = "file"

    def __init__(self, config, context):
        self.home = context.run_dir / config.name

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    async def ingest(self, space, memories):
        folder = self.home / space.namespace
        folder.mkdir(parents=True, exist_ok=True)
        for one in memories:
            (folder / one.id).write_text(one.content)
        return Ingested(ids={one.id: (one.id,) for one in memories})

    async def ready(self, space, ingested):
        return Readiness(state="ready")

    async def search(self, space, query):
        words = set(query.text.lower().replace("?", "").split())
        texts = {path.name: path.read_text() for path in sorted((self.home / space.namespace).glob("*"))}
        found = sorted(texts, key=lambda name: -len(words & set(texts[name].lower().split())))[: query.k]
        hits = tuple(Hit(id=name, content=texts[name], source_ids=(name,)) for name in found)
        return Found(hits=hits, requested=query.k, returned=len(hits))

    async def clear(self, space):
        await copy_store(self.home / "nothing", self.home / space.namespace)

    async def restore(self, space, run_dir):
        await copy_store(run_dir / self.home.name / space.namespace, self.home / space.namespace)

    async def digest(self, space):
        return await store_digest(self.home / space.namespace)
'''


@pytest.mark.parametrize("change", ["text", "name", "more", "less"])
async def test_the_store_folder_of_a_class_is_restored_and_refused_if_it_changed(change: str, tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=3)
    world.write("configs/providers/folder.py", FOLDER_STORE)
    world.write("configs/providers/folder.yaml", "name: folder\ntype: local\nadapter: ./folder.py:Folder\n")
    flags = {"providers": "folder", "answering_model": "builtin/extractive"}
    await ingested(world, **flags)
    assert (await world.run(**flags, run_id="r2", reuse_build="r1")).exit_code == 0
    assert await results_of(world, "r2") == await results_of(world, "r1")
    assert not world.query("r2", "select 1 from corpus_row where kind = 'batch'")
    first, *_ = sorted(path for path in (tmp_path / "checkpoints/r1/stores").rglob("folder/*/*") if path.is_file())
    if change == "text":
        first.write_text(first.read_text().replace("opens", "shuts"))
    elif change == "name":
        first.rename(first.with_name("other"))
    elif change == "more":
        first.with_name("other").write_text("of another")
    else:
        first.unlink()
    with pytest.raises(IdentityError, match=r"corpora\.c0\.sha256"):
        await world.run(**flags, run_id="r3", reuse_build="r1")


async def test_a_class_whose_restore_fails_is_a_config_error(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=3)
    world.write("configs/providers/folder.yaml", "name: folder\ntype: local\nadapter: ./folder.py:Folder\n")
    world.write("configs/providers/folder.py", FOLDER_STORE.replace("run_dir / self.home.name", "run_dir[0]"))
    await ingested(world, providers="folder", answering_model="none")
    with pytest.raises(ConfigError, match="cannot restore the memories of c0: TypeError"):
        await world.run(providers="folder", answering_model="none", run_id="r2", reuse_build="r1")


# ----------------------------------------------------------------- builds in use


async def half_way(world: World, stub: MemoryStub, *, reuse_build: str = "r1") -> None:
    """Start a run that searches the memories of another run and is stopped after its first questions."""
    usual = stub.answers
    stub.answers = {
        **usual,
        "search": lambda number, request, body: (
            web.json_response({}, status=401) if str(body["query"]).startswith("What opens the vault K1") else None
        ),
    }
    assert (await world.run(**KEPT, run_id="r2", reuse_build=reuse_build, isolation="off")).exit_code == 3
    stub.answers = usual


async def test_clean_refuses_a_build_in_use_and_clears_it_after_the_run(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=2)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    await ingested(world)
    await half_way(world, stub)
    for command in (("clean", "r1"), ("clean", "r1", "--orphans"), ("builds", "rm", "r1")):
        refused = await ended_with(6, bench, *command, "--yes")
        assert "are in use by run r2: nothing was cleared" in refused.stderr and "bench resume r2" in refused.stderr
    assert not stub.cleared
    listed = json.loads((await in_thread(bench, "builds", "show", "r1", "--json")).stdout)["builds"]
    assert listed[0]["lent_to"] == ["r2"]
    assert (await world.resume("r1", cleanup="run")).exit_code == 0
    assert not stub.cleared, "the run that ingested them does not clear them either"
    adds = stub.calls("add")
    assert (await world.resume("r2")).exit_code == 0
    assert stub.calls("add") == adds and not stub.cleared, "the borrower clears nothing"
    await in_thread(bench, "clean", "r1", "--yes")
    assert len(stub.cleared) == 2 and not any(stub.spaces.values())


async def test_a_build_that_was_compared_but_not_reused_can_be_cleared(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=2)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    await ingested(world)
    next(iter(stub.spaces.values())).pop()
    await half_way(world, stub, reuse_build="auto")
    assert "has other contents than before" in str(world.query("r2", "select message from event"))
    before = len(stub.cleared)
    await in_thread(bench, "clean", "r1", "--yes")
    assert stub.cleared[before:] == [2, 3]


async def test_cleaning_the_borrowing_run_releases_the_build_and_clears_no_memory(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=2)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    await ingested(world)
    await half_way(world, stub)
    await in_thread(bench, "clean", "r2", "--yes")
    assert not stub.cleared
    await in_thread(bench, "builds", "rm", "r1", "--yes")
    assert len(stub.cleared) == 2


async def test_one_clean_command_deletes_a_build_and_the_run_that_uses_it(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=2)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    await ingested(world)
    await half_way(world, stub)
    await in_thread(bench, "clean", "--older-than", "0m", "--yes")
    assert len(stub.cleared) == 2 and not list((world.workspace / "checkpoints").glob("r*"))


async def test_a_resume_compares_the_reused_build_again_and_never_ingests_it(world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=2)
    await ingested(world)
    await half_way(world, stub)
    adds = stub.calls("add")
    lost = dict(stub.spaces)
    stub.spaces.clear()
    with pytest.raises(IdentityError, match="count: 3 -> 0"):
        await world.resume("r2")
    stub.spaces.update(lost)
    assert (await world.resume("r2")).exit_code == 0
    assert stub.calls("add") == adds


async def test_a_resume_cannot_change_reuse_build(world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=2)
    await ingested(world)
    await half_way(world, stub)
    with pytest.raises(IdentityError, match="--reuse-build of run r2 cannot change"):
        await world.resume("r2", reuse_build="never")
