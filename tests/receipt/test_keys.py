"""Create, rotate and revoke keys: the files that change."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from bench.canonical import dumps
from bench.errors import UsageError
from bench.receipt.log.log_check import check_log
from bench.receipt.log.log_store import KeyAdded, KeyRetired, KeyRevoked, read_log
from bench.receipt.log.public_log import append
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.keys import list_keys, new_key, revoke, rotate
from bench.receipt.signing.signature import KeyRefused, PublicKey, SigningKey, decode, is_valid_signature

AT = "2026-11-01T00:00:00Z"


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    return Keyring(workspace=tmp_path / "work", environ={"XDG_CONFIG_HOME": str(tmp_path / "config")})


def with_log(ring: Keyring) -> Path:
    folder = ring.workspace / "results" / "published"
    folder.mkdir(parents=True)
    (folder / "entries.jsonl").touch()
    return folder


def code_of(ring: Keyring, path: Path | None = None) -> str:
    with pytest.raises(KeyRefused) as caught:
        ring.signing_key("receipt", path)
    assert caught.value.exit_code == 2
    assert "PRIVATE" not in str(caught.value)
    return caught.value.code


def test_a_new_key_is_private_trusted_and_never_overwritten(ring: Keyring, tmp_path: Path) -> None:
    made = new_key(ring, "default", ("receipt", "log"))
    private = tmp_path / "config" / "bench" / "keys" / "default.key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700
    public = PublicKey.load(ring.workspace / "keys" / "default.pub")
    assert public.fingerprint == made.key.fingerprint == SigningKey.load(private).public.fingerprint
    document = json.loads((ring.workspace / "keys" / "trusted.json").read_text())
    assert document["schema"] == "bench.trusted/1" and document["logOrigin"] == "bench.local/log"
    assert document["keys"] == [
        {
            "name": "default", "fingerprint": made.key.fingerprint, "publicKey": public.pem, "status": "active",
            "roles": ["receipt", "log"], "validFromIndex": 0, "validToIndex": None, "revokedFromIndex": None,
            "reason": None,
        }
    ]  # fmt: skip
    before = private.read_bytes()
    with pytest.raises(UsageError):
        new_key(ring, "default", ("receipt",))
    assert private.read_bytes() == before
    assert [key["name"] for key in list_keys(ring)] == ["default"]


def test_a_private_key_is_not_created_in_a_work_tree_that_does_not_ignore_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    ring = Keyring(workspace=tmp_path, environ={}, folder=tmp_path / "deep" / "er")
    with pytest.raises(UsageError, match="work tree"):
        new_key(ring, "default", ("receipt",))
    assert not (tmp_path / "keys").exists()
    (tmp_path / ".gitignore").write_text("deep/\n")
    assert new_key(ring, "default", ("receipt",)).key.name == "default"


def test_new_key_lists_the_public_files_to_commit_and_never_the_private_key(tmp_path: Path) -> None:
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    ring = Keyring(workspace=work, environ={}, folder=tmp_path / "private")
    assert new_key(ring, "default", ("receipt", "log")).to_commit == (Path("keys"),)
    seen = subprocess.run(["git", "-C", str(work), "add", "-An"], check=True, capture_output=True, text=True).stdout
    assert sorted(seen.split()) == ["'keys/default.pub'", "'keys/trusted.json'", "add", "add"]
    git = ["git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x"]
    subprocess.run([*git, "add", "keys"], check=True)
    subprocess.run([*git, "commit", "-qm", "A key"], check=True)
    with_log(ring)
    assert rotate(ring, old=None, new=None, at=AT).to_commit == (Path("keys"), Path("results/published"))


def test_outside_a_git_checkout_there_is_nothing_to_commit(ring: Keyring) -> None:
    assert new_key(ring, "default", ("receipt",)).to_commit == ()


def test_signing_keys_are_searched_in_the_documented_order(ring: Keyring, tmp_path: Path) -> None:
    files = {}
    for name in ("flag", "file", "text"):
        files[name] = tmp_path / f"{name}.key"
        files[name].write_bytes(SigningKey.generate().pem())
        files[name].chmod(0o600)
    new_key(ring, "only", ("receipt",))
    ring.environ["MEMORYBENCH_SIGNING_KEY_FILE"] = str(files["file"])
    ring.environ["MEMORYBENCH_SIGNING_KEY"] = files["text"].read_text()

    def found(path: Path | None = None) -> str:
        return ring.signing_key("receipt", path).public.fingerprint

    def of(name: str) -> str:
        return SigningKey.load(files[name]).public.fingerprint

    assert found(files["flag"]) == of("flag")
    assert found() == of("file")
    del ring.environ["MEMORYBENCH_SIGNING_KEY_FILE"]
    assert found() == of("text")
    assert "MEMORYBENCH_SIGNING_KEY" not in ring.environ
    assert found() == ring.trusted().keys[0].fingerprint
    new_key(ring, "second", ("receipt",))
    with pytest.raises(KeyRefused, match="only, second"):
        ring.signing_key("receipt")
    with pytest.raises(KeyRefused, match='no active private key has the role "log"'):
        ring.signing_key("log")


def test_an_encrypted_key_needs_its_passphrase_file(ring: Keyring, tmp_path: Path) -> None:
    path, phrase = tmp_path / "k.key", tmp_path / "phrase"
    key = Ed25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame")))
    path.chmod(0o600)
    assert code_of(ring, path) == "key_unreadable"
    ring.environ["MEMORYBENCH_SIGNING_KEY_PASSPHRASE_FILE"] = str(phrase)
    phrase.write_text("wrong\n")
    assert code_of(ring, path) == "key_unreadable"
    phrase.write_text("open sesame\n")
    assert ring.signing_key("receipt", path)


def test_a_rotation_writes_a_statement_signed_by_both_keys_and_two_log_entries(ring: Keyring) -> None:
    folder = with_log(ring)
    old = new_key(ring, "default", ("receipt", "log")).key
    key = ring.signing_key("log")
    append(folder, [], ring.trusted(), key, AT)
    change = rotate(ring, old=None, new=None, at=AT)
    assert (change.key.name, change.key.roles, change.log_pending) == ("default-2", ("receipt", "log"), False)
    statement = json.loads((ring.workspace / "keys" / "rotations" / "1.json").read_text())
    signatures = statement.pop("signatures")
    for signature, entry in zip(signatures, (old, change.key), strict=True):
        assert signature["publicKeyFingerprint"] == entry.fingerprint
        assert is_valid_signature(entry.key, decode(signature["value"]), dumps(statement))
    view = read_log(folder)
    assert [type(entry) for entry in view.entries] == [KeyAdded, KeyAdded, KeyRetired]
    assert check_log(view, ring.trusted()).value()["verdict"] == "VALID"
    retired = ring.trusted().named("default")
    assert (retired.status, retired.valid_to_index) == ("retired", 1)
    assert old.fingerprint in (ring.workspace / "keys" / "ROTATION.md").read_text()
    store = ring.trusted()
    assert store.decide(old.fingerprint, "receipt", 0).trusted
    assert store.decide(old.fingerprint, "receipt", 1).code == "key_retired"
    assert store.decide(old.fingerprint, "receipt", None).code == "key_retired"
    with pytest.raises(KeyRefused):
        rotate(ring, old="default", new=None, at=AT)


def test_a_revocation_is_logged_with_another_key_or_stays_pending(ring: Keyring) -> None:
    folder = with_log(ring)
    first, second = (new_key(ring, name, ("receipt", "log")).key for name in ("one", "two"))
    change = revoke(ring, "one", from_index=7, reason="laptop stolen", at=AT)
    assert not change.log_pending
    view = read_log(folder)
    entry = view.entries[-1]
    assert isinstance(entry, KeyRevoked) and (entry.fingerprint, entry.from_index) == (first.fingerprint, 7)
    assert check_log(view, ring.trusted()).value()["verdict"] == "VALID"
    store = ring.trusted()
    assert store.decide(first.fingerprint, "receipt", 6).code == "key_revoked_later"
    assert store.decide(first.fingerprint, "receipt", 7).code == "key_revoked"
    assert store.decide(first.fingerprint, "receipt", None).code == "key_revoked"
    last = revoke(ring, second.fingerprint, from_index=0, reason="lost too", at=AT)
    assert last.logged and last.log_pending
    findings = check_log(read_log(folder), ring.trusted()).findings
    assert {f.code for f in findings} == {"log_pending", "key_revoked"}


def test_a_revocation_needs_a_known_key_and_a_reason(ring: Keyring) -> None:
    new_key(ring, "one", ("receipt",))
    with pytest.raises(UsageError):
        revoke(ring, "one", from_index=0, reason=" ", at=AT)
    with pytest.raises(UsageError):
        revoke(ring, "two", from_index=0, reason="x", at=AT)
    assert revoke(ring, "one", from_index=0, reason="x", at=AT).logged is False
