"""The real LoCoMo10 and LongMemEval files: exact counts, order and flags."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.config.template import iso_utc
from bench.datasets import Dataset, Selection, evidence_level, open_benchmark
from bench.datasets.dataset_json import describe
from bench.errors import DataError


@pytest.fixture(scope="module")
def locomo_workspace(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("locomo")
    target = root / "datasets" / "locomo" / "locomo10.json"
    target.parent.mkdir(parents=True)
    shutil.copy(shared / "data" / "locomo10" / "locomo10.json", target)
    return root


@pytest.fixture(scope="module")
def locomo(locomo_workspace: Path) -> Dataset:
    return open_benchmark(Catalog.load(locomo_workspace).benchmark("locomo"), locomo_workspace)


def test_LoCoMo_has_its_published_counts(locomo: Dataset) -> None:
    shown = describe(locomo)
    assert [shown[key] for key in ("items", "corpora", "sessions", "turns", "memories")] == [1986, 10, 272, 5882, 272]
    assert shown["question_types"] == {
        "multi-hop": 282,
        "temporal": 321,
        "open-domain": 96,
        "single-hop": 841,
        "adversarial": 446,
    }
    assert shown["groups"] == {"answerable": 1540}
    assert shown["flags"] == {"evidence_missing": 4, "evidence_repaired": 6, "evidence_unresolved": 3}
    assert locomo.content_sha256 == "1588acc58f0af8d241e0d0b208d91b079066169ad95d10254fa576612d872c39"
    assert locomo.counts.evidence_turns == 2820


def test_LoCoMo_items_have_ids_dates_and_traps(locomo: Dataset) -> None:
    items = [locomo.item(ref) for ref in locomo.items()]
    assert (items[0].id, items[-1].id) == ("conv-26_0", "conv-50_203")
    assert iso_utc(locomo.item("conv-26_0").question_date) == "2023-10-22T09:55:00Z"
    traps = [item for item in items if "trap" in item.metadata]
    assert len(traps) == 446
    assert all(item.abstention and item.metadata["trap"] not in item.answers for item in traps)
    assert sum(not item.answers for item in items) == 444
    texts = Counter((item.corpus, item.question) for item in items)
    assert sum(count for count in texts.values() if count > 1) == 24
    assert all(None not in item.answers and "None" not in item.answers for item in items)


def test_LoCoMo_sessions_are_in_order_with_parsed_dates(locomo: Dataset) -> None:
    corpus = locomo.corpus("conv-42")
    numbers = [int(session.id.removeprefix("session_")) for session in corpus.sessions]
    assert numbers == sorted(numbers)
    dates = {session.id: iso_utc(session.when) for session in corpus.sessions if session.when}
    assert dates["session_29"] == "2022-11-11T00:06:00Z"
    assert {len(locomo.corpus(name).sessions) for name in locomo.corpora()} <= set(range(19, 33))


def test_LoCoMo_captions_are_sent(locomo: Dataset) -> None:
    turns = [turn for name in locomo.corpora() for s in locomo.corpus(name).sessions for turn in s.turns]
    assert sum(turn.caption is not None for turn in turns) == 1226
    assert [gap for name in locomo.corpora() for gap in locomo.coverage_gaps(name)] == []


def test_a_LoCoMo_sample_contains_the_documented_items(locomo: Dataset) -> None:
    sample = list(locomo.items(Selection(sample=20, seed=7)))
    assert [ref.id for ref in sample[:5]] == ["conv-26_127", "conv-26_137", "conv-26_179", "conv-30_8", "conv-30_85"]
    assert sorted(Counter(ref.question_type for ref in sample).values(), reverse=True) == [8, 5, 3, 3, 1]


def test_locomo_turns_uses_the_file_of_locomo(locomo_workspace: Path) -> None:
    config = Catalog.load(locomo_workspace).benchmark("locomo-turns")
    dataset = open_benchmark(config, locomo_workspace)
    assert config.data.local_path == "datasets/locomo/locomo10.json"
    assert dataset.counts.memories == 5882
    assert evidence_level(config, unit=config.unit, turn_evidence=dataset.turn_evidence) == "turn"


def test_an_edited_copy_of_LoCoMo_is_refused(locomo_workspace: Path, tmp_path: Path) -> None:
    raw = (locomo_workspace / "datasets" / "locomo" / "locomo10.json").read_bytes()
    copy = tmp_path / "datasets" / "locomo" / "locomo10.json"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(raw.replace(b"a photo", b"a picture", 1))
    with pytest.raises(DataError, match="79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"):
        open_benchmark(Catalog.load(tmp_path).benchmark("locomo"), tmp_path)


def test_the_original_LoCoMo_config_runs_on_the_real_data(shared: Path, tmp_path: Path) -> None:
    for name in ("locomo", "longmemeval"):
        _cut_seed(shared, name, tmp_path)
    target = tmp_path / "datasets" / "locomo10.json"
    target.parent.mkdir()
    shutil.copy(shared / "data" / "locomo10" / "locomo10.json", target)
    catalog = Catalog.load(tmp_path)
    assert catalog.benchmark("longmemeval").marks == ("altered", "dataset_unpinned")
    dataset = open_benchmark(catalog.benchmark("locomo"), tmp_path)
    assert dataset.counts.items == 1986
    assert any("these categories have no name" in note for note in dataset.notes)
    first = dataset.memories("conv-26")[0].memory.content
    assert first.startswith("1:56 pm on 8 May, 2023\nCaroline: ")


def _cut_seed(shared: Path, name: str, root: Path) -> None:
    text = (shared / "seeds" / "architecture.txt").read_text(encoding="utf-8")
    block = next(
        part for part in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if part.startswith(f"name: {name}\n")
    )
    path = root / "configs" / "benchmarks" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block, encoding="utf-8")


def _subset(shared: Path, root: Path, parent: str, file: str) -> Dataset:
    path = root / "configs" / "benchmarks" / "subset.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = shared / "data" / "longmemeval-subset" / file
    path.write_text(f"extends: {parent}\nname: subset\ndata: {{type: local, path: {data}, file: null, sha256: null}}\n")
    return open_benchmark(Catalog.load(root).benchmark("subset"), root)


def test_the_LongMemEval_subset_has_its_counts_and_flags(shared: Path, tmp_path: Path) -> None:
    dataset = _subset(shared, tmp_path, "longmemeval-turns", "longmemeval_s_subset.json")
    shown = describe(dataset)
    assert [shown[key] for key in ("items", "corpora", "sessions", "turns")] == [16, 16, 225, 1608]
    assert shown["flags"] == {"evidence_turns_missing": 1, "session_empty": 11}
    assert dataset.content_sha256 == "ef30a8b42b825275eeaac5a64c2bea37d383ef49e3abe69a4950575c95f06f2a"
    assert dataset.item("118b2229").flags == ("evidence_turns_missing",)
    assert (dataset.counts.evidence_turns, dataset.counts.turn_evidence) == (35, 15)
    for name in dataset.corpora():
        dates = [session.when for session in dataset.corpus(name).sessions]
        assert dates == sorted(date for date in dates if date)


def test_longmemeval_official_retrieval_ingests_only_user_turns(shared: Path, tmp_path: Path) -> None:
    dataset = _subset(shared, tmp_path, "longmemeval-official-retrieval", "longmemeval_s_subset.json")
    turns = [turn for name in dataset.corpora() for s in dataset.corpus(name).sessions for turn in s.turns]
    assert {turn.role for turn in turns} == {"user"}
    assert dataset.item("118b2229").evidence.sessions == ()
    assert dataset.item("e47becba").flags == ("evidence_removed",)


def test_the_temporal_fixture_is_one_corpus_of_50_items(shared: Path, tmp_path: Path) -> None:
    text = (shared / "cases" / "benchmarks" / "temporal-fixture.yaml.txt").read_text(encoding="utf-8")
    data = shared / "data" / "przm-temporal" / "longmemeval-temporal-inference-v1.json"
    path = tmp_path / "configs" / "benchmarks" / "temporal-fixture.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("DATA_FILE", str(data)), encoding="utf-8")
    dataset = open_benchmark(Catalog.load(tmp_path).benchmark("temporal-fixture"), tmp_path)
    assert (dataset.counts.items, dataset.counts.corpora, dataset.counts.sessions) == (50, 1, 51)
    assert dataset.content_sha256 == "161473ffb4531f676ee021813ff5d77cc7ce8895fee75845254bf34e7dd3adb9"
    sizes = Counter(len(dataset.item(ref).evidence.sessions) for ref in dataset.items())
    assert sizes == {1: 39, 2: 11}
