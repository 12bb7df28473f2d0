"""The public log, an append-only list of entries under a signed Merkle root: its folder, its entries, its checkpoints.

Example::

    view = read_log(folder)                      # never raises for what is in the files
    view.roots([view.covered])
    entry = read_entry(b'{"at":"...","index":0,"schema":"bench.log-entry/1","type":"retract",...}')
    note = write_checkpoint(Checkpoint(origin="bench.local/log", size=7, root=root), key)
    read_note(note).checkpoint()

Entries are one canonical JSON line each, of a closed list of kinds. A checkpoint is a C2SP signed note: origin, size,
root, and one or more signature lines of an em dash, the signer's name and base64 of a 4-byte key id and the signature.
``log_check`` decides whether a log holds, ``public_log`` extends one that does.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar, cast, get_args

from pydantic import Field

from bench.canonical import JSON, dumps, parse, parse_file
from bench.errors import CanonicalError, UsageError, VerificationError
from bench.journal.paths import ENTRIES
from bench.receipt.base_model import (
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
from bench.receipt.merkle import Frontier, leaf_hash
from bench.receipt.signature import PublicKey, SigningKey, holds
from bench.receipt.trust_store import Role, TrustedKey

ED25519 = b"\x01"
MAX_NOTE = 1_000_000
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The log's name, its number of entries and the root over them."""

    origin: str
    size: int
    root: bytes

    @property
    def body(self) -> str:
        """The signed text."""
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSignature:
    """One signature line."""

    name: str
    key_id: bytes
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A signed note: its text and its claimed signers."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def signed_by(self, name: str, key: PublicKey) -> bool | None:
        """Whether the key signed under this name: None = it does not report it, False = it reports it falsely."""
        claimed = [line for line in self.signatures if (line.name, line.key_id) == (name, key_id(name, key))]
        if not claimed:
            return None
        return any(holds(key, line.value, self.text.encode()) for line in claimed)

    def checkpoint(self) -> Checkpoint:
        """Read the text as a checkpoint; raise ``log_signature``."""
        lines = self.text.split("\n")
        if len(lines) != 4 or lines[3] or not lines[0] or not _SIZE.fullmatch(lines[1]):
            raise _malformed("a checkpoint is origin, size and root")
        root = _base64(lines[2])
        if len(root) != 32:
            raise _malformed("the root is not 32 bytes")
        return Checkpoint(origin=lines[0], size=int(lines[1]), root=root)


def key_id(name: str, key: PublicKey, kind: bytes = ED25519) -> bytes:
    """The 4 bytes by which a note names a key."""
    return sha256(name.encode() + b"\n" + kind + key.raw).digest()[:4]


def vkey(name: str, key: PublicKey, kind: bytes = ED25519) -> str:
    """A key as clients of signed notes take it: name, id, kind and bytes."""
    return f"{name}+{key_id(name, key, kind).hex()}+{b64encode(kind + key.raw).decode()}"


def write_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> bytes:
    """Sign a checkpoint under its origin."""
    signature = key_id(checkpoint.origin, key.public) + key.sign(checkpoint.body.encode())
    return f"{checkpoint.body}\n— {checkpoint.origin} {b64encode(signature).decode()}\n".encode()


def read_note(data: bytes) -> Note:
    """Take a signed note apart; raise ``log_signature`` for any other shape."""
    try:
        whole = data[: MAX_NOTE + 1].decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("not UTF-8") from None
    text, separator, lines = whole.rpartition("\n\n")
    if not separator or not lines.endswith("\n") or len(data) > MAX_NOTE:
        raise _malformed("no text, blank line and signatures")
    return Note(text=text + "\n", signatures=tuple(_signature(line) for line in lines[:-1].split("\n")))


def _signature(line: str) -> NoteSignature:
    parts = line.split(" ")
    if len(parts) != 3 or parts[0] != "—" or not parts[1]:
        raise _malformed("a line is not a signature")
    raw = _base64(parts[2])
    if len(raw) < 5:
        raise _malformed("a signature is too short")
    return NoteSignature(name=parts[1], key_id=raw[:4], value=raw[4:])


def _base64(text: str) -> bytes:
    try:
        raw = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise _malformed("not base64") from None
    if b64encode(raw).decode() != text:
        raise _malformed("not canonical base64")
    return raw


def _malformed(detail: str) -> VerificationError:
    return VerificationError("log_signature", f"not a signed checkpoint: {detail}")


SCHEMA = "bench.log-entry/1"


class LogEntry(Wire):
    """The fields that every entry has."""

    schema_: Annotated[Literal["bench.log-entry/1"], Field(alias="schema")] = "bench.log-entry/1"
    index: Natural
    at: Instant


class KeyAdded(LogEntry):
    """A key that may sign from here on."""

    type: Literal["key"] = "key"
    fingerprint: Fingerprint
    public_key: Text
    roles: tuple[Role, ...]

    @classmethod
    def of(cls, key: TrustedKey, at: str) -> Self:
        """The entry that introduces a trusted key; its index is given when it is appended."""
        return cls(index=0, at=at, fingerprint=key.fingerprint, public_key=key.public_key, roles=key.roles)


class KeyRetired(LogEntry):
    """A key that signs nothing from here on; what it signed before stays good."""

    type: Literal["key-retired"] = "key-retired"
    fingerprint: Fingerprint


class KeyRevoked(LogEntry):
    """A key that is not to be believed from an index on."""

    type: Literal["key-revoked"] = "key-revoked"
    fingerprint: Fingerprint
    from_index: Natural
    reason: Text


class RunStarted(LogEntry):
    """A run that was announced before its first call."""

    type: Literal["run-started"] = "run-started"
    run_id: Name
    plan_digest: Hex64
    config_digests: tuple[Hex64, ...]
    items_planned: Natural
    seed: Integer
    code_commit: Hex40 | None


class RunAbandoned(LogEntry):
    """A run that was announced and abandoned."""

    type: Literal["run-abandoned"] = "run-abandoned"
    run_id: Name
    reason: Text


class ReceiptLogged(LogEntry):
    """A receipt, by the hash of its whole document and of its items file."""

    type: Literal["receipt"] = "receipt"
    receipt_id: Ulid
    receipt_sha256: Hex64
    items_sha256: Hex64
    config_digest: Hex64
    result_digest: Hex64
    run_id: Name


class Superseded(LogEntry):
    """One receipt takes another's place."""

    type: Literal["supersede"] = "supersede"
    old: Ulid
    new: Ulid
    reason: Text


class Retracted(LogEntry):
    """A receipt that its signer takes back."""

    type: Literal["retract"] = "retract"
    receipt_id: Ulid
    reason: Text


AnyEntry = KeyAdded | KeyRetired | KeyRevoked | RunStarted | RunAbandoned | ReceiptLogged | Superseded | Retracted
_KINDS: Mapping[str, type[LogEntry]] = {kind.model_fields["type"].default: kind for kind in get_args(AnyEntry)}


def write_entry(entry: AnyEntry) -> bytes:
    """The canonical line of an entry, without LF."""
    return dumps(emit(entry))


def read_entry(line: bytes) -> AnyEntry:
    """Read one line (without LF); raise ``log_entry`` when it is not a canonical, known entry."""
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
        raise VerificationError("log_entry", f"{value.get('type')!r} is not a type of entry")
    return cast("AnyEntry", admit(kind, value))


CHECKPOINT = "checkpoint"
CHECKPOINTS = "checkpoints"
RECEIPTS = "receipts"

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """A log as it is on disk: readable entries, unreadable lines, the checkpoint's bytes."""

    folder: Path
    lines: tuple[bytes, ...]
    entries: tuple[AnyEntry, ...]
    """the readable ones, in order"""
    faults: tuple[tuple[int, str], ...]
    """line number (0-based) and what is wrong with it"""
    torn: bytes
    """an end without LF: an append that was cut"""
    note: bytes | None

    def of(self, kind: type[Kind]) -> Iterator[Kind]:
        """The entries of one type."""
        return (entry for entry in self.entries if isinstance(entry, kind))

    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint, None when there is none; raise ``log_signature`` when it is malformed."""
        return None if self.note is None else read_note(self.note).checkpoint()

    @property
    def covered(self) -> int:
        """The number of entries that the checkpoint states to cover; 0 if the checkpoint cannot be read."""
        try:
            checkpoint = self.checkpoint()
        except VerificationError:
            return 0
        return checkpoint.size if checkpoint else 0

    def roots(self, sizes: Iterable[int]) -> dict[int, bytes]:
        """The root over the first n lines, for each n that there is."""
        wanted = set(sizes)
        frontier = Frontier()
        found = {0: frontier.root()} if 0 in wanted else {}
        for line in self.lines:
            frontier.append(leaf_hash(line))
            if frontier.size in wanted:
                found[frontier.size] = frontier.root()
        return found

    def receipt_entry(self, receipt_id: str) -> ReceiptLogged | None:
        """The first entry of a receipt id."""
        return next((entry for entry in self.of(ReceiptLogged) if entry.receipt_id == receipt_id), None)


def has_log(folder: Path) -> bool:
    """Return whether a folder holds a log, possibly an empty log."""
    return (folder / ENTRIES).is_file()


def read_log(folder: Path) -> LogView:
    """Read a log folder; raise UsageError if the folder holds no log."""
    if not has_log(folder):
        raise UsageError(f"no {ENTRIES} in {folder}", hint="name the folder of a log, such as results/published")
    lines, torn = _split((folder / ENTRIES).read_bytes())
    note = folder / CHECKPOINT
    entries: list[AnyEntry] = []
    faults: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        try:
            entries.append(read_entry(line))
        except VerificationError as error:
            faults.append((number, error.message))
    return LogView(
        folder=folder,
        lines=tuple(lines),
        entries=tuple(entries),
        faults=tuple(faults),
        torn=torn,
        note=note.read_bytes() if note.is_file() else None,
    )


def read_document(path: Path) -> JSON:
    """A receipt of a log's folder as it is on disk; None when there is none that can be admitted."""
    try:
        return parse_file(path)
    except (OSError, CanonicalError):
        return None


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    *lines, torn = data.split(b"\n")
    return lines, torn
