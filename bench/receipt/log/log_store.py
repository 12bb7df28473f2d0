"""Read and write the public log: an append-only list of entries under a signed Merkle root.

Example::

    view = read_log(folder)                      # faults of lines are in view.faults, not raised
    view.roots([view.covered])
    entry = read_entry(b'{"at":"...","index":0,"schema":"bench.log-entry/1","type":"retract",...}')
    note = write_checkpoint(Checkpoint(origin="bench.local/log", size=7, root=root), key)
    read_note(note).checkpoint()

An entry is one line of canonical JSON. A checkpoint is a C2SP signed note: the lines origin, size and root, a blank
line, and one or more signature lines. ``log_check`` verifies a log, and ``public_log`` appends to a log.
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

from bench.canonical import JSON, dumps, parse
from bench.errors import CanonicalError, UsageError, VerificationError
from bench.journal.paths import ENTRIES
from bench.receipt.base_model import (
    ClosedModel,
    Fingerprint,
    Hex40,
    Hex64,
    Instant,
    Integer,
    Name,
    Natural,
    SchemaMismatch,
    Text,
    Ulid,
    json_of,
    validate,
)
from bench.receipt.merkle import Frontier, leaf_hash
from bench.receipt.signing.signature import PublicKey, SigningKey, is_valid_signature
from bench.receipt.signing.trust_store import Role, TrustedKey

ED25519 = b"\x01"
MAX_NOTE = 1_000_000
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The name of a log, the number of its entries, and the Merkle root over these entries."""

    origin: str
    size: int
    root: bytes

    @property
    def body(self) -> str:
        """The three lines that a log key signs: origin, size and root in base64."""
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSignature:
    """One signature line of a note: the signer's name, the key id and the signature bytes."""

    name: str
    key_id: bytes
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A signed note with its text and its signatures. The signatures are not verified yet."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def signed_by(self, name: str, key: PublicKey) -> bool | None:
        """Return whether this key's signature under ``name`` is valid; None if the note has no such signature."""
        claimed = [line for line in self.signatures if (line.name, line.key_id) == (name, key_id(name, key))]
        if not claimed:
            return None
        return any(is_valid_signature(key, line.value, self.text.encode()) for line in claimed)

    def checkpoint(self) -> Checkpoint:
        """Parse the text of the note as a checkpoint.

        Raises:
            VerificationError: the text is malformed (``log_signature``).
        """
        lines = self.text.split("\n")
        if len(lines) != 4 or lines[3] or not lines[0] or not _SIZE.fullmatch(lines[1]):
            raise _malformed("expected the lines origin, size and root")
        root = _base64(lines[2])
        if len(root) != 32:
            raise _malformed("its root does not have 32 bytes")
        return Checkpoint(origin=lines[0], size=int(lines[1]), root=root)


def key_id(name: str, key: PublicKey, kind: bytes = ED25519) -> bytes:
    """Return the 4 bytes that identify a key in a note: the start of a hash of name, kind and key."""
    return sha256(name.encode() + b"\n" + kind + key.raw).digest()[:4]


def vkey(name: str, key: PublicKey, kind: bytes = ED25519) -> str:
    """Format a public key as NAME+ID+KEY, the form that clients of signed notes read."""
    return f"{name}+{key_id(name, key, kind).hex()}+{b64encode(kind + key.raw).decode()}"


def write_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> bytes:
    """Sign a checkpoint with a log key; return the checkpoint as a signed note."""
    signature = key_id(checkpoint.origin, key.public) + key.sign(checkpoint.body.encode())
    return f"{checkpoint.body}\n— {checkpoint.origin} {b64encode(signature).decode()}\n".encode()


def read_note(data: bytes) -> Note:
    """Parse a signed note, without verifying its signatures.

    Raises:
        VerificationError: the note is malformed (``log_signature``).
    """
    try:
        whole = data[: MAX_NOTE + 1].decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("the file is not UTF-8") from None
    text, separator, lines = whole.rpartition("\n\n")
    if not separator or not lines.endswith("\n") or len(data) > MAX_NOTE:
        raise _malformed("expected text, a blank line and signatures")
    return Note(text=text + "\n", signatures=tuple(_signature(line) for line in lines[:-1].split("\n")))


def _signature(line: str) -> NoteSignature:
    parts = line.split(" ")
    if len(parts) != 3 or parts[0] != "—" or not parts[1]:
        raise _malformed("a line after the blank line is not a signature")
    raw = _base64(parts[2])
    if len(raw) < 5:
        raise _malformed("a signature is too short")
    return NoteSignature(name=parts[1], key_id=raw[:4], value=raw[4:])


def _base64(text: str) -> bytes:
    try:
        raw = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise _malformed("its root or signature is not base64") from None
    if b64encode(raw).decode() != text:
        raise _malformed("its root or signature is not canonical base64")
    return raw


RESTORE_HINT = "restore the published copy of the log"


def _malformed(detail: str) -> VerificationError:
    return VerificationError("log_signature", f"this is not a signed checkpoint: {detail}", hint=RESTORE_HINT)


SCHEMA = "bench.log-entry/1"


class LogEntry(ClosedModel):
    """The fields that every entry of the log has."""

    schema_: Annotated[Literal["bench.log-entry/1"], Field(alias="schema")] = "bench.log-entry/1"
    index: Natural
    at: Instant


class KeyAdded(LogEntry):
    """A key that may sign from this entry on."""

    type: Literal["key"] = "key"
    fingerprint: Fingerprint
    public_key: Text
    roles: tuple[Role, ...]

    @classmethod
    def of(cls, key: TrustedKey, at: str) -> Self:
        """Return the log entry for a trusted key, with index 0; ``append`` sets the real index."""
        return cls(index=0, at=at, fingerprint=key.fingerprint, public_key=key.public_key, roles=key.roles)


class KeyRetired(LogEntry):
    """A key that may sign nothing from this entry on. Its earlier signatures stay valid."""

    type: Literal["key-retired"] = "key-retired"
    fingerprint: Fingerprint


class KeyRevoked(LogEntry):
    """A key whose signatures are not trusted from ``from_index`` on."""

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
    """An announced run that was abandoned."""

    type: Literal["run-abandoned"] = "run-abandoned"
    run_id: Name
    reason: Text


class ReceiptLogged(LogEntry):
    """A published receipt, with the hash of its document and the hash of its items file."""

    type: Literal["receipt"] = "receipt"
    receipt_id: Ulid
    receipt_sha256: Hex64
    items_sha256: Hex64
    config_digest: Hex64
    result_digest: Hex64
    run_id: Name


class ReceiptSuperseded(LogEntry):
    """A receipt that another receipt replaces."""

    type: Literal["supersede"] = "supersede"
    old: Ulid
    new: Ulid
    reason: Text


class ReceiptRetracted(LogEntry):
    """A receipt that its signer retracted."""

    type: Literal["retract"] = "retract"
    receipt_id: Ulid
    reason: Text


AnyEntry = (
    KeyAdded
    | KeyRetired
    | KeyRevoked
    | RunStarted
    | RunAbandoned
    | ReceiptLogged
    | ReceiptSuperseded
    | ReceiptRetracted
)
_KINDS: Mapping[str, type[LogEntry]] = {kind.model_fields["type"].default: kind for kind in get_args(AnyEntry)}


def write_entry(entry: AnyEntry) -> bytes:
    """Return an entry as one line of canonical JSON, without the line feed."""
    return dumps(json_of(entry))


def read_entry(line: bytes) -> AnyEntry:
    """Parse one line of the log, without its line feed.

    Raises:
        VerificationError: the line is not canonical JSON or not a known entry (``log_entry``).
    """
    try:
        return _validated_entry(parse(line), line)
    except (CanonicalError, SchemaMismatch) as error:
        raise VerificationError("log_entry", str(error), hint=RESTORE_HINT) from None


def _validated_entry(value: JSON, line: bytes) -> AnyEntry:
    if dumps(value) != line:
        raise VerificationError("log_entry", "the line is not in canonical form", hint=RESTORE_HINT)
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise VerificationError("log_entry", f"the schema is not {SCHEMA}", hint=RESTORE_HINT)
    kind = _KINDS.get(str(value.get("type")))
    if kind is None:
        raise VerificationError(
            "log_entry",
            f"the entry has the unknown type {value.get('type')!r}; expected {', '.join(_KINDS)}",
            hint=RESTORE_HINT,
        )
    return cast("AnyEntry", validate(kind, value))


CHECKPOINT = "checkpoint"
CHECKPOINTS = "checkpoints"
RECEIPTS = "receipts"

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The content of a log's folder: valid entries, faulty lines, and the bytes of the checkpoint."""

    folder: Path
    lines: tuple[bytes, ...]
    entries: tuple[AnyEntry, ...]
    """the valid entries, in the order of their lines"""
    faults: tuple[tuple[int, str], ...]
    """(0-based line number, problem) of each faulty line"""
    torn: bytes
    """the last line, if an interrupted append left it without a line feed; else empty"""
    note: bytes | None

    def of(self, kind: type[Kind]) -> Iterator[Kind]:
        """Yield the entries of one type."""
        return (entry for entry in self.entries if isinstance(entry, kind))

    def checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint of the log; None if the log has no checkpoint.

        Raises:
            VerificationError: the checkpoint is malformed (``log_signature``).
        """
        return None if self.note is None else read_note(self.note).checkpoint()

    @property
    def covered(self) -> int:
        """The number of entries that the checkpoint claims to cover; 0 if the log has no readable checkpoint."""
        try:
            checkpoint = self.checkpoint()
        except VerificationError:
            return 0
        return checkpoint.size if checkpoint else 0

    def roots(self, sizes: Iterable[int]) -> dict[int, bytes]:
        """Return size -> Merkle root over the first ``size`` lines. Sizes above the number of lines are left out."""
        wanted = set(sizes)
        frontier = Frontier()
        found = {0: frontier.root()} if 0 in wanted else {}
        for line in self.lines:
            frontier.append(leaf_hash(line))
            if frontier.size in wanted:
                found[frontier.size] = frontier.root()
        return found

    def receipt_entry(self, receipt_id: str) -> ReceiptLogged | None:
        """Return the first entry that logs the receipt with this id; None if the log has no such entry."""
        return next((entry for entry in self.of(ReceiptLogged) if entry.receipt_id == receipt_id), None)


def has_log(folder: Path) -> bool:
    """Return True if a folder has a log, even if the log is empty."""
    return (folder / ENTRIES).is_file()


def read_log(folder: Path) -> LogView:
    """Read the log in a folder; raise UsageError if the folder has no log."""
    if not has_log(folder):
        raise UsageError(
            f"there is no {ENTRIES} in {folder}", hint="name the folder of a log, such as results/published"
        )
    *lines, torn = (folder / ENTRIES).read_bytes().split(b"\n")
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
