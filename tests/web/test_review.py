"""Human labels in the browser: blind, by keyboard, stored as the same rows as the TSV file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from bench.cli import run
from bench.journal import Reader
from bench.model import State, Verdict
from bench.plan.job_record import ModelNames
from tests.full_journal import ItemData, write_run
from tests.small_journal import measuring, record
from tests.web.browser import CHROMIUM, browsing
from tests.web.test_pages import checked
from tests.web.workspaces import Visit, visiting

MODELS = ModelNames(embedding=None, answering="acme/m1", judge="acme/strictjudge")
JOBS = [
    record(name, models=MODELS, evaluators=("llm-judge",), **measuring("accuracy")) for name in ("systemx", "systemy")
]
HOSTILE = "<script>alert(1)</script>"


def judged(number: int) -> ItemData:
    right = number % 3 > 0
    return ItemData(
        item=f"q{number}", state=State.CORRECT if right else State.INCORRECT, question=f"Where is {number}?",
        expected=(f"Oslo {number}",), answer=HOSTILE if number == 4 else f"Oslo {number if number % 2 else 0}",
        verdicts=(Verdict(evaluator="llm-judge", value=float(right), correct=right, judged=True),),
        values={"accuracy": float(right)},
    )  # fmt: skip


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    """Run ``r1``: two systems answer six questions, one judge."""
    await write_run(tmp_path, "r1", [(one, [judged(number) for number in range(6)]) for one in JOBS])
    return tmp_path


async def events(workspace: Path) -> list[tuple[str, str, Any]]:
    async with Reader.open(workspace / "checkpoints" / "r1") as reader:
        found = await reader.events()
    return [(one.kind, one.scope, one.data) for one in found if one.kind.startswith("review")]


async def cli(workspace: Path, *arguments: str) -> None:
    assert await anyio.to_thread.run_sync(run, ["--workspace", str(workspace), *arguments]) == 0


async def send(visit: Visit, **fields: str) -> str:
    """Submit a form of the page and return the address of the redirect."""
    assert visit.site.secret is not None
    form = {**fields, "csrf_token": visit.site.secret.csrf}
    status, text, headers = await visit.ask("POST", "/runs/r1/review", headers=visit.cookie, data=form)
    assert status == 303, text
    return str(headers["Location"])


async def test_each_answer_is_labeled_once_on_a_page_without_system_or_judge_names(workspace: Path) -> None:
    async with visiting(workspace, runs=True) as visit:
        _, text = await visit.get("/runs/r1")
        assert 'href="/runs/r1/review"' in text
        _, text = await visit.get("/runs/r1/review")
        assert 'name="n"' in text and checked(text)
        place, seen = await send(visit, n="6"), []
        while True:
            status, text = await visit.get(place)
            assert status == 200 and checked(text)
            for word in ("systemx", "systemy", "strictjudge", "acme", "judged", HOSTILE):
                assert word not in text.partition("<main")[2], word
            entry = (await visit.document(place))["entry"]
            if entry is None:
                break
            assert set(entry) == {"id", "question_type", "question", "expected", "answer", "right"}
            assert entry["question"] in text and entry["expected"] in text
            seen.append(entry["id"])
            place = await send(
                visit, id=entry["id"], label="right" if entry["answer"] in entry["expected"] else "wrong"
            )
        assert len(set(seen)) == len(seen) == 12 and "Every drawn answer has a label" in text
        notes = (await visit.document("/runs/r1/results"))["jobs"][0]["notes"]
        assert any(note.startswith("human review, acme/strictjudge: corrected accuracy 0.6667") for note in notes)


async def test_labels_from_the_browser_and_from_the_file_are_the_same_rows(workspace: Path) -> None:
    await cli(workspace, "review", "r1", "--n", "3", "--output", str(workspace / "r.tsv"))
    head, *rows = (workspace / "r.tsv").read_text().splitlines()
    (workspace / "r.tsv").write_text("\n".join([head, *(row + "right" for row in rows)]) + "\n")
    await cli(workspace, "review", "r1", "--labels", str(workspace / "r.tsv"))
    by_file = await events(workspace)
    await write_run(workspace / "other", "r1", [(one, [judged(number) for number in range(6)]) for one in JOBS])
    async with visiting(workspace / "other", runs=True) as visit:
        place = await send(visit, n="3")
        for row in rows:
            entry = (await visit.document(place))["entry"]
            assert [entry[name] for name in head.split("\t")[:5]] == row.split("\t")[:5], "the order of the file"
            place = await send(visit, id=entry["id"], label="right")
    assert await events(workspace / "other") == by_file and len(by_file) == 2 + 6


async def test_a_label_can_be_skipped_and_changed(workspace: Path) -> None:
    async with visiting(workspace, runs=True) as visit:
        first = (await visit.document(await send(visit, n="2")))["entry"]
        second = (await visit.document(f"/runs/r1/review?after={first['id']}"))["entry"]
        assert second["id"] != first["id"], "skipped"
        for label, right in (("right", True), ("wrong", False)):
            await send(visit, id=first["id"], label=label)
            again = await visit.document(f"/runs/r1/review?at={first['id']}")
            assert again["entry"] == {**first, "right": right} and again["labelled"] == 1


async def api(visit: Visit, path: str, body: object) -> tuple[int, Any]:
    status, text, _ = await visit.ask("POST", f"/api/v1/runs/r1/{path}", json=body)
    return status, json.loads(text)


async def test_the_review_api_draws_and_labels_and_rejects_invalid_values(workspace: Path) -> None:
    async with visiting(workspace, runs=True) as visit:
        assert (await api(visit, "labels", {"abc": True}))[1]["error"][
            "message"
        ] == '"abc" is not the id of an answer in this review'
        assert (await api(visit, "review", {"n": 0}))[0] == (await api(visit, "review", {"n": True}))[0] == 400
        status, found = await api(visit, "review", {"n": 2, "seed": 3})
        assert status == 200 and (found["n"], found["labelled"]) == (4, 0)
        name = found["entry"]["id"]
        assert (await api(visit, "labels", {name: 1}))[0] == 400
        status, found = await api(visit, "labels", {name: False})
        assert status == 200 and found["labelled"] == 1 and found["entry"]["id"] != name
        assert found["changed"] == (await api(visit, "labels", {name: False}))[1]["changed"] == []
        assert (await api(visit, "labels", {name: True}))[1]["changed"] == [name]
    async with visiting(workspace) as visit:
        status, text = await visit.get("/runs/r1/review")
        assert status == 404 and "label answers with: bench serve" in text


@pytest.mark.skipif(CHROMIUM is None, reason="CHROMIUM IS NOT INSTALLED: the pages were not driven")
async def test_the_keys_r_and_w_label_each_answer(workspace: Path, tmp_path: Path) -> None:
    async with visiting(workspace, runs=True) as visit, browsing() as browser:
        await browser.open(visit.site.login, "document.querySelector('h1')")
        await browser.open(f"{visit.site.url}/runs/r1/review", "document.querySelector('input[name=n]')")
        await browser.value("document.querySelector('input[name=n]').value = 2")
        await browser.value("document.querySelector('main form button').click()")
        for at, key in enumerate("rwrw"):
            await browser.until(f"document.querySelector('progress')?.value === {at}")
            await browser.press(key)
        await browser.until("document.querySelector('main .verdict')")
        assert browser.problems == []
    labels = [data["right"] for kind, _, data in await events(workspace) if kind == "review_label"]
    assert labels == [True, False, True, False]
