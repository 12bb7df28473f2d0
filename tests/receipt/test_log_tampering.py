"""Forks, rewinds, late announcements, false entries: attacks on a log with a key or write access to its folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests.receipt.receipt_making as make
from bench.canonical import digest, dumps, sha256_hex
from bench.errors import UsageError, VerificationError
from bench.receipt.log.log_check import check_log
from bench.receipt.log.log_store import (
    AnyEntry,
    Checkpoint,
    KeyAdded,
    ReceiptLogged,
    ReceiptSuperseded,
    RunAbandoned,
    RunStarted,
    read_log,
    write_checkpoint,
    write_entry,
)
from bench.receipt.log.public_log import append
from bench.receipt.log.publish import NotPublishable, abandon, announce, find_announcement, publish, retract
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.keys import new_key, revoke, rotate
from bench.receipt.signing.signature import KeyRefused, SigningKey
from bench.receipt.verification.findings import ReceiptVerdict

AT, HEX = "2026-11-02T00:00:00Z", "ab" * 32
OTHER_ID = make.RECEIPT_ID[:-1] + "1"


@pytest.fixture
def folder(ring: Keyring) -> Path:
    return ring.workspace / "results" / "published"


def started(run_id: str = "run-1", **changes: Any) -> RunStarted:
    details: dict[str, Any] = {
        "index": 0, "at": AT, "run_id": run_id, "plan_digest": HEX, "config_digests": (HEX,), "items_planned": 10,
        "seed": 0, "code_commit": None, **changes,
    }  # fmt: skip
    return RunStarted(**details)


def abandoned_run(number: int) -> RunAbandoned:
    return RunAbandoned(index=0, at=AT, run_id=f"run-{number}", reason="too expensive")


def add(ring: Keyring, folder: Path, *entries: AnyEntry) -> int:
    return append(folder, entries, ring.trusted(), ring.signing_key("log"), AT).entries[0].index


def found(ring: Keyring, folder: Path, since: Path | None = None) -> list[tuple[str, str]]:
    outcome = check_log(read_log(folder), ring.trusted(), since)
    return [(str(f.code), f.detail) for f in outcome.findings if f.status != "ok"]


def receipt(ring: Keyring, desk: Any, receipt_id: str = make.RECEIPT_ID, **changes: Any) -> Path:
    """A valid receipt with any id, with its items file next to it."""
    desk.key, desk.folder = ring.signing_key("receipt"), ring.workspace / "out"
    desk.folder.mkdir(exist_ok=True)
    rows = make.default_rows()
    document = make.body(rows)
    document["receiptId"], document["perQuery"]["file"] = receipt_id, f"{receipt_id}.items.jsonl"
    for place, value in changes.items():
        make.change(document, place.replace("__", "."), value)
    path: Path = desk.folder / f"{receipt_id}.json"
    path.write_bytes(dumps(make.sign(make.with_digests(document), desk.key)))
    path.with_name(f"{receipt_id}.items.jsonl").write_bytes(b"".join(dumps(row) + b"\n" for row in rows))
    return path


def verified_with_log(
    ring: Keyring, desk: Any, path: Path, folder: Path
) -> tuple[ReceiptVerdict, list[tuple[str, str]]]:
    outcome = desk.verify(path, trust=ring.trusted(), log=folder)
    return outcome.verdict, [
        (str(f.code), f.detail) for f in outcome.findings if f.check == "log" and f.status == "fail"
    ]


# ------------------------------------------------------------------------- rewinds and forks


def resign(ring: Keyring, folder: Path, size: int) -> None:
    """Sign a checkpoint over the first entries, as the owner of the log key can do."""
    view = read_log(folder)
    made = Checkpoint(origin="bench.local/log", size=size, root=view.roots([size])[size])
    (folder / "checkpoint").write_bytes(write_checkpoint(made, ring.signing_key("log")))


def cut(folder: Path, size: int) -> None:
    lines = (folder / "entries.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "entries.jsonl").write_bytes(b"".join(lines[:size]))


def swap(folder: Path) -> None:
    """Exchange the content of two entries, with correct indices."""
    path = folder / "entries.jsonl"
    one, two = path.read_bytes().splitlines()[1:3]
    first, second = json.loads(two) | {"index": 1}, json.loads(one) | {"index": 2}
    lines = path.read_bytes().splitlines()
    lines[1:3] = [dumps(first), dumps(second)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.fixture
def history(ring: Keyring, folder: Path) -> Path:
    """A key entry and four others, each with its own checkpoint."""
    for number in range(1, 5):
        add(ring, folder, abandoned_run(number))
    return folder


def test_a_shortened_log_is_inconsistent_with_every_saved_checkpoint(
    ring: Keyring, history: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    shutil.copy(history / "checkpoint", kept)
    cut(history, 3)
    assert found(ring, history)[0] == ("log_size", "the checkpoint covers 5 entries, but the log has only 3")
    resign(ring, history, 3)
    assert found(ring, history) == [
        ("log_inconsistent", "checkpoints/4: the first 4 entries of the log have changed since then"),
        ("log_inconsistent", "checkpoints/5: the first 5 entries of the log have changed since then"),
    ]
    for size in (4, 5):
        (history / "checkpoints" / str(size)).unlink()
    assert found(ring, history) == [], "without a saved checkpoint, the shorter log is consistent"
    assert found(ring, history, kept) == [
        ("log_inconsistent", f"{kept}: the first 5 entries of the log have changed since then")
    ]


def test_a_fork_is_inconsistent_from_the_first_different_entry(ring: Keyring, history: Path) -> None:
    swap(history)
    resign(ring, history, 5)
    swapped = [
        f"checkpoints/{size}: the first {size} entries of the log have changed since then" for size in (2, 3, 4, 5)
    ]
    assert found(ring, history) == [("log_inconsistent", detail) for detail in swapped]


def test_the_log_head_in_a_published_receipt_reveals_a_rewritten_log(ring: Keyring, history: Path, desk: Any) -> None:
    stated = {"origin": "bench.local/log", "size": 5, "rootHash": read_log(history).roots([5])[5].hex()}
    path = receipt(ring, desk, run__log=stated)
    publish(path, ring, at=AT)
    assert found(ring, history) == [] and verified_with_log(ring, desk, path, history)[1] == []
    swap(history)
    resign(ring, history, 6)
    shutil.rmtree(history / "checkpoints")
    detail = f"receipts/{make.RECEIPT_ID}.json: the first 5 entries of the log have changed since then"
    assert found(ring, history) == [("log_inconsistent", detail)]
    verdict, details = verified_with_log(ring, desk, path, history)
    assert (verdict, details) == (
        ReceiptVerdict.INVALID,
        [("log_inconsistent", "the first 5 entries of the log have changed since the run")],
    )


@pytest.mark.parametrize("head", [{"origin": "other/log"}, {"origin": "other/log", "rootHash": HEX}])
def test_a_log_head_of_another_log_is_not_compared(
    ring: Keyring, history: Path, desk: Any, head: dict[str, Any]
) -> None:
    path = receipt(ring, desk, run__log={"size": 3, "rootHash": "00" * 32, **head})
    publish(path, ring, at=AT)
    assert verified_with_log(ring, desk, path, history) == (ReceiptVerdict.VALID, [])
    assert found(ring, history) == []


@pytest.mark.parametrize(
    ("name", "change", "detail"),
    [
        (
            "3",
            lambda old: b"junk",
            "checkpoints/3: this is not a signed checkpoint: expected text, a blank line and signatures",
        ),
        (
            "3",
            lambda old: old.replace(b"bench.local/log", b"x"),
            "checkpoints/3 belongs to the log 'x', not to 'bench.local/log'",
        ),
        ("4", lambda old: old, "checkpoints/4 contains a checkpoint of size 3"),
        (
            "9",
            lambda old: old.replace(b"\n3\n", b"\n9\n"),
            "checkpoints/9: the first 9 entries of the log have changed since then",
        ),
    ],
)
def test_a_saved_checkpoint_that_does_not_match_its_name_is_reported_and_blocks_append(
    ring: Keyring, history: Path, name: str, change: Callable[[bytes], bytes], detail: str
) -> None:
    folder = history / "checkpoints"
    (folder / name).write_bytes(change((folder / "3").read_bytes()))
    assert found(ring, history) == [("log_inconsistent", detail)]
    with pytest.raises(VerificationError) as caught:
        add(ring, history, abandoned_run(9))
    assert caught.value.message == f"the log fails its verification, so nothing was appended: {detail}"
    assert (caught.value.where, caught.value.code) == (str(history), "log_inconsistent")


def test_a_given_checkpoint_of_another_log_is_reported(ring: Keyring, history: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes((history / "checkpoint").read_bytes().replace(b"bench.local/log", b"other/log"))
    assert found(ring, history, kept) == [
        ("log_inconsistent", f"{kept} belongs to the log 'other/log', not to 'bench.local/log'")
    ]
    with pytest.raises(UsageError) as caught:
        found(ring, history, tmp_path / "none")
    assert (str(caught.value), caught.value.hint) == (
        f"no such file: {tmp_path / 'none'}", "name a checkpoint file that you kept",
    )  # fmt: skip


def test_a_log_with_another_origin_than_trusted_json_is_log_signature(ring: Keyring, history: Path) -> None:
    path = ring.trusted_path
    path.write_text(path.read_text().replace("bench.local/log", "my.other/log"))
    assert found(ring, history)[0] == (
        "log_signature",
        "the checkpoint belongs to the log 'bench.local/log', not to 'my.other/log'",
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lines: [*lines[:2], lines[3], lines[2], lines[4]],
         ("log_index", "line 3 of the log has index 3, expected 2")),
        (lambda lines: lines[1:], ("log_index", "line 1 of the log has index 1, expected 0")),
        (lambda lines: [*lines[:4], lines[3]], ("log_index", "line 5 of the log has index 3, expected 4")),
        (lambda lines: [*lines[:2], b"", *lines[2:4]],
         ("log_entry", "entry 2: the text is not JSON: Expecting value at line 1 column 1")),
        (lambda lines: [*lines[:4], lines[4][:-1]],
         ("log_entry", "entry 4: the text is not JSON: Expecting ',' delimiter at line 1 column 132")),
        (lambda lines: [*lines[:4], lines[4].replace(b":4,", b":3,")],
         ("log_index", "line 5 of the log has index 3, expected 4")),
        (lambda lines: [*lines[:4], lines[4].replace(b"run-4", b"run-5")],
         ("log_root", "the first 5 entries do not match the root of the checkpoint")),
        (lambda lines: lines[:4], ("log_size", "the checkpoint covers 5 entries, but the log has only 4")),
        (lambda lines: [], ("log_size", "the checkpoint covers 5 entries, but the log has only 0")),
    ],
)  # fmt: skip
def test_each_change_of_the_entries_is_reported_with_code_and_message(
    ring: Keyring, history: Path, change: Callable[[list[bytes]], list[bytes]], expected: tuple[str, str]
) -> None:
    path = history / "entries.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in change(path.read_bytes().splitlines())))
    assert found(ring, history)[0] == expected


# ------------------------------------------------------------------------- retired and revoked keys


def test_a_checkpoint_of_a_retired_key_covers_only_entries_before_its_retirement(ring: Keyring, history: Path) -> None:
    old = ring.signing_key("log")
    rotate(ring, old=None, new="second", at=AT)
    assert found(ring, history) == []
    view = read_log(history)
    made = Checkpoint(origin="bench.local/log", size=7, root=view.roots([7])[7])
    (history / "checkpoint").write_bytes(write_checkpoint(made, old))
    assert found(ring, history) == [("key_retired", "the key default is not valid for a document at log index 6")]
    assert check_log(read_log(history), ring.trusted()).verdict is ReceiptVerdict.UNTRUSTED
    earlier = Checkpoint(origin="bench.local/log", size=5, root=view.roots([5])[5])
    (history / "checkpoint").write_bytes(write_checkpoint(earlier, old))
    assert found(ring, history) == [("log_pending", "2 entries are not covered by a checkpoint")]


def test_a_revoked_key_cannot_extend_the_log_and_its_unlogged_receipts_are_untrusted(
    ring: Keyring, history: Path, desk: Any
) -> None:
    stolen = ring.signing_key("log")
    path = receipt(ring, desk)
    new_key(ring, "second", ("receipt", "log"))
    revoke(ring, "default", from_index=5, reason="laptop stolen", at=AT)
    with pytest.raises(KeyRefused, match="default is revoked"):
        append(history, [abandoned_run(9)], ring.trusted(), stolen, AT)
    verdict, _ = verified_with_log(ring, desk, path, history)
    assert verdict is ReceiptVerdict.UNTRUSTED
    details = [f.detail for f in desk.verify(path, trust=ring.trusted(), log=history).findings if f.check == "trust"]
    assert details == ["the key default was revoked: laptop stolen; the document is not in the log"]


def test_a_checkpoint_signed_by_a_key_without_role_log_is_key_role(ring: Keyring, history: Path) -> None:
    new_key(ring, "signer", ("receipt",))
    key = ring.private_key_of("signer")
    made = Checkpoint(origin="bench.local/log", size=5, root=read_log(history).roots([5])[5])
    (history / "checkpoint").write_bytes(write_checkpoint(made, key))
    assert found(ring, history) == [("key_role", 'the key signer has no role "log"')]


def test_a_key_entry_whose_fingerprint_does_not_match_its_key_is_log_entry(ring: Keyring, history: Path) -> None:
    other = SigningKey.generate().public
    own = ring.trusted().keys[0]
    add(ring, history, KeyAdded(index=0, at=AT, fingerprint=own.fingerprint, public_key=other.pem, roles=("log",)))
    assert found(ring, history) == [("log_entry", "entry 5: the fingerprint does not match the key")]


# ------------------------------------------------------------------------- announcements


def preregistered(folder: Path, index: int) -> dict[str, Any]:
    line = (folder / "entries.jsonl").read_bytes().splitlines()[index]
    return {"logIndex": index, "entrySha256": sha256_hex(line)}


def test_a_preregistration_logged_before_the_receipt_is_valid(ring: Keyring, folder: Path, desk: Any) -> None:
    index = announce(ring, started()).index
    path = receipt(ring, desk, run__preregistration=preregistered(folder, index))
    assert verified_with_log(ring, desk, path, folder) == (ReceiptVerdict.VALID, [])
    publish(path, ring, at=AT)
    assert verified_with_log(ring, desk, path, folder) == (ReceiptVerdict.VALID, [])


LATE = "was logged too late to announce the run"


def test_a_preregistration_logged_after_the_receipt_is_a_log_mismatch(ring: Keyring, folder: Path, desk: Any) -> None:
    """The signer can compute the line in advance, because index, time and content are known."""
    line = write_entry(started(index=2))
    path = receipt(ring, desk, run__preregistration={"logIndex": 2, "entrySha256": sha256_hex(line)})
    document = json.loads(path.read_text())
    logged = ReceiptLogged(
        index=0, at=AT, receipt_id=make.RECEIPT_ID, receipt_sha256=digest(document),
        items_sha256=document["perQuery"]["sha256"], config_digest=document["configDigest"],
        result_digest=document["resultDigest"], run_id="run-1",
    )  # fmt: skip
    assert add(ring, folder, logged) == 1
    announce(ring, started())
    assert read_log(folder).lines[2] == line
    assert verified_with_log(ring, desk, path, folder) == (
        ReceiptVerdict.INVALID,
        [("log_mismatch", f"entry 2 {LATE}")],
    )


def test_a_preregistration_without_a_checkpoint_is_a_log_mismatch(ring: Keyring, folder: Path, desk: Any) -> None:
    add(ring, folder, abandoned_run(1))
    with (folder / "entries.jsonl").open("ab") as file:
        file.write(write_entry(started(index=2)) + b"\n")
    path = receipt(ring, desk, run__preregistration=preregistered(folder, 2))
    assert verified_with_log(ring, desk, path, folder)[1] == [("log_mismatch", f"entry 2 {LATE}")]
    assert find_announcement(folder, "run-1", HEX) is None, "a signer does not find it either"
    add(ring, folder, abandoned_run(2))
    assert verified_with_log(ring, desk, path, folder)[1] == []


@pytest.mark.parametrize(
    ("changes", "index"),
    [({"run_id": "run-2"}, 1), ({"plan_digest": "cd" * 32}, 1), ({}, 0), ({}, 2), ({}, 2**53 - 1)],
)
def test_a_preregistration_of_another_run_or_entry_is_a_log_mismatch(
    ring: Keyring, folder: Path, desk: Any, changes: dict[str, Any], index: int
) -> None:
    announce(ring, started(**changes))
    stated = {"logIndex": index, "entrySha256": preregistered(folder, 1)["entrySha256"]}
    path = receipt(ring, desk, run__preregistration=stated)
    expected = ("log_mismatch", f"entry {index} does not announce this run")
    assert verified_with_log(ring, desk, path, folder)[1] == [expected]


def test_find_announcement_returns_the_first_announcement_with_a_checkpoint(ring: Keyring, folder: Path) -> None:
    assert find_announcement(folder, "run-1", HEX) is None, "there is no log"
    for _ in range(2):
        announce(ring, started())
    stated, head = find_announcement(folder, "run-1", HEX) or (None, None)
    assert stated is not None and head is not None
    assert (stated.log_index, head.size, head.origin) == (1, 2, "bench.local/log")
    assert head.root_hash == read_log(folder).roots([2])[2].hex()
    assert find_announcement(folder, "run-1", "cd" * 32) is find_announcement(folder, "run-2", HEX) is None
    (folder / "checkpoint").unlink()
    assert find_announcement(folder, "run-1", HEX) is None


ATTEMPTS: list[tuple[list[RunStarted | RunAbandoned], bool, str | None]] = [
    ([], False, None),
    ([started()], True, None),
    ([started()], False, "1 run of this config registered, 0 published, 0 abandoned"),
    ([started(), abandoned_run(1)], False, "1 run of this config registered, 0 published, 1 abandoned"),
    (
        [started(), started("run-2"), abandoned_run(2)],
        True,
        "2 runs of this config registered, 1 published, 1 abandoned",
    ),
    (
        [started(), started("run-2"), started("run-3")],
        True,
        "3 runs of this config registered, 1 published, 0 abandoned",
    ),
    ([started(), started("run-2", plan_digest="cd" * 32)], True, None),
    (
        [started(), started("run-2"), started("run-2")],
        True,
        "2 runs of this config registered, 1 published, 0 abandoned",
    ),
    ([abandoned_run(2), abandoned_run(3)], True, None),
]


@pytest.mark.parametrize(("entries", "published", "expected"), ATTEMPTS)
def test_announced_runs_of_a_config_are_counted_with_published_and_abandoned_ones(
    ring: Keyring, folder: Path, desk: Any, entries: list[AnyEntry], published: bool, expected: str | None
) -> None:
    add(ring, folder, *(entries or [abandoned_run(9)]))
    path = receipt(ring, desk)
    if published:
        publish(path, ring, at=AT)
    outcome = desk.verify(path, trust=ring.trusted(), log=folder)
    details = [f.detail if f.status == "warn" else None for f in outcome.findings if f.check == "runs"]
    assert details == [expected]
    assert outcome.verdict is ReceiptVerdict.VALID


def test_a_log_line_without_a_checkpoint_does_not_count_as_published(ring: Keyring, folder: Path, desk: Any) -> None:
    for name in ("run-1", "run-2"):
        announce(ring, started(name))
    path = receipt(ring, desk)
    publish(path, ring, at=AT)
    config = json.loads(path.read_text())["configDigest"]
    forged = ReceiptLogged(
        index=4, at=AT, receipt_id=OTHER_ID, receipt_sha256=HEX, items_sha256=HEX, config_digest=config,
        result_digest=HEX, run_id="run-2",
    )  # fmt: skip
    with (folder / "entries.jsonl").open("ab") as file:
        file.write(write_entry(forged) + b"\n")
    outcome = desk.verify(path, trust=ring.trusted(), log=folder)
    details = [f.detail for f in outcome.findings if f.code == "unpublished_attempts"]
    assert details == ["2 runs of this config registered, 1 published, 0 abandoned"]


# ------------------------------------------------------------------------- false entries


def logged_as(ring: Keyring, folder: Path, path: Path, **false_fields: str) -> None:
    """Log a receipt with an entry whose fields differ from it."""
    document = json.loads(path.read_text())
    details = {
        "receipt_id": document["receiptId"], "receipt_sha256": digest(document),
        "items_sha256": document["perQuery"]["sha256"], "config_digest": document["configDigest"],
        "result_digest": document["resultDigest"], "run_id": document["run"]["runId"], **false_fields,
    }  # fmt: skip
    add(ring, folder, ReceiptLogged(index=0, at=AT, **details))
    (folder / "receipts").mkdir(exist_ok=True)
    for file in (path, path.with_name(f"{path.stem}.items.jsonl")):
        shutil.copy(file, folder / "receipts" / file.name)


LIES = [("config_digest", "configDigest"), ("result_digest", "resultDigest"), ("run_id", "runId")]


@pytest.mark.parametrize(("field", "shown"), LIES)
def test_a_log_entry_that_differs_from_its_receipt_is_reported(
    ring: Keyring, folder: Path, desk: Any, field: str, shown: str
) -> None:
    path = receipt(ring, desk)
    logged_as(ring, folder, path, **{field: HEX})
    assert found(ring, folder) == [
        ("log_receipt_mismatch", f"entry 1 has another {shown} than receipts/{make.RECEIPT_ID}.json")
    ]
    assert verified_with_log(ring, desk, path, folder) == (
        ReceiptVerdict.INVALID, [("log_mismatch", f"entry 1 has another {shown} than the receipt")],
    )  # fmt: skip


def test_a_log_entry_with_another_items_hash_is_reported_for_receipt_and_items_file(
    ring: Keyring, folder: Path, desk: Any
) -> None:
    logged_as(ring, folder, receipt(ring, desk), items_sha256=HEX)
    assert found(ring, folder) == [
        ("log_receipt_mismatch", f"entry 1 has another itemsSha256 than receipts/{make.RECEIPT_ID}.json"),
        ("log_receipt_mismatch", f"receipts/{make.RECEIPT_ID}.items.jsonl is not the items file that was logged"),
    ]


def test_two_receipts_with_one_id_in_the_log_make_the_first_invalid(ring: Keyring, folder: Path, desk: Any) -> None:
    path = receipt(ring, desk)
    publish(path, ring, at=AT)
    logged_as(ring, folder, receipt(ring, desk, provider__version="2"))
    assert ("receipt_id_reused", f"the log contains two different receipts with the id {make.RECEIPT_ID}") in found(
        ring, folder
    )
    path = receipt(ring, desk)
    verdict, details = verified_with_log(ring, desk, path, folder)
    assert (verdict, details[0][0]) == (ReceiptVerdict.INVALID, "receipt_id_reused")


def test_missing_changed_or_unlisted_files_of_the_log_are_reported_by_name(
    ring: Keyring, folder: Path, desk: Any
) -> None:
    publish(receipt(ring, desk), ring, at=AT)
    items = folder / "receipts" / f"{make.RECEIPT_ID}.items.jsonl"
    whole = items.read_bytes()
    items.write_bytes(whole + b"\n")
    name = f"receipts/{make.RECEIPT_ID}.items.jsonl is not the items file that was logged"
    assert found(ring, folder) == [("log_receipt_mismatch", name)]
    items.unlink()
    gone_name = f"receipts/{make.RECEIPT_ID}.json or its items file is missing"
    assert found(ring, folder) == [("log_receipt_missing", gone_name)]
    items.write_bytes(whole)
    (folder / "receipts" / f"{OTHER_ID}.json").write_text("{}")
    assert found(ring, folder) == [("log_unlisted", f"receipts/{OTHER_ID}.json has no entry in the log")]


# ------------------------------------------------------------------------- reruns


def rerun_answer(ring: Keyring, desk: Any, path: Path, folder: Path) -> str:
    return str(desk.verify(path, trust=ring.trusted(), log=folder).checklist["rerun_identical"])


def test_rerun_identical_is_yes_only_with_a_logged_rerun_that_is_not_retracted(
    ring: Keyring, folder: Path, desk: Any
) -> None:
    path = receipt(ring, desk)
    publish(path, ring, at=AT)
    assert rerun_answer(ring, desk, path, folder) == "no"
    publish(receipt(ring, desk, OTHER_ID, reproduces=make.RECEIPT_ID), ring, at=AT)
    assert rerun_answer(ring, desk, path, folder) == "yes"
    assert rerun_answer(ring, desk, desk.folder / f"{OTHER_ID}.json", folder) == "no", "the rerun itself has no rerun"
    retract(OTHER_ID, ring, reason="was no rerun", at=AT)
    assert rerun_answer(ring, desk, path, folder) == "no"


def test_a_changed_receipt_file_does_not_count_as_a_rerun(ring: Keyring, folder: Path, desk: Any) -> None:
    path = receipt(ring, desk)
    publish(path, ring, at=AT)
    publish(receipt(ring, desk, OTHER_ID), ring, at=AT)
    file = folder / "receipts" / f"{OTHER_ID}.json"
    file.write_bytes(file.read_bytes().replace(b'"reproduces":null', b'"reproduces":"%s"' % make.RECEIPT_ID.encode()))
    assert rerun_answer(ring, desk, path, folder) == "no"


def test_a_rerun_without_a_checkpoint_does_not_count(ring: Keyring, folder: Path, desk: Any) -> None:
    path = receipt(ring, desk)
    publish(path, ring, at=AT)
    other = receipt(ring, desk, OTHER_ID, reproduces=make.RECEIPT_ID)
    before = (folder / "checkpoint").read_bytes()
    publish(other, ring, at=AT)
    assert rerun_answer(ring, desk, path, folder) == "yes"
    (folder / "checkpoint").write_bytes(before)
    assert rerun_answer(ring, desk, path, folder) == "no"


def test_a_rerun_with_another_result_does_not_count_despite_its_log_entry(
    ring: Keyring, folder: Path, desk: Any
) -> None:
    path = receipt(ring, desk)
    publish(path, ring, at=AT)
    mine = json.loads(path.read_text())["resultDigest"]
    other = receipt(ring, desk, OTHER_ID, reproduces=make.RECEIPT_ID, run__seed=5)
    logged_as(ring, folder, other, result_digest=mine)
    assert rerun_answer(ring, desk, path, folder) == "no"


@pytest.mark.parametrize("note", [b"", b"junk", b"\xff"])
def test_a_log_whose_checkpoint_cannot_be_read_covers_nothing(
    ring: Keyring, history: Path, desk: Any, note: bytes
) -> None:
    path = receipt(ring, desk)
    publish(path, ring, at=AT)
    (history / "checkpoint").write_bytes(note)
    assert read_log(history).covered == 0
    verdict, details = verified_with_log(ring, desk, path, history)
    assert (verdict, details[0][0]) == (ReceiptVerdict.INVALID, "log_signature")
    assert "not_logged" in make.codes(desk.verify(path, trust=ring.trusted(), log=history), "warn")


# ------------------------------------------------------------------------- publishing


def test_a_published_receipt_can_later_supersede_an_older_one(ring: Keyring, folder: Path, desk: Any) -> None:
    old, new = receipt(ring, desk), receipt(ring, desk, OTHER_ID)
    publish(old, ring, at=AT)
    first = publish(new, ring, at=AT)
    with pytest.raises(UsageError, match="a reason is missing"):
        publish(new, ring, at=AT, supersedes=make.RECEIPT_ID)
    with pytest.raises(UsageError, match=f"receipt {OTHER_ID} cannot replace itself"):
        publish(new, ring, at=AT, supersedes=OTHER_ID, reason="x")
    second = publish(new, ring, at=AT, supersedes=make.RECEIPT_ID, reason="a wrong prompt")
    assert (first.index, second.index, second.is_new) == (2, 3, True)
    again = publish(new, ring, at=AT, supersedes=make.RECEIPT_ID, reason="a wrong prompt")
    assert (again.index, again.is_new) == (2, False)
    assert len(list(read_log(folder).of(ReceiptSuperseded))) == 1
    verdict, details = verified_with_log(ring, desk, old, folder)
    assert (verdict, details) == (ReceiptVerdict.SUPERSEDED, [("superseded", f"by {OTHER_ID}: a wrong prompt")])
    assert verified_with_log(ring, desk, new, folder)[0] is ReceiptVerdict.VALID


REASONS: list[tuple[Callable[[Keyring], object], str, str]] = [
    (lambda ring: retract(OTHER_ID, ring, reason="x", at=AT), f"the log contains no receipt {OTHER_ID}",
     "name the id of a published receipt"),
    (lambda ring: retract(make.RECEIPT_ID, ring, reason=None, at=AT), "a reason is missing",
     "give a reason with --reason TEXT"),
    (lambda ring: retract(make.RECEIPT_ID, ring, reason=" \n", at=AT), "a reason is missing",
     "give a reason with --reason TEXT"),
    (lambda ring: abandon("run-9", ring, reason="x", at=AT), "run run-9 was never announced in the log",
     "start runs with --publishable, so that they are announced"),
    (lambda ring: abandon("run-2", ring, reason="", at=AT), "a reason is missing", "give a reason with --reason TEXT"),
    (lambda ring: abandon("run-1", ring, reason="x", at=AT),
     f"run run-1 cannot be marked as abandoned: its receipt {make.RECEIPT_ID} is published",
     f"retract the receipt with: bench publish --retract {make.RECEIPT_ID}"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "message", "hint"), REASONS)
def test_an_invalid_retraction_or_abandonment_is_a_usage_error_and_writes_nothing(
    ring: Keyring, folder: Path, desk: Any, act: Callable[[Keyring], object], message: str, hint: str
) -> None:
    announce(ring, started())
    announce(ring, started("run-2"))
    publish(receipt(ring, desk), ring, at=AT)
    before = (folder / "entries.jsonl").read_bytes()
    with pytest.raises(UsageError) as caught:
        act(ring)
    assert (str(caught.value), caught.value.hint) == (message, hint)
    assert (folder / "entries.jsonl").read_bytes() == before


@pytest.mark.parametrize("content", [b"{}", b"[]", b"", b'{"receiptId": 7}', b'{"receiptId": "x", "receiptId": "y"}'])
def test_a_file_that_is_not_a_receipt_is_not_published(
    ring: Keyring, folder: Path, tmp_path: Path, content: bytes
) -> None:
    add(ring, folder, abandoned_run(1))
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(NotPublishable) as caught:
        publish(path, ring, at=AT)
    assert (caught.value.exit_code, caught.value.where) == (5, str(path))
    assert caught.value.hint == 'publish a receipt with the verdict VALID and the kind "run"'
    with pytest.raises(UsageError):
        publish(tmp_path / "none.json", ring, at=AT)


def test_publishing_again_restores_receipt_files_that_a_crash_left_out(ring: Keyring, folder: Path, desk: Any) -> None:
    path = receipt(ring, desk)
    publish(path, ring, at=AT)
    shutil.rmtree(folder / "receipts")
    assert found(ring, folder)[0][0] == "log_receipt_missing"
    assert not publish(path, ring, at=AT).is_new
    assert found(ring, folder) == []
    assert not publish(folder / "receipts" / path.name, ring, at=AT).is_new, "from the folder of the log too"


def test_a_receipt_in_the_folder_of_the_log_can_be_published(ring: Keyring, folder: Path, desk: Any) -> None:
    add(ring, folder, abandoned_run(1))
    (folder / "receipts").mkdir()
    path = receipt(ring, desk)
    for file in (path, path.with_name(f"{path.stem}.items.jsonl")):
        file.rename(folder / "receipts" / file.name)
    assert publish(folder / "receipts" / path.name, ring, at=AT).is_new
    assert found(ring, folder) == []
