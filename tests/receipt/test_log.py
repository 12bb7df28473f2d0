"""The public log: appended, checked, damaged, published to."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli import run as command_line
from bench.errors import BenchError, UsageError
from bench.receipt.log.log_check import check_log
from bench.receipt.log.log_store import (
    Checkpoint,
    RunAbandoned,
    RunStarted,
    key_id,
    read_entry,
    read_log,
    read_note,
    write_checkpoint,
    write_entry,
)
from bench.receipt.log.public_log import append
from bench.receipt.log.publish import NotPublishable, abandon, announce, find_announcement, publish, retract
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.keys import new_key
from bench.receipt.signing.signature import KeyRefused, PublicKey, SigningKey
from bench.receipt.verification.findings import ReceiptVerdict
from bench.receipt.verification.verify import VerificationRequest, verify
from tests.cpu_time import at_most

AT = "2026-11-02T00:00:00Z"
HEX = "ab" * 32


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    ring = Keyring(workspace=tmp_path / "work", environ={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    new_key(ring, "default", ("receipt", "log"))
    return ring


@pytest.fixture
def folder(ring: Keyring) -> Path:
    return ring.workspace / "results" / "published"


def start(ring: Keyring, run_id: str, configs: tuple[str, ...] = (HEX,), plan: str = HEX) -> int:
    return announce(ring, started(run_id, configs, plan)).index


def started(run_id: str, configs: tuple[str, ...] = (HEX,), plan: str = HEX) -> RunStarted:
    return RunStarted(
        index=0, at=AT, run_id=run_id, plan_digest=plan, config_digests=configs, items_planned=10, seed=0,
        code_commit=None,
    )  # fmt: skip


def codes(ring: Keyring, folder: Path, **more: Any) -> set[str]:
    outcome = check_log(read_log(folder), ring.trusted(), **more)
    return {str(finding.code) for finding in outcome.findings if finding.status != "ok"}


def signed_receipt(ring: Keyring, desk: Any, make: Any, **changes: Any) -> Path:
    desk.key = ring.signing_key("receipt")
    desk.folder = desk.folder / "out"
    desk.folder.mkdir(exist_ok=True)
    return desk.good(**changes)  # type: ignore[no-any-return]


def test_the_signed_note_of_the_c2sp_specification_verifies(shared: Path) -> None:
    vector = json.loads((shared / "vectors/receipts/c2sp-signed-note.json").read_text())
    name, shown_id, encoded = vector["vkey"].split("+", 2)
    key = PublicKey.from_raw(base64.b64decode(encoded)[1:])
    assert key_id(name, key).hex() == shown_id
    note = read_note(vector["note"].encode())
    assert note.signed_by(name, key) is True
    assert note.signed_by(name, SigningKey.generate().public) is None
    altered = read_note(vector["note"].replace("example message", "other message").encode())
    assert altered.signed_by(name, key) is False


def test_each_append_adds_one_entry_and_a_new_checkpoint(ring: Keyring, folder: Path) -> None:
    assert start(ring, "run-1") == 1, "the first entry is the key"
    assert start(ring, "run-2") == 2
    outcome = check_log(read_log(folder), ring.trusted())
    assert (outcome.verdict, outcome.size, outcome.origin) == (ReceiptVerdict.VALID, 3, "bench.local/log")
    assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == ["2", "3"]
    lines = (folder / "entries.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["key", "run-started", "run-started"]
    assert [write_entry(read_entry(line)) for line in lines] == lines
    assert outcome.value()["rootHash"] == read_note((folder / "checkpoint").read_bytes()).checkpoint().root.hex()


def test_checkpoint_faults_have_their_codes(ring: Keyring, folder: Path) -> None:
    start(ring, "run-1")
    good = (folder / "checkpoint").read_bytes()
    (folder / "checkpoint").write_bytes(b"junk")
    assert "log_signature" in codes(ring, folder)
    (folder / "checkpoint").write_bytes(good.replace(b"bench.local/log", b"bench.other/log"))
    assert "log_signature" in codes(ring, folder)
    untrusted = SigningKey.generate()
    note = read_note(good).checkpoint()
    (folder / "checkpoint").write_bytes(write_checkpoint(note, untrusted))
    outcome = check_log(read_log(folder), ring.trusted())
    assert (outcome.verdict, outcome.findings[0].code) == (ReceiptVerdict.UNTRUSTED, "key_unknown")
    tampered = Checkpoint(origin=note.origin, size=note.size, root=bytes(32))
    (folder / "checkpoint").write_bytes(good.replace(note.body.encode(), tampered.body.encode()))
    assert {"log_root", "log_signature"} <= codes(ring, folder)
    (folder / "checkpoint").unlink()
    assert "log_size" in codes(ring, folder)
    shutil.rmtree(folder / "checkpoints")
    assert codes(ring, folder) == {"log_pending"}


def test_a_log_key_must_have_the_role_log_and_be_valid_at_the_last_entry(ring: Keyring, folder: Path) -> None:
    start(ring, "run-1")
    store = ring.trusted()
    for change, code in [
        ({"roles": ("receipt",)}, "key_role"),
        ({"status": "retired", "valid_to_index": 1}, "key_retired"),
        ({"status": "revoked", "revoked_from_index": 1, "reason": "lost"}, "key_revoked"),
    ]:
        changed = store.with_key(store.keys[0].model_copy(update=change))
        outcome = check_log(read_log(folder), changed)
        assert (outcome.verdict, outcome.findings[0].code) == (ReceiptVerdict.UNTRUSTED, code)
    later = store.with_key(store.keys[0].model_copy(update={"status": "retired", "valid_to_index": 2}))
    assert check_log(read_log(folder), later).verdict is ReceiptVerdict.VALID


def test_a_rewritten_log_is_inconsistent_with_every_saved_checkpoint(
    ring: Keyring, folder: Path, tmp_path: Path
) -> None:
    start(ring, "run-1")
    shutil.copy(folder / "checkpoint", tmp_path / "kept")
    start(ring, "run-2")
    assert codes(ring, folder, since=tmp_path / "kept") == set()
    shutil.rmtree(folder)
    start(ring, "run-other")
    start(ring, "run-2")
    assert codes(ring, folder) == set(), "without a saved checkpoint, the new history is consistent"
    assert codes(ring, folder, since=tmp_path / "kept") == {"log_inconsistent"}
    (folder / "checkpoints" / "2").write_bytes((tmp_path / "kept").read_bytes())
    assert codes(ring, folder) == {"log_inconsistent"}
    with pytest.raises(UsageError):
        codes(ring, folder, since=tmp_path / "nothing")


def test_an_incomplete_last_line_is_log_pending_until_the_next_append(ring: Keyring, folder: Path) -> None:
    start(ring, "run-1")
    with (folder / "entries.jsonl").open("ab") as file:
        file.write(b'{"at":"2026')
    assert codes(ring, folder) == {"log_pending"}
    assert start(ring, "run-2") == 2
    assert codes(ring, folder) == set()


def test_an_entry_without_a_log_key_is_log_pending_until_the_next_checkpoint(ring: Keyring, folder: Path) -> None:
    start(ring, "run-1")
    draft = RunAbandoned(index=0, at=AT, run_id="run-1", reason="too expensive")
    assert append(folder, [draft], ring.trusted(), None, AT).covered is False
    assert codes(ring, folder) == {"log_pending"}
    start(ring, "run-2")
    assert codes(ring, folder) == set()


def test_only_an_active_trusted_log_key_extends_the_log(ring: Keyring, folder: Path) -> None:
    with pytest.raises(KeyRefused) as caught:
        append(folder, [], ring.trusted(), SigningKey.generate(), AT)
    assert caught.value.code == "key_unknown"
    new_key(ring, "receipts-only", ("receipt",))
    with pytest.raises(KeyRefused) as caught:
        append(folder, [], ring.trusted(), ring.private_key_of("receipts-only"), AT)
    assert caught.value.code == "key_role"


# --------------------------------------------------------------------- publishing


def test_publish_copies_and_logs_a_receipt_and_can_be_repeated(
    ring: Keyring, folder: Path, desk: Any, make: Any
) -> None:
    path = signed_receipt(ring, desk, make)
    first = publish(path, ring, at=AT)
    assert (first.index, first.is_new) == (1, True)
    assert {p.name for p in (folder / "receipts").iterdir()} == {
        f"{make.RECEIPT_ID}.json", f"{make.RECEIPT_ID}.items.jsonl",
    }  # fmt: skip
    again = publish(path, ring, at=AT)
    assert (again.index, again.is_new) == (1, False)
    assert codes(ring, folder) == set()
    outcome = desk.verify(path, trust=ring.trusted(), log=folder)
    assert outcome.verdict is ReceiptVerdict.VALID
    assert "not_logged" not in make.codes(outcome, "warn")


def test_a_given_log_is_used_instead_of_the_log_in_the_folder(
    ring: Keyring, folder: Path, desk: Any, make: Any, tmp_path: Path
) -> None:
    publish(signed_receipt(ring, desk, make), ring, at=AT)
    append(tmp_path / "other", [started("r9")], ring.trusted(), ring.private_key_of("default"), AT)
    for log, expected in ((None, set()), (tmp_path / "other", {"not_logged"})):
        (outcome,) = verify([folder], VerificationRequest(trust=ring.trusted(), log=log)).outcomes
        assert make.codes(outcome, "warn") & {"not_logged"} == expected


def test_a_different_receipt_with_a_used_id_is_not_published_and_is_a_log_mismatch(
    ring: Keyring, folder: Path, desk: Any, make: Any
) -> None:
    publish(signed_receipt(ring, desk, make), ring, at=AT)
    other = signed_receipt(ring, desk, make, provider__name="other")
    with pytest.raises(NotPublishable) as caught:
        publish(other, ring, at=AT)
    assert (caught.value.code, caught.value.exit_code) == ("receipt_id_reused", 5)
    outcome = desk.verify(other, trust=ring.trusted(), log=folder)
    assert make.codes(outcome) == {"log_mismatch"}


def test_an_invalid_partial_or_untrusted_receipt_is_not_published(
    ring: Keyring, folder: Path, desk: Any, make: Any
) -> None:
    path = signed_receipt(ring, desk, make)
    items = path.with_name(f"{make.RECEIPT_ID}.items.jsonl")
    kept = items.read_bytes()
    items.unlink()
    for write, code, exit_code in [
        (lambda: None, "items_missing", 5),
        (lambda: items.write_bytes(kept[:-1]), "items_row", 5),
        (lambda: desk.good(pending=1), "partial", 5),
        (lambda: (setattr(desk, "key", SigningKey.generate()), desk.good()), "key_unknown", 3),
    ]:
        write()
        with pytest.raises(NotPublishable) as caught:
            publish(path, ring, at=AT)
        assert (caught.value.code, caught.value.exit_code) == (code, exit_code)
    assert not folder.exists()


def test_superseded_and_retracted_receipts_have_their_verdicts(
    ring: Keyring,
    folder: Path,
    desk: Any,
    make: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    old = signed_receipt(ring, desk, make)
    publish(old, ring, at=AT)
    new_id = make.RECEIPT_ID[:-1] + "1"
    rows = make.default_rows()
    document = make.body(rows)
    document["receiptId"], document["perQuery"]["file"] = new_id, f"{new_id}.items.jsonl"
    document["supersedes"] = make.RECEIPT_ID
    new = desk.write(make.with_digests(document), None)
    shutil.copy(desk.folder / f"{make.RECEIPT_ID}.items.jsonl", desk.folder / f"{new_id}.items.jsonl")
    new = new.rename(desk.folder / f"{new_id}.json")
    desk.good()
    with pytest.raises(UsageError):
        publish(new, ring, at=AT, supersedes=make.RECEIPT_ID)
    with pytest.raises(UsageError):
        publish(new, ring, at=AT, supersedes=new_id, reason="x")
    publish(new, ring, at=AT, supersedes=make.RECEIPT_ID, reason="a wrong prompt")
    outcome = desk.verify(old, trust=ring.trusted(), log=folder)
    assert (outcome.verdict, make.codes(outcome)) == (ReceiptVerdict.SUPERSEDED, {"superseded"})
    assert any(new_id in f.detail and "a wrong prompt" in f.detail for f in outcome.findings)
    question = VerificationRequest(trust=ring.trusted())
    assert verify([folder], question).verdict is ReceiptVerdict.VALID, "its successor is there and VALID"
    assert verify([folder / "receipts" / old.name], replace(question, log=folder)).verdict.exit_code == 4
    retract(new_id, ring, reason="the dataset was wrong", at=AT)
    assert verify([folder], question).verdict.exit_code == 4, "its successor is retracted"
    outcome = desk.verify(new, trust=ring.trusted(), log=folder)
    assert (outcome.verdict, make.codes(outcome)) == (ReceiptVerdict.RETRACTED, {"retracted"})
    assert codes(ring, folder) == set()
    retract(make.RECEIPT_ID, ring, reason="a wrong key", at=AT)
    monkeypatch.chdir(ring.workspace)
    assert command_line(["verify", str(folder)]) == 4
    first = [line for line in capsys.readouterr().out.splitlines() if line.startswith("RETRACTED")][:2]
    assert [line.partition(".json  ")[2] for line in first] == ["a wrong key", "the dataset was wrong"]


def test_a_changed_missing_or_unlisted_receipt_of_the_log_has_its_code(
    ring: Keyring, folder: Path, desk: Any, make: Any
) -> None:
    publish(signed_receipt(ring, desk, make), ring, at=AT)
    receipt = folder / "receipts" / f"{make.RECEIPT_ID}.json"
    whole = receipt.read_bytes()
    receipt.write_bytes(whole.replace(b'"demo"', b'"demO"'))
    assert codes(ring, folder) == {"log_receipt_mismatch"}
    receipt.unlink()
    assert codes(ring, folder) == {"log_receipt_missing"}
    receipt.write_bytes(whole)
    (folder / "receipts" / "extra.json").write_bytes(whole)
    assert codes(ring, folder) == {"log_unlisted"}


def test_receipts_signed_before_a_rotation_stay_valid_when_logged(
    ring: Keyring, folder: Path, desk: Any, make: Any
) -> None:
    from bench.receipt.signing.keys import rotate

    path = signed_receipt(ring, desk, make)
    publish(path, ring, at=AT)
    rotate(ring, old=None, new=None, at=AT)
    assert desk.verify(path, trust=ring.trusted(), log=folder).verdict is ReceiptVerdict.VALID
    unlogged = desk.verify(path, trust=ring.trusted())
    assert (unlogged.verdict, make.codes(unlogged)) == (ReceiptVerdict.UNTRUSTED, {"key_retired"})


def test_a_receipt_logged_before_its_key_was_revoked_is_valid_with_a_warning(
    ring: Keyring, folder: Path, desk: Any, make: Any
) -> None:
    from bench.receipt.signing.keys import revoke

    path = signed_receipt(ring, desk, make)
    index = publish(path, ring, at=AT).index
    new_key(ring, "second", ("receipt", "log"))
    revoke(ring, "default", from_index=index + 1, reason="laptop stolen", at=AT)
    outcome = desk.verify(path, trust=ring.trusted(), log=folder)
    assert outcome.verdict is ReceiptVerdict.VALID
    assert "key_revoked_later" in make.codes(outcome, "warn")


def test_announced_runs_without_a_published_receipt_are_counted(
    ring: Keyring, folder: Path, desk: Any, make: Any
) -> None:
    config = make.with_digests(make.body(make.default_rows()))["configDigest"]
    for name in ("run-1", "run-2", "run-3", "run-4"):
        start(ring, name, (config,) if name != "run-4" else (HEX,), HEX if name == "run-1" else "cd" * 32)
    abandon("run-2", ring, reason="too expensive", at=AT)
    with pytest.raises(UsageError):
        abandon("run-9", ring, reason="x", at=AT)
    assert not abandon("run-2", ring, reason="again", at=AT).is_new
    stated, head = find_announcement(folder, "run-1", HEX) or (None, None)
    assert stated is not None and head is not None
    path = signed_receipt(
        ring, desk, make,
        run__preregistration=stated.model_dump(by_alias=True), run__log=head.model_dump(by_alias=True),
    )  # fmt: skip
    publish(path, ring, at=AT)
    outcome = desk.verify(path, trust=ring.trusted(), log=folder)
    assert outcome.verdict is ReceiptVerdict.VALID
    assert "not_preregistered" not in make.codes(outcome, "warn")
    with pytest.raises(UsageError, match="is published"):
        abandon("run-1", ring, reason="after all", at=AT)
    details = [f.detail for f in outcome.findings if f.code == "unpublished_attempts"]
    assert details == ["3 runs of this config registered, 1 published, 1 abandoned"]
    assert codes(ring, folder) == set()


def test_a_false_preregistration_or_log_head_in_a_receipt_is_reported(
    ring: Keyring, folder: Path, desk: Any, make: Any
) -> None:
    start(ring, "run-other")
    for changes, code in [
        ({"run__preregistration": {"logIndex": 1, "entrySha256": HEX}}, "log_mismatch"),
        ({"run__preregistration": {"logIndex": 99, "entrySha256": HEX}}, "log_mismatch"),
        ({"run__log": {"origin": "bench.local/log", "size": 1, "rootHash": HEX}}, "log_inconsistent"),
        ({"run__log": {"origin": "bench.local/log", "size": 99, "rootHash": HEX}}, "log_inconsistent"),
    ]:
        outcome = desk.verify(signed_receipt(ring, desk, make, **changes), trust=ring.trusted(), log=folder)
        assert make.codes(outcome) == {code}


def test_a_receipt_in_a_damaged_log_is_invalid(ring: Keyring, folder: Path, desk: Any, make: Any) -> None:
    path = signed_receipt(ring, desk, make)
    publish(path, ring, at=AT)
    entries = folder / "entries.jsonl"
    entries.write_bytes(entries.read_bytes().replace(b"run-1", b"run-2"))
    outcome = desk.verify(path, trust=ring.trusted(), log=folder)
    assert "log_root" in make.codes(outcome)
    assert outcome.verdict is ReceiptVerdict.INVALID


def test_ten_thousand_entries_are_checked_in_two_seconds(ring: Keyring, folder: Path) -> None:
    drafts = [RunAbandoned(index=0, at=AT, run_id=f"run-{n}", reason="x") for n in range(10_000)]
    append(folder, drafts, ring.trusted(), ring.signing_key("log"), AT)
    outcome = at_most(2, lambda: check_log(read_log(folder), ring.trusted()))
    assert outcome.verdict is ReceiptVerdict.VALID


def test_concurrent_writers_use_each_log_index_once(ring: Keyring, folder: Path) -> None:
    import threading

    key, store = ring.signing_key("log"), ring.trusted()

    def work(name: str) -> None:
        for number in range(10):
            draft = RunAbandoned(index=0, at=AT, run_id=f"{name}-{number}", reason="x")
            append(folder, [draft], store, key, AT)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    view = read_log(folder)
    assert [entry.index for entry in view.entries] == list(range(31))
    assert codes(ring, folder) == set()


def test_no_log_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError):
        read_log(tmp_path)
