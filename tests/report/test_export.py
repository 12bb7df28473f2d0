"""Exported rows: each format contains the same items."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.config.json_schema import docstrings
from bench.errors import UsageError
from bench.journal import Reader
from bench.journal.results_db import chunks
from bench.metrics import score
from bench.model import Phase, State, Verdict
from bench.plan.job_record import JobRecord, ModelNames
from bench.report import fold
from bench.report.exports.export import (
    FLAT_COLUMNS,
    AnswerStatus,
    ExportedRow,
    RowTexts,
    RowWithoutTexts,
    export_parquet,
    export_rows,
)
from bench.report.exports.trec import document_ids, export_trec, percent_encoded
from bench.report.result_files import item_lines
from tests.full_journal import ItemData, call, write_run
from tests.rows import each_row
from tests.small_journal import measuring, record

HOSTILE = (
    'a,"b"\r\nc', "=HYPERLINK(1)", "+1", "-1", "@x", "\tx", "\u2028\u2029\x85", "\ud800", "\x00\x1b[31m", "", "ä" * 300,
)  # fmt: skip
RECORD = record("bm25", **measuring("accuracy", "hit_at_5"))


async def journal(workspace: Path, *items: ItemData, of: JobRecord = RECORD) -> Path:
    return await write_run(workspace, "r1", [(of, items)])


async def written(folder: Path, form: str) -> tuple[int, str]:
    sink = io.StringIO()
    async with Reader.open(folder) as reader:
        return await export_rows(reader, form, sink), sink.getvalue()


async def rows(folder: Path) -> list[dict[str, Any]]:
    count, text = await written(folder, "jsonl")
    found = [json.loads(line) for line in text.splitlines()]
    assert count == len(found)
    return found


async def test_a_row_has_all_data_of_an_item(tmp_path: Path) -> None:
    judged = Verdict(
        evaluator="llm-judge", value=0.5, correct=False, reason="half", judged=True, model="acme/j", raw="I say half"
    )
    one = ItemData(
        item="q1",
        metadata={"speaker": "Ann"},
        verdicts=(judged,),
        state=State.PARTIAL,
        values={"accuracy": 0.0, "hit_at_5": 1.0},
        calls={
            Phase.ANSWER: (call("answering", cost="0.002", tokens=40),),
            Phase.SEARCH: (call("provider"),),
        },
    )
    (row,) = await rows(await journal(tmp_path, one))
    times = {"total": 1003, "queue": 1, "limiter": 2, "network": 300, "provider": 700}
    assert row.pop("verdicts")[0] | {"raw": "I say half", "value": 0.5, "judged": True} == {
        "evaluator": "llm-judge", "value": 0.5, "correct": False, "reason": "half", "judged": True, "abstained": False,
        "faithfulness": None, "model": "acme/j", "fingerprint": None, "prompt_name": None, "prompt_sha256": None,
        "raw": "I say half", "ignored": [],
    }  # fmt: skip
    assert row == {
        "run_id": "r1",
        "benchmark": "facts",
        "provider": "bm25",
        "models": {"embedding": None, "answering": "acme/m1", "judge": None},
        "item_id": "q1",
        "corpus": "c",
        "epoch": 1,
        "question_type": "one",
        "state": "partial",
        "question": "Where?",
        "expected": ["Oslo"],
        "evidence": {"sessions": ["s1"]},
        "metadata": {"speaker": "Ann"},
        "answer": "Oslo",
        "answer_model": "acme/m1-2026",
        "finish": None,
        "truncated": False,
        "reasoning_tokens": None,
        "flags": [],
        "cached": [],
        "raw_answer": None,
        "reasoning": None,
        "score": 0.5,
        "correct": False,
        "retrieved": [["s1"]],
        "hits": [{"id": "m0", "content": "It was Oslo", "score": 0.5}],
        "metrics": {"accuracy": 0.0, "hit_at_5": 1.0},
        "labels": {"question_type": "one"},
        "attempts": {"search": 1, "answer": 1, "evaluate": 1},
        "latency": {"search": times, "answer": times, "evaluate": times},
        "tokens": {"answering": {"input": 40, "output": 1, "estimated": False}},
        "cost": {
            "answering": {"usd": "0.002", "unknown_calls": 0},
            "provider": {"usd": "0", "unknown_calls": 1},
        },
        "error": None,
    }


async def test_a_row_has_the_documented_fields_and_texts_only_in_exports(tmp_path: Path) -> None:
    folder = await journal(tmp_path, ItemData(item="q1"))
    (whole,) = await rows(folder)
    async with Reader.open(folder) as reader:
        (plain,) = [json.loads(line) async for line in item_lines(reader, await fold(reader))]
    assert (
        plain.keys()
        == RowWithoutTexts.__required_keys__
        == docstrings(RowWithoutTexts).keys() | docstrings(AnswerStatus).keys()
    )
    assert whole.keys() == ExportedRow.__required_keys__ == plain.keys() | docstrings(RowTexts).keys()


async def test_latencies_of_a_row_are_whole_microseconds(tmp_path: Path) -> None:
    job = record("bm25", **measuring("latency_p50"))
    folder = await write_run(tmp_path, "r1", [(job, [ItemData(item="q1", values={"latency_p50": 1000.0})])])
    (row,) = await rows(folder)
    async with Reader.open(folder) as reader:
        shown = (await fold(reader)).jobs[0].metrics["latency_p50"]
    assert row["metrics"] == {"latency_p50": 1000.0} and (shown.value, shown.unit) == (1.0, "ms")
    times = row["latency"]["search"]
    assert (times["network"] + times["provider"], times["total"]) == (1000, 1003)
    assert all("microseconds" in docstrings(RowWithoutTexts)[name] for name in ("metrics", "latency"))


@pytest.mark.parametrize(
    ("state", "outcome", "error"),
    [
        (State.ERROR, "timeout", {"kind": "timeout", "message": "no answer in 5 s"}),
        (State.NOT_READY, "not_ready", {"kind": "not_ready", "message": "no answer in 5 s"}),
        (State.UNSUPPORTED, "unsupported", None),
    ],
)
async def test_a_failed_item_has_an_error_and_no_score_hits_or_answer(
    tmp_path: Path, state: State, outcome: str, error: object
) -> None:
    one = ItemData(item="q1", state=state, outcome=outcome, message="no answer in 5 s")
    (row,) = await rows(await journal(tmp_path, one))
    assert row["error"] == error and row["state"] == state
    assert [row[name] for name in ("score", "correct", "hits", "answer", "retrieved")] == [None] * 5
    assert row["metrics"] == {} and row["verdicts"] == [] and row["question"] == "Where?"


async def test_items_that_have_not_ended_are_not_exported(tmp_path: Path) -> None:
    folder = await journal(tmp_path, ItemData(item="q1"), ItemData(item="q2", state=None))
    assert [row["item_id"] for row in await rows(folder)] == ["q1"]


async def test_the_newest_scoring_of_an_item_is_exported(tmp_path: Path) -> None:
    later = ItemData(
        item="q1", state=State.INCORRECT, values={"accuracy": 0.0}, generation=1, outcome="ok", answer=None
    )
    folder = await journal(tmp_path, ItemData(item="q1"), later)
    (row,) = await rows(folder)
    assert (row["state"], row["metrics"]) == ("incorrect", {"accuracy": 0.0})


async def test_a_row_with_dropped_payloads_has_null_texts(tmp_path: Path) -> None:
    from bench.journal import Journal

    long = "".join(f"{number} " for number in range(5000))
    folder = await journal(tmp_path, ItemData(item="q1", question=long, hits=[long]))
    async with Journal.resume(folder) as writing:
        await writing.drop_payloads()
    (row,) = await rows(folder)
    assert [row[name] for name in ("question", "expected", "hits", "metadata")] == [None] * 4
    assert row["answer"] == "Oslo" and row["retrieved"] == [["s1"]] and row["score"] == 1.0


@each_row("text", HOSTILE)
async def test_any_text_is_unchanged_in_each_json_format(tmp_path: Path, text: str) -> None:
    one = ItemData(item="q1", question=text, expected=(text, text), answer=text, hits=[text])
    folder = await journal(tmp_path, one)
    _, lines = await written(folder, "jsonl")
    assert len(lines.splitlines()) == 1, "one object a line"
    assert lines.encode()
    (row,) = [json.loads(line) for line in lines.splitlines()]
    assert (row["question"], row["expected"], row["answer"], row["hits"][0]["content"]) == (
        text, [text, text], text, text,
    )  # fmt: skip
    _, whole = await written(folder, "json")
    assert json.loads(whole) == [row]


@each_row("text", [text for text in HOSTILE if "\ud800" not in text])
async def test_csv_keeps_texts_and_escapes_formulas(tmp_path: Path, text: str) -> None:
    folder = await journal(tmp_path, ItemData(item="q1", question=text))
    count, sheet = await written(folder, "csv")
    head, row = csv.reader(io.StringIO(sheet, newline=""))
    cell = row[head.index("question")]
    assert count == 1 and cell.lstrip("'") == text.lstrip("'")
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")) or text in ("+1", "-1"), "numbers are not formulas"


@pytest.mark.parametrize(("form", "text"), [("json", "[\n]\n"), ("jsonl", ""), ("csv", None)])
async def test_an_export_without_ended_items_is_an_empty_document(tmp_path: Path, form: str, text: str | None) -> None:
    count, found = await written(await journal(tmp_path, ItemData(item="q1", state=None)), form)
    assert count == 0
    assert found == text or (form == "csv" and found.count("\r\n") == 1)


async def test_csv_has_the_flat_columns_and_one_column_per_metric(tmp_path: Path) -> None:
    models = ModelNames(embedding="acme/e", answering="acme/m1", judge="acme/j")
    other = record("x", models=models, **measuring("mrr"))
    failed = ItemData(item="q2", state=State.ERROR, outcome="timeout", message="late")
    folder = await write_run(
        tmp_path, "r1", [(RECORD, [ItemData(item="q1", expected=("Oslo", "oslo")), failed]),
                         (other, [ItemData(item="q1", values={"mrr": 0.25})])]
    )  # fmt: skip
    _, sheet = await written(folder, "csv")
    first, second, third = csv.DictReader(io.StringIO(sheet, newline=""))
    assert list(first) == [*FLAT_COLUMNS, "accuracy", "hit_at_5", "mrr"]
    assert (first["expected"], first["accuracy"], first["mrr"], first["error_kind"]) == ("Oslo | oslo", "1.0", "", "")
    assert (second["state"], second["error_kind"], second["score"], second["correct"]) == ("error", "timeout", "", "")
    assert (third["embedding_model"], third["answering_model"], third["judge_model"]) == (
        "acme/e", "acme/m1", "acme/j",
    )  # fmt: skip
    assert third["mrr"] == "0.25"
    assert (first["retrieved"], first["evidence"]) == ('[["s1"]]', '{"sessions": ["s1"]}')


async def test_parquet_has_the_columns_of_csv_with_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    failed = ItemData(item="q2", state=State.ERROR, outcome="timeout")
    folder = await journal(tmp_path, ItemData(item="q1", expected=("a", "b")), failed)
    target = tmp_path / "rows.parquet"
    async with Reader.open(folder) as reader:
        assert await export_parquet(reader, target) == 2
    table = parquet.read_table(target)
    assert table.column_names == [*FLAT_COLUMNS, "accuracy", "hit_at_5"]
    one, other = table.to_pylist()
    assert (one["epoch"], one["score"], one["correct"], one["expected"], one["accuracy"]) == (
        1,
        1.0,
        True,
        "a | b",
        1.0,
    )
    assert (other["score"], other["correct"], other["accuracy"], other["error_kind"]) == (None, None, None, "timeout")
    assert not list(tmp_path.glob("*.part"))


async def test_a_failed_parquet_export_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.parquet")
    folder = await journal(tmp_path, ItemData(item="q1"))
    (tmp_path / "taken").mkdir()
    async with Reader.open(folder) as reader:
        with pytest.raises(OSError):
            await export_parquet(reader, tmp_path / "taken")
    assert not list(tmp_path.glob("*.part")), "no partial file stays"


async def test_rows_are_written_in_chunks_without_loss() -> None:
    async def numbers() -> Any:
        for number in range(7):
            yield {"n": number}

    found = [[row["n"] for row in chunk] async for chunk in chunks(numbers(), 3)]
    assert found == [[0, 1, 2], [3, 4, 5], [6]]


# ------------------------------------------------------------------------------ trec


async def trec(folder: Path, place: Path) -> tuple[dict[str, int], dict[str, list[str]]]:
    async with Reader.open(folder) as reader:
        several = await export_trec(reader, place)
    return several, {path.name: path.read_text().splitlines() for path in sorted(place.iterdir())}


async def test_trec_files_rank_hits_and_list_relevant_documents(tmp_path: Path) -> None:
    items = [
        ItemData(item="q 1", gold=("s1", "s2"), retrieved=[["s9"], ["s1"], ["s1"], []]),
        ItemData(item="q2", gold=("s5",), retrieved=[]),
        ItemData(item="q3", gold=(), retrieved=[["s1"]]),
        ItemData(item="q4", gold=("s1",), retrieved=None),
        ItemData(item="q5", state=State.ERROR, outcome="timeout"),
    ]
    several, files = await trec(await journal(tmp_path, *items), tmp_path / "out")
    assert several == {"facts__bm25": 0}
    assert files == {
        "facts__bm25.qrels": ["q%201 0 s1 1", "q%201 0 s2 1", "q2 0 s5 1"],
        "facts__bm25.run": [
            "q%201 Q0 s9 1 4 bm25",
            "q%201 Q0 s1 2 3 bm25",
            "q%201 Q0 s1#dup1 3 2 bm25",
            "q%201 Q0 (unmapped%204) 4 1 bm25",
            "q2 Q0 (nothing) 1 1 bm25",
            "q3 Q0 s1 1 1 bm25",
        ],
    }


async def test_each_epoch_of_an_item_is_its_own_trec_query(tmp_path: Path) -> None:
    repeats = [ItemData(item="q1", epoch=epoch, retrieved=[[found]]) for epoch, found in ((1, "s1"), (2, "s9"))]
    _, files = await trec(await write_run(tmp_path, "r1", [(record("bm25", epochs=2), repeats)]), tmp_path / "out")
    assert files == {
        "facts__bm25.qrels": ["q1#epoch1 0 s1 1", "q1#epoch2 0 s1 1"],
        "facts__bm25.run": ["q1#epoch1 Q0 s1 1 1 bm25", "q1#epoch2 Q0 s9 1 1 bm25"],
    }


async def test_a_hit_with_several_ids_is_written_as_the_first_newly_covered_one_and_counted(tmp_path: Path) -> None:
    one = ItemData(item="q1", gold=("s1", "s2"), retrieved=[["x", "s2"], ["s2", "s1"], ["y", "z"]])
    several, files = await trec(await journal(tmp_path, one), tmp_path / "out")
    assert several == {"facts__bm25": 3}
    assert [line.split()[2] for line in files["facts__bm25.run"]] == ["s2", "s1", "y"]


async def test_trec_files_of_several_jobs_of_one_provider_have_different_names(tmp_path: Path) -> None:
    def of(embedding: str | None, answering: str, judge: str | None) -> tuple[JobRecord, list[ItemData]]:
        names = ModelNames(embedding=embedding, answering=answering, judge=judge)
        name = f"{embedding}-{answering}-{judge}"
        return record("v", key=name, lane=f"lane-{embedding}", answer_owner=name, models=names), [ItemData(item="q1")]

    jobs = [
        of("a/e1", "a/m1", None), of("a/e2", "a/m1", None), of("a/e3", "a/m1", None), of("a/e3", "a/m1", "a/j"),
        of("a-e3", "a/m1", None),
    ]  # fmt: skip
    _, files = await trec(await write_run(tmp_path, "r1", jobs), tmp_path / "out")
    assert [name for name in files if name.endswith(".run")] == [
        "facts__v.run",
        "facts__v__a-e2__a-m1.run",
        "facts__v__a-e3__a-m1.run",
        "facts__v__a-e3__a-m1__2.run",
        "facts__v__a-e3__a-m1__a-j.run",
    ]
    assert all(len(lines) == 1 for lines in files.values())


IDS = st.sampled_from(["s1", "s2", "s3", "s1#dup1", "s2#dup1", "s1#dup1#dup1", "a b", "%", "é"])


@given(
    hits=st.lists(st.lists(IDS, max_size=3, unique=True), max_size=8),
    gold=st.lists(IDS, min_size=1, max_size=4, unique=True),
)
def test_document_ids_are_unique_and_name_a_gold_document_where_it_is_first_covered(
    hits: Sequence[Sequence[str]], gold: Sequence[str]
) -> None:
    documents = document_ids(hits, dict.fromkeys(gold, 1.0))
    assert len(documents) == len(set(documents)) == len(hits)
    covered: set[str] = set()
    for ids, document in zip(hits, documents, strict=True):
        new = [name for name in ids if name in gold and name not in covered]
        if new:
            assert document == percent_encoded(new[0])
        covered.update(new)


def test_an_id_that_looks_like_a_duplicate_keeps_its_name() -> None:
    assert document_ids([["s1"], ["s1"], ["s1#dup1"], ["s1#dup1"], ["s1"]], {"s1#dup1": 1.0}) == [
        "s1", "s1#dup2", "s1#dup1", "s1#dup1#dup1", "s1#dup3",
    ]  # fmt: skip
    assert document_ids([["s1"], ["s1"]], {"s1#dup1": 1.0}) == ["s1", "s1#dup2"], (
        "it was not returned, so it is not a hit"
    )


@given(st.text(st.characters(), max_size=30))
@example("half \ud83d of a pair")
def test_percent_encoded_ids_are_one_word_and_can_be_decoded(text: str) -> None:
    from urllib.parse import unquote

    word = percent_encoded(text)
    assert len(word.split()) == (1 if text else 0)
    assert unquote(word, errors="surrogatepass") == text


@each_row(
    ("retrieved", "gold"),
    [
        ([["x"], ["s1"], ["s1"], ["s2"]], ("s1", "s2")),
        ([["s2"], ["s2"], ["s1"]], ("s1", "s2", "s3")),
        ([["a"], ["b"]], ("s9",)),
        ([[], ["s1#dup1"], ["s1"]], ("s1", "s1#dup1")),
    ],
)
def test_metrics_computed_from_trec_files_equal_those_of_the_program(
    retrieved: list[list[str]], gold: tuple[str, ...]
) -> None:
    found = [
        rank
        for rank, one in enumerate(document_ids(retrieved, dict.fromkeys(gold, 1.0)), start=1)
        if one in set(map(percent_encoded, gold))
    ]
    precisions = [place / rank for place, rank in enumerate(found, start=1)]
    by_hand = {
        "mrr": 1 / found[0] if found else 0.0,
        "recall_fraction_at_10": len(found) / len(gold),
        "map": sum(precisions) / len(gold),
    }
    for name, value in by_hand.items():
        assert score(name, retrieved=retrieved, relevant=set(gold)) == pytest.approx(value, abs=1e-12), name


async def test_parquet_without_its_extra_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    folder = await journal(tmp_path, ItemData(item="q1"))
    async with Reader.open(folder) as reader:
        with pytest.raises(UsageError) as refused:
            await export_parquet(reader, tmp_path / "rows.parquet")
    assert str(refused.value) == "parquet needs the extra [parquet]"
    assert refused.value.hint == "pip install 'memorybench[parquet]'"
    assert not (tmp_path / "rows.parquet").exists()


async def test_each_format_exports_exactly_the_ended_items_of_the_report(tmp_path: Path) -> None:
    from bench.report.fold import fold

    states = [*State, None]
    items = [
        ItemData(item=f"q{at}", state=state, outcome="timeout" if state in (State.ERROR, State.NOT_READY) else "ok")
        for at, state in enumerate(states)
    ]
    folder = await write_run(tmp_path, "r1", [(RECORD, items), (record("y"), items[:3])])
    async with Reader.open(folder) as reader:
        jobs = (await fold(reader)).jobs
    ended = sum(sum(job.counts.values()) for job in jobs)
    for form in ("json", "jsonl", "csv"):
        assert (await written(folder, form))[0] == ended == len(State) + 3
    found = await rows(folder)
    for job in jobs:
        own = [row["state"] for row in found if row["provider"] == job.record.provider]
        assert {state: own.count(str(state)) for state in job.counts} == dict(job.counts)
