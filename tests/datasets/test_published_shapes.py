"""Each published form loads with a config and no code, and its broken forms are refused with place."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.datasets.dataset import Dataset, open_benchmark
from bench.errors import BenchError
from bench.metrics.answers.choices import choice_index

SHAPES = (
    "ama-bench", "beam-100k", "beam-10m", "beir", "evermembench-dynamic", "halumem", "hotpotqa", "hotpotqa-hf",
    "lifebench", "lmeb", "longbench-v2", "longmemeval-v2", "membench", "memoryagentbench", "msc-dmr", "multihop-rag",
    "musique", "personamem-v1", "personamem-v2", "prefeval",
)  # fmt: skip
COUNTED = ("evidence_missing", "evidence_unresolved", "session_empty")
EDITS = {"msc-dmr": [("speaker: id", "speaker: \"${id|default:''}\"")]}
"""differences of a config from the proposal"""


def placed(folder: Path, name: str, workspace: Path) -> Path:
    """Copy the files of a shape and its config into a workspace."""
    shutil.copytree(folder, workspace, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for path in workspace.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    text = (folder / "proposal.yaml").read_text(encoding="utf-8")
    for old, new in EDITS.get(name, []):
        assert old in text
        text = text.replace(old, new)
    config = workspace / "configs" / "benchmarks" / f"{name}.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(text, encoding="utf-8")
    return workspace


def loaded(workspace: Path, name: str) -> Dataset:
    return open_benchmark(Catalog.load(workspace).benchmark(name), workspace)


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest, shared: Path) -> Path:
    folder = shared / "cases" / "shapes" / str(request.param)
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    if any(folder.glob("*.parquet")):
        pytest.importorskip("pyarrow")
    return folder


def test_a_published_form_loads_with_the_expected_items_and_memories(shape: Path, tmp_path: Path) -> None:
    compare(loaded(placed(shape, shape.name, tmp_path / "w"), shape.name), shape)


HERE = {
    "lmeb": "data: {files: [datasets/lmeb/single_hop/queries.jsonl, datasets/lmeb/multi_hop/queries.jsonl]}\n",
    "prefeval": "data: {files: [%s/travel_hotel.json, %s/entertain_shows.json]}\n"
    % (("datasets/prefeval/mcq_options",) * 2),
    "longbench-v2": "ingestion: {chunk: {words: 25}}\n",
}
"""differences of a shape from the data: the order of the files, shorter pieces"""


def test_a_shipped_config_reads_its_published_form(shape: Path, tmp_path: Path) -> None:
    name = shape.name
    folder = tmp_path / "datasets" / name
    shutil.copytree(shape, folder, copy_function=shutil.copyfile)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    if name == "membench":
        for path in list((folder / "data2test").iterdir()):
            path.rename(folder / path.name)
    (folder / "expected.json").unlink()
    shipped = Catalog.load(tmp_path).benchmark(name)
    if not shipped.data.files:
        file = tmp_path / (shipped.data.local_path or f"datasets/{name}/{Path(shipped.data.file or '').name}")
        if not file.is_file():
            (only,) = [path for path in folder.rglob("*") if path.suffix == file.suffix]
            shutil.copyfile(only, file)
    config = tmp_path / "configs" / "benchmarks" / "here.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f'extends: {name}\nname: here\nversion: "1"\n{HERE.get(name, "")}', encoding="utf-8")
    dataset = loaded(tmp_path, "here")
    if name == "memoryagentbench":  # its pieces are of 400 words, and its files in the order of their names
        assert len(dataset) == json.loads((shape / "expected.json").read_text(encoding="utf-8"))["n_items"] + 1
    else:
        compare(dataset, shape)


def compare(dataset: Dataset, shape: Path) -> None:
    """Compare a dataset with the expected items and memories of a shape."""
    wanted = json.loads((shape / "expected.json").read_text(encoding="utf-8"))
    items = [dataset.item(ref) for ref in dataset.items()]
    memories = {name: dataset.memories(name) for name in dataset.corpora()}
    found = {
        "n_items": len(items),
        "abstention": sum(item.abstention for item in items),
        "question_types": dict(Counter(item.question_type for item in items if item.question_type)),
        "flags": {flag: dataset.counts.flags[flag] for flag in COUNTED if dataset.counts.flags[flag]},
    }
    if "n_views" in wanted:
        found |= {"n_views": len(memories)}
    else:
        sizes = sorted(len(one["items"]) for one in wanted["corpora"].values() if one["items"])
        assert sorted(Counter(item.corpus for item in items).values()) == sizes
        found |= {"n_corpora": len(memories), "n_memories": sum(map(len, memories.values()))}
        assert found["n_memories"] == dataset.counts.memories
    flags = {flag: count for flag, count in wanted["flags"].items() if flag in COUNTED}
    assert found == {key: wanted[key] for key in found} | {"flags": flags}
    for row in wanted["items"]:
        item = items[row["position"] - 1]
        seen = memories[item.corpus]
        assert item.question == row["question"]
        assert item.question_type == row["question_type"]
        assert item.abstention == row["abstention"]
        if "answers" in row:
            assert list(item.answers) == row["answers"]
        if "rubric" in row:
            assert list(item.rubric) == row["rubric"]
        if "question_date" in row:
            assert item.question_date is not None
            assert item.question_date.strftime("%Y-%m-%dT%H:%M:%SZ") == row["question_date"]
        if "choices" in row:
            ordered = row["choices_order"] == "file"
            assert (list if ordered else sorted)(item.choices) == (list if ordered else sorted)(row["choices"])
            right = choice_index(item.choice_answer, item.choices)
            assert right is not None
            assert item.choices[right] == row["right_choice"]
        texts = [one.memory.content for one in seen]
        assert len(texts) == row["visible_memories"]
        assert texts[0] == row["first_memory"]
        assert texts[-1] == row["last_memory"]
        for key, value in row.get("metadata", {}).items():
            assert item.metadata[key] == value
        if "judge_evidence" in row:
            assert item.metadata["judgeEvidence"] == row["judge_evidence"]
        if "gold" in row:
            turns, sessions = set(item.evidence.turns), set(item.evidence.sessions)
            gold = [one for one in seen if (turns & set(one.turns) if turns else set(one.sessions) & sessions)]
            assert [one.memory.content for one in gold] == row["gold"]["texts"]


def test_a_broken_published_form_is_refused_with_its_place(shape: Path, tmp_path: Path) -> None:
    wanted = json.loads((shape / "expected.json").read_text(encoding="utf-8"))
    for number, case in enumerate(wanted.get("refuse", [])):
        workspace = placed(shape, shape.name, tmp_path / str(number))
        edit = case["edit"]
        file = workspace / edit["file"]
        text = file.read_text(encoding="utf-8")
        assert edit["find"] in text
        file.write_text(text.replace(edit["find"], edit["replace"]), encoding="utf-8")
        with pytest.raises(BenchError) as refused:
            loaded(workspace, shape.name)
        expected = f"{refused.value.where}: {refused.value}"
        print(expected)
        assert all(word in expected for word in case["message_holds"]), expected
        assert refused.value.where is not None


MUTATIONS = [5, pytest.param(150, marks=pytest.mark.long)]
"""of each shape: 100 in every run, 3000 in the long one"""


def mutated(text: str, chance: random.Random) -> str:
    """Return the text with one mutation: a value replaced, a key renamed, a line lost or doubled, characters lost."""
    lines = text.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            lines[at:at] = [lines[at]]
        case 1:
            del lines[at]
        case 2:
            start = chance.randrange(len(text))
            return text[:start] + text[start + chance.randrange(1, 9) :]
        case 3:
            return text.replace(chance.choice(['"text"', '"id"', '"answer"', '"question"', '": "']), '"x"', 1)
        case 4:
            value = chance.choice(["null", "7", "[]", "{}", '""', '[["a"]]', "true"])
            starts = [number for number, char in enumerate(text) if char == ":"] or [0]
            start = chance.choice(starts) + 1
            return text[:start] + value + text[start:].lstrip()[chance.randrange(1, 12) :]
        case _:
            return text.replace(chance.choice('",[]{}0123456789'), chance.choice('",[]{}019x'), 1)
    return "".join(lines)


@pytest.mark.parametrize("mutations", MUTATIONS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_mutated_file_is_refused_or_loads_with_all_rows(
    name: str, mutations: int, shared: Path, tmp_path: Path
) -> None:
    folder = shared / "cases" / "shapes" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    if any(folder.glob("*.parquet")):
        pytest.importorskip("pyarrow")
    chance = random.Random(f"{name} {mutations}")
    workspace = placed(folder, name, tmp_path / "w")
    skipped = {"expected.json", "proposal.yaml", f"{name}.yaml"}
    files = [path for path in sorted(workspace.rglob("*.*")) if path.is_file() and path.suffix != ".md"]
    files = [path for path in files if path.name not in skipped]
    for number in range(mutations):
        file = chance.choice(files)
        before = file.read_bytes()
        if file.suffix in (".parquet", ".gz"):
            raw = bytearray(before)
            raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
            file.write_bytes(raw)
        else:
            file.write_text(mutated(before.decode(), chance), encoding="utf-8")
        try:
            dataset = loaded(workspace, name)
        except BenchError as error:
            assert error.where, (number, error)
        else:
            every = [dataset.item(ref) for ref in dataset.items()]
            assert len(every) == dataset.counts.items > 0
            assert sum(map(len, map(dataset.memories, dataset.corpora()))) == dataset.counts.memories
            index, source = dataset._index.rows, dataset._rows
            rows = [list(one) for one in source.files]
            assert len(index) + source.left_out == sum(map(len, rows))
            silent = sum(not index.items_of(row) for row in range(len(index)))
            assert bool(silent) == any("have no question" in note for note in dataset.notes)
        finally:
            file.write_bytes(before)
