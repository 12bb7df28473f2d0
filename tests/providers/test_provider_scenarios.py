"""Faults of providers reported by users of comparable tools (cases/scenarios.md)."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import MappingError, Rejected, Unavailable
from bench.http import recording
from bench.model import Ingested, Memory, Query, Space
from bench.providers import merge_captures
from tests.contract.running import opened
from tests.contract.test_contract import PLAYED

Fault = Callable[..., str]
KEY = "sk-played-0123456789abcdef"


def played(folder: Path, extra: str = "", without: str = "") -> ProviderConfig:
    text = PLAYED.replace(without, "") if without else PLAYED
    return load_provider(Source.parse(text + extra, folder / "played.yaml"))


def space(captures: object = None) -> Space:
    return Space(namespace="ns", run_id="r", benchmark="b", corpus="c", captures=captures or {})  # type: ignore[arg-type]


def ask(text: str = "cat") -> Query:
    return Query(text=text, k=10)


def control(url: str, path: str) -> dict[str, object]:
    with urllib.request.urlopen(f"{url}/control/{path}", timeout=120) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def stored(url: str) -> int:
    spaces = control(url, "namespaces")
    return int(spaces.get("ns", {}).get("count", 0))  # type: ignore[attr-defined]


CATS = [Memory(id=f"m{i}", content=f"the cat number {i} sleeps") for i in range(3)]
QUICK = "rateLimit: {maxRetries: 2, retryDelayMs: 1}\n"
NO_KEY = "    idempotency: {header: Idempotency-Key}\n"


async def filled(provider: object, memories: list[Memory]) -> Space:
    got: Ingested = await provider.ingest(space(), memories)  # type: ignore[attr-defined]
    return space(merge_captures({}, got.captures))


@pytest.mark.scenario("P1")
async def test_P1_a_renamed_field_is_a_MappingError(fault_server: Fault, tmp_path: Path) -> None:
    url = fault_server("search:rename:from=memory,to=chunk")
    async with opened(played(tmp_path), tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        where = await filled(provider, CATS)
        with pytest.raises(
            MappingError, match=r'search.response.contentField "\$.memory": nothing there; body: \{"results"'
        ):
            await provider.search(where, ask())


@pytest.mark.scenario("P8")
async def test_P8_a_missing_score_is_None_and_the_order_is_unchanged(fault_server: Fault, tmp_path: Path) -> None:
    url = fault_server("search:null:field=score")
    async with opened(played(tmp_path), tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        where = await filled(provider, CATS)
        found = await provider.search(where, ask())
        assert [(hit.id, hit.score) for hit in found.hits] == [("m0", None), ("m1", None), ("m2", None)]


@pytest.mark.scenario("P6")
@pytest.mark.parametrize("fault", ["html", "blank", "badjson", "truncate"])
async def test_P6_an_answer_that_is_not_JSON_is_an_error(fault: str, fault_server: Fault, tmp_path: Path) -> None:
    url = fault_server(f"search:{fault}:")
    async with opened(played(tmp_path, QUICK), tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        with pytest.raises((MappingError, Unavailable)):
            await provider.search(space(), ask())


@pytest.mark.scenario("P10")
async def test_P10_a_redirect_to_another_host_is_not_followed(fault_server: Fault, tmp_path: Path) -> None:
    other = fault_server("--record")
    url = fault_server(f"search:redirect:to={other}/v1/search,code=307")
    async with opened(played(tmp_path, QUICK), tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        with pytest.raises(Rejected):
            await provider.search(space(), ask())
    assert control(other, "stats")["requests"] == 0


@pytest.mark.scenario("S7")
async def test_S7_more_hits_than_k_are_cut_and_counted(fault_server: Fault, tmp_path: Path) -> None:
    url = fault_server("search:over:n=30")
    config = played(tmp_path)
    async with opened(config, tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        where = await filled(provider, CATS)
        found = await provider.search(where, ask())
        assert (found.requested, found.returned, len(found.hits)) == (10, 30, 10)


@pytest.mark.scenario("M6")
async def test_M6_an_answer_of_200_MB_is_refused_with_little_memory(fault_server: Fault, tmp_path: Path) -> None:
    def peak_kb() -> int:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        assert found is not None
        return int(found[1])

    url = fault_server("search:huge:kb=200000")
    async with opened(played(tmp_path, QUICK), tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        before = peak_kb()
        with pytest.raises(MappingError, match="larger than"):
            await provider.search(space(), ask())
        assert peak_kb() - before < 64 * 1024


@pytest.mark.scenario("L8")
async def test_L8_a_lost_add_is_repeated_only_with_an_idempotency_key(fault_server: Fault, tmp_path: Path) -> None:
    fault = "add:status:code=503,effect=1,per_key=1"
    url = fault_server(fault)
    async with opened(played(tmp_path, QUICK), tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        await provider.ingest(space(), CATS)
        assert stored(url) == len(CATS)
    url = fault_server(fault)
    async with opened(played(tmp_path, QUICK, NO_KEY), tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        with recording() as calls, pytest.raises(Unavailable):
            await provider.ingest(space(), CATS)
        assert len(calls) == 1


@pytest.mark.scenario("R11")
async def test_R11_an_add_that_was_applied_before_a_reset_is_stored_once(fault_server: Fault, tmp_path: Path) -> None:
    url = fault_server("add:reset:effect=1,calls=1")
    async with opened(played(tmp_path, QUICK), tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        where = await filled(provider, CATS)
        found = await provider.search(where, ask())
        assert sorted(hit.id for hit in found.hits) == ["m0", "m1", "m2"]
        assert stored(url) == 3


@pytest.mark.scenario("R7")
async def test_R7_a_new_provider_waits_for_every_job_of_the_journal(fault_server: Fault, tmp_path: Path) -> None:
    url = fault_server("add:lag:ms=20000")
    variables = {"PLAYED_URL": url, "PLAYED_KEY": KEY}
    async with opened(played(tmp_path), tmp_path, variables) as provider:
        got = await provider.ingest(space(), CATS)
    async with opened(played(tmp_path), tmp_path, variables) as provider:
        assert (await provider.ready(space(got.captures), got)).counts["jobs"] == 3
        assert (await provider.search(space(got.captures), ask())).hits == ()


@pytest.mark.scenario("R8")
async def test_R8_built_in_stores_declare_durability_file(tmp_path: Path) -> None:
    from bench.providers.adapters import builtin_config

    for name in ("bm25", "full-context", "random"):
        async with opened(builtin_config(name), tmp_path) as provider:
            assert provider.durability == "file"


@pytest.mark.scenario("W4")
async def test_W4_a_key_echoed_by_the_provider_is_in_no_error(fault_server: Fault, tmp_path: Path) -> None:
    url = fault_server("search:echo_auth:code=400")
    async with opened(played(tmp_path, QUICK), tmp_path, {"PLAYED_URL": url, "PLAYED_KEY": KEY}) as provider:
        with pytest.raises(Rejected) as caught:
            await provider.search(space(), ask())
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.value)
