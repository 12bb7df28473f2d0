"""Each type of log entry and each part of a checkpoint: valid values, and the message for each invalid one."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.canonical import dumps
from bench.errors import VerificationError
from bench.receipt.log.log_store import (
    MAX_NOTE,
    Checkpoint,
    key_id,
    read_entry,
    read_note,
    write_checkpoint,
    write_entry,
)
from bench.receipt.signing.signature import SigningKey
from tests.rows import each_row

Json = dict[str, Any]
AT, HEX, ULID = "2026-11-02T00:00:00Z", "ab" * 32, "01HZZZZZZZZZZZZZZZZZZZZZZ0"
PRINT = "sha256:" + HEX
KEY = SigningKey.from_raw(bytes(range(32)))

TYPES = "key, key-retired, key-revoked, run-started, run-abandoned, receipt, supersede, retract"
ENTRIES: dict[str, Json] = {
    "key": {"fingerprint": PRINT, "publicKey": KEY.public.pem, "roles": ["receipt", "log"]},
    "key-retired": {"fingerprint": PRINT},
    "key-revoked": {"fingerprint": PRINT, "fromIndex": 3, "reason": "lost"},
    "run-started": {
        "runId": "r1", "planDigest": HEX, "configDigests": [HEX], "itemsPlanned": 10, "seed": 0, "codeCommit": "0" * 40,
    },
    "run-abandoned": {"runId": "r1", "reason": "too expensive"},
    "receipt": {
        "receiptId": ULID, "receiptSha256": HEX, "itemsSha256": HEX, "configDigest": HEX, "resultDigest": HEX,
        "runId": "r1",
    },
    "supersede": {"old": ULID, "new": ULID[:-1] + "1", "reason": "a wrong prompt"},
    "retract": {"receiptId": ULID, "reason": "a wrong dataset"},
}  # fmt: skip


def entry(kind: str, **changes: object) -> Json:
    return {"schema": "bench.log-entry/1", "index": 4, "at": AT, "type": kind, **ENTRIES[kind], **changes}


def refused(line: bytes) -> str:
    with pytest.raises(VerificationError) as caught:
        read_entry(line)
    assert caught.value.code == "log_entry"
    return caught.value.message


@each_row("kind", ENTRIES)
def test_each_type_of_log_entry_is_read_and_written_back_unchanged(kind: str) -> None:
    line = dumps(entry(kind))
    assert write_entry(read_entry(line)) == line


@each_row(("kind", "field"), [(kind, field) for kind in ENTRIES for field in entry(kind)])
def test_each_field_of_a_log_entry_is_required(kind: str, field: str) -> None:
    document = entry(kind)
    del document[field]
    expected = {
        "schema": "the schema is not bench.log-entry/1",
        "type": "the entry has the unknown type None; expected " + TYPES,
    }.get(field, f"{field}: Field required")
    assert refused(dumps(document)) == expected


@each_row("kind", ENTRIES)
@each_row("name", ["extra", "run_id", "receipt_id", "Index", ""])
def test_a_log_entry_with_an_unknown_field_is_rejected(kind: str, name: str) -> None:
    assert refused(dumps(entry(kind, **{name: 1}))) == (f"{name}: " if name else "") + "Extra inputs are not permitted"


T = "Input should be a valid string"
I = "Input should be a valid integer"  # noqa: E741
P = "String should match pattern"
FIELDS: list[tuple[str, str, object, str]] = [
    ("retract", "index", -1, "Input should be greater than or equal to 0"),
    ("retract", "index", "4", I),
    ("retract", "index", None, I),
    ("retract", "index", True, I),
    ("retract", "index", 4.5, I),
    ("retract", "at", "2026-11-02", "Value error, expected a time such as 2026-01-31T12:00:00Z"),
    ("retract", "at", "2026-11-02T00:00:00+00:00", "Value error, expected a time such as 2026-01-31T12:00:00Z"),
    ("retract", "at", "2026-13-02T00:00:00Z", "Value error, "),
    ("retract", "at", 0, T),
    ("retract", "receiptId", ULID.lower(), P),
    ("retract", "receiptId", ULID + "\n", P),
    ("retract", "receiptId", None, T),
    ("retract", "reason", None, T),
    ("retract", "reason", ["x"], T),
    ("key", "fingerprint", HEX, P),
    ("key", "fingerprint", PRINT.upper(), P),
    ("key", "publicKey", None, T),
    ("key", "roles", "log", "Input should be a valid tuple"),
    ("key", "roles", None, "Input should be a valid tuple"),
    ("key-retired", "fingerprint", "", P),
    ("key-revoked", "fingerprint", None, T),
    ("key-revoked", "fromIndex", -1, "Input should be greater than or equal to 0"),
    ("key-revoked", "fromIndex", None, I),
    ("key-revoked", "reason", 1, T),
    ("run-started", "runId", "", "String should have at least 1 character"),
    ("run-started", "runId", 1, T),
    ("run-started", "planDigest", "AB" * 32, P),
    ("run-started", "configDigests", HEX, "Input should be a valid tuple"),
    ("run-started", "itemsPlanned", -1, "Input should be greater than or equal to 0"),
    ("run-started", "itemsPlanned", "10", I),
    ("run-started", "seed", 0.5, I),
    ("run-started", "seed", None, I),
    ("run-started", "codeCommit", "0" * 39, P),
    ("run-started", "codeCommit", "main", P),
    ("run-abandoned", "runId", None, T),
    ("run-abandoned", "reason", None, T),
    ("receipt", "receiptId", "b12b9a56-ea15-4f73-a6c8-89552129fd54", P),
    ("receipt", "receiptSha256", HEX[:-1], P),
    ("receipt", "receiptSha256", None, T),
    ("receipt", "itemsSha256", HEX + "0", P),
    ("receipt", "configDigest", "sha256:" + HEX, P),
    ("receipt", "resultDigest", "\uff41" + HEX[1:], P),
    ("receipt", "runId", "", "String should have at least 1 character"),
    ("supersede", "old", "", P),
    ("supersede", "new", None, T),
    ("supersede", "reason", False, T),
]


@each_row(("kind", "field", "value", "words"), FIELDS)
def test_each_invalid_field_of_a_log_entry_is_rejected_with_a_message(
    kind: str, field: str, value: object, words: str
) -> None:
    assert refused(dumps(entry(kind, **{field: value}))).startswith(f"{field}: {words}")


def test_the_table_of_invalid_fields_has_every_field_of_every_entry_type() -> None:
    listed = {(kind, field) for kind, field, _, _ in FIELDS} | {("retract", "schema"), ("retract", "type")}
    own = {(kind, field) for kind, fields in ENTRIES.items() for field in fields}
    assert own <= listed
    assert {("retract", field) for field in entry("retract")} <= listed


@each_row(
    ("changes", "message"),
    [
        ({"schema": "bench.log-entry/2"}, "the schema is not bench.log-entry/1"),
        ({"schema": None}, "the schema is not bench.log-entry/1"),
        ({"schema": 1}, "the schema is not bench.log-entry/1"),
        ({"type": "delete"}, "the entry has the unknown type 'delete'; expected " + TYPES),
        ({"type": "Retract"}, "the entry has the unknown type 'Retract'; expected " + TYPES),
        ({"type": None}, "the entry has the unknown type None; expected " + TYPES),
        ({"type": ["retract"]}, "the entry has the unknown type ['retract']; expected " + TYPES),
        ({"type": "receipt"}, "receiptSha256: Field required"),
    ],
)
def test_a_log_entry_of_another_schema_or_type_is_rejected(changes: Json, message: str) -> None:
    assert refused(dumps(entry("retract", **changes))).startswith(message)


LINE = dumps(entry("retract"))
SPELLINGS: list[tuple[bytes, str]] = [
    (b"", "the text is not JSON: Expecting value at line 1 column 1"),
    (b"null", "the schema is not bench.log-entry/1"),
    (b"[]", "the schema is not bench.log-entry/1"),
    (b'"x"', "the schema is not bench.log-entry/1"),
    (LINE + b" ", "the line is not in canonical form"),
    (LINE + b"\r", "the line is not in canonical form"),
    (LINE.replace(b":4,", b": 4,"), "the line is not in canonical form"),
    (LINE.replace(b":4,", b":4.0,"), "the line is not in canonical form"),
    (LINE.replace(b":4,", b":4e0,"), "the line is not in canonical form"),
    (LINE.replace(b"wrong", b"\\u0077rong"), "the line is not in canonical form"),
    (LINE.replace(b"wrong", b"\\/"), "the line is not in canonical form"),
    (b'{"type":"retract",' + LINE[1:].replace(b',"type":"retract"', b""), "the line is not in canonical form"),
    (LINE.replace(b":4,", b":4,\"index\":4,"), "index: the key occurs twice in one object"),
    (LINE.replace(b":4,", b":4,\"\\u0069ndex\":5,"), "index: the key occurs twice in one object"),
    (LINE.replace(b":4,", b":9007199254740992,"), "index: an integer is not in"),
    (LINE.replace(b":4,", b":NaN,"), "index: NaN and infinities are not JSON"),
    (LINE.replace(b"wrong", b"\\ud800"), "reason: half of a surrogate pair is not Unicode text"),
    (LINE.replace(b"wrong", b"\xff"), "the text is not UTF-8 at byte 51"),
    (b"\xef\xbb\xbf" + LINE, "the document begins with a byte order mark"),
    (LINE[:-1], "the text is not JSON: Expecting ',' delimiter at line 1"),
    (LINE + LINE, "the text is not JSON: Extra data at line 1"),
]  # fmt: skip


@each_row(("line", "message"), SPELLINGS)
def test_a_log_entry_that_is_not_canonical_json_is_rejected(line: bytes, message: str) -> None:
    assert refused(line).startswith(message)


# ------------------------------------------------------------------------- checkpoints

ROOT = bytes(range(32))
NOTE = write_checkpoint(Checkpoint(origin="bench.local/log", size=7, root=ROOT), KEY).decode()
ENCODED = base64.b64encode(ROOT).decode()
SIGNED = NOTE.rsplit(" ", 1)[1].strip()
ORIGIN_SIZE_ROOT = "expected the lines origin, size and root"


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


NOTES: list[tuple[str, Callable[[str], str | bytes], str]] = [
    ("nothing", lambda _: "", "expected text, a blank line and signatures"),
    ("not UTF-8", lambda note: note.encode() + b"\xff", "the file is not UTF-8"),
    ("no blank line", lambda note: note.replace("\n\n", "\n"), "expected text, a blank line and signatures"),
    ("no LF at the end", lambda note: note[:-1], "expected text, a blank line and signatures"),
    ("too much", lambda note: note[:-1] + " " * MAX_NOTE + "\n", "expected text, a blank line and signatures"),
    ("no signature", lambda note: note[: note.index("—")], "expected text, a blank line and signatures"),
    ("an empty signature line", lambda note: note + "\n", "expected text, a blank line and signatures"),
    ("a line of another kind", lambda note: note + "— x\n", "a line after the blank line is not a signature"),
    ("a minus for a dash", lambda note: note.replace("—", "-"), "a line after the blank line is not a signature"),
    ("an en dash", lambda note: note.replace("—", "–"), "a line after the blank line is not a signature"),
    ("two spaces", lambda note: note.replace("— ", "—  "), "a line after the blank line is not a signature"),
    ("a tab", lambda note: note.replace("— ", "—\t"), "a line after the blank line is not a signature"),
    ("no name", lambda note: note.replace("— bench.local/log", "— "), "a line after the blank line is not a signature"),
    ("words behind", lambda note: note[:-1] + " x\n", "a line after the blank line is not a signature"),
    ("carriage returns", lambda note: note.replace("\n", "\r\n"), "expected text, a blank line and signatures"),
    ("a signature of 4 bytes", lambda note: note.replace(SIGNED, b64(b"1234")), "a signature is too short"),
    ("no base64", lambda note: note.replace(SIGNED, "!" + SIGNED[1:]), "its root or signature is not base64"),
    ("base64url", lambda note: note.replace(SIGNED, "_" + SIGNED[1:]), "its root or signature is not base64"),
    ("cut base64", lambda note: note.replace(SIGNED, SIGNED[:-1]), "its root or signature is not base64"),
    (
        "base64 with a bit too many",
        lambda note: note.replace(ENCODED, ENCODED[:-2] + "9="),
        "its root or signature is not canonical base64",
    ),
    (
        "a root that is base64url",
        lambda note: note.replace(ENCODED, "-" + ENCODED[1:]),
        "its root or signature is not base64",
    ),
    ("a root of 31 bytes", lambda note: note.replace(ENCODED, b64(bytes(31))), "its root does not have 32 bytes"),
    ("a root of 33 bytes", lambda note: note.replace(ENCODED, b64(bytes(33))), "its root does not have 32 bytes"),
    ("an empty root", lambda note: note.replace(ENCODED + "\n", "\n", 1), "its root does not have 32 bytes"),
    ("no origin", lambda note: note.replace("bench.local/log\n", "\n", 1), ORIGIN_SIZE_ROOT),
    ("a fourth line", lambda note: note.replace(ENCODED, ENCODED + "\nmore"), ORIGIN_SIZE_ROOT),
    ("a missing line", lambda note: note.replace("7\n", ""), ORIGIN_SIZE_ROOT),
    ("size 07", lambda note: note.replace("\n7\n", "\n07\n"), ORIGIN_SIZE_ROOT),
    ("size +7", lambda note: note.replace("\n7\n", "\n+7\n"), ORIGIN_SIZE_ROOT),
    ("size -7", lambda note: note.replace("\n7\n", "\n-7\n"), ORIGIN_SIZE_ROOT),
    ("size 7.0", lambda note: note.replace("\n7\n", "\n7.0\n"), ORIGIN_SIZE_ROOT),
    ("size in other digits", lambda note: note.replace("\n7\n", "\n\u0667\n"), ORIGIN_SIZE_ROOT),
    (
        "a size beyond reason",
        lambda note: note.replace("\n7\n", f"\n1{'0' * 19}\n"),
        ORIGIN_SIZE_ROOT,
    ),
    ("a space behind the size", lambda note: note.replace("\n7\n", "\n7 \n"), ORIGIN_SIZE_ROOT),
]


@each_row(("change", "words"), [note[1:] for note in NOTES])
def test_a_malformed_checkpoint_is_log_signature_with_a_message(
    change: Callable[[str], str | bytes], words: str
) -> None:
    changed = change(NOTE)
    assert changed != NOTE
    with pytest.raises(VerificationError) as caught:
        read_note(changed if isinstance(changed, bytes) else changed.encode()).checkpoint()
    assert (caught.value.code, caught.value.message) == ("log_signature", f"this is not a signed checkpoint: {words}")


def test_a_note_verifies_only_with_its_own_key_name_and_text() -> None:
    other = SigningKey.generate()
    note = read_note(NOTE.encode())
    assert note.signed_by("bench.local/log", KEY.public) is True
    assert note.signed_by("bench.local/log2", KEY.public) is None, "the name is part of the key id"
    assert note.signed_by("bench.local/log", other.public) is None
    altered = read_note(NOTE.replace("\n7\n", "\n8\n").encode())
    assert altered.signed_by("bench.local/log", KEY.public) is False
    claimed = b64(key_id("bench.local/log", KEY.public) + other.sign(b"x"))
    forged = read_note(NOTE.replace(SIGNED, claimed).encode())
    assert forged.signed_by("bench.local/log", KEY.public) is False
    renamed = read_note(NOTE.replace("— bench.local/log", "— other").encode())
    assert (renamed.signed_by("other", KEY.public), renamed.signed_by("bench.local/log", KEY.public)) == (None, None)


def test_one_valid_signature_line_is_enough_and_a_truncated_one_is_invalid() -> None:
    bad = b64(key_id("bench.local/log", KEY.public) + bytes(64))
    both = NOTE + f"— bench.local/log {bad}\n— witness {b64(bytes(68))}\n"
    note = read_note(both.encode())
    assert len(note.signatures) == 3
    assert note.signed_by("bench.local/log", KEY.public) is True
    raw = base64.b64decode(SIGNED)
    for cut in (raw[:-1], raw + b"\0", raw[:5]):
        assert read_note(NOTE.replace(SIGNED, b64(cut)).encode()).signed_by("bench.local/log", KEY.public) is False


@given(st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="+"), min_size=1, max_size=20),
       st.integers(0, 10**18), st.binary(min_size=32, max_size=32))  # fmt: skip
def test_every_checkpoint_is_read_back_and_verifies_with_its_key(origin: str, size: int, root: bytes) -> None:
    checkpoint = Checkpoint(origin=origin, size=size, root=root)
    note = read_note(write_checkpoint(checkpoint, KEY))
    assert (note.checkpoint(), note.signed_by(origin, KEY.public)) == (checkpoint, True)


@given(place=st.integers(0, len(NOTE.encode()) - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_checkpoint_invalidates_its_signature(place: int, bit: int) -> None:
    data = bytearray(NOTE.encode())
    data[place] ^= 1 << bit
    try:
        held = read_note(bytes(data)).signed_by("bench.local/log", KEY.public)
    except VerificationError as error:
        assert error.code == "log_signature"
    else:
        assert not held
