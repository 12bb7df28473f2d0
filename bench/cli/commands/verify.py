"""``bench verify``: print the verdict on each receipt or log, and what the receipt contains.

The package ``bench.receipt`` computes all verdicts. The text of a receipt is not trusted, so it is printed without line
breaks. Scores are printed only for a VALID receipt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from bench.cli import console
from bench.cli.commands.receipts import existing_file, keyring, load_trust
from bench.cli.flags import SEVERAL
from bench.cli.global_flags import current
from bench.errors import UsageError
from bench.visible_text import counted

if TYPE_CHECKING:
    from bench.receipt.log.log_check import LogOutcome
    from bench.receipt.schema import Receipt
    from bench.receipt.schema_results import ReceiptScore
    from bench.receipt.verification.findings import Finding
    from bench.receipt.verification.verify import Verification, VerificationOutcome, VerificationRequest

SIGNATURE = {
    "yes": "good: this key signed exactly these bytes",
    "no": "bad: this key did not sign these bytes",
    "unknown": "not checked",
}


def verify(
    *receipts: Path,
    trusted: Path | None = None,
    pubkey: Annotated[list[Path] | None, SEVERAL] = None,
    items: Path | None = None,
    dataset: Path | None = None,
    log: Path | None = None,
    policy: Literal["default", "strict"] = "default",
    profile: Literal["bench", "przm-p1", "przm-p2"] = "bench",
    export: Path | None = None,
) -> int:
    """Check receipts offline. Exit 0 valid, 3 untrusted key, 4 superseded or retracted, 5 invalid, 7 policy, 2 usage.

    Parameters
    ----------
    receipts
        Receipt files, or folders: each *.json in the folder, and the public log if the folder has one.
    trusted
        Trusted keys. Default: keys/trusted.json of the workspace.
    pubkey
        Trust exactly these public keys for this call.
    items
        The items file, if it is not in the folder of the receipt.
    dataset
        The data file, or a folder that contains all data files. Digests are compared with the receipt.
    log
        Folder of the public log. Default: results/published of the workspace.
    policy
        strict: every warning is a failure.
    profile
        Format of the receipt; przm-p1 and przm-p2: receipts of the original system.
    export
        Write canonical.bin, sig.bin and pub.pem to this folder, and print the openssl command that checks them.
    """
    from bench.receipt.verification.verify import VerificationRequest
    from bench.receipt.verification.verify import verify as verify_all

    if not receipts:
        raise UsageError(
            "no receipt was given", hint="name a receipt or a folder of receipts: bench verify RECEIPT.json"
        )
    question = VerificationRequest(
        trust=load_trust(trusted, pubkey or ()),
        items=existing_file(items),
        dataset=dataset if dataset and dataset.is_dir() else existing_file(dataset),
        log=log or (None if pubkey else keyring().log_folder),
        policy=policy,
        profile=profile,
    )
    found = verify_all(receipts, question)
    _show(found)
    if export is not None:
        _export(found, question, export)
    return found.verdict.exit_code


def _export(found: Verification, question: VerificationRequest, folder: Path) -> None:
    from bench.receipt.verification.verify import export

    if len(found.outcomes) != 1:
        raise UsageError("--export can be used with one receipt only", hint="name one receipt file")
    command = export(found.outcomes[0], question, folder)
    write = console.note if current.get().json else console.line
    write(f"cd {folder} && {command}")


# ------------------------------------------------------------------------- printing


def _show(found: Verification) -> None:
    if current.get().json:
        console.json_value(found.value())
        return
    if len(found.outcomes) > 1:
        for outcome in found.outcomes:
            _print_line(_first_line(outcome))
        console.line()
    for outcome in found.outcomes:
        show_outcome(outcome)
    for checked in found.logs:
        show_log(checked)
    if len(found.outcomes) > 1:
        counts = Counter(str(outcome.verdict) for outcome in found.outcomes)
        console.line(
            f"{counted(len(found.outcomes), 'receipt(|s)')}: {', '.join(f'{n} {name}' for name, n in counts.items())}"
        )


def _first_line(outcome: VerificationOutcome) -> str:
    """Return the verdict on a receipt and its file; if a check failed, also the reason of the verdict."""
    failed = next((one for one in outcome.findings if one.status == "fail" and one.verdict == outcome.verdict), None)
    return f"{outcome.verdict}  {outcome.file}" + (f"  {failed.detail}" if failed is not None else "")


def show_outcome(outcome: VerificationOutcome) -> None:
    """Print the verdict on a receipt, its benchmark, provider and models, and the findings.

    Scores are printed only if the receipt is VALID.
    """
    from bench.receipt.verification.foreign import scores_of, subject_of

    unchecked = f"  NOT CHECKED: {'; '.join(outcome.unchecked)}" if outcome.unchecked else ""
    _print_line(f"{outcome.verdict}  {outcome.file}{unchecked}")
    believed = outcome.verdict == "VALID"
    if outcome.receipt is not None:
        _print_lines(_subject_lines(outcome.receipt, "measured" if believed else "claims"))
    elif outcome.original_document is not None:
        _print_lines(f"  {name:9} {text}" for name, text in subject_of(outcome.original_document))
    if outcome.fingerprint:
        _print_line(f"  {'key':9} {outcome.fingerprint}")
        _print_line(f"  {'signature':9} {SIGNATURE[outcome.checklist['signature']]}")
    show_findings(outcome.findings)
    if believed and outcome.receipt is not None:
        recomputed = any((finding.check, finding.status) == ("recompute", "ok") for finding in outcome.findings)
        _print_lines(_score_lines(outcome.receipt, recomputed=recomputed))
    elif believed and outcome.original_document is not None:
        _print_lines(f"    {name} = {value:.6g}" for name, value in scores_of(outcome.original_document).items())
    answers = ", ".join(f"{name} {answer}" for name, answer in outcome.checklist.items())
    how = "" if outcome.defensible else '; see "A result is defensible when" in docs/methodology.md'
    _print_line(f"  defensible: {'yes' if outcome.defensible else 'no'} ({answers}{how})")


def show_findings(findings: Sequence[Finding]) -> None:
    """Print each failure and warning on one line.

    Of many findings with the same status, check and code, the first ``SHOWN_ALIKE`` are printed. One line then shows
    the number of the others.
    """
    counts = Counter(_finding_kind(one) for one in findings)
    shown: Counter[tuple[str, str, str]] = Counter()
    for finding in findings:
        kind = _finding_kind(finding)
        shown[kind] += 1
        if finding.status not in ("fail", "warn") or shown[kind] > SHOWN_ALIKE:
            continue
        _print_line(f"  {finding.status}  {finding.check}  {finding.code}: {finding.detail}")
        if shown[kind] == SHOWN_ALIKE < counts[kind]:
            _print_line(
                f"  {finding.status}  {finding.check}  {finding.code}: and {counts[kind] - SHOWN_ALIKE} more (--json)"
            )


SHOWN_ALIKE = 3
USUAL_LEVEL = 0.95
"""level of every interval that bench signs; a receipt with another level shows it"""


def _finding_kind(finding: Finding) -> tuple[str, str, str]:
    return str(finding.status), str(finding.check), str(finding.code)


def show_log(outcome: LogOutcome) -> None:
    """Print the verdict on a public log, its size, its root hash and the findings."""
    _print_line(
        f"{outcome.verdict}  {outcome.folder}: log of {counted(outcome.size, 'entr(y|ies)')}, root {outcome.root_hash}"
    )
    show_findings(outcome.findings)


def _print_line(text: str) -> None:
    """Print one line. Line breaks in the text are escaped, so that a receipt cannot imitate a verdict."""
    console.line(text.replace("\n", "\\x0a"))


def _print_lines(lines: Iterator[str]) -> None:
    for text in lines:
        _print_line(text)


# ------------------------------------------------------------------ a receipt in words


def _subject_lines(receipt: Receipt, word: str) -> Iterator[str]:
    """Yield lines that describe a receipt: benchmark, provider, models, times, and numbers of items.

    ``word`` is printed before the name of the benchmark.
    """
    benchmark, provider, counts = receipt.benchmark, receipt.provider, receipt.counts
    split = f" ({benchmark.split})" if benchmark.split else ""
    yield f"  {word:9} {benchmark.name} {benchmark.version}{split} x {provider.name} {provider.version}"
    models = [f"{one.role} {'/'.join(filter(None, (one.provider, one.requested)))}" for one in receipt.models]
    yield f"  {'models':9} {', '.join(models) or 'none'}"
    yield f"  {'ran':9} {receipt.ran_at} to {receipt.finished_at}, run {receipt.run.run_id} (stated by the signer)"
    failed = counts.by_state.error + counts.by_state.not_ready
    kind = "whole run" if receipt.kind == "run" else "part of a run"
    epochs = receipt.run.epochs
    each = f", each of {counted(counts.planned // epochs, 'item(|s)')} {epochs} times" if epochs > 1 else ""
    yield f"  {'items':9} {counts.planned} planned{each}, {failed} failed, {counts.pending} pending ({kind})"


def _score_lines(receipt: Receipt, *, recomputed: bool) -> Iterator[str]:
    """Yield one line per score of a receipt: first the scores from a judge's verdicts, then the other scores."""
    word = "" if recomputed else ", NOT RECOMPUTED: stated by the signer"
    groups = (
        (f"judged by a model{word}", receipt.scores.judged),
        (f"deterministic{word or ', recomputed from the rows'}", receipt.scores.deterministic),
    )
    width = max((len(name) for _, group in groups for name in group), default=0)
    for title, group in groups:
        if group:
            yield f"  {title}"
        for name, score in group.items():
            yield f"    {name:{width}} = {_score_text(score)}"


def _score_text(score: ReceiptScore) -> str:
    if score.value is None:
        return f"none (n {score.n}, {score.definition})"
    interval = score.interval
    shown = f"{score.value:.4f}"
    if interval is not None:
        level = "" if interval.level == USUAL_LEVEL else f" at level {interval.level:g}"
        shown += f" [{interval.low:.4f}, {interval.high:.4f}]{level}"
    if score.n_failed and score.value_failures_as_zero is not None:
        failed = counted(score.n_failed, "failed item( counts|s count)")
        shown += f", {score.value_failures_as_zero:.4f} if the {failed} as 0"
    return f"{shown} (n {score.n}, {score.definition})"
