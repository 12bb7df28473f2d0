"""Create, trust, rotate and revoke keys.

Each function changes the file trusted.json. If the workspace has a public log, ``rotate`` and ``revoke`` also append
log entries.

    made = new_key(ring, "default", ("receipt", "log"))
    rotate(ring, old="default", new=None, at=format_time(now))
    revoke(ring, "default-2", from_index=120, reason="laptop stolen", at=format_time(now))

The file of a private key is readable only by its owner, and is never overwritten. The file is created in a git work
tree only if git ignores it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bench.canonical import JSON, dumps
from bench.config.value_rules import require_portable
from bench.errors import UsageError
from bench.receipt.base_model import SEGMENT, json_of
from bench.receipt.files import in_work_tree, is_ignored, uncommitted, write_atomically
from bench.receipt.log.log_store import AnyEntry, KeyAdded, KeyRetired, KeyRevoked, read_log
from bench.receipt.log.public_log import append, refuse_altered
from bench.receipt.signing.keyring import PUBLISHED, Keyring
from bench.receipt.signing.signature import ALGORITHM, KeyRefused, PublicKey, SigningKey, encode
from bench.receipt.signing.trust_store import Role, TrustedKey, TrustStore

COMMITTED_FOLDERS = (Path("keys"), PUBLISHED)
"""folders that the functions of this module change, and that the user must commit"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """The result of creating, trusting, rotating or revoking a key."""

    key: TrustedKey
    files: tuple[Path, ...] = ()
    is_new: bool = True
    """True if this change created the private key"""
    logged: bool = False
    """True if an entry was appended to the public log"""
    log_pending: bool = False
    """True if no signed checkpoint covers the log entry yet"""
    to_commit: tuple[Path, ...] = ()
    """changed files to commit: other people know the change only after the commit"""


def list_keys(ring: Keyring) -> list[dict[str, JSON]]:
    """Return every key in trusted.json as JSON, without its public key text."""
    return [{name: value for name, value in json_of(key).items() if name != "publicKey"} for key in ring.trusted().keys]


# --------------------------------------------------------------------------- new


def new_key(ring: Keyring, name: str, roles: Sequence[Role]) -> KeyChange:
    """Create a key pair, and add its public key to the workspace and to trusted.json.

    If the key folder already has a private key of this name, this key is used. No log entry is written.
    """
    store = ring.trusted()
    private = ring.key_folder / f"{name}.key"
    if re.fullmatch(SEGMENT, name) and private.is_file() and all(key.name != name for key in store.keys):
        return _publish(ring, ring.private_key(private).public, name, roles, own=private)
    _, change = _create(ring, store, name, roles, _log_size(ring))
    return replace(change, to_commit=uncommitted(ring.workspace, COMMITTED_FOLDERS))


def trust_key(ring: Keyring, file: Path, name: str, roles: Sequence[Role]) -> KeyChange:
    """Copy a public key file into the workspace, and add the key to trusted.json. No log entry is written.

    Raises:
        KeyRefused: the file does not contain a valid public key.
        UsageError: trusted.json already has the name or the key, or the name is not valid.
    """
    return _publish(ring, PublicKey.load(file), name, roles)


def _publish(ring: Keyring, key: PublicKey, name: str, roles: Sequence[Role], own: Path | None = None) -> KeyChange:
    store = ring.trusted()
    known = store.find(key.fingerprint)
    if known is not None:
        raise UsageError(
            f"trusted.json already has this key, as {known.name} ({known.status})",
            hint="list all keys with: bench keys list",
        )
    public = ring.workspace / "keys" / f"{name}.pub"
    _refuse_name(store, name)
    if public.is_file() and PublicKey.load(public).fingerprint != key.fingerprint:
        raise UsageError(f"{public} already contains a different key", hint="choose another name")
    entry = TrustedKey.of(key, name, roles, _log_size(ring))
    public.parent.mkdir(parents=True, exist_ok=True)
    public.write_text(key.pem, encoding="ascii")
    store.with_key(entry).save(ring.trusted_path)
    files = (*([own] if own else []), public, ring.trusted_path)
    return KeyChange(key=entry, files=files, is_new=False, to_commit=uncommitted(ring.workspace, COMMITTED_FOLDERS))


def _create(
    ring: Keyring, store: TrustStore, name: str, roles: Sequence[Role], from_index: int
) -> tuple[SigningKey, KeyChange]:
    private, public = ring.key_folder / f"{name}.key", ring.workspace / "keys" / f"{name}.pub"
    _refuse_taken(store, name, private, public)
    key = SigningKey.generate()
    entry = TrustedKey.of(key.public, name, roles, from_index)
    with all_or_nothing(private, public):
        _write_private(private, key)
        public.parent.mkdir(parents=True, exist_ok=True)
        with public.open("x", encoding="ascii") as file:
            file.write(key.public.pem)
        store.with_key(entry).save(ring.trusted_path)
    return key, KeyChange(key=entry, files=(private, public, ring.trusted_path))


@contextmanager
def all_or_nothing(*files: Path) -> Iterator[None]:
    """Remove ``files`` if the ``with`` block raises OSError, so that no incomplete key pair is left."""
    try:
        yield
    except OSError:
        for file in files:
            with suppress(OSError):
                file.unlink(missing_ok=True)
        raise


def _refuse_name(store: TrustStore, name: str) -> None:
    if not re.fullmatch(SEGMENT, name) or name.startswith("-"):
        raise UsageError(
            f"{name!r} is not a valid name of a key",
            hint="use letters, digits, dot, dash and underscore; do not begin with a dot or dash",
        )
    try:
        require_portable(name)
    except ValueError as error:
        raise UsageError(str(error), hint="choose another name") from error
    if any(key.name == name for key in store.keys):
        raise UsageError(f"trusted.json already has a key {name}", hint="choose another name")


def _refuse_taken(store: TrustStore, name: str, private: Path, public: Path) -> None:
    _refuse_name(store, name)
    for path in (private, public):
        if path.exists():
            use = f", or sign with this key: bench sign RUN_ID --key {path}" if path == private else ""
            raise UsageError(f"{path} already exists", hint=f"choose another name{use}")
    _refuse_work_tree(private)


def _refuse_work_tree(private: Path) -> None:
    folder = next((parent for parent in private.absolute().parents if parent.is_dir()), Path("/"))
    if not in_work_tree(folder) or is_ignored(private.absolute(), folder):
        return
    raise UsageError(
        f"{private} is in a git work tree that does not ignore it",
        hint="use --key-dir with a folder outside the work tree, so that the private key cannot be committed",
    )


def _write_private(path: Path, key: SigningKey) -> None:
    if not path.parent.is_dir():
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(key.pem())
        file.flush()
        os.fsync(file.fileno())


def _log_size(ring: Keyring) -> int:
    folder = ring.log_folder
    return len(read_log(folder).lines) if folder else 0


# ------------------------------------------------------------------------- rotate


def rotate(ring: Keyring, *, old: str | None, new: str | None, at: str) -> KeyChange:
    """Replace the key ``old`` with a new key, and retire ``old``.

    The function writes trusted.json, log entries if there is a log, and a statement that both keys sign. If ``old`` is
    None, the only active key is replaced. If ``new`` is None, the name of the new key is made from the old name.

    Raises:
        KeyRefused: the old key is unknown, not active, ambiguous or unreadable.
        VerificationError: the log is not valid.
    """
    store = ring.trusted()
    leaving = store.named(old) if old else _only_active(store)
    if leaving.status != "active":
        text = f"the key {leaving.name} is already {leaving.status}"
        raise KeyRefused(f"key_{leaving.status}", text, hint="list the active keys with: bench keys list")
    if ring.log_folder is not None:
        refuse_altered(read_log(ring.log_folder), store)
    old_key, index = ring.private_key_of(leaving.name), _log_size(ring)
    new_key, made = _create(ring, store, new or _next_name(store, leaving.name), leaving.roles, index)
    store = store.with_key(leaving.model_copy(update={"status": "retired", "valid_to_index": index}))
    store = store.with_key(made.key)
    store.save(ring.trusted_path)
    statement = _write_statement(ring, index, at, leaving, made.key, (old_key, new_key))
    _note_rotation(ring, index, at, leaving, made.key)
    drafts: list[AnyEntry] = [
        KeyAdded.of(made.key, at),
        KeyRetired(index=0, at=at, fingerprint=leaving.fingerprint),
    ]
    log_key = new_key if "log" in made.key.roles else ring.log_key_or_none(excluding=leaving.fingerprint)
    files = (*made.files, statement)
    return _log_change(ring, made.key, files, drafts, log_key, at)


def _only_active(store: TrustStore) -> TrustedKey:
    active = [key for key in store.keys if key.status == "active"]
    if len(active) == 1:
        return active[0]
    names = ", ".join(key.name for key in active) or "none"
    raise KeyRefused(
        "key_ambiguous",
        f"expected exactly one active key to replace; active keys: {names}",
        hint="name the key to replace with --old",
    )


def _next_name(store: TrustStore, name: str) -> str:
    base = re.sub(r"-[0-9]+$", "", name)
    taken = {key.name for key in store.keys}
    return next(candidate for number in range(2, 10_000) if (candidate := f"{base}-{number}") not in taken)


def _write_statement(
    ring: Keyring, index: int, at: str, old: TrustedKey, new: TrustedKey, keys: tuple[SigningKey, SigningKey]
) -> Path:
    body = {
        "schema": "bench.key-rotation/1",
        "index": index,
        "at": at,
        "old": {"name": old.name, "fingerprint": old.fingerprint},
        "new": {
            "name": new.name,
            "fingerprint": new.fingerprint,
            "publicKey": new.public_key,
            "roles": list(new.roles),
        },
    }
    signatures = [
        {
            "algorithm": ALGORITHM,
            "publicKeyFingerprint": key.public.fingerprint,
            "value": encode(key.sign(dumps(body))),
        }
        for key in keys
    ]
    path = _free_path(ring.workspace / "keys" / "rotations", index)
    text = json.dumps({**body, "signatures": signatures}, indent=2, sort_keys=True, ensure_ascii=False)
    write_atomically(path, (text + "\n").encode())
    return path


def _free_path(folder: Path, index: int) -> Path:
    """Return an unused path for the statement of a key rotation at log index ``index``."""
    names = (f"{index}.json", *(f"{index}-{number}.json" for number in range(2, 10_000)))
    return next(path for name in names if not (path := folder / name).exists())


def _note_rotation(ring: Keyring, index: int, at: str, old: TrustedKey, new: TrustedKey) -> None:
    path = ring.workspace / "keys" / "ROTATION.md"
    line = f"- {at}, log index {index}: {old.name} `{old.fingerprint}` -> {new.name} `{new.fingerprint}`\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(line)


# ------------------------------------------------------------------------- revoke


def revoke(ring: Keyring, name: str, *, from_index: int, reason: str, at: str) -> KeyChange:
    """Revoke a key: its signatures are not trusted for documents at log index ``from_index`` or later.

    trusted.json is changed at once, even if no key can sign the log.

    Raises:
        UsageError: the index is negative, or the reason is empty.
        KeyRefused: no key has this name, or the key is already revoked from a lower index on.
    """
    if from_index < 0:
        raise UsageError(f"--from-index {from_index}: expected 0 or more", hint="0 revokes all signatures of the key")
    if not reason.strip():
        raise UsageError("a revocation needs a reason", hint="give a reason with --reason TEXT")
    store = ring.trusted()
    leaving = store.named(name)
    until = leaving.revoked_from_index
    if until is not None and from_index > until:
        message = f"the key {leaving.name} is already revoked from index {until} on; a later index is not allowed"
        raise KeyRefused("key_revoked", message, hint=f"give an index up to {until}")
    gone = leaving.model_copy(update={"status": "revoked", "revoked_from_index": from_index, "reason": reason})
    store.with_key(gone).save(ring.trusted_path)
    draft = KeyRevoked(index=0, at=at, fingerprint=gone.fingerprint, from_index=from_index, reason=reason)
    log_key = ring.log_key_or_none(excluding=gone.fingerprint) if ring.log_folder else None
    return _log_change(ring, gone, (ring.trusted_path,), [draft], log_key, at)


def _log_change(
    ring: Keyring,
    key: TrustedKey,
    files: tuple[Path, ...],
    drafts: list[AnyEntry],
    log_key: SigningKey | None,
    at: str,
) -> KeyChange:
    folder = ring.log_folder
    if folder is None:
        return KeyChange(key=key, files=files, to_commit=uncommitted(ring.workspace, COMMITTED_FOLDERS))
    append(folder, drafts, ring.trusted(), log_key, at)
    return KeyChange(
        key=key,
        files=files,
        logged=True,
        log_pending=log_key is None,
        to_commit=uncommitted(ring.workspace, COMMITTED_FOLDERS),
    )
