"""``bench sign``, ``reproduce``, ``diff`` and ``sheet``: work with receipts and print the results.

The package ``bench.receipt`` computes all verdicts. This module prints them and returns exit codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio

from bench.cli import console
from bench.cli.flags import SEVERAL, Toggle, run_or_newest
from bench.cli.global_flags import current
from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.receipt.evidence_sheet import EvidenceSheet
    from bench.receipt.signing.keyring import Keyring
    from bench.receipt.signing.sign import SignOutcome
    from bench.receipt.signing.trust_store import TrustStore
    from bench.receipt.verification.diff import ReceiptDifference
    from bench.receipt.verification.reproduce import Reproduction


# ---------------------------------------------------------------------------- sign


def sign(
    run_id: str = "",
    *,
    key: Path | None = None,
    benchmark: str | None = None,
    provider: str | None = None,
    output: Path | None = None,
    with_answers: Toggle = False,
    allow_partial: Toggle = False,
    also: Literal["dsse"] | None = None,
) -> int:
    """Sign one receipt per job. Each receipt is verified before it is reported.

    Parameters
    ----------
    run_id
        A run of this workspace, or a path to its journal. Default: the newest run.
    key
        Private key file. Default: the key in the environment. If there is none, the only active key of the key folder.
    benchmark
        Only this benchmark's jobs.
    provider
        Only this provider's jobs.
    output
        A folder, or FILE.json for a single job. Default: results/RUN_ID/receipts.
    with_answers
        Include the texts of the answers in the items file.
    allow_partial
        Sign an unfinished run. The receipt has the kind partial and cannot be published.
    also
        dsse: for each receipt, also write an in-toto statement in a DSSE envelope, ID.intoto.jsonl, with the same key.
    """
    from bench.journal.paths import find_run, report_folder
    from bench.receipt.signing.sign import SigningRequest, sign_run

    ring = keyring()
    run = find_run(ring.workspace, run_or_newest(run_id))
    signing_key = ring.signing_key("receipt", key)
    name = run.name if run.is_dir() else run.parent.name
    request = SigningRequest(
        output=output or report_folder(ring.workspace / "results", name) / "receipts",
        benchmark=benchmark,
        provider=provider,
        with_answers=with_answers,
        allow_partial=allow_partial,
        dsse=also == "dsse",
        log=ring.log_folder,
        environment=current.get().environment(),
        workspace=ring.workspace,
    )
    outcome = anyio.run(sign_run, run, signing_key, request)
    if current.get().json:
        console.json_value(outcome.value())
        return outcome.exit_code
    _show_signed(outcome)
    return outcome.exit_code


def _show_signed(outcome: SignOutcome) -> None:
    for made in outcome.receipts:
        console.line(f"{'signed' if made.is_new else 'kept':<8} {made.benchmark} x {made.provider}  {made.file}")
        if made.statement:
            console.line(f"{'dsse':<8} {made.benchmark} x {made.provider}  {made.statement}")
    if not all(made.is_new for made in outcome.receipts):
        console.note("kept: this key has already signed this job, and nothing has changed since")
    for refused in outcome.refused:
        console.line(f"refused  {refused.benchmark} x {refused.provider}  {refused.code}: {refused.message}")
        console.note(f"hint: {refused.hint}")


# --------------------------------------------------------------- reproduce and diff


def reproduce(
    receipt: Path,
    *,
    sign: Toggle = False,
    key: Path | None = None,
    trusted: Path | None = None,
    pubkey: Annotated[list[Path] | None, SEVERAL] = None,
    items: Path | None = None,
) -> int:
    """Repeat the run of a receipt and compare. Exit 0 same, 8 differs, 2 cannot run here, 3 to 5 not VALID.

    Parameters
    ----------
    receipt
        The receipt file.
    sign
        Sign a receipt of the rerun. This new receipt names the first receipt.
    key
        Private key file for --sign.
    trusted
        Trusted keys. Default: keys/trusted.json of the workspace.
    pubkey
        Trust exactly these public keys for this call.
    items
        The items file, if it is not in the folder of the receipt.
    """
    from bench import events
    from bench.receipt.verification.reproduce import ReproductionSettings
    from bench.receipt.verification.reproduce import reproduce as rerun
    from bench.receipt.verification.verify import VerificationRequest

    ring = keyring()
    existing_file(receipt)
    current.get().configure_log()
    question = VerificationRequest(
        trust=load_trust(trusted, pubkey or ()),
        items=existing_file(items),
        log=None if pubkey else ring.log_folder,
    )
    setting = ReproductionSettings(
        workspace=ring.workspace,
        request=question,
        key=ring.signing_key("receipt", key) if sign else None,
        environment=current.get().environment(),
    )
    found: Reproduction = anyio.run(rerun, receipt, setting)
    events.close()
    if current.get().json:
        console.json_value(found.value())
        return found.exit_code
    console.line(f"{'same' if found.same else 'differs'}  {receipt}  rerun {found.run_id}")
    console.line(f"  result digest {found.digest}")
    for text in (*found.differs, *(f"item {name}" for name in found.items)):
        console.line(f"  {text}")
    for text in found.notes:
        console.note(f"note: {text}")
    if found.signed is not None:
        console.line(f"signed  {found.signed.file}")
    return found.exit_code


def diff(a: Path, b: Path) -> int:
    """Compare two receipts: exit 0 if the result digests are equal, else 8. Two runs are compared as in bench compare.

    Parameters
    ----------
    a
        The first receipt file, or a run.
    b
        The second receipt file, or another run.
    """
    from bench.journal.paths import run_ids

    if {str(a), str(b)} <= set(run_ids(current.get().workspace)) and not (a.is_file() or b.is_file()):
        from bench.cli.commands.compare import compare as compare_runs

        console.note(f"bench compare {a} {b}")
        return compare_runs(str(a), str(b))
    from bench.receipt.verification.diff import SHOWN
    from bench.receipt.verification.diff import diff as compare

    found: ReceiptDifference = compare(a, b)
    if current.get().json:
        console.json_value(found.value())
        return found.exit_code
    console.line("same result digest" if found.equal else "the result digests differ")
    console.line("like for like" if found.like_for_like else "not like for like")
    if found.like_for_like and any(one.part == "code" for one in found.changes):
        console.line("the code differs, and with it possibly the rules of evaluators, which a receipt does not state")
    console.table(("part", "field", "a", "b"), [(one.part, one.path, one.a, one.b) for one in found.changes])
    if found.items is None:
        console.line("items not compared: an items file is missing")
    elif found.items:
        more = f" and {len(found.items) - SHOWN} more" if len(found.items) > SHOWN else ""
        console.line(f"items that differ: {', '.join(found.items[:SHOWN])}{more}")
    return found.exit_code


# -------------------------------------------------------------------------- inside


def keyring(folder: Path | None = None) -> Keyring:
    """Return the signing keys that are in ``folder``, the workspace and the environment."""
    from bench.receipt.signing.keyring import Keyring, ask_passphrase

    flags = current.get()
    variables = dict(flags.environment().values)
    return Keyring(workspace=flags.workspace, environ=variables, folder=folder, prompt=ask_passphrase)


def load_trust(trusted: Path | None, pubkeys: Sequence[Path]) -> TrustStore:
    """Return the trusted keys. If ``pubkeys`` are given, only these keys are trusted.

    Otherwise the keys are read from the file ``trusted``, by default the file of the workspace.
    """
    from bench.receipt.signing.signature import PublicKey
    from bench.receipt.signing.trust_store import TrustStore

    if pubkeys:
        return TrustStore.pin([PublicKey.load(path) for path in pubkeys])
    return TrustStore.load(trusted) if trusted is not None else keyring().trusted()


def existing_file(path: Path | None) -> Path | None:
    """Return ``path`` unchanged.

    Raises:
        UsageError: a path is given, but it is not a file.
    """
    if path is not None and not path.is_file():
        raise UsageError(f"no such file: {path}", hint="name an existing file")
    return path


def log_time() -> str:
    """Return the current time in the format of the public log."""
    from bench.receipt.base_model import format_time

    return format_time(datetime.now(UTC).replace(microsecond=0))


# ---------------------------------------------------------------------------- sheet


def sheet(
    target: str, /, *, benchmark: str | None = None, provider: str | None = None, html: Path | None = None
) -> int:
    """List 19 facts that a reader needs to judge a result, and mark the missing facts. Markdown or --json.

    Parameters
    ----------
    target
        A run of this workspace, a path to its journal, or a receipt file.
    benchmark
        Only this benchmark's jobs.
    provider
        Only this provider's jobs.
    html
        Write one page without external resources to this file instead.
    """
    from bench.report.rendering import grids_page, markdown

    sheets = (
        _sheet_of_receipt(Path(target))
        if target.endswith(".json") and Path(target).is_file()
        else anyio.run(_sheets_of_run, target, benchmark, provider)
    )
    if current.get().json:
        console.json_value({"kind": "evidence_sheet", "version": 1, "sheets": [one.to_json() for one in sheets]})
    elif html is not None:
        from bench.report.result_files import replace_text

        replace_text(html, grids_page(f"Evidence: {target}", [one.grid() for one in sheets]))
        console.line(str(html))
    else:
        console.raw("\n".join(markdown(one.grid()) for one in sheets))
    return 0


def _sheet_of_receipt(path: Path) -> list[EvidenceSheet]:
    from bench.receipt.receipt_evidence_sheet import receipt_sheet
    from bench.receipt.verification.verify import VerificationRequest, verify_file

    found = verify_file(path, VerificationRequest(trust=keyring().trusted()))
    return [receipt_sheet(found, path)]


async def _sheets_of_run(target: str, benchmark: str | None, provider: str | None) -> list[EvidenceSheet]:
    from bench.journal import Reader
    from bench.journal.paths import find_run
    from bench.receipt.evidence_sheet import run_sheets

    flags = current.get()
    async with Reader.open(find_run(flags.workspace, target)) as reader:
        return await run_sheets(reader, flags.catalog(), benchmark=benchmark, provider=provider)
