"""Code runs only with permission, without access to the environment, and with a time limit."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bench.errors import Unsupported
from bench.evaluators import open_evaluator
from bench.evaluators.deterministic import code_blocks
from bench.model import Verdict
from tests.evaluators.judge_double import item
from tests.rows import each_row

ADD = "Here it is:\n```python\ndef add(a, b):\n    return a + b\n```\nDone."


async def run(answer: str, tests: object, *, allowed: bool = True, time_limit_s: float = 20.0) -> Verdict:
    evaluator = open_evaluator("code-correctness", config={"time_limit_s": time_limit_s}, allow_code_execution=allowed)
    assert evaluator is not None
    return await evaluator.evaluate(item(metadata={"tests": tests}), answer, (), None)


async def test_code_that_passes_its_tests_is_correct() -> None:
    assert (await run(ADD, "assert add(1, 2) == 3")).value == 1
    assert (await run(ADD, "assert add(1, 2) == 4")).value == 0
    assert (await run("def add(a, b) return", "assert True")).value == 0


@pytest.mark.parametrize(
    "answer",
    [
        "import sys\nsys.exit(0)",
        "import sys\nsys.exit()",
        "raise SystemExit(0)",
        "import os\nos._exit(0)",
        "def add(a, b):\n    raise SystemExit(0)",
        "import os\ndef add(a, b):\n    os._exit(0)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
        "\ud800",
        "",
    ],
)
async def test_code_that_exits_before_its_tests_is_wrong(answer: str) -> None:
    assert (await run(answer, "assert add(1, 2) == 3")).value == 0


async def test_the_main_block_of_an_answer_is_not_run() -> None:
    guarded = "import sys\ndef add(a, b):\n    return a + b\nif __name__ == '__main__':\n    sys.exit(1)"
    assert (await run(guarded, "assert add(1, 2) == 3")).value == 1


@pytest.mark.parametrize(("wanted", "value"), [(3, 1.0), (4, 0.0)])
async def test_tests_may_be_unittest_cases(wanted: int, value: float) -> None:
    tests = (
        "import unittest\nclass Adds(unittest.TestCase):\n"
        f"    def test_it(self):\n        self.assertEqual(add(1, 2), {wanted})\n"
        "if __name__ == '__main__':\n    unittest.main()"
    )
    assert (await run(ADD, tests)).value == value


async def test_tests_are_compiled_separately_from_the_answer() -> None:
    """An open bracket of the answer does not include the tests, and both may begin with a future import."""
    assert (await run("def add(a, b): return (a + b", "assert add(1, 2) == 3")).value == 0
    future = "from __future__ import annotations\n"
    assert (await run(future + "def add(a: int, b: int) -> int: return a + b", future + "assert add(1, 2) == 3")).value


@each_row("tests", [None, "", "  \n", 5, ["assert True"]])
async def test_an_item_without_text_tests_is_not_scored(tests: object) -> None:
    found = await run(ADD, tests)
    assert (found.value, found.correct, found.reason) == (None, None, "no_tests")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
async def test_processes_started_by_the_code_end_with_it(tmp_path: Path) -> None:
    expected = tmp_path / "pid"
    start = "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    assert (
        await run(f"import subprocess, sys\n{start}\nopen({str(expected)!r}, 'w').write(str(child.pid))", "1")
    ).value == 1
    status = Path(f"/proc/{expected.read_text()}/stat")
    until = time.monotonic() + 10
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until, "it still runs"
        time.sleep(0.02)


async def test_code_is_not_run_without_allow_code_execution() -> None:
    with pytest.raises(Unsupported, match="code-correctness"):
        await run(ADD, "assert add(1, 2) == 3", allowed=False)


async def test_an_endless_loop_ends_at_time_limit_s() -> None:
    began = time.monotonic()
    assert (await run("while True: pass", "assert True", time_limit_s=1.5)).value == 0
    assert time.monotonic() - began < 15


async def test_code_runs_without_environment_in_an_empty_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORYBENCH_PROBE", "secret")
    tests = (
        "import os\nassert 'MEMORYBENCH_PROBE' not in os.environ\n"
        "assert sorted(os.listdir('.')) == ['candidate.py', 'tests.py']"
    )
    assert (await run("x = 1", tests)).value == 1


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux")
async def test_the_memory_of_the_code_is_limited(tmp_path: Path) -> None:
    assert (await run("x = bytearray(2 << 30)", "assert True")).value == 0


def test_code_blocks_returns_fenced_Python_or_the_whole_text() -> None:
    assert code_blocks("x = 1") == "x = 1"
    assert code_blocks(ADD) == "def add(a, b):\n    return a + b\n"
    assert code_blocks("```\na = 1\n```\ntext\n```py\nb = 2\n```") == "a = 1\n\nb = 2\n"
    assert code_blocks("```javascript\nlet a\n```") == "```javascript\nlet a\n```"
