"""Convert a receipt to an in-toto statement in a signed DSSE envelope, for supply-chain tools.

Example::

    line = envelope(receipt, items.read_bytes(), key)       # one line of JSON, ID.intoto.jsonl
    open_envelope(line, key.public)["predicate"]["resultDigest"]   # or VerificationError

The predicate of the statement is the receipt without its signature. The subjects are the SHA-256 of this predicate in
RFC 8785 form, and the SHA-256 of the items file.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import cast

from bench.canonical import JSON, dumps, parse, sha256_hex, without_members
from bench.errors import VerificationError
from bench.receipt.signing.signature import PublicKey, SigningKey, is_valid_signature, signed_bytes
from bench.untyped_values import object_or_empty

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:memorybench:bench.receipt:1"


def envelope(receipt: Mapping[str, JSON], items: bytes, key: SigningKey) -> bytes:
    """Sign a statement about a receipt and its items file; return the envelope as one line of JSON."""
    rows = object_or_empty(receipt["perQuery"])
    statement: dict[str, JSON] = {
        "_type": STATEMENT,
        "subject": [
            _subject(str(receipt["receiptId"]), signed_bytes(receipt)),
            _subject(str(rows["file"]), items),
        ],
        "predicateType": PREDICATE,
        "predicate": without_members(receipt, "signature"),
    }
    payload = dumps(statement)
    signature: JSON = {"keyid": key.public.fingerprint, "sig": b64encode(key.sign(pae(payload))).decode()}
    found: dict[str, JSON] = {
        "payload": b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [signature],
    }
    return dumps(found) + b"\n"


def pae(payload: bytes) -> bytes:
    """Return the bytes that a DSSE signature covers: length and text of the payload type, then length and text of the
    payload.
    """
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def open_envelope(line: bytes, key: PublicKey) -> Mapping[str, JSON]:
    """Check the signature of an envelope with ``key``, and return the statement in the envelope.

    Raises:
        VerificationError: the signature is not valid, or the line is not an envelope.
    """
    try:
        found = object_or_empty(parse(line.rstrip(b"\n")))
        signatures = found["signatures"]
        (signature,) = signatures if isinstance(signatures, list) else [None]
        payload = b64decode(str(found["payload"]), validate=True)
        raw = b64decode(str(object_or_empty(signature)["sig"]), validate=True)
    except (ValueError, KeyError, TypeError, VerificationError) as error:
        raise VerificationError("dsse_form", "the file is not a DSSE envelope with one signature") from error
    if found["payloadType"] != PAYLOAD_TYPE or not is_valid_signature(key, raw, pae(payload)):
        raise VerificationError("signature_invalid", "the signature does not match the envelope")
    return cast("Mapping[str, JSON]", parse(payload))


def _subject(name: str, content: bytes) -> JSON:
    return {"name": name, "digest": {"sha256": sha256_hex(content)}}
