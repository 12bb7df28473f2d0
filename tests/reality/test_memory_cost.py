"""Memory cost: the build and the cost per question; derived values equal a calculation by hand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bench.errors import IdentityError
from bench.journal import Reader
from bench.report import fold
from bench.report.memory_cost import BuildCost, CallTotals, ContextSize, QueryCost, break_even
from bench.report.results_document import report_json
from tests.cli.conftest import Bench
from tests.cli.test_builds import in_thread
from tests.reality.chat_stub import Stub, completion, serving
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.rows import each_row
from tests.small_world import World

PRICES = {"faulty": {"add": "0.01", "search": "0.0001"}, "acme/m": {"input": "10", "output": "20"}}
PRICED = {"providers": "faulty", "answering_model": "acme/m", "prices": PRICES, "k": 2, "cleanup": "never"}
FOUND = completion("W0y0 W0y1")


@pytest.fixture
def chat() -> Iterator[Stub]:
    """200 tokens in and 9 out for each answer: USD 0.00218."""
    with serving(lambda body: FOUND) as stub:
        yield stub


async def priced(world_on: WorldOn, chat: Stub, stub: MemoryStub | None = None) -> World:
    world = await world_on(stub or MemoryStub(), corpora=2, items=4, sessions=20)
    world.write("configs/models/acme.yaml", f"name: acme\ndialect: openai\nbaseUrl: {chat.url}\n")
    return world


async def jobs(bench: Bench, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await in_thread(bench, "results", run_id, "--json")).stdout)["jobs"]
    return found


async def cost(bench: Bench, run_id: str) -> dict[str, Any]:
    (job,) = await jobs(bench, run_id)
    found: dict[str, Any] = job["memory_cost"]
    return found


@pytest.fixture(autouse=True)
def room_for_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Widen the terminal, so that a time with one digit more does not wrap other cells."""
    monkeypatch.setenv("COLUMNS", "240")


async def text(bench: Bench, *arguments: str) -> str:
    return " ".join((await in_thread(bench, *arguments)).stdout.split())


# ----------------------------------------------------------------- by hand


async def test_memory_cost_separates_the_build_from_the_cost_per_question(
    world_on: WorldOn, bench: Bench, chat: Stub
) -> None:
    world = await priced(world_on, chat)
    assert (await world.run(**PRICED, run_id="r1", isolation="off")).exit_code == 0
    found = await cost(bench, "r1")
    build, query, context = found["build"], found["query"], found["context"]
    assert (build["corpora"], build["memories"], build["cost_usd"]) == (2, 40, "0.40"), "40 adds at USD 0.01"
    assert (build["paid_by"], build["lane"], len(build["fingerprint"])) == ("r1", "facts/faulty", 64)
    assert (query["questions"], query["calls"], query["tokens"]) == (8, 16, 8 * 209)
    assert query["usd_per_question"] == pytest.approx(0.0001 + 0.00218)
    assert found["usd_per_correct_answer"] == pytest.approx((0.40 + 8 * 0.00228) / 2), "two answers are right"
    assert found["context_share"] == context["tokens"] / context["corpus_tokens"]
    unread = (context["corpus_tokens"] - context["tokens"]) / 8
    full = 0.00218 + unread * 10 / 1e6
    assert found["break_even"]["full_context_usd_per_question"] == pytest.approx(full)
    assert found["break_even"]["questions"] == int(0.20 / (full - 0.00228)) + 1
    n = found["break_even"]["questions"]
    assert 0.20 + n * 0.00228 < n * full and 0.20 + (n - 1) * 0.00228 >= (n - 1) * full
    assert build["time_us"] > 0 and query["time_us"] > 0


async def test_tables_page_and_report_show_the_build_and_the_cost_per_question(
    world_on: WorldOn, bench: Bench, chat: Stub
) -> None:
    world = await priced(world_on, chat)
    await world.run(**{**PRICED, "providers": ("faulty", "bm25", "full-context")}, run_id="r1", isolation="off")
    found = (await jobs(bench, "r1"))[0]["memory_cost"]
    shown = await text(bench, "results", "r1")
    assert f"{found['context_share']:.1%}" in shown and "100.0%" in shown
    assert "faulty build 42 0 0.4 " in shown, "40 adds, and a count of each corpus for runs that reuse it"
    assert "faulty per question 2 209 0.00228" in shown
    assert f"cheaper than full context after {found['break_even']['questions']} questions per corpus" in shown
    assert "bm25: USD 0.00872 per correct answer; cheaper than full context from the first question" in shown
    await in_thread(bench, "results", "r1", "--html", "page.html")
    page = (world.workspace / "page.html").read_text()
    assert found["text"] in page and f"{found['context_share'] * 100:.1f}% of the corpus" in page
    async with Reader.open(world.workspace / "checkpoints" / "r1") as reader:
        measured: Any = report_json(await fold(reader))["measured"]
    assert measured["jobs"][0]["memory_cost"] == found


async def test_full_context_has_a_context_share_of_one_and_no_break_even(
    world_on: WorldOn, bench: Bench, chat: Stub
) -> None:
    world = await priced(world_on, chat)
    await world.run(**{**PRICED, "providers": "full-context", "k": 50}, run_id="r1")
    found = await cost(bench, "r1")
    assert found["context_share"] == 1 and found["break_even"] is None, "a control is compared with nothing"


async def test_a_search_that_costs_more_than_the_full_context_never_breaks_even(
    world_on: WorldOn, bench: Bench, chat: Stub
) -> None:
    world = await priced(world_on, chat)
    await world.run(**{**PRICED, "prices": {**PRICES, "faulty": {"add": "0", "search": "1"}}}, run_id="r1")
    found = (await cost(bench, "r1"))["break_even"]
    assert found["never"] and found["questions"] is None
    assert found["reason"].startswith(
        "a question costs USD 1.00218; with the whole corpus in the prompt, it costs USD 0.00"
    )
    assert "never cheaper than full context: a question costs" in await text(bench, "results", "r1")


async def test_a_free_reader_has_no_break_even(world_on: WorldOn, bench: Bench) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=4)
    prices = {"faulty": {"add": "0.01", "search": "0.001"}}
    await world.run(providers="faulty", answering_model="builtin/extractive", prices=prices, run_id="r1")
    shown = await text(bench, "results", "r1")
    assert "break-even against full context is not known: the input of the answering model is free" in shown
    assert "never cheaper" not in shown and "per correct answer" in shown


BUILD = BuildCost(
    fingerprint=None, paid_by="r", lane="l", corpora=2, memories=9, price=CallTotals(cost_usd="8"), paid=CallTotals()
)
QUERY = QueryCost(questions=4, search=CallTotals(cost_usd="4"), answer=CallTotals(cost_usd="2"), searches=4, answers=4)
CONTEXT = ContextSize(answers=4, tokens=400, corpus_tokens=4_000_400, corpora=2)
UNKNOWN = CallTotals(cost_unknown_calls=3)


@each_row(
    ("build", "query", "context", "input_usd", "questions", "reason"),
    [
        (BUILD, QUERY, CONTEXT, "5", 2, ""),  # 4 a corpus; 1.5 against 0.5 + 5: after one question it is 5.5 each
        (BUILD, QUERY, CONTEXT, "2", 5, ""),  # 4 + 4 x 1.5 = 4 x 2.5: equal is not cheaper
        (replace(BUILD, price=CallTotals()), QUERY, CONTEXT, "2", 1, ""),
        (
            BUILD,
            QUERY,
            CONTEXT,
            "1",
            None,
            "a question costs USD 1.5; with the whole corpus in the prompt, it costs USD 1.5",
        ),
        (BUILD, QUERY, CONTEXT, None, None, "the input price of the answering model is not known"),
        (BUILD, QUERY, replace(CONTEXT, corpus_tokens=None), "2", None, "does not state how large the corpora are"),
        (replace(BUILD, price=UNKNOWN), QUERY, CONTEXT, "2", None, "3 calls of the build have no price"),
        (replace(BUILD, corpora=None), QUERY, CONTEXT, "2", None, "how many corpora the build has"),
        (BUILD, replace(QUERY, search=UNKNOWN), CONTEXT, "2", None, "3 calls of the questions have no price"),
        (BUILD, replace(QUERY, search=CallTotals(), answer=CallTotals()), CONTEXT, "0", None, "cost money"),
        (BUILD, replace(QUERY, answers=0), CONTEXT, "2", None, "no search or no answer was successful"),
        (BUILD, QUERY, CONTEXT, "0", None, "is free"),
    ],
)
def test_break_even_is_the_smallest_number_of_questions_or_has_a_reason(
    build: BuildCost, query: QueryCost, context: ContextSize, input_usd: str | None, questions: int | None, reason: str
) -> None:
    found = break_even(build, query, context, input_usd)
    assert found.questions == questions
    assert reason in found.reason and bool(reason) == bool(found.reason)
    assert found.never == found.reason.startswith("a question costs")


async def test_a_journal_without_corpus_sizes_has_no_context_share(world_on: WorldOn, bench: Bench, chat: Stub) -> None:
    """Older versions did not write the sizes."""
    world = await priced(world_on, chat)
    await world.run(**PRICED, run_id="r1")
    with closing(sqlite3.connect(world.workspace / "checkpoints/r1/journal.sqlite")) as journal, journal:
        rows = journal.execute("SELECT id, data FROM corpus_row WHERE kind = 'ingested' LIMIT 1").fetchall()
        for number, data in rows:
            tree = {name: value for name, value in json.loads(data).items() if name != "tokens"}
            journal.execute("UPDATE corpus_row SET data = ? WHERE id = ?", (json.dumps(tree), number))
    found = await cost(bench, "r1")
    assert found["context_share"] is None and found["context"]["tokens"] > 0
    assert found["break_even"]["reason"] == "the journal does not state how large the corpora are"
    shown = (await text(bench, "sheet", "r1")).partition("context share | ")[2]
    assert shown.partition(" |")[0].endswith("tokens of context per question, budget 120000 tokens")
    assert "%" not in shown.partition(" |")[0]


# ----------------------------------------------------------------- reused and shared


async def reused(world_on: WorldOn, chat: Stub) -> World:
    world = await priced(world_on, chat)
    await world.run(**PRICED, run_id="r1")
    assert (await world.run(**PRICED, run_id="r2", reuse_build="r1")).exit_code == 0
    return world


async def test_a_reused_build_costs_nothing_in_the_new_run_and_keeps_its_price(
    world_on: WorldOn, bench: Bench, chat: Stub
) -> None:
    await reused(world_on, chat)
    first, again = await cost(bench, "r1"), await cost(bench, "r2")
    build = again["build"]
    assert (build["paid_by"], build["fingerprint"]) == ("r1", first["build"]["fingerprint"])
    assert [build[name] for name in ("calls", "tokens", "cost_usd", "time_us")] == [0, 0, "0", 0]
    assert build["price"] == first["build"]["price"]
    for name in ("break_even", "context_share", "usd_per_correct_answer"):
        assert again[name] == first[name], "the price of the build counts, whichever run paid it"
    assert "build, paid by facts/faulty of" in await text(bench, "results", "r2")


async def test_receipt_and_sheets_of_a_reused_build_name_its_fingerprint_and_the_paying_run(
    world_on: WorldOn, bench: Bench, chat: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    await reused(world_on, chat)
    await in_thread(bench, "keys", "new", "-q")
    path = (await in_thread(bench, "sign", "r2")).stdout.split()[-1]
    assert (await in_thread(bench, "verify", path)).stdout.startswith("VALID")
    signed, found = json.loads(Path(path).read_text())["memoryCost"], await cost(bench, "r2")
    build = signed["build"]
    assert (build["paidBy"], build["fingerprint"]) == ("r1", found["build"]["fingerprint"])
    assert build["paid"] == {"calls": 0, "tokens": 0, "usdMicros": 0, "timeUs": 0}
    assert build["price"]["usdMicros"] == float(found["build"]["price"]["cost_usd"]) * 1e6
    assert (signed["context"]["share"], signed["questions"]) == (found["context_share"], 8)
    assert signed["breakEven"] == {"questions": found["break_even"]["questions"], "never": False, "reason": ""}
    assert signed["usdMicrosPerCorrect"] == pytest.approx(found["usd_per_correct_answer"] * 1e6)
    for target in ("r2", path):
        (sheet,) = json.loads((await in_thread(bench, "sheet", target, "--json")).stdout)["sheets"]
        facts = {one["name"]: one["value"] for one in sheet["facts"]}
        price = (
            "USD 0.00228 for search and answer" if target == "r2" else "USD 0.01824 for the searches and answers of 8"
        )
        assert price in facts["cost per query"]
        assert "paid by facts/faulty of run r1, this job paid none of the calls; fingerprint " in facts["cost of build"]
        assert "cheaper than full context after" in facts["cost per query"]
        assert facts["context share"].startswith(f"{found['context_share']:.1%} of the corpus")


async def test_the_cost_per_correct_answer_counts_every_repeat_of_an_item(
    world_on: WorldOn, bench: Bench, chat: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    world = await priced(world_on, chat)
    await world.run(**PRICED, run_id="r1", isolation="off", epochs=3)
    found = await cost(bench, "r1")
    assert found["usd_per_correct_answer"] == pytest.approx((0.40 + 3 * 8 * 0.00228) / 6), "two of eight, three times"
    await in_thread(bench, "keys", "new", "-q")
    path = (await in_thread(bench, "sign", "r1")).stdout.split()[-1]
    assert (await in_thread(bench, "verify", path)).stdout.startswith("VALID")
    assert "USD 0.075787 per correct answer" in await text(bench, "sheet", path)


async def test_an_invalid_job_has_no_price_per_correct_answer_in_texts(
    world_on: WorldOn, bench: Bench, chat: Stub
) -> None:
    def refused(_: int, __: web.Request, body: dict[str, object]) -> web.Response | None:
        return web.json_response({}, status=400) if "x1" in str(body["query"]) else None

    world = await priced(world_on, chat, MemoryStub(answers={"search": refused}))
    assert (await world.run(**PRICED, run_id="r1", isolation="off", circuit_breaker=False)).exit_code == 4
    assert "INVALID" in await text(bench, "results", "r1")
    for command in ("results", "sheet"):
        assert "per correct answer" not in await text(bench, command, "r1")
    assert "per correct answer" not in (await cost(bench, "r1"))["text"]


async def test_lanes_that_share_a_build_pay_it_once(world_on: WorldOn, bench: Bench, chat: Stub) -> None:
    world = await priced(world_on, chat)
    await world.run(**{**PRICED, "k": (1, 2)}, run_id="r1")
    one, other = [job["memory_cost"]["build"] for job in await jobs(bench, "r1")]
    assert one["price"] == other["price"] and one["fingerprint"] == other["fingerprint"]
    assert (one["cost_usd"], other["cost_usd"]) == (one["price"]["cost_usd"], "0")
    assert (other["paid_by"], other["lane"]) == ("r1", "facts/faulty@k1")


# ----------------------------------------------------------------- stored builds


async def test_a_build_stored_without_isolation_is_compared_by_its_count_only(world_on: WorldOn, bench: Bench) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=1, items=2, sessions=2)
    kept = {"providers": "faulty", "answering_model": "none", "isolation": "off"}
    await world.run(**kept, run_id="r1", cleanup="never")
    assert (stub.calls("search"), stub.calls("count")) == (2, 1), "its two questions, and one count"
    assert (await world.run(**kept, run_id="r2", reuse_build="r1")).exit_code == 0
    assert "only counts and sent texts were compared" in await text(bench, "results", "r2")
    for memories in stub.spaces.values():
        memories.pop()
    with pytest.raises(IdentityError, match="count: 2 -> 1"):
        await world.run(**kept, run_id="r3", reuse_build="r1")


# ----------------------------------------------------------------- partial, failed and merged runs


async def test_failed_answers_do_not_lower_the_cost_of_a_question(world_on: WorldOn, bench: Bench) -> None:
    """A refused call costs nothing, so its question is not a divisor of the cost of the other answers."""
    refusal = {"error": {"message": "the request was refused"}}
    with serving(lambda body: (400, refusal) if "x1" in json.dumps(body["messages"][-1]) else FOUND) as chat:
        world = await priced(world_on, chat)
        await world.run(**PRICED, run_id="r1", isolation="off", circuit_breaker=False)
        (job,) = await jobs(bench, "r1")
        assert 0 < job["counts"]["error"] < 8
        found = job["memory_cost"]
        assert found["query"]["usd_per_question"] == pytest.approx(0.00228)
        shown = await text(bench, "results", "r1")
        assert " 209 0.00228 " in shown.partition("faulty per question ")[2]
        full = found["break_even"]["full_context_usd_per_question"]
        assert full == pytest.approx(0.00218 + _unread(found["context"]) * 10 / 1e6)


def _unread(context: dict[str, Any]) -> float:
    return float(context["corpus_tokens"] - context["tokens"]) / float(context["answers"])


async def test_without_an_answer_the_cost_of_a_question_is_unknown(world_on: WorldOn, bench: Bench, chat: Stub) -> None:
    world = await priced(world_on, chat)
    await world.run(**PRICED, run_id="r1", isolation="off", phases="ingest,index,search")
    found = (await cost(bench, "r1"))["query"]
    assert (found["questions"], found["cost_usd"], found["usd_per_question"]) == (8, "0.0008", None)
    assert "faulty per question - - - -" in await text(bench, "results", "r1")
    assert "USD 0.0008 for the searches and answers of 8 questions" in await text(bench, "sheet", "r1")
    await in_thread(bench, "results", "r1", "--html", "page.html")
    page = (world.workspace / "page.html").read_text()
    assert '<td class="number" data-name="USD per 1,000 questions">–</td>' in page


async def test_a_question_that_ran_in_two_merged_runs_costs_no_more_than_the_others(
    world_on: WorldOn, bench: Bench, chat: Stub
) -> None:
    world = await priced(world_on, chat)
    await world.run(**PRICED, run_id="one", isolation="off", end=5)
    await world.run(**PRICED, run_id="two", isolation="off", start=4)
    await in_thread(bench, "merge", "one", "two", "--into", "whole")
    (job,) = await jobs(bench, "whole")
    query = job["memory_cost"]["query"]
    assert (query["questions"], query["calls"]) == (8, 20), "two questions were paid twice"
    assert query["usd_per_question"] == pytest.approx(0.00228)
    assert "faulty per question 2 209 0.00228" in await text(bench, "results", "whole")


async def test_a_tiny_known_cost_is_never_shown_as_zero(world_on: WorldOn, bench: Bench, chat: Stub) -> None:
    world = await priced(world_on, chat)
    tiny = {"faulty": {"add": "4e-7", "search": "2e-7"}, "acme/m": {"input": "1e-4", "output": "1e-3"}}
    flags = {**PRICED, "prices": tiny, "isolation": "off"}
    assert (await world.run(**{**flags, "answering_model": "none"}, run_id="r1")).exit_code == 0
    assert (await world.run(**flags, run_id="r2")).exit_code == 0
    shown = await text(bench, "results", "r1")
    assert "faulty build 42 0 0.000016 " in shown and "per question 1 0 0.0000002 " in shown
    assert "USD 0.0000002 for search and answer" in await text(bench, "sheet", "r1")
    assert "cost USD 0.000018" in await text(bench, "status", "r1"), "40 adds and 8 searches: 0.0000176"
    assert " 0.000016 " in await text(bench, "builds", "list")
    found = await cost(bench, "r2")
    assert found["usd_per_correct_answer"] == pytest.approx((40 * 4e-7 + 8 * (2e-7 + 200e-10 + 9e-9)) / 2)
    assert "USD 0.0000089 per correct answer" in await text(bench, "results", "r2")
    assert "USD 0.0000089 per correct answer" in found["text"]
    cheap = {**flags, "prices": {**tiny, "faulty": {"add": "0", "search": "1e-8"}}}
    assert (await world.run(**cheap, run_id="r3")).exit_code == 0
    await in_thread(bench, "keys", "new", "-q")
    receipt = (await in_thread(bench, "sign", "r3")).stdout.split()[-1]
    assert (await in_thread(bench, "verify", receipt)).stdout.startswith("VALID")
    assert "a receipt rounds amounts to USD 0.000001" in await text(bench, "sheet", receipt)
