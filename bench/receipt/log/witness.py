"""Cosign checkpoints of a log as a witness, in the format C2SP tlog-cosignature with Ed25519.

A witness is a second signer. Its signature confirms that entries of the log were only appended.

Example::

    line = cosign(note, "witness.example/w1", key, at=1764410000)     # one more line of the checkpoint
    WitnessKey.parse("witness.example/w1+8cb6e9ff+BA...").cosigned_at(note)    # 1764410000; None = not cosigned

A witness stores the newest checkpoint that it signed of each log. It signs a new checkpoint only if the log still
starts with the entries of the stored checkpoint.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from bench.errors import UsageError, VerificationError
from bench.receipt.files import write_atomically
from bench.receipt.log.log_check import LogOutcome, check_log
from bench.receipt.log.log_store import CHECKPOINT, CHECKPOINTS, Note, key_id, read_log, read_note, vkey
from bench.receipt.signing.signature import PublicKey, SigningKey, is_valid_signature
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.findings import Finding, ReceiptVerdict, fail, ok
from bench.visible_text import counted

COSIGNATURE = b"\x04"
TIMESTAMP = 8
"""number of bytes of the timestamp before the signature bytes"""
NAME = re.compile(r"[^\s+]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessKey:
    """The name and the public key of a witness; ``str()`` gives NAME+ID+KEY."""

    name: str
    key: PublicKey

    @classmethod
    def parse(cls, text: str) -> WitnessKey:
        """Parse a witness key from the text NAME+ID+KEY, with the id in hex and the key in base64.

        Raises:
            UsageError: the text does not have this form, or the key is not for Ed25519 cosignatures.
        """
        name, _, rest = text.partition("+")
        stated, _, encoded = rest.partition("+")
        try:
            raw = b64decode(encoded, validate=True)
        except ValueError:
            raw = b""
        if NAME.fullmatch(name) and len(raw) == 33 and raw[:1] == COSIGNATURE:
            found = cls(name=name, key=PublicKey.from_raw(raw[1:]))
            if found.id.hex() == stated:
                return found
        raise UsageError(
            f'"{text}" is not the key of a witness', hint="write NAME+ID+KEY, the form that bench log cosign prints"
        )

    @property
    def id(self) -> bytes:
        """The 4 bytes that identify the key of the witness in a signed note."""
        return key_id(self.name, self.key, COSIGNATURE)

    def __str__(self) -> str:
        return vkey(self.name, self.key, COSIGNATURE)

    def cosigned_at(self, note: Note) -> int | None:
        """Return when the witness cosigned a note, in seconds since 1970; None if it did not cosign the note."""
        for line in note.signatures:
            at = int.from_bytes(line.value[:TIMESTAMP], "big")
            if (line.name, line.key_id) == (self.name, self.id) and is_valid_signature(
                self.key, line.value[TIMESTAMP:], _signed(note, at)
            ):
                return at
        return None

    def check(self, data: bytes | None) -> Finding:
        """Return the finding ``ok`` if the witness signed the note ``data``, else a failure."""
        at = None if data is None else self.cosigned_at(read_note(data))
        if at is None:
            return fail("log", "log_witness", f"{self.name} did not cosign this checkpoint")
        return ok("log", f"cosigned by {self.name} at {at}")


def _signed(note: Note, at: int) -> bytes:
    return f"cosignature/v1\ntime {at}\n{note.text}".encode()


def cosign(note: bytes, name: str, key: SigningKey, at: int) -> bytes:
    """Return the signature line that a witness adds to ``note``; ``at`` is the time in seconds since 1970."""
    signature = key.sign(_signed(read_note(note), at))
    value = key_id(name, key.public, COSIGNATURE) + at.to_bytes(TIMESTAMP, "big") + signature
    return f"— {name} {b64encode(value).decode()}\n".encode()


def witness_log(folder: Path, store: TrustStore, *, name: str, file: Path, key: SigningKey, at: int) -> LogOutcome:
    """Check a log, and cosign its checkpoint: add a line with the signature of the witness.

    The check also compares the log with the newest checkpoint that this witness cosigned. ``file`` is the private key
    of the witness. If the verdict of the returned outcome is not VALID, the log is not cosigned.

    Raises:
        UsageError: ``name`` is not a valid name of a witness.
        VerificationError: the log has no checkpoint, or the witness cosigned a newer checkpoint.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f'"{name}" is not the name of a witness', hint="use a name such as witness.example/w1, without + and spaces"
        )
    view = read_log(folder)
    checkpoint = view.checkpoint()
    if view.note is None or checkpoint is None:
        raise VerificationError(
            "log_pending", "the log has no checkpoint", hint="sign a checkpoint with: bench publish RECEIPT.json"
        )
    seen = file.with_name(f"{file.name}.{sha256(checkpoint.origin.encode()).hexdigest()[:12]}.seen")
    outcome = check_log(view, store, seen if seen.is_file() else None)
    if outcome.verdict is not ReceiptVerdict.VALID:
        return outcome
    if seen.is_file() and (last := read_note(seen.read_bytes()).checkpoint()).size > checkpoint.size:
        raise VerificationError(
            "log_inconsistent",
            f"the checkpoint of this log covers {counted(checkpoint.size, 'entr(y|ies)')}, but this witness has "
            f"already cosigned a checkpoint of {last.size}",
            hint="get the newest copy of the log",
        )
    write_atomically(seen, view.note)
    signed = _with_line(read_note(view.note), WitnessKey(name=name, key=key.public), cosign(view.note, name, key, at))
    for path in (folder / CHECKPOINTS / str(checkpoint.size), folder / CHECKPOINT):
        write_atomically(path, signed)
    return outcome


def _with_line(note: Note, witness: WitnessKey, line: bytes) -> bytes:
    """Return the note with the signature line of a witness. An earlier line of this witness is removed."""
    kept = [one for one in note.signatures if (one.name, one.key_id) != (witness.name, witness.id)]
    lines = [f"— {one.name} {b64encode(one.key_id + one.value).decode()}\n".encode() for one in kept]
    return b"".join([note.text.encode(), b"\n", *lines, line])
