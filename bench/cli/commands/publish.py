"""``bench publish`` and ``bench log``: publish receipts, and check the public log."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from bench.cli import console
from bench.cli.app import examples
from bench.cli.commands.receipts import keyring, log_time
from bench.cli.commands.verify import show_log
from bench.cli.flags import Many, split_values
from bench.cli.global_flags import current
from bench.errors import UsageError
from bench.visible_text import counted

if TYPE_CHECKING:
    from bench.receipt.log.log_check import LogOutcome
    from bench.receipt.log.publish import PublishedEntry


def publish(
    receipt: Path | None = None,
    *,
    supersedes: str | None = None,
    retract: str | None = None,
    reason: str | None = None,
) -> int:
    """Append a receipt to the public log, or retract one. Nothing is ever deleted.

    Parameters
    ----------
    receipt
        A valid receipt of kind run, with its items file in the same folder.
    supersedes
        Id of the published receipt that this receipt replaces.
    retract
        Id of a published receipt to retract.
    reason
        Reason, for --supersedes and --retract.
    """
    from bench.receipt.log.publish import publish as publish_receipt
    from bench.receipt.log.publish import retract as take_back

    ring, at = keyring(), log_time()
    if (receipt is None) is (retract is None):
        raise UsageError(
            "expected either a receipt to publish or --retract ID",
            hint="write bench publish RECEIPT.json, or bench publish --retract ID",
        )
    if retract is not None:
        done = take_back(retract, ring, reason=reason, at=at)
    else:
        assert receipt is not None
        done = publish_receipt(receipt, ring, at=at, supersedes=supersedes, reason=reason)
    return show_entry(done)


log_app = App(
    name="log",
    help="Check or cosign the public log, or abandon a run.",
    help_epilogue=examples("log"),
)


@log_app.command(name="verify")
def log_verify(folder: Path | None = None, *, since: Path | None = None, witness: Many = None) -> int:
    """Check a public log: lines, roots, signatures, history and files. Exit 0 valid, 3 log key not trusted, 5 invalid.

    Parameters
    ----------
    folder
        The log's folder. Default: results/published of the workspace.
    since
        A checkpoint file that you kept.
    witness
        Keys NAME+ID+KEY of the witnesses whose signatures the checkpoint must have.
    """
    from bench.receipt.log.log_check import check_log
    from bench.receipt.log.log_store import read_log
    from bench.receipt.log.witness import WitnessKey
    from bench.receipt.signing.keyring import PUBLISHED

    ring, wanted = keyring(), [WitnessKey.parse(text) for text in split_values(witness)]
    view = read_log(folder or ring.workspace / PUBLISHED)
    outcome = check_log(view, ring.trusted(), since)
    return _show(replace(outcome, findings=(*outcome.findings, *(one.check(view.note) for one in wanted))))


def _show(outcome: LogOutcome) -> int:
    if current.get().json:
        console.json_value(outcome.value())
    else:
        show_log(outcome)
    return outcome.verdict.exit_code


@log_app.command(name="tiles")
def log_tiles(output: Path, /, *, folder: Path | None = None) -> int:
    """Write the public log as static files for clients of C2SP tlog-tiles. Exit codes as in log verify.

    Parameters
    ----------
    output
        The folder to write, which a web server can serve.
    folder
        The log's folder. Default: results/published of the workspace.
    """
    from bench.receipt.log.log_check import check_log
    from bench.receipt.log.log_store import read_log
    from bench.receipt.log.tiles import log_keys, write_tiles
    from bench.receipt.signing.keyring import PUBLISHED

    ring = keyring()
    view = read_log(folder or ring.workspace / PUBLISHED)
    outcome = check_log(view, ring.trusted())
    if outcome.verdict.exit_code:
        return _show(outcome)
    files, keys = write_tiles(view, output), log_keys(view, ring.trusted())
    if current.get().json:
        console.json_value({"size": view.covered, "files": sorted(files), "keys": keys})
    else:
        console.line(f"{output}: {counted(len(files), 'file(|s)')}, {counted(view.covered, 'entr(y|ies)')}")
        console.note(f"key of the log for clients: {' '.join(keys)}")
    return 0


@log_app.command(name="cosign")
def log_cosign(folder: Path | None = None, *, name: str, key: Path) -> int:
    """Add a witness's signature to the checkpoint of the log, if the log extends the last checkpoint of this witness.

    Parameters
    ----------
    folder
        The log's folder. Default: results/published of the workspace.
    name
        Name of the witness, such as witness.example/w1.
    key
        Private key file of the witness. The last checkpoint that the witness signed is stored in the same folder.
    """
    from bench.receipt.log.witness import WitnessKey, witness_log
    from bench.receipt.signing.keyring import PUBLISHED

    ring = keyring()
    signing, at = ring.private_key(key), int(datetime.now(UTC).timestamp())
    place = folder or ring.workspace / PUBLISHED
    outcome = witness_log(place, ring.trusted(), name=name, file=key, key=signing, at=at)
    code = _show(outcome)
    if not code:
        console.note(f"cosigned; check with: bench log verify --witness {WitnessKey(name=name, key=signing.public)}")
    return code


@log_app.command(name="abandon")
def log_abandon(run_id: str, *, reason: str | None = None) -> int:
    """Record in the public log that an announced run will not be finished.

    Parameters
    ----------
    run_id
        A run that was started with --publishable.
    reason
        Reason.
    """
    from bench.receipt.log.publish import abandon

    done = abandon(run_id, keyring(), reason=reason, at=log_time())
    return show_entry(done)


def show_entry(done: PublishedEntry) -> int:
    """Print the index of the new log entry, and return the exit code 0."""
    if current.get().json:
        console.json_value({"logIndex": done.index, "fresh": done.is_new, "log": str(done.folder)})
    else:
        console.line(f"{'logged' if done.is_new else 'already logged'} at index {done.index} of {done.folder}")
    return 0
