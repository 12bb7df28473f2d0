"""The commands of a receipt's life, as they are typed: what they print, write and exit with."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.cli import run as command_line
from bench.receipt.signing.dsse import opened
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.keys import revoke, rotate
from tests.receipt.receipt_making import run_demo

pytestmark = pytest.mark.usefixtures("forked_children")


@pytest.fixture
def bench(
    ring: Keyring, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    monkeypatch.chdir(ring.workspace)

    def call(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = command_line(arguments)
        return code, capsys.readouterr().out

    return call


def test_the_commands_of_a_receipts_life(
    ring: Keyring, bench: Callable[..., tuple[int, str]], desk: Any, make: Any, tmp_path: Path
) -> None:
    anyio.run(lambda: run_demo(ring.workspace, "r1"))
    code, out = bench("sign", "r1", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["refused"] == [] and set(told["receipts"][0]) == {
        "receiptId", "file", "itemsFile", "benchmark", "provider", "resultDigest",
    }  # fmt: skip
    file = told["receipts"][0]["file"]
    code, out = bench("verify", file)
    assert code == 0 and out.startswith("VALID") and "mrr  " in out
    code, out = bench("verify", file, "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "VALID")
    assert bench("verify", file, "--policy", "strict")[0] == 7
    assert bench("publish", file)[0] == 0
    code, out = bench("publish", file, "--json")
    assert (code, json.loads(out)["fresh"]) == (0, False)
    code, out = bench("log", "verify", "--json")
    assert (code, json.loads(out)["size"]) == (0, 2)
    assert bench("diff", file, file)[0] == 0
    code, out = bench("verify", file, "--export", str(tmp_path / "x"))
    assert code == 0 and "openssl pkeyutl" in out
    assert bench("keys", "rotate")[0] == 0
    code, out = bench("keys", "list", "--json")
    assert [key["status"] for key in json.loads(out)["keys"]] == ["retired", "active"]
    assert bench("verify", "results/published")[0] == 0
    assert bench("publish", "--retract", told["receipts"][0]["receiptId"], "--reason", "a wrong prompt")[0] == 0
    code, out = bench("verify", file)
    assert code == 4 and "a wrong prompt" in out and "mrr  " not in out
    assert bench("keys", "revoke", "default", "--from-index", "0", "--reason", "lost")[0] == 0
    assert bench("verify", file)[0] == 3
    other = tmp_path / "other.pub"
    shutil.copy(ring.workspace / "keys" / "default-2.pub", other)
    code, out = bench("verify", file, "--pubkey", str(other))
    assert code == 3 and "key_unknown" in out


def test_usage_errors_are_exit_2(bench: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    assert bench("verify")[0] == 2
    assert bench("verify", "nothing.json")[0] == 2
    assert bench("publish")[0] == 2
    assert bench("keys", "new", "default")[0] == 2
    assert bench("keys", "new", "x", "--roles", "signer")[0] == 2
    assert bench("log", "abandon", "r9", "--reason", "x")[0] == 2
    assert bench("sign", "r9")[0] == 2
    key = tmp_path / "open.key"
    key.write_text("x")
    key.chmod(0o644)
    code, out = bench("sign", "r9", "--key", str(key), "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, "key_permissions")


def test_keys_new_prints_the_fingerprint_and_takes_roles_and_folder(
    bench: Callable[..., tuple[int, str]], ring: Keyring, tmp_path: Path
) -> None:
    folder = tmp_path / "k"
    code, out = bench("keys", "new", "log-key", "--roles", "log", "--key-dir", str(folder), "--json")
    told = json.loads(out)
    assert code == 0 and told["roles"] == ["log"] and told["fingerprint"].startswith("sha256:")
    assert stat.S_IMODE((folder / "log-key.key").stat().st_mode) == 0o600
    assert ring.trusted().named("log-key").fingerprint == told["fingerprint"]


def test_control_characters_of_a_receipt_are_shown_and_not_obeyed(
    bench: Callable[..., tuple[int, str]], ring: Keyring, desk: Any, make: Any
) -> None:
    desk.key = ring.signing_key("receipt")
    desk.folder = ring.workspace / "odd"
    desk.folder.mkdir()
    path = desk.good(make.default_rows(), provider__version="\x1b[31m/1")
    code, out = bench("verify", str(path))
    assert code == 0 and "\x1b" not in out and "\\x1b[31m" in out


def test_verify_says_what_was_measured_and_when(
    bench: Callable[..., tuple[int, str]], ring: Keyring, desk: Any
) -> None:
    desk.key = ring.signing_key("receipt")
    path = desk.good()
    code, out = bench("verify", str(path))
    lines = [line.strip() for line in out.splitlines()]
    assert code == 0 and lines[0].startswith(f"VALID  {path}")
    assert lines[1:5] == [
        "measured  demo 1 x bm25 1",
        "models    judge acme/judge-1",
        "ran       2026-11-01T10:00:00Z to 2026-11-01T11:00:00.5Z, run run-1 (stated by the signer)",
        "items     10 planned, 0 failed, 0 pending (whole run)",
    ]
    assert lines.index("judged by a model") < lines.index("deterministic, recomputed from the rows")
    assert "accuracy     = 0.9000 (n 10, accuracy/1)" in lines
    (path.parent / f"{path.stem}.items.jsonl").unlink()
    code, out = bench("verify", str(path))
    assert code == 0 and "NOT CHECKED: the items file is missing, so scores were not recomputed" in out.splitlines()[0]
    assert "judged by a model, NOT RECOMPUTED: stated by the signer" in out
    assert "deterministic, NOT RECOMPUTED: stated by the signer" in out


def test_what_does_not_hold_only_claims_and_shows_no_score(
    bench: Callable[..., tuple[int, str]], ring: Keyring, desk: Any, make: Any
) -> None:
    path = desk.good()
    code, out = bench("verify", str(path))
    assert code == 3 and out.startswith("UNTRUSTED") and "claims    demo 1 x bm25 1" in out
    assert "accuracy" not in out and "0.9000" not in out
    desk.key = ring.signing_key("receipt")
    code, out = bench("verify", str(desk.good(scores__judged__accuracy__value=0.95)))
    assert code == 5 and "measured" not in out and "claims    demo" in out


def test_a_foreign_receipt_shows_its_good_signature_beside_its_impossible_number(
    bench: Callable[..., tuple[int, str]], shared: Path
) -> None:
    folder = shared / "data" / "przm-receipts"
    pinned = ("--profile", "przm-p1", "--pubkey", str(folder / "receipt-signing.pub"))
    code, out = bench("verify", str(folder / "memory-b12b9a56.json"), *pinned)
    assert code == 5 and out.startswith("INVALID") and "signature good" in out and "invariant_ndcg_le_hit" in out
    assert "adapter   engram 2.4.0" in out and "latency_p50_ms" not in out
    pinned = ("--profile", "przm-p2", "--pubkey", str(folder / "convergence-preview.pub"))
    code, out = bench("verify", str(folder / "convergence-1fde5083.json"), *pinned)
    assert code == 0 and "benchmark convergence-v0.1-preview" in out and "collapse_rate = 1" in out


def test_no_text_of_a_receipt_can_write_a_line_of_its_own(
    bench: Callable[..., tuple[int, str]], ring: Keyring, desk: Any
) -> None:
    path = desk.good(provider__name="x\nVALID  other.json", run__runId="r\rVALID")
    code, out = bench("verify", str(path))
    assert code == 3
    assert [line for line in out.splitlines() if line.startswith("VALID")] == []
    assert "x\\x0aVALID  other.json" in out


# ------------------------------------------------------------- a run that will be signed


def spoil(ring: Keyring, path: Path, how: str) -> None:
    """Make the default key's file one that cannot sign."""
    if how == "missing":
        path.unlink()
    elif how == "open":
        path.chmod(0o644)
    elif how == "no key":
        path.write_text("nothing")
    elif how == "revoked":
        revoke(ring, "default", from_index=0, reason="lost", at="2027-01-01T00:00:00Z")
    else:
        rotate(ring, old="default", new=None, at="2027-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("missing", "key_unreadable"),
        ("open", "key_permissions"),
        ("no key", "key_unreadable"),
        ("revoked", "key_revoked"),
        ("retired", "key_retired"),
    ],
)
def test_a_run_that_cannot_be_signed_calls_nothing(
    bench: Callable[..., tuple[int, str]], ring: Keyring, how: str, kind: str
) -> None:
    path = ring.key_folder / "default.key"
    spoil(ring, path, how)
    flags = ("--benchmarks", "demo", "--providers", "bm25", "--limit", "3", "--run-id", "r1")
    code, out = bench("run", *flags, "--sign", "--key", str(path), "--publishable", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, kind)
    assert not (ring.workspace / "checkpoints").exists() and not (ring.workspace / "results").exists()
    code, out = bench("sign", "r1", "--key", str(path), "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, kind), "sign refuses alike"


def test_without_any_key_a_run_that_is_to_be_signed_does_not_start(
    bench: Callable[..., tuple[int, str]], ring: Keyring
) -> None:
    shutil.rmtree(ring.key_folder)
    code, out = bench("run", "--providers", "bm25", "--limit", "3", "--sign", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, "key_missing")
    assert not (ring.workspace / "checkpoints").exists()


def test_a_run_is_announced_signed_and_valid_in_one_command(
    bench: Callable[..., tuple[int, str]], ring: Keyring
) -> None:
    assert bench("run", "--providers", "bm25", "--limit", "5", "--run-id", "r1", "--publishable", "--sign")[0] == 0
    code, out = bench("verify", "results/r1/receipts")
    assert code == 0 and "not_preregistered" not in out


def test_sign_also_writes_the_statement_beside_the_receipt_once(
    ring: Keyring, bench: Callable[..., tuple[int, str]]
) -> None:
    anyio.run(lambda: run_demo(ring.workspace, "r1"))
    code, out = bench("sign", "r1", "--also", "dsse", "--json")
    (told,) = json.loads(out)["receipts"]
    statement = Path(told["dsse"])
    assert code == 0 and statement.name == f"{told['receiptId']}.intoto.jsonl"
    first = statement.read_bytes()
    predicate: Any = opened(first, ring.trusted().named("default").key)["predicate"]
    assert predicate["receiptId"] == told["receiptId"]
    assert bench("sign", "r1", "--also", "dsse")[0] == 0 and statement.read_bytes() == first
    assert bench("verify", str(statement.parent))[0] == 0, "a folder of receipts is verified as before"
