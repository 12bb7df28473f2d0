"""Journals without a valid receipt, secrets in receipts, full disks: refused with a message, and no file is left."""

from __future__ import annotations

import errno
import io
import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tests.receipt.receipt_making as make
from bench.errors import VerificationError
from bench.events import redactor
from bench.journal import Reader, RunMeta
from bench.receipt.base_model import commit_or_none, validate
from bench.receipt.build import (
    ReceiptDraft,
    ReceiptRefused,
    ReceiptSettings,
    build,
    learn_secrets,
    refusal,
    refuse_secrets,
)
from bench.receipt.items_file import ItemsWriter
from bench.receipt.log.log_check import check_log
from bench.receipt.log.log_store import read_log
from bench.receipt.log.publish import announcement_of
from bench.receipt.metadata import environment
from bench.receipt.schema import Body
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.sign import SigningRequest, _verify_own, sign_run
from bench.receipt.signing.signature import sign
from bench.receipt.signing.trust_store import TrustStore
from bench.report import fold
from bench.settings import Environment
from bench.visible_text import counted
from tests.receipt.receipt_making import run_demo
from tests.rows import each_row

AT = "2027-01-01T00:00:00Z"


@each_row(
    ("declared", "accepted"),
    [
        ("0123456789abcdef" * 2 + "01234567", True), ("abc1234", False), ("main", False), ("", False), (None, False),
        ("A" * 40, False), ("0" * 64, False), ("0" * 40 + "\n", False), (7, False), ("g" * 40, False),
    ],
)  # fmt: skip
def test_only_a_complete_git_hash_is_accepted_as_commit(declared: object, accepted: bool) -> None:
    assert commit_or_none(declared) == (declared if accepted else None)
    meta = RunMeta(run_id="r", plan_digest="0" * 64, identity={}, code_state={"commit": declared})
    assert environment(meta).git.commit == (declared if accepted else None)


async def test_a_run_with_an_abbreviated_declared_commit_is_announced_without_commit(ring: Keyring) -> None:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.engine.run_metadata import CodeState, run_meta
    from bench.plan import make_plan

    around = Environment.load(ring.workspace)
    plan = make_plan(Catalog.load(ring.workspace), RunRequest(benchmarks=("demo",), providers=("bm25",)), around)
    meta = run_meta(plan, "r1", CodeState(commit="abc1234", source="declared"), Environment())
    assert announcement_of(plan, meta).code_commit is None


ODD: list[tuple[dict[str, Any], str]] = [
    (
        {"plan_digest": "not hex"},
        "a receipt cannot contain a value of this run: plan_digest: String should match pattern '^(?:[0-9a-f]{64})$'",
    ),
    ({"run_id": ""}, "a receipt cannot contain a value of this run: run_id: String should have at least 1 character"),
]


@pytest.mark.parametrize(("changes", "message"), ODD)
async def test_a_journal_with_invalid_receipt_fields_is_refused_and_leaves_no_files(
    ring: Keyring, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    run = await run_demo(ring.workspace, "r1", limit=2)
    folder = tmp_path / "out"
    folder.mkdir()
    async with Reader.open(run) as reader:
        job = (await fold(reader)).jobs[0]
        reader.meta = replace(reader.meta, **changes)
        with pytest.raises(ReceiptRefused) as caught:
            await build(reader, job, ReceiptSettings(receipt_id=make.RECEIPT_ID, folder=folder, issued_at=AT))
    assert (caught.value.code, caught.value.message, caught.value.exit_code) == ("field_value", message, 4)
    assert list(folder.iterdir()) == []


async def test_a_receipt_that_violates_an_invariant_is_refused_before_it_is_signed(
    ring: Keyring, tmp_path: Path
) -> None:
    run = await run_demo(ring.workspace, "r1", limit=2)
    async with Reader.open(run) as reader:
        job = (await fold(reader)).jobs[0]
        with pytest.raises(ReceiptRefused) as caught:
            await build(
                reader,
                job,
                ReceiptSettings(
                    receipt_id=make.RECEIPT_ID, folder=tmp_path / "config", issued_at="1999-01-01T00:00:00Z"
                ),
            )
    assert (caught.value.code, caught.value.message) == ("invariant_times", "expected ranAt <= finishedAt <= issuedAt")
    assert list((tmp_path / "config").glob("*.jsonl")) == []


async def test_each_job_that_cannot_be_signed_is_refused_with_code_and_message(ring: Keyring, tmp_path: Path) -> None:
    run = await run_demo(ring.workspace, "r1", limit=2)
    async with Reader.open(run) as reader:
        job = (await fold(reader)).jobs[0]
    order = ReceiptSettings(receipt_id=make.RECEIPT_ID, folder=tmp_path, issued_at=AT)

    def refused_as(one: Any, **changes: Any) -> tuple[str, str] | None:
        found = refusal(one, replace(order, **changes))
        return (found.code, found.message) if found else None

    skipped = replace(job, record=replace(job.record, skipped="the provider cannot delete"))
    bad = replace(job, invalid=("3 of 4 items failed", "no key"))
    dirty = replace(bad, error_kinds={"contaminated": 1})
    assert refused_as(job) is None
    assert refused_as(skipped) == ("zero_items", "the provider cannot delete")
    assert refused_as(replace(job, n_planned=0)) == ("zero_items", "no item was planned")
    assert refused_as(dirty) == ("isolation_failed", "a probe found foreign memories in a namespace")
    assert refused_as(bad) == ("job_invalid", "3 of 4 items failed; no key")
    assert refused_as(replace(job, counts={})) == ("zero_items", "no item has ended yet")
    assert refused_as(replace(job, n_planned=5)) == ("job_partial", "3 items are pending")
    assert refused_as(job, gaps=True) == ("job_partial", "a range of items was not run")
    assert refused_as(replace(job, n_planned=5), gaps=True, allow_partial=True) is None


async def test_a_signed_receipt_that_does_not_verify_is_deleted(ring: Keyring, desk: Any) -> None:
    document = make.with_digests(make.body(make.default_rows()))
    document["resultDigest"] = "00" * 32
    path = desk.write(document, make.default_rows())
    with pytest.raises(VerificationError) as caught:
        _verify_own(path, desk.key)
    assert caught.value.code == "result_digest"
    detail = "resultDigest does not match the fields of the receipt"
    assert str(caught.value) == f"{path}: the receipt does not verify: {detail}"
    assert not path.exists()
    path.write_text(json.dumps(sign(make.with_digests(document), desk.key)))
    _verify_own(path, desk.key)
    assert path.exists()


async def test_a_job_whose_receipt_would_not_verify_is_refused_and_the_others_are_signed(ring: Keyring) -> None:
    """The stored outcome of an item contradicts its stored values."""
    run = await run_demo(ring.workspace, "r1", limit=2, providers=("bm25", "random"))
    with closing(sqlite3.connect(run / "journal.sqlite")) as journal, journal:
        flipped = "CASE state WHEN 'correct' THEN 'incorrect' ELSE 'correct' END"
        journal.execute(
            f"UPDATE score SET state = {flipped} WHERE owner IN (SELECT id FROM owner WHERE name LIKE '%bm25%')"
        )
    output = ring.workspace / "out"
    made = await sign_run(run, ring.signing_key("receipt"), SigningRequest(output=output, environment=Environment()))
    assert ([one.provider for one in made.receipts], made.exit_code) == (["random"], 4)
    (refused,) = made.refused
    assert refused.code == "score_mismatch" and "accuracy is 0.0, but the row gives 1.0" in refused.message
    assert "deleted" in refused.hint and "bench rescore" in refused.hint
    assert len(list(output.iterdir())) == 2, "no file of the refused job is left"


# ------------------------------------------------------------------------- secrets


def draft(tmp_path: Path, rows: list[dict[str, Any]], **changes: Any) -> ReceiptDraft:
    body = make.body(rows)
    for place, value in changes.items():
        make.change(body, place.replace("__", "."), value)
    items = tmp_path / "x.items.jsonl"
    with ItemsWriter(items) as writer:
        for row in rows:
            writer.add(row)  # type: ignore[arg-type]
    return ReceiptDraft(body=validate(Body, make.with_digests(body)), items=items)


SECRETS = ["open-sesame", 'pa"ss\\wo"rd', "p\u00e4ssw\u00f6rd", "two words", "slash/and+plus=", "\\\\unc\\share"]


@each_row("secret", SECRETS)
@each_row("name", ["MY_API_KEY", "my_token", "DB_PASSWORD", "X_SECRET", "A_PASSPHRASE", "CREDENTIALS", "PASSWD"])
def test_a_secret_in_receipt_or_rows_is_refused_in_any_json_spelling(tmp_path: Path, secret: str, name: str) -> None:
    learn_secrets(Environment(values={name: secret, "PATH": "item-00001"}), None, [])
    refuse_secrets(draft(tmp_path, make.default_rows()))
    (tmp_path / "x.items.jsonl").unlink()
    with pytest.raises(ReceiptRefused) as caught:
        refuse_secrets(draft(tmp_path, make.default_rows(), provider__endpointHost=f"see {secret}"))
    assert (caught.value.code, caught.value.message) == (
        "secret_in_receipt", "the receipt contains the value of a configured secret",
    )  # fmt: skip
    (tmp_path / "x.items.jsonl").unlink()
    rows = make.default_rows()
    rows[2]["answer"] = f"it is {secret}!"
    with pytest.raises(ReceiptRefused) as caught:
        refuse_secrets(draft(tmp_path, rows))
    assert caught.value.message == "line 3 of the items file contains the value of a configured secret"
    assert secret not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("PATH", "open-sesame"), ("KEYBOARD", "open-sesame"), ("A_KEY", "short")])
def test_a_value_without_a_secret_name_or_a_short_value_is_not_a_secret(name: str, value: str) -> None:
    learn_secrets(Environment(values={name: value}), None, [])
    assert not redactor.holds_secret(f"a text with {value} inside")


# ------------------------------------------------------------------------- disks


class FullSpool(io.BytesIO):
    """A full disk."""

    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_error_for_a_full_disk_names_the_items_file(tmp_path: Path) -> None:
    path = tmp_path / "x.items.jsonl"
    with pytest.raises(OSError, match="No space left") as caught, ItemsWriter(path) as writer:
        writer._spool.close()
        writer._spool = FullSpool()
        writer.add(make.row(1, 1))  # type: ignore[arg-type]
    assert (caught.value.filename, caught.value.errno, path.exists()) == (str(path), errno.ENOSPC, False)


async def test_the_error_for_an_unwritable_output_folder_names_the_folder(ring: Keyring, tmp_path: Path) -> None:
    run = await run_demo(ring.workspace, "r1", limit=2)
    shut = tmp_path / "file"
    shut.write_text("")
    request = SigningRequest(output=shut / "out", environment=Environment())
    with pytest.raises(NotADirectoryError) as caught:
        await sign_run(run, ring.signing_key("receipt"), request)
    assert caught.value.filename == str(shut / "out")


# ------------------------------------------------------------------------- log heads in receipts


def test_a_pinned_key_verifies_a_log_of_any_origin_and_compares_log_heads(ring: Keyring, desk: Any) -> None:
    from bench.receipt.log.publish import publish

    desk.key = ring.signing_key("receipt")
    path = desk.good(run__log={"origin": "bench.local/log", "size": 1, "rootHash": "00" * 32})
    folder = ring.workspace / "results" / "published"
    publish(desk.good(), ring, at=AT)
    pinned = TrustStore.pin([desk.key.public])
    assert check_log(read_log(folder), pinned).verdict.exit_code == 0
    (folder / "receipts" / "other.json").write_bytes(path.read_bytes())
    path = desk.good(run__log={"origin": "bench.local/log", "size": 1, "rootHash": "00" * 32})
    (folder / "receipts" / "other.json").write_bytes(path.read_bytes())
    found = [(f.code, f.detail) for f in check_log(read_log(folder), pinned).findings]
    assert (
        "log_inconsistent",
        "receipts/other.json: the first 1 entry of the log has changed since then",
    ) in found
    (folder / "checkpoint").write_bytes(b"junk")
    codes = {f.code for f in check_log(read_log(folder), pinned).findings}
    assert {"log_signature", "log_inconsistent"} <= codes


@pytest.mark.parametrize(
    "head",
    [{"size": 1, "rootHash": "zz" * 32}, {"size": -1, "rootHash": "00" * 32}, {"size": 9, "rootHash": "00" * 32}],
)
def test_an_invalid_log_head_in_an_unlisted_receipt_is_log_inconsistent(
    ring: Keyring, desk: Any, head: dict[str, Any]
) -> None:
    from bench.receipt.log.publish import publish

    desk.key = ring.signing_key("receipt")
    publish(desk.good(), ring, at=AT)
    folder = ring.workspace / "results" / "published"
    odd = folder / "receipts" / "odd.json"
    odd.write_text(json.dumps({"run": {"log": {"origin": "bench.local/log", **head}}}))
    found = [(f.code, f.detail) for f in check_log(read_log(folder), ring.trusted()).findings]
    assert (
        "log_inconsistent",
        f"receipts/odd.json: the first {counted(head['size'], 'entr(y of the log has|ies of the log have)')} changed "
        "since then",
    ) in found


NO_HEADS = [
    "{", "[]", "{}", '{"run": 1}', '{"run": {"log": []}}', '{"run": {"log": {"size": "1"}}}',
    '{"run": {"log": {"origin": "bench.local/log", "size": 1, "rootHash": "00"}}}',
]  # fmt: skip


@pytest.mark.parametrize("content", NO_HEADS)
def test_an_unlisted_file_without_a_log_head_is_only_log_unlisted(ring: Keyring, desk: Any, content: str) -> None:
    from bench.receipt.log.publish import publish

    desk.key = ring.signing_key("receipt")
    publish(desk.good(), ring, at=AT)
    folder = ring.workspace / "results" / "published"
    (folder / "receipts" / "odd.json").write_text(content)
    found = [(f.code, f.detail) for f in check_log(read_log(folder), ring.trusted()).findings]
    assert found == [("log_unlisted", "receipts/odd.json has no entry in the log")]
