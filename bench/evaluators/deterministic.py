"""Evaluators that need no judge: they compare texts or embeddings, or run the tests of an item.

Example::

    await TextEvaluator(name="exact-match", compare=..., threshold=1.0).evaluate(item, "Paris", (), None)
    SimilarityEvaluator(embedder=embedder, threshold=0.8)
    CodeEvaluator(allowed=True, time_limit_s=10)        # metadata.tests holds Python that raises on failure

If an item must not be answered, a refusal is correct. If an item can be answered, a refusal makes the item
``abstained``, unless the text is right.

The tests of an item run in a child process, and only if the user allows this. The child process has an empty
environment, a temporary folder, and limits on time, memory, files and processes.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from bench.errors import Unsupported
from bench.evaluators.protocol import EvaluatorSettings, Judge
from bench.evaluators.refusals import is_refusal
from bench.metrics.answers.choices import choice_index, chosen_index, letter_rules, same_option
from bench.metrics.answers.similarity import cosine, deletion_check
from bench.metrics.answers.text import locomo_category, locomo_qa
from bench.model import Embedder, Hit, ScoredItem, Verdict

NO_CHOICE = "no_choice"
"""reason of a verdict, and flag of an item's result: the answer chooses no option"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEvaluator(EvaluatorSettings):
    """An evaluator that compares the answer with each accepted answer by a text metric such as exact match."""

    name: str
    compare: Callable[[str, Sequence[str]], float | None]

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        refused = is_refusal(answer, item.refusals)
        value = self.compare(answer, item.answers) if item.answers else None
        if item.abstention:
            value = max(float(refused), value or 0.0)
        return text_verdict(self.name, value, self.threshold, refused=refused, reason="no_reference")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocomoEvaluator(EvaluatorSettings):
    """An evaluator that scores an answer by LoCoMo's official rules. The rules depend on the item's category."""

    name: str = "locomo-f1"

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        category = locomo_category(item.metadata.get("category"), item.question_type)
        if category is None or (not item.answers and category != "5"):
            return text_verdict(
                self.name, None, self.threshold, refused=is_refusal(answer, item.refusals), reason="no_category"
            )
        golds = item.answers or ("",)
        values = [value for gold in golds if (value := locomo_qa(category, answer, gold)) is not None]
        refused = is_refusal(answer, item.refusals) or (category == "5" and max(values, default=0.0) == 1)
        found = text_verdict(self.name, max(values, default=None), self.threshold, refused=refused)
        if refused and item.abstention:
            return replace(found, correct=True, abstained=False)  # right, though the paper knows two phrases only
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceEvaluator(EvaluatorSettings):
    """An evaluator of multiple-choice answers. An answer that chooses no option or several options is wrong."""

    name: str = "mcq"

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        wanted = choice_index(item.choice_answer, item.choices)
        chosen = chosen_index(answer, item.choices)
        refused = chosen is None and is_refusal(answer, item.refusals)
        if wanted is None and not item.abstention:
            return text_verdict(self.name, None, self.threshold, refused=False, reason="no_choice_answer")
        right = refused if chosen is None and item.abstention else same_option(chosen, wanted, item.choices)
        found = text_verdict(self.name, float(right), self.threshold, refused=refused)
        if wanted is not None:
            found = replace(found, parts=letter_rules(answer, item.choices, wanted))
        return found if chosen is not None or refused else replace(found, reason=NO_CHOICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionEvaluator(EvaluatorSettings):
    """An evaluator of deletions. The value is 1 if neither the hits nor the answer contain the deleted text, else 0.

    The hits are the results of the item's verification query.
    """

    fuzzy_match: bool = False
    fuzzy_threshold: float = 0.8
    name: str = "deletion-check"
    needs_answer: bool = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if item.deletion is None:
            return text_verdict(self.name, None, self.threshold, refused=False, reason="no_deletion")
        texts = [text for hit in hits for text in (hit.content, *hit.chunks)] + ([answer] if answer else [])
        value = deletion_check(
            item.deletion.deleted_content,
            texts,
            fuzzy_match=self.fuzzy_match,
            fuzzy_threshold=self.fuzzy_threshold,
        )
        return text_verdict(self.name, value, self.threshold, refused=False, reason="nothing_to_look_for")


def text_verdict(name: str, value: float | None, threshold: float, *, refused: bool, reason: str = "") -> Verdict:
    """Create a verdict from a value. If ``value`` is None, ``reason`` says why there is no value."""
    correct = None if value is None else value >= threshold
    return Verdict(
        evaluator=name,
        value=value,
        correct=correct,
        reason=reason if value is None else "",
        abstained=refused and not correct,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityEvaluator(EvaluatorSettings):
    """An evaluator that compares the answer with each accepted answer by their embeddings.

    The value is the largest cosine similarity.

    A similarity below 0 counts as 0. Each verdict names the embedding model and its number of dimensions.
    """

    embedder: Embedder
    threshold: float = 0.8
    name: str = "semantic-similarity"

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        refused = is_refusal(answer, item.refusals)
        if item.abstention or not item.answers:
            value = float(refused) if item.abstention else None
            return text_verdict(self.name, value, self.threshold, refused=refused, reason="no_reference")
        mine, *golds = await self.embedder.embed([answer, *item.answers], kind="document")
        value = max(0.0, *(cosine(mine, gold) for gold in golds))
        found = text_verdict(self.name, value, self.threshold, refused=refused)
        return replace(found, judged=True, model=self.embedder.name, raw=f"{len(mine)} dimensions")


_FENCE = re.compile(r"```(?:python|py)?\s*\n(.*?)```", re.DOTALL)
_CHILD_SCRIPT = """\
import os, resource, sys, traceback, types
for kind, most in ((resource.RLIMIT_CPU, {cpu_s}), (resource.RLIMIT_AS, {memory}),
                   (resource.RLIMIT_FSIZE, 1 << 20), (resource.RLIMIT_NPROC, 16), (resource.RLIMIT_CORE, 0)):
    try:
        resource.setrlimit(kind, (most, most))
    except ValueError:
        pass
sys.modules["__main__"] = types.ModuleType("__main__")
names = vars(sys.modules["__main__"])
for name, role in (("candidate", "candidate"), ("tests", "__main__")):
    with open(name + ".py", encoding="utf-8") as file:
        source = file.read()
    names["__name__"] = role
    try:
        exec(compile(source, name + ".py", "exec"), names)
    except SystemExit as error:
        by_unittest = traceback.extract_tb(error.__traceback__)[-1].filename.endswith("unittest/main.py")
        if error.code or not by_unittest:
            raise
os._exit({passed})
"""
CHILD_MEMORY = 512 << 20
PASSED = 93
"""exit code of a test process that passed; answers that exit the process themselves do not produce this code"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeEvaluator(EvaluatorSettings):
    """An evaluator of code. The value is 1 if the answer and then the item's tests run without an error, else 0.

    The tests are Python code in the item's metadata under ``tests``.
    """

    allowed: bool = False
    time_limit_s: float = 10.0
    name: str = "code-correctness"

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if not self.allowed:
            raise Unsupported(
                'the method "code-correctness" runs code, which is not allowed by default',
                hint="allow code with --allow-code-execution",
            )
        tests = item.metadata.get("tests")
        if not isinstance(tests, str) or not tests.strip():
            return text_verdict(self.name, None, self.threshold, refused=False, reason="no_tests")
        passed = await run_tests(code_blocks(answer), tests, time_limit_s=self.time_limit_s)
        return text_verdict(self.name, float(passed), self.threshold, refused=False)


def code_blocks(answer: str) -> str:
    """Return the text in the answer's code blocks. An answer without code blocks is returned whole."""
    blocks = _FENCE.findall(answer)
    return "\n".join(blocks) if blocks else answer


async def run_tests(code: str, tests: str, *, time_limit_s: float) -> bool:
    """Return True when the code and then its tests run without an error within the time limit.

    Code and tests share one namespace in a child process.
    """
    with tempfile.TemporaryDirectory(prefix="bench-code-") as folder:
        for name, source in (("candidate", code), ("tests", tests)):
            await anyio.Path(folder, f"{name}.py").write_text(source, encoding="utf-8", errors="surrogatepass")
        script = _CHILD_SCRIPT.format(cpu_s=max(1, round(time_limit_s)), memory=CHILD_MEMORY, passed=PASSED)
        return await _run([sys.executable, "-I", "-B", "-c", script], Path(folder), time_limit_s) == PASSED


async def _run(command: list[str], folder: Path, time_limit_s: float) -> int | None:
    """Run a command and return its exit code; return None if the command exceeds the time limit."""
    process = await anyio.open_process(
        command, cwd=folder, env={}, stdin=None, stdout=-3, stderr=-3, start_new_session=True
    )
    try:
        with anyio.move_on_after(time_limit_s):
            return await process.wait()
        return None
    finally:
        with anyio.CancelScope(shield=True):
            _kill_group(process.pid)
            await process.wait()
            await process.aclose()


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
