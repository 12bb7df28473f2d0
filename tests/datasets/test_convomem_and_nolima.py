"""The shipped ConvoMem and NoLiMa configs, with small files written for these tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.datasets import Dataset, open_benchmark
from bench.datasets.rows.data_file import cache_path
from bench.errors import DataError
from tests import forked

Row = dict[str, object]


def line(speaker: str, text: str) -> Row:
    return {"speaker": speaker, "text": text}


def evidence_item(conversation: str, question: str, answer: str, *evidence: Row) -> Row:
    return {
        "question": question,
        "answer": answer,
        "category": "Hobbies",
        "message_evidences": list(evidence),
        "conversations": [{"id": conversation, "containsEvidence": True, "messages": list(evidence)}],
    }


TROUT = line("User", "I caught a trout of four pounds at Lake Ennis.")
LOOM = line("User", "My loom has eight shafts.")
CONVERSATIONS = [
    {"id": "talk-a", "messages": [line("User", "Good morning."), line("Assistant", "Good morning.")]},
    {"id": "talk-b", "messages": [TROUT, line("Assistant", str(TROUT["text"])), LOOM]},
    {"id": "talk-c", "messages": [line("User", "Which bread keeps longest?"), line("Assistant", "Rye does.")]},
]


def convomem_row(first: str = "talk-b", **changes: object) -> Row:
    fish = evidence_item(first, "How heavy was the trout I caught?", "four pounds", TROUT)
    both = evidence_item("talk-b", "Name my fish and my tool.", "a trout and a loom", TROUT, LOOM)
    return {"contextSize": 3, "conversations": CONVERSATIONS, "evidenceItems": [fish, both], **changes}


def nolima_row(depth: int) -> Row:
    name, at = f"harbour-d{depth}-s0", f"c{1 + depth // 50}"
    texts = {f"c{n}": f"The rain went on for the {n}th day and nobody left the inn." for n in (1, 2, 3)}
    texts[at] += " Then Ilse, who keeps bees beside the Semper Opera, came in."
    question = {"question": "Which character has been to Dresden?", "answers": ["Ilse"], "needle": [at]}
    hops = [{"id": f"{name}-{kind}", "hops": kind, **question} for kind in ("onehop", "twohop")]
    chunks = [{"id": chunk, "text": text} for chunk, text in texts.items()]
    return {"id": name, "test": "harbour", "depth": depth, "shift": 0, "book": "rain", "chunks": chunks} | {
        "questions": hops
    }


def opened(root: Path, workspace: Path, name: str, rows: list[Row], *, lines: bool = False) -> Dataset:
    catalog = Catalog.load(workspace)
    config = catalog.benchmark(name)
    file = cache_path(config, workspace)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows), encoding="utf-8")
    return open_benchmark(config, workspace)


def test_evidence_is_found_by_speaker_and_text(root: Path, tmp_path: Path) -> None:
    dataset = opened(root, tmp_path, "convomem", [convomem_row()])
    first, second = (dataset.item(ref) for ref in dataset.items())
    assert first.evidence.turns == ("talk-b#1",), "the assistant said the same words after the user"
    assert second.evidence.turns == ("talk-b#1", "talk-b#3")
    assert second.evidence.sessions == ("talk-b",)
    assert (first.id, first.question_type, first.metadata["context_size"]) == ("talk-b_0", "Hobbies", 3)
    assert dataset.counts.sessions == 3


def test_evidence_text_that_occurs_in_no_turn_is_flagged(root: Path, tmp_path: Path) -> None:
    other = evidence_item("talk-b", "What colour is the boat?", "green", line("User", "The boat is green."), LOOM)
    dataset = opened(root, tmp_path, "convomem", [convomem_row(evidenceItems=[other])])
    (item,) = (dataset.item(ref) for ref in dataset.items())
    assert item.evidence.turns == ("talk-b#3",)
    assert item.flags == ("evidence_unresolved",)


def test_a_ConvoMem_file_with_two_context_sizes_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="talk-b"):
        opened(root, tmp_path, "convomem", [convomem_row(), convomem_row(contextSize=6)])


def test_a_ConvoMem_tier_reads_its_context_size_from_every_file(tmp_path: Path) -> None:
    nothing = evidence_item("talk-c", "Which oil do I use?", "That was not mentioned.")
    rows = {
        "user_evidence/1_evidence/batched_044": [convomem_row(contextSize=6), convomem_row(contextSize=30)],
        "user_evidence/2_evidence/batched_1": [convomem_row("talk-d", contextSize=30)],
        "abstention_evidence/1_evidence/x": [convomem_row("talk-c", contextSize=6, evidenceItems=[nothing])],
    }
    for name, held in rows.items():
        file = tmp_path / "datasets" / "convomem" / f"{name}.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(held), encoding="utf-8")
    found = open_benchmark(Catalog.load(tmp_path).benchmark("convomem-6"), tmp_path)
    items = [found.item(ref) for ref in found.items()]
    assert [(one.id, one.question_type, one.abstention) for one in items] == [
        ("talk-c_0", "abstention", True), ("talk-b_0", "user", False), ("talk-b_1", "user", False),
    ]  # fmt: skip
    assert len(open_benchmark(Catalog.load(tmp_path).benchmark("convomem-30"), tmp_path)) == 4


def test_each_NoLiMa_depth_and_shift_is_its_own_corpus(root: Path, tmp_path: Path) -> None:
    dataset = opened(root, tmp_path, "nolima", [nolima_row(0), nolima_row(50), nolima_row(100)], lines=True)
    items = [dataset.item(ref) for ref in dataset.items()]
    assert (dataset.counts.corpora, dataset.counts.memories, len(items)) == (3, 9, 6)
    assert [item.evidence.sessions for item in items[::2]] == [("c1",), ("c2",), ("c3",)]
    assert {item.question_type for item in items} == {"one-hop", "two-hop"}
    assert items[2].metadata["depth"] == 50


def test_ConvoMem_and_NoLiMa_run_with_the_files_of_the_user(root: Path, tmp_path: Path) -> None:
    opened(root, tmp_path, "convomem", [convomem_row()])
    opened(root, tmp_path, "nolima", [nolima_row(0), nolima_row(100)], lines=True)
    command = [sys.executable, "-m", "bench", "--workspace", str(tmp_path), "run", "--benchmarks", "convomem,nolima"]
    done = forked.run(
        [*command, "--providers", "oracle,bm25", "--answering-model", "builtin/extractive"], cwd=root, text=True
    )
    assert done.returncode == 0, done.stderr
    (report,) = tmp_path.glob("results/*/report.json")
    jobs = {
        (job["benchmark"], job["provider"]): job for job in json.loads(report.read_text("utf-8"))["results"]["jobs"]
    }
    assert jobs["convomem", "oracle"]["metrics"]["ndcg_at_10"]["value"] == 1.0
    assert jobs["nolima", "oracle"]["metrics"]["recall_fraction_at_10"]["value"] == 1.0
    assert set(jobs["nolima", "bm25"]["metrics"]["accuracy"]["breakdown"]["depth"]) == {"0", "100"}
    assert jobs["nolima", "bm25"]["error_kinds"] == {}, "a search that finds nothing is answered all the same"
    assert jobs["convomem", "bm25"]["counts"] == {"unscored": 2}, "a judged benchmark without a judge is not wrong"


@pytest.mark.parametrize("name", ["convomem", "nolima"])
def test_a_run_without_the_files_names_license_and_download_command(root: Path, tmp_path: Path, name: str) -> None:
    command = [sys.executable, "-m", "bench", "--workspace", str(tmp_path), "run", "--benchmarks", name]
    done = forked.run(command, cwd=root, text=True)
    assert done.returncode == 2
    assert f"hint: bench download {name}" in done.stderr
    assert "--from FILE" in done.stderr
