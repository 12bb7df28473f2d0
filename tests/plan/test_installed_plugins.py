"""Installed plug-ins: their version is part of the identity, and duplicates of built-in names are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import ConfigError
from bench.metrics.protocol import canonical
from bench.plan.plugins import GROUPS, Installed
from tests.distributions import install
from tests.small_world import World

LOUD = """
from bench.model import Completion, Verdict


class Loud:
    name, needs_judge, definition = "loud", False, "loud/1"

    async def evaluate(self, item, answer, hits, judge):
        return Verdict(evaluator=self.name, value=1.0, correct=True)

    def score(self, row):
        return 1.0


def reader(name, *, http, environment, role):
    raise AssertionError("a plan opens no model")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of ``sys.path`` with the code of plug-ins."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "acme_loud.py").write_text(LOUD, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_versions_lists_each_distribution_with_a_plugin(site: Path) -> None:
    before = Installed.read().versions()
    for number, group in enumerate(GROUPS):
        install(site, f"acme-{number}", group, "one = acme:One", "two = acme:Two", version=f"{number}.5")
    install(site, "unrelated", "console_scripts", "one = acme:main")
    assert Installed.read().versions() == before | {"acme-0": "0.5", "acme-1": "1.5", "acme-2": "2.5", "acme-3": "3.5"}


def test_distributions_are_found_by_entry_point_name_in_any_spelling(site: Path) -> None:
    install(site, "acme", "bench.metrics", "Loud-Metric = acme_loud:Loud", version="2")
    install(site, "other", "bench.metrics", "quiet = other:Quiet", version="3")
    read = Installed.read()
    assert read.distributions("bench.metrics", ["quiet"]) == {"other": "3"}
    assert read.distributions("bench.metrics", ["loud_metric"]) == {}
    assert read.distributions("bench.metrics", ["loud_metric"], canonical) == {"acme": "2"}
    assert read.distributions("bench.models", ["quiet"]) == {}
    assert read.names("bench.metrics") >= {"Loud-Metric", "quiet"}


def test_the_own_distribution_is_neither_a_duplicate_nor_versioned(site: Path) -> None:
    install(site, "memorybench", "bench.providers", "bm25 = acme:Memory")
    read = Installed.read()
    read.refuse_duplicates("bench.providers", ["bm25"])
    assert read.distributions("bench.providers", ["bm25"]) == {}


@pytest.mark.parametrize(
    ("group", "point", "flags", "name"),
    [
        ("bench.providers", "bm25 = acme:Memory", {"providers": "bm25"}, "bm25"),
        ("bench.providers", "oracle = acme:Memory", {"providers": "bm25 oracle"}, "oracle"),
        ("bench.models", "openai = acme_loud:reader", {"answering_model": "openai/m"}, "openai"),
        ("bench.models", "builtin = acme_loud:reader", {"answering_model": "builtin/extractive"}, "builtin"),
        ("bench.models", "openai = acme_loud:reader", {"providers": "vector"}, "openai"),
        ("bench.evaluators", "contains = acme_loud:Loud", {}, "contains"),
        ("bench.evaluators", "Exact_Match = acme_loud:Loud", {"evaluators": "exact-match"}, "exact-match"),
        ("bench.metrics", "MRR = acme_loud:Loud", {}, "mrr"),
        ("bench.metrics", "recall = acme_loud:Loud", {"metrics": "recall_at_5"}, "recall"),
        ("bench.metrics", "Hit@5 = acme_loud:Loud", {}, "hit_at_5"),
    ],
)
def test_a_plugin_with_a_built_in_name_is_rejected_if_the_run_uses_the_name(
    world: World, site: Path, group: str, point: str, flags: dict[str, object], name: str
) -> None:
    asked = {"providers": "bm25", **flags}
    assert world.plan(**asked)
    install(site, "acme-double", group, point)
    with pytest.raises(ConfigError) as caught:
        world.plan(**asked)
    assert caught.value.message == f'{group}: "{name}" is registered by memorybench and by acme-double'
    assert caught.value.hint == "uninstall one of the two distributions"


def test_a_plugin_with_an_unused_built_in_name_is_accepted(world: World, site: Path) -> None:
    alone = world.plan(providers="bm25").digest
    install(site, "acme-providers", "bench.providers", "vector = acme:Memory", "random = acme:Memory")
    install(site, "acme-models", "bench.models", "anthropic = acme_loud:reader")
    install(site, "acme-evaluators", "bench.evaluators", "rubric = acme_loud:Loud")
    assert world.plan(providers="bm25").digest == alone


def test_a_workspace_config_can_have_the_name_of_a_plugin(world: World, site: Path) -> None:
    install(site, "acme", "bench.providers", "faulty = acme:Memory", "own = acme:Memory")
    world.write("configs/models/openai.yaml", "name: openai\nlimits: {rps: 5}\n")
    install(site, "acme-models", "bench.models", "openai = acme_loud:reader")
    (lane,) = world.plan(providers="faulty", answering_model="openai/m").lanes
    assert lane.provider.config.path == world.workspace / "configs/providers/faulty.yaml"


def test_the_version_of_a_used_plugin_is_part_of_the_identity(world: World, site: Path) -> None:
    def identity(version: str) -> tuple[str, object]:
        for group, point in (
            ("bench.evaluators", "Very_Loud = acme_loud:Loud"),
            ("bench.metrics", "loud = acme_loud:Loud"),
            ("bench.models", "acme = acme_loud:reader"),
        ):
            install(site, f"acme-{group[6:]}", group, point, version=version)
        plan = world.plan(providers="bm25", evaluators="very-loud", metrics="loud", answering_model="acme/parrot")
        benchmark = plan.identity["benchmarks"]["facts"]  # type: ignore[index]
        return plan.digest, (benchmark["code"], plan.identity["models"])

    first, output = identity("1.0")
    assert output == (
        {"acme-evaluators": "1.0", "acme-metrics": "1.0"},
        {"acme/parrot": {"plugin": {"acme-models": "1.0"}}},
    )
    second, _ = identity("1.1")
    assert second != first
    assert identity("1.0")[0] == first


def test_a_provider_plugin_is_identified_by_its_distribution_and_version(world: World, site: Path) -> None:
    install(site, "acme-memory", "bench.providers", "acme = bench.providers.builtin.bm25:Bm25", version="3.1")
    (lane,) = world.plan(providers="acme").lanes
    assert (lane.provider.label, lane.provider.built_in) == ("acme", None)
    plan = world.plan(providers=["acme", "faulty"])
    providers = plan.identity["providers"]
    assert isinstance(providers, dict)
    assert [providers[name]["plugin"] for name in ("acme", "faulty")] == [{"acme-memory": "3.1"}, None]
    assert plan.versions["plugins"] == {"acme-memory": "3.1"}
