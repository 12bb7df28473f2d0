"""A log of an untrusted writer: changes are reported, no input crashes the check, an invalid log is not extended."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.errors import BenchError, VerificationError
from bench.receipt.log.log_check import check_log
from bench.receipt.log.log_store import Checkpoint, KeyAdded, RunAbandoned, read_log, read_note, write_checkpoint
from bench.receipt.log.public_log import append
from bench.receipt.log.publish import publish, retract
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.signature import KeyRefused, SigningKey
from bench.receipt.verification.findings import ReceiptVerdict
from tests.laws import examples

AT = "2026-11-02T00:00:00Z"
CODES = {
    "log_entry", "log_index", "log_size", "log_root", "log_signature", "log_inconsistent", "log_pending", "key_unknown",
    "receipt_id_reused", "log_receipt_missing", "log_receipt_mismatch", "log_unlisted",
}  # fmt: skip
FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.fixture
def folder(ring: Keyring) -> Path:
    """A log of a key and three entries, and its three checkpoints."""
    folder = ring.workspace / "results" / "published"
    for number in range(3):
        abandoned(ring, folder, number)
    return folder


def abandoned(ring: Keyring, folder: Path, number: int) -> None:
    draft = RunAbandoned(index=0, at=AT, run_id=f"run-{number}", reason="too expensive")
    append(folder, [draft], ring.trusted(), ring.signing_key("log"), AT)


def codes(ring: Keyring, folder: Path) -> set[str]:
    return {str(f.code) for f in check_log(read_log(folder), ring.trusted()).findings if f.status != "ok"}


@given(data=st.data())
@settings(max_examples=examples(100), suppress_health_check=FIXTURES)
def test_any_flipped_bit_of_a_log_is_reported(ring: Keyring, folder: Path, data: st.DataObject) -> None:
    path = folder / data.draw(st.sampled_from(["entries.jsonl", "checkpoint", "checkpoints/2"]))
    whole = path.read_bytes()
    place, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
    try:
        unsigned = path.name == "2" and place > whole.rindex(b"\n\n")  # only the roots of old checkpoints are checked
        found = codes(ring, folder)
        assert unsigned or found
        assert found <= CODES
    finally:
        path.write_bytes(whole)


@given(entries=st.binary(max_size=300), note=st.binary(max_size=300))
@settings(max_examples=examples(100), suppress_health_check=FIXTURES)
def test_any_bytes_as_a_log_give_an_invalid_verdict_and_no_exception(
    ring: Keyring, tmp_path: Path, entries: bytes, note: bytes
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir(exist_ok=True)
    (folder / "entries.jsonl").write_bytes(entries)
    (folder / "checkpoint").write_bytes(note)
    outcome = check_log(read_log(folder), ring.trusted())
    assert outcome.verdict is ReceiptVerdict.INVALID and codes(ring, folder) <= CODES


def test_folders_in_place_of_log_files_do_not_crash_the_check(ring: Keyring, folder: Path) -> None:
    (folder / "checkpoints" / "9").mkdir()
    (folder / "checkpoints" / "²").write_bytes(b"no digit that a size has")
    (folder / "receipts" / "folder.json").mkdir(parents=True)
    assert codes(ring, folder) == {"log_inconsistent"}


@pytest.mark.parametrize("pem", [SigningKey.generate().public.pem, "no key"])
def test_a_key_entry_with_a_wrong_or_unreadable_key_is_log_entry(ring: Keyring, folder: Path, pem: str) -> None:
    draft = KeyAdded(index=0, at=AT, fingerprint="sha256:" + "0" * 64, public_key=pem, roles=("log",))
    append(folder, [draft], ring.trusted(), None, AT)
    assert codes(ring, folder) == {"log_entry", "log_pending"}


# -------------------------------------------------------- a false log is never extended


def rewritten(folder: Path) -> None:
    entries = folder / "entries.jsonl"
    entries.write_bytes(entries.read_bytes().replace(b"run-1", b"run-X"))


def forge(folder: Path, key: SigningKey | None) -> None:
    """Write a checkpoint over the current entries, signed by another key or with an old signature."""
    view, old = read_log(folder), (folder / "checkpoint").read_bytes()
    size = len(view.lines)
    made = Checkpoint(origin="bench.local/log", size=size, root=view.roots([size])[size])
    if key is not None:
        note = write_checkpoint(made, key)
    else:
        note = old.replace(read_note(old).checkpoint().body.encode(), made.body.encode())
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoint").write_bytes(note)


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (rewritten, "log_root"),
        (lambda folder: (rewritten(folder), forge(folder, None)), "log_signature"),
        (lambda folder: (rewritten(folder), forge(folder, SigningKey.generate())), "key_unknown"),
        (lambda folder: (rewritten(folder), (folder / "checkpoint").unlink()), "log_size"),
        (lambda folder: shutil.copy(folder / "checkpoint", folder / "checkpoints" / "2"), "log_inconsistent"),
    ],
)  # fmt: skip
def test_append_refuses_an_invalid_log_and_changes_no_file(ring: Keyring, folder: Path, how: Any, code: str) -> None:
    how(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(VerificationError) as caught:
        abandoned(ring, folder, 9)
    assert caught.value.code == code
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_receipt_that_could_not_be_logged_leaves_no_file(ring: Keyring, folder: Path, desk: Any) -> None:
    desk.key = ring.signing_key("receipt")
    path = desk.good()
    untrusted = desk.folder / "untrusted.key"
    untrusted.write_bytes(SigningKey.generate().pem())
    untrusted.chmod(0o600)
    ring.environ["MEMORYBENCH_LOG_KEY_FILE"] = str(untrusted)
    with pytest.raises(KeyRefused):
        publish(path, ring, at=AT)
    assert codes(ring, folder) == set() and list((folder / "receipts").iterdir()) == []
    del ring.environ["MEMORYBENCH_LOG_KEY_FILE"]
    assert publish(path, ring, at=AT).is_new


def test_an_entry_without_a_checkpoint_does_not_make_a_receipt_logged(
    ring: Keyring, folder: Path, desk: Any, make: Any
) -> None:
    desk.key = ring.signing_key("receipt")
    path = desk.good()
    old = (folder / "checkpoint").read_bytes()
    publish(path, ring, at=AT)
    (folder / "checkpoint").write_bytes(old)
    (folder / "checkpoints" / "5").unlink()
    outcome = desk.verify(path, trust=ring.trusted(), log=folder)
    assert {"not_logged", "log_pending"} <= make.codes(outcome, "warn")
    with pytest.raises(BenchError):
        retract("01HZZZZZZZZZZZZZZZZZZZZZZ9", ring, reason="never there", at=AT)
