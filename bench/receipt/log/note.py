"""Checkpoints as C2SP signed notes: origin, size, root, and one or more signature lines.

    note = write_checkpoint(Checkpoint(origin="bench.local/log", size=7, root=root), key)
    read_note(note).checkpoint()

A signature line is an em dash, the signer's name and base64 of a 4-byte key id and the signature.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from hashlib import sha256

from bench.errors import VerificationError
from bench.receipt.keyfiles import PublicKey, SigningKey
from bench.receipt.signature import holds

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
    """A signed note: its text and who says to have signed it."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def signed_by(self, name: str, key: PublicKey) -> bool | None:
        """Whether the key signed under this name: None = it does not say so, False = it says so falsely."""
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


def key_id(name: str, key: PublicKey) -> bytes:
    """The 4 bytes by which a note names a key."""
    return sha256(name.encode() + b"\n" + ED25519 + key.raw).digest()[:4]


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
        raise _malformed("a line is no signature")
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
        raise _malformed("not the one spelling of base64")
    return raw


def _malformed(detail: str) -> VerificationError:
    return VerificationError("log_signature", f"not a signed checkpoint: {detail}")
