"""The page of exit codes and error kinds, from the help page and the tree of errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from bench import errors
from bench.cli import app as helptext
from bench.errors import BenchError, CallError
from bench.receipt.verification.findings import ReceiptVerdict
from docs.site.markdown import code, page, prose, table

LEAD = """\
An error is printed on stderr as `error: PLACE: MESSAGE` (or `error: MESSAGE`), then `hint: HINT`. With `--json`, the
error is one object on stdout: `{"error": {"kind", "message", "hint", "where"}}`."""

FIELDS = """\
Names such as `problems` are attributes of the Python exception."""

VERDICTS = {
    ReceiptVerdict.VALID: "every check passed",
    ReceiptVerdict.UNTRUSTED: "the key is unknown, retired or revoked, or is not allowed to sign receipts",
    ReceiptVerdict.SUPERSEDED: "the signer replaced the receipt by a newer one",
    ReceiptVerdict.RETRACTED: "the signer withdrew the receipt",
    ReceiptVerdict.INVALID: "the receipt was changed, contradicts itself, or contains impossible numbers",
    ReceiptVerdict.POLICY: "the receipt is valid, but has a warning, which `--policy strict` does not allow",
}

CALLS = """\
If a call of a provider or model fails permanently, the run continues. The error becomes the outcome of the item, with
one of these kinds. The kinds `auth` and `quota`, and the kind `rejected` if no attempt can reach the server, also end
the job of the provider (exit code 3). `bench results` counts the errors, and `bench failures` shows them.

A refused connection does not end the job, because the server may be starting: each call is retried, then the item fails
with `unavailable`. A run in which too many items failed ends with exit code 4. `bench resume` runs the failed items
again at the same address; another address needs a new run."""


def text() -> str:
    """Return the page."""
    return page(
        "Exit codes and errors",
        LEAD,
        "## Exit codes of run and resume",
        table(["code", "meaning"], _codes()),
        "## Exit codes of verify",
        table(["code", "printed verdict", "meaning"], _verdicts()),
        "`reproduce` and `diff` exit with 8 if the results differ.",
        "## Errors that end a command",
        FIELDS,
        table(["kind", "exit", "meaning", "default hint"], _kinds(BenchError, stop=CallError)),
        "## Errors of an item",
        CALLS,
        table(["kind", "meaning", "default hint"], ([kind, *rest] for kind, _, *rest in _kinds(CallError))),
    )


def _codes() -> Iterator[list[str]]:
    block = helptext.FOOT.partition("Exit codes of run and resume\n")[2]
    for line in block.splitlines():
        if found := re.match(r"  (\d[\d, ]*?)\s{2,}(.*)", line):
            yield [found[1], found[2]]


def _verdicts() -> Iterator[list[str]]:
    for verdict in sorted(ReceiptVerdict, key=lambda verdict: verdict.exit_code):
        yield [str(verdict.exit_code), str(verdict), VERDICTS[verdict]]


def _kinds(root: type[BenchError], stop: type[BenchError] | None = None) -> Iterator[list[str]]:
    for cls in vars(errors).values():
        if not (inspect.isclass(cls) and issubclass(cls, root)) or (stop and issubclass(cls, stop)):
            continue
        if cls not in (BenchError, CallError):
            exit_code = "" if issubclass(cls, CallError) else str(cls.exit_code)
            yield [code(cls.kind), exit_code, prose(inspect.getdoc(cls) or ""), cls.default_hint]
