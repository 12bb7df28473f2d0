"""The commands for receipts and keys: their output, files and exit codes."""

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
from bench.receipt.signing.dsse import open_envelope
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.keys import revoke, rotate
from bench.receipt.signing.signature import sign
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


def test_sign_verify_publish_rotate_retract_and_revoke_work_one_after_the_other(
    ring: Keyring, bench: Callable[..., tuple[int, str]], desk: Any, make: Any, tmp_path: Path
) -> None:
    anyio.run(lambda: run_demo(ring.workspace, "r1"))
    code, out = bench("sign", "r1", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["refused"] == [] and set(document["receipts"][0]) == {
        "receiptId", "file", "itemsFile", "benchmark", "provider", "resultDigest",
    }  # fmt: skip
    file = document["receipts"][0]["file"]
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
    assert bench("publish", "--retract", document["receipts"][0]["receiptId"], "--reason", "a wrong prompt")[0] == 0
    code, out = bench("verify", file)
    assert code == 4 and "a wrong prompt" in out and "mrr  " not in out
    assert bench("keys", "revoke", "default", "--from-index", "0", "--reason", "lost")[0] == 0
    assert bench("verify", file)[0] == 3
    other = tmp_path / "other.pub"
    shutil.copy(ring.workspace / "keys" / "default-2.pub", other)
    code, out = bench("verify", file, "--pubkey", str(other))
    assert code == 3 and "key_unknown" in out


def test_a_signed_interval_or_isolation_proof_that_contradicts_the_receipt_is_invalid(
    ring: Keyring, bench: Callable[..., tuple[int, str]], desk: Any, make: Any
) -> None:
    anyio.run(lambda: run_demo(ring.workspace, "r1"))
    file = Path(json.loads(bench("sign", "r1", "--json")[1])["receipts"][0]["file"])
    original = json.loads(file.read_text())
    public = desk.folder / "me.pub"
    public.write_text(desk.store().keys[0].public_key)

    def verified(change: Callable[[dict[str, Any]], object]) -> tuple[int, str]:
        document = json.loads(json.dumps(original))
        change(document)
        file.write_text(json.dumps(sign(make.with_digests(document), desk.key)))
        return bench("verify", str(file), "--pubkey", str(public))

    def interval(**bounds: float) -> Callable[[dict[str, Any]], object]:
        return lambda body: body["scores"]["deterministic"]["mrr"]["interval"].update(bounds)

    value = original["scores"]["deterministic"]["mrr"]["value"]
    assert verified(lambda body: None)[0] == 0
    code, out = verified(interval(low=value - 1e-4, high=value + 1e-4))
    assert code == 5 and out.startswith("INVALID") and "interval_mismatch" in out
    code, out = verified(interval(low=0, high=value - 0.01))
    assert code == 5 and "does not contain the value" in out
    code, out = verified(lambda body: body["run"]["isolationProof"].update(probed=3, passed=0, failed=3))
    assert code == 5 and "invariant_isolation" in out
    code, out = verified(interval(level=0.5))
    assert code == 5 and "interval_mismatch" in out


def test_usage_errors_have_exit_code_2(bench: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
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
    assert bench("run", "--providers", "bm25", "--limit", "2", "--run-id", "r8")[0] == 0
    code, out = bench("sign", "r8", "--key", str(key), "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, "key_permissions")


def test_keys_new_prints_the_fingerprint_and_accepts_roles_and_key_dir(
    bench: Callable[..., tuple[int, str]], ring: Keyring, tmp_path: Path
) -> None:
    folder = tmp_path / "k"
    code, out = bench("keys", "new", "log-key", "--roles", "log", "--key-dir", str(folder), "--json")
    document = json.loads(out)
    assert code == 0 and document["roles"] == ["log"] and document["fingerprint"].startswith("sha256:")
    assert stat.S_IMODE((folder / "log-key.key").stat().st_mode) == 0o600
    assert ring.trusted().named("log-key").fingerprint == document["fingerprint"]


def test_an_untrusted_or_invalid_receipt_is_shown_as_claims_without_scores(
    bench: Callable[..., tuple[int, str]], ring: Keyring, desk: Any, make: Any
) -> None:
    path = desk.good()
    code, out = bench("verify", str(path))
    assert code == 3 and out.startswith("UNTRUSTED") and "claims    demo 1 x bm25 1" in out
    assert "accuracy" not in out and "0.9000" not in out
    desk.key = ring.signing_key("receipt")
    code, out = bench("verify", str(desk.good(scores__judged__accuracy__value=0.95)))
    assert code == 5 and "measured" not in out and "claims    demo" in out


def test_an_external_receipt_with_a_good_signature_and_an_impossible_score_is_invalid(
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


def test_the_text_of_a_receipt_cannot_print_an_extra_line(
    bench: Callable[..., tuple[int, str]], ring: Keyring, desk: Any
) -> None:
    path = desk.good(provider__name="x\nVALID  other.json", run__runId="r\rVALID")
    code, out = bench("verify", str(path))
    assert code == 3
    assert [line for line in out.splitlines() if line.startswith("VALID")] == []
    assert "x\\x0aVALID  other.json" in out


# ------------------------------------------------------------- runs with --sign


def spoil(ring: Keyring, path: Path, how: str) -> None:
    """Change the default key so that it cannot sign."""
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
def test_a_run_with_an_unusable_signing_key_does_not_start(
    bench: Callable[..., tuple[int, str]], ring: Keyring, how: str, kind: str
) -> None:
    path = ring.key_folder / "default.key"
    spoil(ring, path, how)
    flags = ("--benchmarks", "demo", "--providers", "bm25", "--limit", "3", "--run-id", "r1")
    code, out = bench("run", *flags, "--sign", "--key", str(path), "--publishable", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, kind)
    assert not (ring.workspace / "checkpoints").exists() and not (ring.workspace / "results").exists()
    assert bench("run", *flags)[0] == 0
    code, out = bench("sign", "r1", "--key", str(path), "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, kind), "sign refuses the key too"


def test_a_run_with_sign_and_without_any_key_does_not_start(
    bench: Callable[..., tuple[int, str]], ring: Keyring
) -> None:
    shutil.rmtree(ring.key_folder)
    code, out = bench("run", "--providers", "bm25", "--limit", "3", "--sign", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, "key_missing")
    assert not (ring.workspace / "checkpoints").exists()


def test_a_run_with_publishable_and_sign_gives_a_valid_preregistered_receipt(
    bench: Callable[..., tuple[int, str]], ring: Keyring
) -> None:
    assert bench("run", "--providers", "bm25", "--limit", "5", "--run-id", "r1", "--publishable", "--sign")[0] == 0
    code, out = bench("verify", "results/r1/receipts")
    assert code == 0 and "not_preregistered" not in out


def test_sign_also_dsse_writes_the_in_toto_statement_once(ring: Keyring, bench: Callable[..., tuple[int, str]]) -> None:
    anyio.run(lambda: run_demo(ring.workspace, "r1"))
    code, out = bench("sign", "r1", "--also", "dsse", "--json")
    (document,) = json.loads(out)["receipts"]
    statement = Path(document["dsse"])
    assert code == 0 and statement.name == f"{document['receiptId']}.intoto.jsonl"
    first = statement.read_bytes()
    predicate: Any = open_envelope(first, ring.trusted().named("default").key)["predicate"]
    assert predicate["receiptId"] == document["receiptId"]
    assert bench("sign", "r1", "--also", "dsse")[0] == 0 and statement.read_bytes() == first
    assert bench("verify", str(statement.parent))[0] == 0, "a folder of receipts is verified as before"
