"""The in-toto statement of a receipt: its contents, its verification by other tools, and detection of changes."""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from bench.canonical import dumps, parse_file, sha256_hex
from bench.errors import VerificationError
from bench.receipt.signing.dsse import PAYLOAD_TYPE, envelope, open_envelope, pae
from bench.receipt.signing.sign import items_of
from bench.receipt.signing.signature import SigningKey


@pytest.fixture
def receipt(desk: Any) -> Path:
    path: Path = desk.good()
    return path


@pytest.fixture
def line(desk: Any, receipt: Path) -> bytes:
    return envelope(document(receipt), items_of(receipt).read_bytes(), desk.key)


def document(receipt: Path) -> Any:
    return parse_file(receipt)


def test_the_statement_has_the_receipt_without_its_signature_and_its_digests(
    desk: Any, receipt: Path, line: bytes
) -> None:
    statement: Any = open_envelope(line, desk.key.public)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    whole = document(receipt)
    assert statement["predicate"] == {name: value for name, value in whole.items() if name != "signature"}
    first, second = statement["subject"]
    assert first == {"name": whole["receiptId"], "digest": {"sha256": sha256_hex(dumps(statement["predicate"]))}}
    assert second["digest"]["sha256"] == sha256_hex(items_of(receipt).read_bytes())
    assert line.count(b"\n") == 1 and json.loads(line)["payloadType"] == PAYLOAD_TYPE


def test_an_envelope_with_a_flipped_byte_is_refused(desk: Any, line: bytes) -> None:
    hint = range(line.index(b"sha256:"), line.index(b"sha256:") + 71)  # the name of the key is unsigned
    for place in range(0, len(line) - 1, 23):
        if place in hint:
            continue
        altered = bytearray(line)
        altered[place] ^= 1
        with pytest.raises(VerificationError):
            open_envelope(bytes(altered), desk.key.public)


def test_an_envelope_does_not_verify_with_another_key(line: bytes) -> None:
    with pytest.raises(VerificationError):
        open_envelope(line, SigningKey.from_raw(bytes(range(1, 33))).public)


def test_openssl_verifies_the_envelope_and_refuses_one_flipped_byte(desk: Any, line: bytes, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    found = json.loads(line)
    signed = pae(b64decode(found["payload"]))
    (tmp_path / "sig.bin").write_bytes(b64decode(found["signatures"][0]["sig"]))
    (tmp_path / "pub.pem").write_text(desk.key.public.pem)
    command = [
        "openssl",
        "pkeyutl",
        "-verify",
        "-rawin",
        "-in",
        "pae.bin",
        "-sigfile",
        "sig.bin",
        "-pubin",
        "-inkey",
        "pub.pem",
    ]
    for content, right in ((signed, True), (signed[:-9] + bytes([signed[-9] ^ 1]) + signed[-8:], False)):
        (tmp_path / "pae.bin").write_bytes(content)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True)
        assert (done.returncode == 0) is right


def test_securesystemslib_verifies_the_envelope(desk: Any, line: bytes) -> None:
    dsse = pytest.importorskip("securesystemslib.dsse")
    signer = pytest.importorskip("securesystemslib.signer")
    found = json.loads(line)
    key = signer.SSlibKey.from_crypto(
        load_pem_public_key(desk.key.public.pem.encode()), found["signatures"][0]["keyid"]
    )
    read = dsse.Envelope.from_dict(found)
    assert read.payload_type == PAYLOAD_TYPE and list(read.verify([key], 1)) == [key.keyid]
    read.payload = read.payload[:-9] + bytes([read.payload[-9] ^ 1]) + read.payload[-8:]
    with pytest.raises(Exception, match="threshold"):
        read.verify([key], 1)
