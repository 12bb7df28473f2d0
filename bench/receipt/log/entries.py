"""The kinds of log entries, closed; one canonical JSON line each.

Example::

    entry = read_entry(b'{"at":"...","index":0,"schema":"bench.log-entry/1","type":"retract",...}')
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self, cast, get_args

from pydantic import Field

from bench.canonical import JSON, dumps, parse
from bench.errors import CanonicalError, VerificationError
from bench.receipt.trusted import Role, TrustedKey
from bench.receipt.wire import (
    Fingerprint,
    Hex40,
    Hex64,
    Instant,
    Integer,
    Misfit,
    Name,
    Natural,
    Text,
    Ulid,
    Wire,
    admit,
    emit,
)

SCHEMA = "bench.log-entry/1"


class Entry(Wire):
    """What every entry has."""

    schema_: Annotated[Literal["bench.log-entry/1"], Field(alias="schema")] = "bench.log-entry/1"
    index: Natural
    at: Instant


class KeyAdded(Entry):
    """A key that may sign from here on."""

    type: Literal["key"] = "key"
    fingerprint: Fingerprint
    public_key: Text
    roles: tuple[Role, ...]

    @classmethod
    def of(cls, key: TrustedKey, at: str) -> Self:
        """The entry that introduces a trusted key; its index is given when it is appended."""
        return cls(index=0, at=at, fingerprint=key.fingerprint, public_key=key.public_key, roles=key.roles)


class KeyRetired(Entry):
    """A key that signs nothing from here on; what it signed before stays good."""

    type: Literal["key-retired"] = "key-retired"
    fingerprint: Fingerprint


class KeyRevoked(Entry):
    """A key that is not to be believed from an index on."""

    type: Literal["key-revoked"] = "key-revoked"
    fingerprint: Fingerprint
    from_index: Natural
    reason: Text


class RunStarted(Entry):
    """A run that was announced before its first call."""

    type: Literal["run-started"] = "run-started"
    run_id: Name
    plan_digest: Hex64
    config_digests: tuple[Hex64, ...]
    items_planned: Natural
    seed: Integer
    code_commit: Hex40 | None


class RunAbandoned(Entry):
    """A run that was announced and given up."""

    type: Literal["run-abandoned"] = "run-abandoned"
    run_id: Name
    reason: Text


class ReceiptLogged(Entry):
    """A receipt, by the hash of its whole document and of its items file."""

    type: Literal["receipt"] = "receipt"
    receipt_id: Ulid
    receipt_sha256: Hex64
    items_sha256: Hex64
    config_digest: Hex64
    result_digest: Hex64
    run_id: Name


class Superseded(Entry):
    """One receipt takes another's place."""

    type: Literal["supersede"] = "supersede"
    old: Ulid
    new: Ulid
    reason: Text


class Retracted(Entry):
    """A receipt that its signer takes back."""

    type: Literal["retract"] = "retract"
    receipt_id: Ulid
    reason: Text


AnyEntry = KeyAdded | KeyRetired | KeyRevoked | RunStarted | RunAbandoned | ReceiptLogged | Superseded | Retracted
_KINDS: Mapping[str, type[Entry]] = {kind.model_fields["type"].default: kind for kind in get_args(AnyEntry)}


def write_entry(entry: AnyEntry) -> bytes:
    """The canonical line of an entry, without LF."""
    return dumps(emit(entry))


def read_entry(line: bytes) -> AnyEntry:
    """Read one line (without LF); raise ``log_entry`` when it is no canonical, known entry."""
    try:
        return _fit(parse(line), line)
    except (CanonicalError, Misfit) as error:
        raise VerificationError("log_entry", str(error)) from None


def _fit(value: JSON, line: bytes) -> AnyEntry:
    if dumps(value) != line:
        raise VerificationError("log_entry", "the line is not in canonical form")
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise VerificationError("log_entry", f"only {SCHEMA} is read")
    kind = _KINDS.get(str(value.get("type")))
    if kind is None:
        raise VerificationError("log_entry", f"{value.get('type')!r} is no type of entry")
    return cast("AnyEntry", admit(kind, value))
