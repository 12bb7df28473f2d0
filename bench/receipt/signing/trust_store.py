"""The trust store ``keys/trusted.json``: all keys, and the log entries for which each key is valid.

    store = TrustStore.load(Path("keys/trusted.json"))
    store.decide(fingerprint, "receipt", log_index=12)     # TrustDecision(trusted, code, detail)

A key is valid from its first log index up to, but not including, its end index. A time is not used, because a signer
can state any time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bench.canonical import parse_file
from bench.errors import CanonicalError
from bench.receipt.base_model import ClosedModel, Fingerprint, Natural, SchemaMismatch, Segment, Text, json_of, validate
from bench.receipt.files import write_atomically
from bench.receipt.signing.signature import KeyRefused, PublicKey

Role = Literal["receipt", "log"]
ROLES: tuple[Role, ...] = ("receipt", "log")
DEFAULT_ORIGIN = "bench.local/log"
FILE = Path("keys/trusted.json")


class TrustedKey(ClosedModel):
    """One public key: its roles, its status, and its range of log indices."""

    name: Segment
    fingerprint: Fingerprint
    public_key: Text
    roles: tuple[Role, ...]
    status: Literal["active", "retired", "revoked"]
    valid_from_index: Natural = 0
    valid_to_index: Natural | None = None
    revoked_from_index: Natural | None = None
    reason: Text | None = None

    @model_validator(mode="after")
    def _ends(self) -> Self:
        """Refuse a retired or revoked key if the log index at which its validity ends is missing."""
        if self.status == "retired" and self.valid_to_index is None:
            raise ValueError('a retired key needs "validToIndex"')
        if self.status == "revoked" and self.revoked_from_index is None:
            raise ValueError('a revoked key needs "revokedFromIndex"')
        return self

    @classmethod
    def of(cls, key: PublicKey, name: str, roles: Sequence[Role], from_index: int = 0) -> Self:
        """Return an active trusted key that is valid from log index ``from_index`` on."""
        return cls(
            name=name,
            fingerprint=key.fingerprint,
            public_key=key.pem,
            roles=tuple(roles),
            status="active",
            valid_from_index=from_index,
        )

    @property
    def key(self) -> PublicKey:
        """The parsed public key; raises KeyRefused if the key is weak or not Ed25519."""
        return PublicKey.from_pem(self.public_key.encode("ascii", "replace"), self.name)

    def covers(self, index: int) -> bool:
        """Return True if the key is valid for a document at this log index."""
        ends = [end for end in (self.valid_to_index, self.revoked_from_index) if end is not None]
        return self.valid_from_index <= index and all(index < end for end in ends)


class TrustedFile(ClosedModel):
    """The content of trusted.json."""

    schema_: Annotated[Literal["bench.trusted/1"], Field(alias="schema")] = "bench.trusted/1"
    log_origin: Annotated[str, Field(strict=True, pattern=r"^[^\s+]+$")] = DEFAULT_ORIGIN
    keys: tuple[TrustedKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustDecision:
    """The decision whether a signature by a key is trusted.

    ``code`` is the stable name of the reason to refuse or warn; None if the key is trusted without a warning.
    """

    trusted: bool
    code: str | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStore:
    """The trusted keys; ``pinned`` is true if the user gave the keys directly instead of in trusted.json."""

    origin: str | None
    keys: tuple[TrustedKey, ...]
    pinned: bool = False

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read and validate a file trusted.json. No name and no fingerprint may occur twice.

        Raises:
            KeyRefused: the file or a key in it is not valid.
        """
        try:
            file = validate(TrustedFile, parse_file(path))
        except OSError as error:
            message = error.strerror or "cannot be read"
            raise KeyRefused(
                "key_unreadable", message, where=str(path), hint="name the trusted.json of a workspace"
            ) from error
        except (CanonicalError, SchemaMismatch) as error:
            raise KeyRefused("key_unreadable", str(error), where=str(path), hint="restore the file") from error
        _refuse_bad_keys(file.keys, path)
        return cls(origin=file.log_origin, keys=file.keys)

    @classmethod
    def load_or_empty(cls, path: Path) -> Self:
        """Read a file trusted.json; return a store without keys if the file does not exist."""
        return cls.load(path) if path.exists() else cls(origin=DEFAULT_ORIGIN, keys=())

    @classmethod
    def pin(cls, keys: Iterable[PublicKey]) -> Self:
        """Return a store that trusts only these keys, both for receipts and for the log."""
        pinned = tuple(TrustedKey.of(key, f"pinned-{number}", ROLES) for number, key in enumerate(keys, start=1))
        return cls(origin=None, keys=pinned, pinned=True)

    def save(self, path: Path) -> None:
        """Write the store to a file trusted.json, atomically."""
        file = TrustedFile(log_origin=self.origin or DEFAULT_ORIGIN, keys=self.keys)
        write_atomically(path, (json.dumps(json_of(file), indent=2, ensure_ascii=False) + "\n").encode())

    def find(self, fingerprint: str) -> TrustedKey | None:
        """Return the key with this fingerprint; None if it is not in the store."""
        return next((key for key in self.keys if key.fingerprint == fingerprint), None)

    def named(self, name_or_fingerprint: str) -> TrustedKey:
        """Return the key with this name or fingerprint.

        Raises:
            KeyRefused: the store has no such key (``key_unknown``).
        """
        for key in self.keys:
            if name_or_fingerprint in (key.name, key.fingerprint):
                return key
        names = ", ".join(key.name for key in self.keys) or "none"
        raise KeyRefused("key_unknown", f"there is no key {name_or_fingerprint!r}", hint=f"known keys: {names}")

    def with_key(self, changed: TrustedKey) -> Self:
        """Return a copy of the store with ``changed``. A key with the same fingerprint is replaced."""
        kept = [changed if key.fingerprint == changed.fingerprint else key for key in self.keys]
        if changed not in kept:
            kept.append(changed)
        return type(self)(origin=self.origin, keys=tuple(kept), pinned=self.pinned)

    def active(self, role: Role) -> tuple[TrustedKey, ...]:
        """Return the keys that are active and have this role."""
        return tuple(key for key in self.keys if key.status == "active" and role in key.roles)

    def decide(self, fingerprint: str, role: Role, log_index: int | None) -> TrustDecision:
        """Decide whether to trust a signature by the key with this fingerprint.

        ``log_index`` is the index of the signed document in the public log; None if it is not in the log.
        """
        key = self.find(fingerprint)
        if key is None:
            kind = "one of the given public keys" if self.pinned else "in trusted.json"
            return TrustDecision(trusted=False, code="key_unknown", detail=f"the key {fingerprint} is not {kind}")
        if role not in key.roles:
            return TrustDecision(trusted=False, code="key_role", detail=f'the key {key.name} has no role "{role}"')
        return _decide_by_status(key, log_index)


def _decide_by_status(key: TrustedKey, log_index: int | None) -> TrustDecision:
    place = "not in the log" if log_index is None else f"at log index {log_index}"
    inside = log_index is not None and key.covers(log_index)
    if key.status == "revoked":
        if inside:
            return TrustDecision(trusted=True, code="key_revoked_later", detail=f"the key {key.name} was revoked later")
        return TrustDecision(
            trusted=False,
            code="key_revoked",
            detail=f"the key {key.name} was revoked: {key.reason}; the document is {place}",
        )
    if inside or (key.status == "active" and log_index is None):
        return TrustDecision(trusted=True, code=None, detail=key.name)
    return TrustDecision(
        trusted=False, code="key_retired", detail=f"the key {key.name} is not valid for a document {place}"
    )


def _refuse_bad_keys(keys: Sequence[TrustedKey], path: Path) -> None:
    seen: set[str] = set()
    for entry in keys:
        if entry.key.fingerprint != entry.fingerprint:
            detail = f"{entry.name}: the fingerprint does not match the key"
            raise KeyRefused("key_fingerprint", detail, where=str(path), hint="restore the file")
        if seen & {entry.name, entry.fingerprint}:
            raise KeyRefused(
                "key_duplicate",
                f"the key {entry.name} occurs twice",
                where=str(path),
                hint="remove one of the two entries",
            )
        seen |= {entry.name, entry.fingerprint}
