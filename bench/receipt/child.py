"""Work that needs a private key, done in a child process, so that the process which runs providers never reads one.

    answer = ask("bench.receipt.announcing", {"runId": "r1", ...})     # in the runner
    sys.exit(answer_with(function))                                     # in the child: stdin -> function -> stdout

What the child refuses is raised again in the runner, with the same kind, words and hint.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import cast

from bench.errors import BenchError, UsageError

Words = Mapping[str, object]
REFUSED = "refused"


class ChildRefused(UsageError):
    """What a child process refused to do; nothing was started."""

    def __init__(self, kind: str, message: str, *, where: str | None, hint: str) -> None:
        super().__init__(message, where=where, hint=hint)
        self.kind = kind  # type: ignore[misc]


def ask(module: str, question: Words) -> Words:
    """Run ``python -m module`` on a question; raise ChildRefused with the child's own words."""
    command = [sys.executable, "-m", module]
    done = subprocess.run(  # noqa: S603 - ourselves
        command, input=json.dumps(question), stdout=subprocess.PIPE, text=True, check=False
    )
    try:
        answer: Words = json.loads(done.stdout)
    except ValueError:
        raise ChildRefused(
            "internal", f"{module} ended with {done.returncode}", where=None, hint="see what it wrote above"
        ) from None
    refused = answer.get(REFUSED)
    if refused is not None:
        told = cast("Mapping[str, str]", refused)
        raise ChildRefused(told["kind"], told["message"], where=told["where"], hint=told["hint"])
    return answer


def answer_with(work: Callable[[Words], Words]) -> int:
    """Read the question on stdin, do the work, write the answer or the refusal on stdout."""
    try:
        answer = work(json.load(sys.stdin))
    except BenchError as error:
        words = {"kind": error.kind, "message": error.message, "where": error.where, "hint": error.hint}
        answer = {REFUSED: words}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0
