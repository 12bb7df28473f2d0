"""Overlays of suspect gold answers: invalid entries with their lines, and overlays for other data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.config.benchmark.overlay import DoubtedItem, read_overlay
from bench.config.catalog import Catalog
from bench.config.file import Source
from bench.datasets import open_benchmark
from bench.errors import BenchError, ConfigError
from bench.plan.benchmark import overlay_of
from bench.plan.model import PlannedOverlay
from tests.config.test_benchmark_reading import YAML, Home
from tests.rows import each_row

GOOD = "benchmark: b\ndataset_sha256: 'ab'\nsource: ours\nitems:\n  - {id: q1, kind: wrong}\n"
ITEMS = "known fields: id, kind, note, correctedAnswer"


def refused(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        read_overlay(Source.parse(text, Path("o.yaml")))
    return [(str(one), one.hint) for one in caught.value.problems or (caught.value,)]


def test_item_ids_and_answers_of_an_overlay_may_be_numbers() -> None:
    text = GOOD + "  - {id: 2, kind: typo, note: n, corrected_answer: 1.5}\n"
    file = read_overlay(Source.parse(text, Path("o.yaml")))
    assert file.items == (
        DoubtedItem(id="q1", kind="wrong"),
        DoubtedItem(id="2", kind="typo", note="n", corrected_answer="1.5"),
    )
    assert (file.benchmark, file.dataset_sha256, file.source) == ("b", "ab", "ours")


def test_benchmark_and_source_of_an_overlay_are_optional() -> None:
    file = read_overlay(Source.parse("dataset_sha256: ab\nitems: []\n", Path("o.yaml")))
    assert (file.benchmark, file.source, file.items) == (None, None, ())


@each_row(
    ("old", "new", "message", "hint"),
    [
        (
            "source: ours",
            "sorce: ours",
            'o.yaml:3:1: unknown field "sorce"; did you mean "source"?',
            "known fields: benchmark, datasetSha256, source, items",
        ),
        ("kind: wrong", "knd: wrong", 'o.yaml:5:14: unknown field "knd" in items[0]; did you mean "kind"?', ITEMS),
        ("id: q1", "id: ''", 'o.yaml:5:6: items[0].id must have at least 1 character, not ""', "correct the value"),
        ("id: q1", "id: true", "o.yaml:5:6: items[0].id must be text, not true", 'put it in quotes: "true"'),
        ("id: q1", "id: [q1]", "o.yaml:5:6: items[0].id must be text, not a list", "write text"),
        ("id: q1, ", "", 'o.yaml:5:5: missing field "id" in items[0]', "add id"),
        (
            "  - {id: q1, kind: wrong}\n",
            "  - q1\n",
            'o.yaml:5:5: items[0] must be a map of keys, not "q1"',
            "write a map of keys",
        ),
        (
            "items:\n  - {id: q1, kind: wrong}\n",
            "items: q1\n",
            'o.yaml:4:1: items must be a list, not "q1"',
            "write a list",
        ),
        ("dataset_sha256: 'ab'\n", "", 'o.yaml:1:1: missing field "datasetSha256"', "add datasetSha256"),
        (
            "kind: wrong}\n",
            "kind: wrong}\n  - {id: q1, kind: x}\n",
            'o.yaml:6:6: item "q1" is listed twice',
            "keep one of the two entries",
        ),
    ],
)
def test_an_overlay_that_breaks_a_rule_gets_the_exact_finding_and_hint(
    old: str, new: str, message: str, hint: str
) -> None:
    assert old in GOOD
    found = refused(GOOD.replace(old, new, 1))
    assert (message, hint) in found
    assert all(one.startswith("o.yaml:") for one, _ in found)


# ---------------------------------------------------------------- beside data


Load = Callable[[str], PlannedOverlay | None]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Plan the overlay ``audit`` of a benchmark with the items q1 and q2."""
    monkeypatch.chdir(tmp_path)
    home = Home(tmp_path)
    rows = '{"id": "q1", "q": "?", "a": "1", "c": "x"}\n{"id": "q2", "q": "?", "a": "2", "c": "y"}\n'
    (home.folder / "b.jsonl").write_text(rows, encoding="utf-8")
    digest = hashlib.sha256(rows.encode()).hexdigest()
    (home.folder / "overlays").mkdir()

    def plan(text: str, name: str = "audit") -> PlannedOverlay | None:
        path = home.folder / "overlays" / "audit.yaml"
        path.write_text(text.replace("'ab'", f"'{digest}'"), encoding="utf-8")
        config = home.read(home.write("b", YAML.format(name="b") + f"overlay: {name}\n"))
        return overlay_of(config, open_benchmark(config, tmp_path))

    return plan


@pytest.mark.parametrize("name", ["audit", "audit.yaml", "overlays/audit.yaml", "./overlays/audit.yaml"])
def test_an_overlay_is_found_by_name_with_or_without_its_folder(load: Load, tmp_path: Path, name: str) -> None:
    planned = load(GOOD + "  - {id: q2, kind: typo, note: why, correctedAnswer: 3}\n", name)
    content = (tmp_path / "configs/benchmarks/overlays/audit.yaml").read_bytes()
    assert planned is not None
    assert (planned.name, planned.sha256) == ("audit", hashlib.sha256(content).hexdigest())
    assert planned.source == "ours"
    assert planned.items == {
        "q1": DoubtedItem(id="q1", kind="wrong"),
        "q2": DoubtedItem(id="q2", kind="typo", note="why", corrected_answer="3"),
    }


def test_an_overlay_may_name_the_content_sha256_of_the_data(load: Load, tmp_path: Path) -> None:
    load(GOOD)
    content = open_benchmark(Catalog.load(tmp_path).benchmark("b"), tmp_path).content_sha256
    assert load(GOOD.replace("'ab'", content)) is not None


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            "id: q1",
            "id: q9",
            'overlays/audit.yaml:5:6: b has no item "q9"',
            "list the ids with: bench describe b --items",
        ),
        (
            "benchmark: b",
            "benchmark: c",
            "overlays/audit.yaml:1:1: the overlay is for c, not for b",
            "write benchmark: b in the overlay, or name another overlay in the config",
        ),
    ],
)
def test_an_overlay_with_an_unknown_item_or_another_benchmark_is_refused(
    load: Load, old: str, new: str, message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(GOOD.replace(old, new, 1))
    assert (str(caught.value), caught.value.hint) == (f"configs/benchmarks/{message}", hint)


def test_an_overlay_of_other_data_is_refused_with_both_sha256(load: Load) -> None:
    with pytest.raises(BenchError) as caught:
        load(GOOD.replace("'ab'", "'cd'"))
    assert caught.value.kind == "data"
    assert str(caught.value).startswith(
        "configs/benchmarks/overlays/audit.yaml:2:1: the overlay is for the dataset with sha256 cd, but the "
        "dataset of this run has "
    )
    assert caught.value.hint == "use an overlay for this dataset, or run without an overlay"


def test_every_unknown_item_of_an_overlay_is_reported(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load(GOOD.replace("id: q1", "id: q8") + "  - {id: q2, kind: x}\n  - {id: q9, kind: x}\n")
    assert [one.message for one in caught.value.problems] == ['b has no item "q8"', 'b has no item "q9"']


@pytest.mark.parametrize("name", ["other", "../audit", "deep/audit.yaml", "/overlays/audit.yaml"])
def test_an_overlay_is_read_only_from_the_overlays_folder(load: Load, tmp_path: Path, name: str) -> None:
    stem = Path(name).stem
    with pytest.raises(ConfigError) as caught:
        load(GOOD, name)
    assert str(caught.value) == f"configs/benchmarks/b.yaml:6:1: there is no overlay overlays/{stem}.yaml"
    assert caught.value.hint == f"put the overlay at {tmp_path}/configs/benchmarks/overlays/{stem}.yaml"
