"""A rescore that is stopped does not change the results of its run, and names the command that continues it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bench
from tests.reality.chat_stub import Reply, Stub, completion, serving
from tests.small_world import write_codes

RUN = ("run", "-q", "--run-id", "r", "--benchmarks", "codes", "--providers", "bm25", "--concurrency", "1")
MODELS = ("--answering-model", "builtin/extractive", "--judge-model", "openai/mild")
STRICT = "STRICT json: question ${question} expected ${answer} response ${response}"
OPEN: set[str] = set()
"""codes that the endpoint judges; it rejects the key of a request about another code"""


def judged(body: dict[str, Any]) -> Reply:
    """Accept every code, but no code as the judge "hard" or with the strict prompt."""
    text = body["messages"][-1]["content"]
    if not any(f"Code {code}?" in text for code in OPEN):
        return 401, {"error": {"message": "invalid key"}}
    right = body["model"] != "hard" and "STRICT" not in text
    return completion(json.dumps({"correctness": int(right), "faithfulness": 1, "reasoning": ""}))


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench: Bench) -> Iterator[Stub]:
    """A judge for a benchmark of four codes."""
    rows = [{"id": f"c{n}", "content": f"The code is {n}.", "question": f"Code {n}?", "answer": str(n)} for n in "1234"]
    write_codes(tmp_path, rows, protocol="llm-as-judge", metric="accuracy")
    OPEN.clear()
    OPEN.update("1234")
    with serving(judged) as found:
        monkeypatch.setenv("OPENAI_BASE_URL", found.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield found


def shown(bench: Bench) -> tuple[dict[str, int], str]:
    """Return the item counts and the judge of the results."""
    (job,) = json.loads(bench("results", "r", "--json", check=None).stdout)["jobs"]
    return job["counts"], job["models"]["judge"]


@pytest.mark.parametrize("flags", [("--judge-model", "openai/hard"), ("--judge-prompt", STRICT)])
def test_a_stopped_rescore_keeps_the_results_and_is_continued_by_the_same_command(
    bench: Bench, stub: Stub, flags: tuple[str, str]
) -> None:
    bench(*RUN, *MODELS)
    OPEN.difference_update("34")
    done = bench("rescore", "r", *flags, check=3)
    assert f"next: bench rescore r {flags[0]}" in done.stderr
    assert "3 of 4 items ended, and the results are still those of the earlier scoring" in done.stderr
    assert "bm25 answers 100% of 4 questions right" in done.stdout
    assert shown(bench) == ({"correct": 4}, "openai/mild")
    assert json.loads(bench("status", "r", "--json").stdout)["state"] == "complete"
    assert "nothing left to do" in bench("resume", "r").stderr
    OPEN.update("34")
    before = len(stub.asked)
    bench("rescore", "r", *flags)
    assert len(stub.asked) == before + 2, "stored verdicts are not paid again"
    judge = flags[1] if flags[0] == "--judge-model" else "openai/mild"
    assert shown(bench) == ({"incorrect": 4}, judge)


@pytest.mark.parametrize("flags", [("--judge-model", "openai/hard"), ("--judge-prompt", STRICT)])
def test_a_resume_of_a_rescored_run_shows_all_items_with_the_judge_of_the_run(
    bench: Bench, stub: Stub, flags: tuple[str, str]
) -> None:
    OPEN.difference_update("34")
    bench(*RUN, *MODELS, check=3)
    OPEN.clear()
    bench("rescore", "r", *flags, check=3)
    assert "own scoring again" not in bench("resume", "r", check=3).stderr
    OPEN.update("1234")
    bench("rescore", "r", *flags)
    assert shown(bench)[0] == {"incorrect": 3}
    done = bench("resume", "r")
    assert "the results show the run's own scoring again" in done.stderr
    assert shown(bench) == ({"correct": 4}, "openai/mild")
    before = len(stub.asked)
    bench("rescore", "r", *flags)
    assert (shown(bench)[0], len(stub.asked)) == ({"incorrect": 4}, before + 1), (
        "only the item that the first rescore lacked"
    )
