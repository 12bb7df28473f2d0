"""Key files and where they are searched: which are refused, with which message, and that no message has a key."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from bench.canonical import dumps
from bench.errors import UsageError
from bench.receipt.files import in_work_tree, is_ignored, uncommitted
from bench.receipt.log import publish as announcing
from bench.receipt.log.log_store import read_log
from bench.receipt.signing import keyring as keycheck
from bench.receipt.signing.keyring import ChildError, Keyring, ask_passphrase, run_in_child, serve_parent
from bench.receipt.signing.keys import all_or_nothing, list_keys, new_key, revoke, rotate
from bench.receipt.signing.signature import KeyRefused, PublicKey, SigningKey, decode, is_valid_signature
from bench.receipt.signing.trust_store import TrustStore
from bench.settings import Environment
from tests.rows import each_row

AT = "2026-11-01T00:00:00Z"
SEED = bytes(range(32))
KEY = SigningKey.from_raw(SEED)
PEM = KEY.pem()


def pem_of(key: Any, **encryption: Any) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption.get("by", NoEncryption())))


def refusal(act: Callable[[], object]) -> KeyRefused:
    with pytest.raises(KeyRefused) as caught:
        act()
    text = f"{caught.value} {caught.value.hint}"
    assert "PRIVATE" not in text and "MC4C" not in text and SEED.hex() not in text
    assert (caught.value.exit_code, caught.value.kind) == (2, caught.value.code)
    return caught.value


NOT_A_KEY = ("key_unreadable", "this is not a PEM private key")
PRIVATE: list[tuple[str, bytes, tuple[str, str]]] = [
    ("nothing", b"", NOT_A_KEY),
    ("words", b"open sesame", NOT_A_KEY),
    ("zeros", bytes(64), NOT_A_KEY),
    ("the raw seed", SEED, NOT_A_KEY),
    (
        "a public key",
        KEY.public.pem.encode(),
        ("key_unreadable", "this is a public key, but signing needs the private key"),
    ),
    ("cut", PEM[:60], NOT_A_KEY),
    ("no last line", PEM[: PEM.rindex(b"-----END")], NOT_A_KEY),
    ("another label", PEM.replace(b"PRIVATE KEY", b"SECRET KEY"), NOT_A_KEY),
    ("altered base64", PEM.replace(b"MC4C", b"!!!!"), NOT_A_KEY),
    (
        "a DER file",
        Ed25519PrivateKey.generate().private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        NOT_A_KEY,
    ),
    ("an Ed448 key", pem_of(Ed448PrivateKey.generate()), ("key_type", "the private key is not Ed25519")),
    ("an X25519 key", pem_of(X25519PrivateKey.generate()), ("key_type", "the private key is not Ed25519")),
    ("a P-256 key", pem_of(generate_ec(SECP256R1())), ("key_type", "the private key is not Ed25519")),
]


@each_row(("pem", "expected"), [case[1:] for case in PRIVATE])
def test_a_file_that_is_not_an_ed25519_private_key_is_refused_with_a_message(
    tmp_path: Path, pem: bytes, expected: tuple[str, str]
) -> None:
    path = tmp_path / "k.key"
    path.write_bytes(pem)
    path.chmod(0o600)
    for act, where in [
        (lambda: SigningKey.load(path), str(path)),
        (lambda: SigningKey.from_pem(pem, where="MEMORYBENCH_SIGNING_KEY"), "MEMORYBENCH_SIGNING_KEY"),
    ]:
        error = refusal(act)
        assert ((error.code, error.message), error.where) == (expected, where)


PUBLIC: list[tuple[str, bytes, str, str]] = [
    ("nothing", b"", "key_unreadable", "this is not a PEM public key"),
    ("a private key", PEM, "key_unreadable", "this is not a PEM public key"),
    ("a cut key", KEY.public.pem.encode()[:-30], "key_unreadable", "this is not a PEM public key"),
    ("a longer key", KEY.public.pem.encode().replace(b"=\n", b"AA==\n"),
     "key_unreadable", "this is not a PEM public key"),
    ("P-256", generate_ec(SECP256R1()).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
     "key_type", "the public key is not Ed25519"),
    ("Ed448", Ed448PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
     "key_type", "the public key is not Ed25519"),
    ("X25519", X25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
     "key_type", "the public key is not Ed25519"),
]  # fmt: skip


@each_row(("pem", "code", "message"), [case[1:] for case in PUBLIC])
def test_a_file_that_is_not_an_ed25519_public_key_is_refused_with_a_message(
    tmp_path: Path, pem: bytes, code: str, message: str
) -> None:
    path = tmp_path / "k.pub"
    path.write_bytes(pem)
    error = refusal(lambda: PublicKey.load(path))
    assert (error.code, error.message, error.where) == (code, message, str(path))


def test_a_public_key_has_the_same_fingerprint_in_every_spelling_of_its_file(tmp_path: Path) -> None:
    for text in (
        KEY.public.pem,
        KEY.public.pem + "\n\n",
        "made by me\n" + KEY.public.pem,
        KEY.public.pem.replace("\n", "\r\n"),
    ):
        path = tmp_path / "k.pub"
        path.write_bytes(text.encode())
        assert PublicKey.load(path).fingerprint == KEY.public.fingerprint
    assert PublicKey.from_raw(KEY.public.raw) == KEY.public
    assert "PRIVATE" not in repr(KEY) and SEED.hex() not in repr(KEY)


@each_row("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o660, 0o666, 0o777])
def test_a_private_key_with_permissions_for_group_or_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "k.key"
    path.write_bytes(PEM)
    path.chmod(mode)
    error = refusal(lambda: SigningKey.load(path))
    assert (error.code, error.hint) == ("key_permissions", f"make the file private with: chmod 600 {path}")
    assert str(error) == f"{path}: group or others may read the private key (mode {mode:04o})"


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_public_key_given_as_private_key_is_refused_as_such_with_any_file_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "me.pub"
    path.write_text(KEY.public.pem)
    path.chmod(mode)
    error = refusal(lambda: SigningKey.load(path))
    assert (error.code, str(error)) == (
        "key_unreadable",
        f"{path}: this is a public key, but signing needs the private key",
    )
    assert error.hint == "name the private key file NAME.key that bench keys new created, or remove --key"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_private_key_with_permissions_for_its_owner_only_is_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "k.key"
    path.write_bytes(PEM)
    path.chmod(mode)
    assert SigningKey.load(path).public == KEY.public


def test_a_key_in_the_exempt_secrets_folder_may_have_any_file_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = tmp_path / "run" / "secrets"
    secrets.mkdir(parents=True)
    monkeypatch.setattr("bench.receipt.signing.signature.EXEMPT_FOLDER", secrets)
    (secrets / "k").write_bytes(PEM)
    (secrets / "k").chmod(0o444)
    link = tmp_path / "link"
    link.symlink_to(secrets / "k")
    assert SigningKey.load(secrets / "k").public == SigningKey.load(link).public == KEY.public
    outside = tmp_path / "outside"
    outside.write_bytes(PEM)
    outside.chmod(0o444)
    (secrets / "out").symlink_to(outside)
    assert refusal(lambda: SigningKey.load(secrets / "out")).code == "key_permissions"


@pytest.mark.parametrize(("place", "words"), [("none", "No such file or directory"), (".", "Is a directory")])
def test_a_missing_key_file_or_a_folder_is_key_unreadable(tmp_path: Path, place: str, words: str) -> None:
    for load in (SigningKey.load, PublicKey.load):
        error = refusal(lambda load=load: load(tmp_path / place))  # type: ignore[misc]
        assert (error.code, str(error)) == ("key_unreadable", f"{tmp_path / place}: {words}")


ENCRYPTED = pem_of(Ed25519PrivateKey.from_private_bytes(SEED), by=BestAvailableEncryption(b"open sesame"))
CLOSED = "the private key is encrypted and no passphrase was given"
WRONG = "the passphrase of the private key is wrong"


@each_row(
    ("passphrase", "message"),
    [
        (None, CLOSED),
        (lambda: None, CLOSED),
        (lambda: b"", CLOSED),
        (lambda: b"open", WRONG),
        (lambda: b"open sesame ", WRONG),
    ],
)
def test_an_encrypted_key_can_be_read_only_with_its_passphrase(passphrase: Any, message: str) -> None:
    error = refusal(lambda: SigningKey.from_pem(ENCRYPTED, where="k", passphrase=passphrase))
    assert (error.code, error.message) == ("key_unreadable", message)
    assert SigningKey.from_pem(ENCRYPTED, where="k", passphrase=lambda: b"open sesame").public == KEY.public


def test_no_passphrase_is_requested_for_a_key_that_is_not_encrypted(tmp_path: Path) -> None:
    def never() -> bytes:
        raise AssertionError("a passphrase was requested")

    assert SigningKey.from_pem(PEM, where="k", passphrase=never).public == KEY.public


# ------------------------------------------------------------------------- where keys are searched


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    return Keyring(workspace=tmp_path / "work", environ={"XDG_CONFIG_HOME": str(tmp_path / "config")})


def key_file(folder: Path, name: str, pem: bytes = PEM) -> Path:
    path = folder / name
    path.write_bytes(pem)
    path.chmod(0o600)
    return path


def test_the_key_folder_is_the_given_one_or_in_xdg_config_home_or_in_the_home_folder(tmp_path: Path) -> None:
    work = tmp_path / "work"
    assert Keyring(workspace=work, environ={}, folder=tmp_path / "k").key_folder == tmp_path / "k"
    assert Keyring(workspace=work, environ={"XDG_CONFIG_HOME": "/c"}).key_folder == Path("/c/bench/keys")
    for environ in ({}, {"XDG_CONFIG_HOME": ""}):
        assert Keyring(workspace=work, environ=environ).key_folder == Path.home() / ".config" / "bench" / "keys"


def test_the_log_key_variable_wins_over_the_signing_key_variable(ring: Keyring, tmp_path: Path) -> None:
    new_key(ring, "own", ("receipt", "log"))
    for name in ("signing", "log"):
        path = key_file(tmp_path, f"{name}.key", SigningKey.generate().pem())
        ring.environ["MEMORYBENCH_SIGNING_KEY_FILE" if name == "signing" else "MEMORYBENCH_LOG_KEY_FILE"] = str(path)

    def of(name: str) -> PublicKey:
        return SigningKey.load(tmp_path / f"{name}.key").public

    assert ring.signing_key("receipt").public == of("signing")
    assert ring.signing_key("log").public == of("log")
    del ring.environ["MEMORYBENCH_LOG_KEY_FILE"]
    assert ring.signing_key("log").public == of("signing")
    ring.environ["MEMORYBENCH_SIGNING_KEY_FILE"] = ""
    assert ring.signing_key("log").public.fingerprint == ring.trusted().named("own").fingerprint


def test_the_hint_without_any_key_names_keys_new_and_the_key_file_variable(ring: Keyring) -> None:
    error = refusal(lambda: ring.signing_key("receipt"))
    assert (error.code, error.where) == ("key_missing", str(ring.key_folder))
    assert error.message == 'no active private key has the role "receipt"'
    assert error.hint == (
        "create a key (bench keys new NAME), or name a key file with --key or MEMORYBENCH_SIGNING_KEY_FILE"
    )
    new_key(ring, "r", ("receipt",))
    assert refusal(lambda: ring.signing_key("log")).message == 'no active private key has the role "log"'
    (ring.key_folder / "r.key").unlink()
    assert refusal(lambda: ring.signing_key("receipt")).code == "key_missing"


def test_several_active_keys_are_key_ambiguous_and_listed(ring: Keyring) -> None:
    for name in ("a", "b", "c"):
        new_key(ring, name, ("receipt", "log") if name != "c" else ("log",))
    error = refusal(lambda: ring.signing_key("receipt"))
    assert (error.code, error.message) == ("key_ambiguous", 'several active keys have the role "receipt": a, b')
    assert error.hint == "choose a key with --key FILE"
    assert refusal(lambda: ring.signing_key("log")).message == 'several active keys have the role "log": a, b, c'


def test_a_private_key_that_differs_from_trusted_json_is_not_used(ring: Keyring) -> None:
    new_key(ring, "default", ("receipt", "log"))
    path = key_file(ring.key_folder, "default.key", SigningKey.generate().pem())
    for act in (
        lambda: ring.signing_key("receipt"),
        lambda: ring.private_key_of("default"),
        lambda: rotate(ring, old=None, new=None, at=AT),
    ):
        error = refusal(act)
        assert (error.code, error.message) == (
            "key_fingerprint",
            "the private key default is not the key with this name in trusted.json",
        )
        assert error.where == str(path)
    assert [key.status for key in ring.trusted().keys] == ["active"], "no rotation was started with an unknown key"
    assert refusal(lambda: ring.private_key_of("none")).code == "key_unreadable"


@pytest.mark.parametrize(
    ("roles", "spoil", "code", "message"),
    [
        (("log",), None, "key_role", 'the key k has no role "receipt"'),
        (("receipt",), "retire", "key_retired", "the key k is retired: new signatures with it are not trusted"),
        (("receipt",), "revoke", "key_revoked", "the key k is revoked: new signatures with it are not trusted"),
    ],
)
def test_a_given_key_that_is_retired_revoked_or_without_the_role_is_not_used(
    ring: Keyring, roles: Any, spoil: str | None, code: str, message: str
) -> None:
    new_key(ring, "k", roles)
    if spoil == "retire":
        rotate(ring, old="k", new="next", at=AT)
    elif spoil == "revoke":
        revoke(ring, "k", from_index=0, reason="lost", at=AT)
    path = ring.key_folder / "k.key"
    error = refusal(lambda: ring.signing_key("receipt", path))
    assert (error.code, error.message, error.where) == (code, message, str(path))
    ring.environ["MEMORYBENCH_SIGNING_KEY"] = path.read_text()
    assert refusal(lambda: ring.signing_key("receipt")).where == "MEMORYBENCH_SIGNING_KEY"
    assert "MEMORYBENCH_SIGNING_KEY" not in ring.environ, "read once, even when it is refused"


def test_a_given_key_that_is_not_in_trusted_json_can_sign(ring: Keyring, tmp_path: Path) -> None:
    assert ring.signing_key("receipt", key_file(tmp_path, "k")).public == KEY.public


def test_the_passphrase_file_must_be_readable_and_wins_over_the_prompt(ring: Keyring, tmp_path: Path) -> None:
    path = key_file(tmp_path, "k", ENCRYPTED)
    ring_with_prompt = Keyring(workspace=ring.workspace, environ={}, prompt=lambda: b"open sesame")
    assert ring_with_prompt.signing_key("receipt", path).public == KEY.public
    ring_with_prompt.environ["MEMORYBENCH_SIGNING_KEY_PASSPHRASE_FILE"] = str(tmp_path / "none")
    error = refusal(lambda: ring_with_prompt.signing_key("receipt", path))
    assert str(error) == f"{tmp_path / 'none'}: No such file or directory"
    (tmp_path / "crlf").write_bytes(b"open sesame\r\n")
    ring_with_prompt.environ["MEMORYBENCH_SIGNING_KEY_PASSPHRASE_FILE"] = str(tmp_path / "crlf")
    assert ring_with_prompt.signing_key("receipt", path).public == KEY.public


def test_the_passphrase_prompt_appears_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert ask_passphrase() is None
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("getpass.getpass", lambda prompt: f"{prompt}é")
    assert ask_passphrase() == "passphrase: é".encode()


def test_log_key_or_none_returns_an_active_trusted_key_that_is_not_excluded(ring: Keyring, tmp_path: Path) -> None:
    assert ring.log_key_or_none() is None
    first, second = (new_key(ring, name, ("log",)).key.fingerprint for name in ("a", "b"))

    def found(**excluding: str) -> str | None:
        key = ring.log_key_or_none(**excluding)
        return key.public.fingerprint if key else None

    assert (found(), found(excluding=first), found(excluding=second)) == (first, second, first)
    ring.environ["MEMORYBENCH_LOG_KEY_FILE"] = str(key_file(tmp_path, "untrusted"))
    assert found() == first, "a key that is not trusted is ignored"
    ring.environ["MEMORYBENCH_LOG_KEY_FILE"] = str(ring.key_folder / "b.key")
    assert found() == second
    (ring.key_folder / "a.key").unlink()
    (ring.key_folder / "b.key").unlink()
    assert found() is None


# ------------------------------------------------------------------------- new, rotate, revoke


@pytest.mark.parametrize("name", ["", ".key", "a/b", "../a", "a b", "é", "a\n", "x" * 101])
def test_a_key_name_that_is_not_a_safe_file_name_is_a_usage_error(ring: Keyring, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        new_key(ring, name, ("receipt",))
    assert str(caught.value) == f"{name!r} is not a valid name of a key"
    assert caught.value.hint == "use letters, digits, dot, dash and underscore; do not begin with a dot or dash"
    assert not ring.key_folder.exists() and not ring.workspace.exists()


@pytest.mark.parametrize("place", ["private", "public"])
def test_new_key_does_not_overwrite_an_existing_file(ring: Keyring, place: str) -> None:
    taken = ring.key_folder / "k.key" if place == "private" else ring.workspace / "keys" / "k.pub"
    taken.parent.mkdir(parents=True)
    taken.write_text("old")
    with pytest.raises((UsageError, KeyRefused), match=re.escape(str(taken))) as caught:
        new_key(ring, "k", ("receipt",))
    assert taken.read_text() == "old"
    if place == "public":
        assert caught.value.hint == "choose another name"
    assert not ring.trusted_path.exists()


def test_a_key_pair_is_created_completely_or_not_at_all(ring: Keyring, tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(OSError, match="no room"), all_or_nothing(*files):
        files[0].touch()
        raise OSError("no room")
    assert not files[0].exists()
    ring.trusted_path.parent.mkdir(parents=True)
    ring.trusted_path.mkdir()
    with pytest.raises((OSError, KeyRefused)):
        new_key(ring, "k", ("receipt",))
    assert list(ring.trusted_path.parent.glob("k*")) == []


def test_list_keys_shows_no_key_material(ring: Keyring) -> None:
    made = new_key(ring, "k", ("log",)).key
    assert list_keys(ring) == [
        {
            "name": "k", "fingerprint": made.fingerprint, "roles": ["log"], "status": "active", "validFromIndex": 0,
            "validToIndex": None, "revokedFromIndex": None, "reason": None,
        }
    ]  # fmt: skip


def test_every_rotation_writes_its_own_statement_even_without_a_log(ring: Keyring) -> None:
    new_key(ring, "default", ("receipt",))
    for _ in range(3):
        rotate(ring, old=None, new=None, at=AT)
    folder = ring.workspace / "keys" / "rotations"
    assert sorted(path.name for path in folder.iterdir()) == ["0-2.json", "0-3.json", "0.json"]
    chain = [json.loads((folder / name).read_text()) for name in ("0.json", "0-2.json", "0-3.json")]
    assert [(one["old"]["name"], one["new"]["name"]) for one in chain] == [
        ("default", "default-2"), ("default-2", "default-3"), ("default-3", "default-4"),
    ]  # fmt: skip
    for statement in chain:
        signatures = statement.pop("signatures")
        for signature, side in zip(signatures, ("old", "new"), strict=True):
            key = ring.trusted().named(statement[side]["name"]).key
            assert signature["publicKeyFingerprint"] == key.fingerprint == statement[side]["fingerprint"]
            assert is_valid_signature(key, decode(signature["value"]), dumps(statement))
    notes = (ring.workspace / "keys" / "ROTATION.md").read_text().splitlines()
    assert len(notes) == 3 and notes[0].startswith(f"- {AT}, log index 0: default `sha256:")


def test_a_rotation_needs_exactly_one_active_key_and_its_private_key(ring: Keyring) -> None:
    error = refusal(lambda: rotate(ring, old=None, new=None, at=AT))
    assert (error.code, error.message, error.hint) == (
        "key_ambiguous",
        "expected exactly one active key to replace; active keys: none",
        "name the key to replace with --old",
    )
    new_key(ring, "a", ("receipt",))
    new_key(ring, "b-7", ("receipt",))
    assert (
        refusal(lambda: rotate(ring, old=None, new=None, at=AT)).message
        == "expected exactly one active key to replace; active keys: a, b-7"
    )
    assert rotate(ring, old="b-7", new=None, at=AT).key.name == "b-2"
    error = refusal(lambda: rotate(ring, old="b-7", new=None, at=AT))
    assert (error.code, error.message) == ("key_retired", "the key b-7 is already retired")
    (ring.key_folder / "a.key").unlink()
    assert refusal(lambda: rotate(ring, old="a", new="c", at=AT)).code == "key_unreadable"
    assert ring.trusted().named("a").status == "active"


def test_a_rotation_with_an_invalid_log_changes_nothing(ring: Keyring) -> None:
    folder = ring.workspace / "results" / "published"
    folder.mkdir(parents=True)
    (folder / "entries.jsonl").write_bytes(b"{}\n")
    new_key(ring, "default", ("receipt", "log"))
    before = {path: path.read_bytes() for path in ring.workspace.rglob("*") if path.is_file()}
    with pytest.raises(Exception, match="the log fails its verification, so nothing was appended: entry 0: the schema"):
        rotate(ring, old=None, new=None, at=AT)
    assert {path: path.read_bytes() for path in ring.workspace.rglob("*") if path.is_file()} == before
    assert [path.name for path in ring.key_folder.iterdir()] == ["default.key"]


REVOKED: list[tuple[int, str, str, str]] = [
    (-1, "lost", "--from-index -1: expected 0 or more", "0 revokes all signatures of the key"),
    (0, "", "a revocation needs a reason", "give a reason with --reason TEXT"),
    (0, " \t\n", "a revocation needs a reason", "give a reason with --reason TEXT"),
]


@pytest.mark.parametrize(("index", "reason", "message", "hint"), REVOKED)
def test_a_revocation_needs_an_index_of_at_least_0_and_a_reason(
    ring: Keyring, index: int, reason: str, message: str, hint: str
) -> None:
    new_key(ring, "k", ("receipt",))
    with pytest.raises(UsageError) as caught:
        revoke(ring, "k", from_index=index, reason=reason, at=AT)
    assert (str(caught.value), caught.value.hint) == (message, hint)
    assert ring.trusted().named("k").status == "active"


def test_a_later_revocation_can_only_lower_the_index(ring: Keyring) -> None:
    new_key(ring, "k", ("receipt",))
    revoke(ring, "k", from_index=5, reason="lost", at=AT)
    error = refusal(lambda: revoke(ring, "k", from_index=6, reason="found again", at=AT))
    assert (error.code, error.hint) == ("key_revoked", "give an index up to 5")
    assert error.message == "the key k is already revoked from index 5 on; a later index is not allowed"
    revoke(ring, "k", from_index=2, reason="lost earlier", at=AT)
    entry = ring.trusted().named("k")
    assert (entry.revoked_from_index, entry.reason) == (2, "lost earlier")


def test_a_retired_key_can_be_revoked_and_keeps_its_last_valid_index(ring: Keyring) -> None:
    new_key(ring, "k", ("receipt", "log"))
    rotate(ring, old="k", new="n", at=AT)
    change = revoke(ring, "k", from_index=0, reason="lost", at=AT)
    assert (change.key.status, change.key.valid_to_index, change.logged) == ("revoked", 0, False)
    assert TrustStore.load(ring.trusted_path).named("k") == change.key


def test_a_new_key_alone_appends_no_log_entry(ring: Keyring) -> None:
    folder = ring.workspace / "results" / "published"
    folder.mkdir(parents=True)
    (folder / "entries.jsonl").touch()
    new_key(ring, "one", ("receipt", "log"))
    assert read_log(folder).lines == ()
    revoke(ring, "one", from_index=0, reason="lost at once", at=AT)
    assert [entry.type for entry in read_log(folder).entries] == ["key-revoked"]


# ------------------------------------------------------------------------- git


def test_git_work_trees_and_ignored_files_are_recognized_at_any_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    (work / "deep" / "er").mkdir(parents=True)
    assert not in_work_tree(work / "deep") and uncommitted(work, (Path("deep"),)) == ()
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    assert in_work_tree(work / "deep" / "er") and not in_work_tree(tmp_path)
    (work / ".gitignore").write_text("*.key\n")
    assert is_ignored(work / "deep" / "a.key", work) and not is_ignored(work / "deep" / "a.pub", work)
    (work / "deep" / "a.pub").touch()
    assert uncommitted(work, (Path("deep"), Path("none"))) == (Path("deep"),)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert uncommitted(work, (Path("deep"),)) == () and not is_ignored(work / "deep" / "a.key", work)
    ring = Keyring(workspace=work, environ={}, folder=work / "deep")
    with pytest.raises(UsageError) as caught:
        new_key(ring, "k", ("receipt",))
    assert str(caught.value) == f"{work / 'deep' / 'k.key'} is in a git work tree that does not ignore it"


# ------------------------------------------------------------------------- child processes


def reply_of_child(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], work: Any, question: Any
) -> Any:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(question)))
    assert serve_parent(work) == 0
    return json.loads(capsys.readouterr().out)


def test_the_key_check_child_returns_a_fingerprint_or_the_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ring: Keyring, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    question = {"workspace": str(ring.workspace), "key": None}
    assert reply_of_child(monkeypatch, capsys, keycheck.check_key, question) == {
        "refused": {
            "kind": "key_missing", "message": 'no active private key has the role "receipt"',
            "where": str(ring.key_folder),
            "hint": "create a key (bench keys new NAME), or name a key file with --key or MEMORYBENCH_SIGNING_KEY_FILE",
        }
    }  # fmt: skip
    made = new_key(ring, "default", ("receipt", "log")).key
    assert reply_of_child(monkeypatch, capsys, keycheck.check_key, question) == {"fingerprint": made.fingerprint}
    named = {**question, "key": str(key_file(tmp_path, "other.key"))}
    assert reply_of_child(monkeypatch, capsys, keycheck.check_key, named) == {"fingerprint": KEY.public.fingerprint}


def test_the_announcing_child_appends_the_given_entry(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ring: Keyring, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    new_key(ring, "default", ("receipt", "log"))
    entry = {
        "schema": "bench.log-entry/1", "index": 0, "at": AT, "type": "run-started", "runId": "r1",
        "planDigest": "ab" * 32, "configDigests": ["cd" * 32], "itemsPlanned": 3, "seed": 7, "codeCommit": None,
    }  # fmt: skip
    question = {"workspace": str(ring.workspace), "entry": entry}
    assert reply_of_child(monkeypatch, capsys, announcing.append_started, question) == {"logIndex": 1}
    lines = read_log(ring.workspace / "results" / "published").lines
    assert json.loads(lines[1]) == {**entry, "index": 1}
    refused = reply_of_child(
        monkeypatch, capsys, announcing.append_started, {**question, "entry": {**entry, "seed": "x"}}
    )
    assert refused["refused"]["message"] == "seed: Input should be a valid integer"


def test_a_refusal_of_the_child_is_raised_in_the_parent(ring: Keyring) -> None:
    question = {"workspace": str(ring.workspace), "key": str(ring.workspace / "none.key")}
    with pytest.raises(ChildError) as caught:
        run_in_child("bench.receipt.signing.keyring", question, Environment.load(ring.workspace))
    error = caught.value
    assert (error.kind, error.exit_code, error.message) == ("key_unreadable", 2, "No such file or directory")
    assert error.where == str(ring.workspace / "none.key")
    assert error.hint == "name a key file that can be read, or create a key with: bench keys new NAME"


def test_a_child_that_exits_with_an_error_is_reported_by_its_module_name(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ChildError) as caught:
        run_in_child("bench.receipt.no_such_module", {}, Environment(values=os.environ))
    assert (caught.value.kind, str(caught.value)) == ("internal", "bench.receipt.no_such_module ended with exit code 1")
    assert "No module named" in capfd.readouterr().err
