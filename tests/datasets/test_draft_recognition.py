"""``bench new benchmark --from`` recognizes published benchmarks and chat exports by their content."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.datasets.dataset import Dataset, open_benchmark
from bench.datasets.draft.config_draft import BenchmarkDraft, draft_benchmark
from tests.rows import each_row

WHOLE = {
    "ama-bench", "beam-100k", "beam-10m", "beir", "halumem", "hotpotqa", "hotpotqa-hf", "msc-dmr", "multihop-rag",
    "personamem-v1", "personamem-v2", "membench", "lmeb", "musique",
}  # fmt: skip
"""every number is right as the config is written"""
REPORTED = {
    "evermembench-dynamic": "if several fields together identify a turn, write evidence.reference",
    "lifebench": "abstention: {questionTypes: ['4']}",
    "longbench-v2": "",
    "longmemeval-v2": "data.where: {image: null}",
    "memoryagentbench": "",
    "prefeval": "the config does not use these fields of a row: preference",
}
"""items, or answers, are right; the rest is reported to the author"""


def drafted(workspace: Path, data: Path) -> tuple[BenchmarkDraft, Dataset]:
    """Write the config and open the data with it."""
    made = draft_benchmark("mine", data, workspace)
    for path, text in made.files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return made, open_benchmark(Catalog.load(workspace).benchmark("mine"), workspace)


def written(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = name.endswith(".jsonl") and isinstance(value, list)
    text = "".join(json.dumps(row) + "\n" for row in value) if lines else json.dumps(value)  # type: ignore[attr-defined]
    path.write_text(value if isinstance(value, str) else text, encoding="utf-8")
    return path


@each_row("name", sorted(WHOLE | REPORTED.keys()))
def test_a_published_benchmark_is_recognized_from_its_files(name: str, shared: Path, tmp_path: Path) -> None:
    folder = shared / "cases" / "shapes" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    if any(folder.glob("*.parquet")):
        pytest.importorskip("pyarrow")
    data = tmp_path / "datasets" / name
    shutil.copytree(folder, data, copy_function=shutil.copyfile)
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for extra in ("expected.json", "proposal.yaml", "shape.md"):
        (data / extra).unlink()
    made, dataset = drafted(tmp_path, data)
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    items = [dataset.item(ref) for ref in dataset.items()]
    questions = {item.question for item in items}
    assert {row["question"] for row in wanted["items"]} <= questions
    if name in WHOLE:
        memories = {corpus: dataset.memories(corpus) for corpus in dataset.corpora()}
        assert len(items) == wanted["n_items"]
        if "n_views" in wanted:
            assert len(memories) == wanted["n_views"]
        else:
            assert (len(memories), sum(map(len, memories.values()))) == (wanted["n_corpora"], wanted["n_memories"])
        assert sum(item.abstention for item in items) == wanted["abstention"]
        assert Counter(item.question_type for item in items if item.question_type) == wanted["question_types"]
    else:
        assert REPORTED[name] in " ".join(made.unmapped)


TALK = [{"role": "user", "content": "The spare key is in the blue pot."}, {"role": "assistant", "content": "Noted."}]
ASKED = {"question": "Where is the spare key?", "answer": "in the blue pot"}


def paired(turns: Sequence[Mapping[str, str]], who: str, words: str) -> list[dict[str, str]]:
    return [{who: turn["role"], words: turn["content"]} for turn in turns]


@each_row(
    "row",
    [
        {"messages": TALK},
        {"conversations": paired(TALK, "from", "value")},
        {"chat_messages": paired(TALK, "sender", "text")},
        {"sessions": [{"session_id": "s1", "date": "2024-03-02", "turns": TALK}]},
        {"sessions": [{"id": "s1", "started_at": "2024-03-02", "messages": TALK}]},
        {"sessions": [TALK], "dates": ["2024-03-02"]},
        {"dialogue": {"session_1": TALK, "session_1_date_time": "2024-03-02"}},
        {"messages": [{"author": {"role": turn["role"]}, "content": {"parts": [turn["content"]]}} for turn in TALK]},
        {"messages": [{"role": turn["role"], "content": [{"type": "text", "text": turn["content"]}]} for turn in TALK]},
        {"mapping": {f"n{number}": {"id": f"n{number}", "message": {"author": {"role": turn["role"]},
                     "content": {"parts": [turn["content"]]}}} for number, turn in enumerate(TALK)}},
        {"topics": {"Work 1": [{"speaker": "Ann", "text": TALK[0]["content"]}], "Home 2": [
            {"speaker": "Bo", "text": "Noted."}]}},
    ],
)  # fmt: skip
def test_a_chat_export_is_drafted_with_all_its_turns(tmp_path: Path, row: dict[str, object]) -> None:
    data = written(tmp_path, "chats.jsonl", [{"id": "c1", **ASKED, **row}])
    _, dataset = drafted(tmp_path, data)
    text = " ".join(memory.memory.content for memory in dataset.memories("c1"))
    assert TALK[0]["content"] in text
    assert "Noted." in text


def test_a_table_of_turns_is_joined_to_a_table_of_questions(tmp_path: Path) -> None:
    written(tmp_path / "d", "questions.csv", "id,conversation,question,answer\nq1,c1,Where is the key?,in the pot\n"
            "q2,c2,Who called?,Ann\n")  # fmt: skip
    written(tmp_path / "d", "turns.csv", "conversation,role,content\nc1,user,The key is in the pot.\nc1,assistant,No.\n"
            "c2,user,Ann called.\n")  # fmt: skip
    _, dataset = drafted(tmp_path, tmp_path / "d")
    assert [len(dataset.memories(corpus)) for corpus in dataset.corpora()] == [2, 1]
    assert [item.answers for item in map(dataset.item, dataset.items())] == [("in the pot",), ("Ann",)]


def test_an_export_without_questions_gives_a_hint(tmp_path: Path) -> None:
    data = written(tmp_path, "chats.jsonl", [{"id": "c1", "messages": TALK}])
    made = draft_benchmark("mine", data, tmp_path)
    assert any(text.startswith("the data has no questions: write a file of questions") for text in made.unmapped)


@each_row("field", ["evidence", "supporting_facts", "related_snippet", "gold_sessions", "answer_notes", "R"])
def test_gold_fields_are_never_used_as_history(tmp_path: Path, field: str) -> None:
    gold = [{"role": "user", "content": "The spare key is in the blue pot."}]
    row = {"id": "c1", **ASKED, field: gold, "log": [{"role": "user", "content": "A long talk about pots and keys."}]}
    _, dataset = drafted(tmp_path, written(tmp_path, "chats.jsonl", [row]))
    assert [memory.memory.content for memory in dataset.memories("c1")] == ["user: A long talk about pots and keys."]
    alone = {key: value for key, value in row.items() if key != "log"}
    text = draft_benchmark("other", written(tmp_path, "alone.jsonl", [alone]), tmp_path).text
    assert f"field: {field}" not in text


def test_a_folder_without_data_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(Exception, match="there is no data file to read"):
        draft_benchmark("mine", tmp_path / "d", tmp_path)
