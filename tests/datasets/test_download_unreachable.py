"""``bench download`` of each shipped benchmark without network: the error names file, URL and path."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from bench.config.catalog import Catalog
from bench.datasets.rows import download
from bench.datasets.rows.data_file import is_shipped, needed_paths
from bench.datasets.rows.file_transport import aiohttp_fetch
from bench.errors import DataError
from tests.rows import each_row

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(path.stem for path in (ROOT / "configs" / "benchmarks").glob("*.yaml"))


class Nowhere(AbstractResolver):
    """No host has an address."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        raise OSError("no network")

    async def close(self) -> None:
        return None


async def refused(name: str, workspace: Path, source: str | None = None) -> DataError:
    config = Catalog.load(ROOT).benchmark(name)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=Nowhere())) as session:
        fetch = aiohttp_fetch(session)
        with pytest.raises(DataError) as caught:
            await download.download(config, workspace, fetch=fetch, environment=lambda _: None, source=source)
    return caught.value


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "ATTEMPTS", 1)


@each_row("name", CONFIGS)
async def test_an_unreachable_download_names_file_URL_and_path(name: str, tmp_path: Path) -> None:
    config = Catalog.load(ROOT).benchmark(name)
    if is_shipped(config):
        pytest.skip("the data is bundled")
    error = await refused(name, tmp_path)
    expected = f"{error} {error.hint}"
    first = tmp_path / next(iter(config.data.fetch)) if config.data.fetch else needed_paths(config, tmp_path)[0]
    assert str(first) in expected
    addressed = config.data.fetch or config.data.type != "local"
    assert not addressed or "cannot reach" in expected
    address = next(iter(config.data.fetch.values()), "http")
    assert not addressed or address in expected
    if not addressed:
        assert all(str(path) in error.hint for path in needed_paths(config, tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.endswith(".lock")]


@pytest.mark.parametrize("name", ["lmeb", "membench", "prefeval"])
async def test_one_given_file_is_refused_for_a_benchmark_with_several_files(name: str, tmp_path: Path) -> None:
    (tmp_path / "given.json").write_text("[]", encoding="utf-8")
    error = await refused(name, tmp_path, str(tmp_path / "given.json"))
    assert "put the files at" in error.hint
    assert not list(tmp_path.rglob("*[*]*"))
