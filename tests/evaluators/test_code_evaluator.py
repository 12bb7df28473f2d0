"""Code runs only when allowed, with nothing of ours in reach and no more time than it was given."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bench.errors import Unsupported
from bench.evaluators import open_evaluator
from bench.evaluators.code import code_of
from bench.model import Verdict
from tests.evaluators.judge_double import item

ADD = "Here it is:\n```python\ndef add(a, b):\n    return a + b\n```\nDone."


async def run(answer: str, tests: object, *, allowed: bool = True, time_limit_s: float = 20.0) -> Verdict:
    evaluator = open_evaluator("code-correctness", config={"time_limit_s": time_limit_s}, allow_code_execution=allowed)
    assert evaluator is not None
    return await evaluator.evaluate(item(metadata={"tests": tests}), answer, (), None)


async def test_code_that_passes_its_tests_is_correct() -> None:
    assert (await run(ADD, "assert add(1, 2) == 3")).value == 1
    assert (await run(ADD, "assert add(1, 2) == 4")).value == 0
    assert (await run("def add(a, b) return", "assert True")).value == 0


async def test_code_is_not_run_without_permission() -> None:
    with pytest.raises(Unsupported, match="code-correctness"):
        await run(ADD, "assert add(1, 2) == 3", allowed=False)


async def test_an_item_without_tests_is_not_scored() -> None:
    assert (await run(ADD, None)).reason == "no_tests"


async def test_an_endless_loop_is_ended() -> None:
    began = time.monotonic()
    assert (await run("while True: pass", "assert True", time_limit_s=1.5)).value == 0
    assert time.monotonic() - began < 15


async def test_the_child_sees_no_environment_and_stands_in_an_empty_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORYBENCH_PROBE", "secret")
    tests = "import os\nassert 'MEMORYBENCH_PROBE' not in os.environ\nassert os.listdir('.') == ['candidate.py']"
    assert (await run("x = 1", tests)).value == 1


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux")
async def test_memory_is_limited(tmp_path: Path) -> None:
    assert (await run("x = bytearray(2 << 30)", "assert True")).value == 0


def test_code_outside_a_fence_is_taken_whole() -> None:
    assert code_of("x = 1") == "x = 1"
    assert code_of(ADD) == "def add(a, b):\n    return a + b\n"
