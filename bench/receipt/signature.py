"""Ed25519 over canonical bytes: what is signed, how a signature is spelled, when it holds.

The signed bytes are the RFC 8785 form of the document without its top-level ``signature``::

    signed = sign(document, key)                      # adds signer and signature
    verify_document(dumps(signed), public_key_pem)    # returns the parsed document, or raises with .code

Nothing here knows what a receipt means, and the check is made over the document as it came.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature

from bench.canonical import JSON, dumps, parse, without
from bench.errors import VerificationError
from bench.receipt.keyfiles import PublicKey, SigningKey

ALGORITHM = "Ed25519"
FIELDS = frozenset({"algorithm", "publicKeyFingerprint", "value"})
_VALUE = re.compile(r"[A-Za-z0-9_-]{86}")


def encode(raw: bytes) -> str:
    """Spell 64 signature bytes as base64url without padding."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode(value: object) -> bytes:
    """Read the one allowed spelling of a signature; raise ``bad_signature_encoding`` for any other."""
    if isinstance(value, str) and _VALUE.fullmatch(value):
        raw = urlsafe_b64decode(value + "==")
        if encode(raw) == value:
            return raw
    raise VerificationError(
        "bad_signature_encoding", "the signature is not 86 characters of base64url in their one spelling"
    )


def signed_bytes(document: Mapping[str, JSON]) -> bytes:
    """The canonical bytes that the signature covers."""
    return dumps(without(document, "signature"))


def sign(document: Mapping[str, JSON], key: SigningKey) -> dict[str, JSON]:
    """Return the document with ``signer`` and ``signature``."""
    names: dict[str, JSON] = {"algorithm": ALGORITHM, "publicKeyFingerprint": key.public.fingerprint}
    body: dict[str, JSON] = {**without(document, "signature"), "signer": dict(names)}
    return {**body, "signature": {**names, "value": encode(key.sign(dumps(body)))}}


def holds(key: PublicKey, signature: bytes, message: bytes) -> bool:
    """Say whether the signature is the key's over the message."""
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def signature_of(document: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The signature member of a document; raise ``signature_missing`` when there is none."""
    signature = document.get("signature")
    if not isinstance(signature, dict):
        raise VerificationError("signature_missing", "the document carries no signature")
    return signature


def check_form(document: Mapping[str, JSON]) -> bytes:
    """Check spelling, algorithm and agreement of signature and signer; return the 64 bytes."""
    signature = signature_of(document)
    unknown = sorted(signature.keys() - FIELDS)
    if unknown:
        raise VerificationError("field_unknown", "a signature has three fields", where=f"signature.{unknown[0]}")
    signer = document.get("signer")
    for place, names in (("signature", signature), ("signer", signer)):
        if not isinstance(names, dict) or names.get("algorithm") != ALGORITHM:
            raise VerificationError("algorithm_unsupported", f"only {ALGORITHM} is read", where=f"{place}.algorithm")
    assert isinstance(signer, dict)
    if signer.get("publicKeyFingerprint") != signature.get("publicKeyFingerprint"):
        raise VerificationError("fingerprint_mismatch", "signer and signature name different keys")
    return decode(signature.get("value"))


def check_signature(document: Mapping[str, JSON], key: PublicKey) -> None:
    """Check form and signature of a parsed document under one key."""
    raw = check_form(document)
    if signature_of(document).get("publicKeyFingerprint") != key.fingerprint:
        raise VerificationError("fingerprint_mismatch", f"the document names another key than {key.fingerprint}")
    if not holds(key, raw, signed_bytes(document)):
        raise VerificationError("signature_invalid", "the signature does not fit the document: it was altered")


def verify_document(data: bytes, public_key_pem: bytes) -> dict[str, JSON]:
    """Check strict JSON and the signature alone; return the document, or raise an error with ``.code``."""
    document = parse(data)
    if not isinstance(document, dict):
        raise VerificationError("signature_missing", "the document is not an object")
    check_signature(document, PublicKey.from_pem(public_key_pem))
    return document
