"""Sign documents with Ed25519, verify signatures, and read key files.

Private keys are PKCS#8 PEM files, and public keys are SubjectPublicKeyInfo PEM files. A private key file that other
users can read is refused.

Example::

    signed = sign(document, key)                      # adds signer and signature
    verify_document(dumps(signed), public_key_pem)    # returns the parsed document, or raises with .code
    key = SigningKey.load(Path("default.key"))
    key.public.fingerprint        # "sha256:..." = openssl pkey -pubin -outform DER | sha256sum

The signed bytes are the RFC 8785 form of the document without its top-level ``signature``. A key that is not accepted
raises :class:`KeyRefused`. Error messages never contain the text of a key.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from bench.canonical import JSON, dumps, parse, sha256_hex, without_members
from bench.errors import UsageError, VerificationError

Passphrase = Callable[[], bytes | None]
"""A function that returns a passphrase, or None if there is no passphrase."""

EXEMPT_FOLDER = Path("/run/secrets")  # mounted by the container engine, which sets the mode itself

# The points of order 1, 2, 4 and 8 with their non-canonical spellings, sign bit cleared: a signature by such
# a key states nothing, since some or all messages verify.
_SMALL_ORDER = frozenset(
    bytes.fromhex(text)
    for text in (
        "01" + "00" * 31,
        "00" * 32,
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    )
)


_PUBLIC_HINT = "name the file of an Ed25519 public key, such as keys/NAME.pub"


class KeyRefused(UsageError):
    """The error for a key that is not accepted. ``code`` and ``kind`` are both the stable name of the reason."""

    def __init__(self, code: str, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint or "create a key with: bench keys new NAME")
        self.code = code
        self.kind = code  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """An Ed25519 public key. Weak keys, which are points of small order, are refused."""

    raw: bytes

    @classmethod
    def from_pem(cls, pem: bytes, where: str | None = None) -> PublicKey:
        """Parse a public key from a SubjectPublicKeyInfo PEM.

        Raises:
            KeyRefused: this is not a public key, or the key is weak or not Ed25519.
        """
        try:
            key = load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyRefused(
                "key_unreadable", "this is not a PEM public key", where=where, hint=_PUBLIC_HINT
            ) from error
        if not isinstance(key, Ed25519PublicKey):
            raise KeyRefused("key_type", "the public key is not Ed25519", where=where, hint=_PUBLIC_HINT)
        return cls.from_raw(key.public_bytes(Encoding.Raw, PublicFormat.Raw), where)

    @classmethod
    def from_raw(cls, raw: bytes, where: str | None = None) -> PublicKey:
        """Create a public key from its 32 bytes; raise KeyRefused if the key is weak."""
        if raw[:31] + bytes([raw[31] & 0x7F]) in _SMALL_ORDER:
            raise KeyRefused("weak_public_key", "the public key is weak: a point of small order", where=where)
        return cls(raw=raw)

    @classmethod
    def load(cls, path: Path) -> PublicKey:
        """Read a public key from a PEM file. Raise KeyRefused if the file cannot be read or the key is not accepted."""
        return cls.from_pem(_read(path), str(path))

    @cached_property
    def _key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.raw)

    @cached_property
    def pem(self) -> str:
        """The text of the key as SubjectPublicKeyInfo PEM."""
        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")

    @cached_property
    def fingerprint(self) -> str:
        """The identifier of the key: ``sha256:`` and the hash of its DER SubjectPublicKeyInfo in hex."""
        return "sha256:" + sha256_hex(self._key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    def verify(self, signature: bytes, message: bytes) -> None:
        """Raise cryptography's InvalidSignature if the signature is not valid for the message."""
        self._key.verify(signature, message)


@dataclass(frozen=True, kw_only=True, repr=False)
class SigningKey:
    """An Ed25519 private key; ``repr()`` does not show its bytes."""

    _key: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> SigningKey:
        """Create a random private key."""
        return cls(_key=Ed25519PrivateKey.generate())

    @classmethod
    def from_raw(cls, seed: bytes) -> SigningKey:
        """Create a private key from its 32 secret bytes, as RFC 8032 defines them."""
        return cls(_key=Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def from_pem(cls, pem: bytes, *, where: str, passphrase: Passphrase | None = None) -> SigningKey:
        """Parse a private key from a PKCS#8 PEM; ``passphrase`` is called only if the key is encrypted.

        Raises:
            KeyRefused: the PEM is not an Ed25519 private key, or cannot be decrypted.
        """
        _refuse_public(pem, where)
        key = _private_key(pem, where, passphrase)
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyRefused("key_type", "the private key is not Ed25519", where=where)
        return cls(_key=key)

    @classmethod
    def load(cls, path: Path, passphrase: Passphrase | None = None) -> SigningKey:
        """Read a private key from a PEM file.

        Raises:
            KeyRefused: other users may read the file, or the key is not accepted.
        """
        pem = _read(path)
        _refuse_public(pem, str(path))
        _refuse_open_permissions(path)
        return cls.from_pem(pem, where=str(path), passphrase=passphrase)

    @cached_property
    def public(self) -> PublicKey:
        """The public key that belongs to this private key."""
        return PublicKey.from_raw(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def pem(self) -> bytes:
        """Return the private key as an unencrypted PKCS#8 PEM."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature of a message, 64 bytes."""
        return self._key.sign(message)


def _private_key(pem: bytes, where: str, passphrase: Passphrase | None) -> object:
    try:
        return load_pem_private_key(pem, None)
    except TypeError:
        pass  # cryptography's way to say that the key is encrypted
    except (ValueError, UnsupportedAlgorithm):
        raise KeyRefused("key_unreadable", "this is not a PEM private key", where=where) from None
    secret = passphrase() if passphrase else None
    if not secret:
        raise KeyRefused(
            "key_unreadable",
            "the private key is encrypted and no passphrase was given",
            where=where,
            hint="name a file in MEMORYBENCH_SIGNING_KEY_PASSPHRASE_FILE",
        )
    try:
        return load_pem_private_key(pem, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyRefused(
            "key_unreadable", "the passphrase of the private key is wrong", where=where, hint="correct the passphrase"
        ) from None


def _refuse_public(pem: bytes, where: str) -> None:
    """Raise KeyRefused if ``pem`` is a public key, because signing needs the private key."""
    if b"-----BEGIN PUBLIC KEY-----" in pem:
        raise KeyRefused(
            "key_unreadable",
            "this is a public key, but signing needs the private key",
            where=where,
            hint="name the private key file NAME.key that bench keys new created, or remove --key",
        )


def _refuse_open_permissions(path: Path) -> None:
    mode = path.stat().st_mode & 0o777
    if mode & 0o077 and not path.resolve().is_relative_to(EXEMPT_FOLDER):
        raise KeyRefused(
            "key_permissions",
            f"group or others may read the private key (mode {mode:04o})",
            where=str(path),
            hint=f"make the file private with: chmod 600 {path}",
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        hint = "name a key file that can be read, or create a key with: bench keys new NAME"
        raise KeyRefused("key_unreadable", error.strerror or "cannot be read", where=str(path), hint=hint) from error


ALGORITHM = "Ed25519"
FIELDS = frozenset({"algorithm", "publicKeyFingerprint", "value"})
_VALUE = re.compile(r"[A-Za-z0-9_-]{86}")


def encode(raw: bytes) -> str:
    """Encode 64 signature bytes as base64url without padding."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode(value: object) -> bytes:
    """Decode a base64url signature to 64 bytes.

    Raises:
        VerificationError: the value is not canonical base64url of 64 bytes (``bad_signature_encoding``).
    """
    if isinstance(value, str) and _VALUE.fullmatch(value):
        raw = urlsafe_b64decode(value + "==")
        if encode(raw) == value:
            return raw
    raise VerificationError("bad_signature_encoding", "the signature is not 86 characters of canonical base64url")


def signed_bytes(document: Mapping[str, JSON]) -> bytes:
    """Return the bytes that a signature covers: canonical JSON of the document without ``signature``."""
    return dumps(without_members(document, "signature"))


def sign(document: Mapping[str, JSON], key: SigningKey) -> dict[str, JSON]:
    """Sign a document; return a copy with the fields ``signer`` and ``signature``."""
    names: dict[str, JSON] = {"algorithm": ALGORITHM, "publicKeyFingerprint": key.public.fingerprint}
    body: dict[str, JSON] = {**without_members(document, "signature"), "signer": dict(names)}
    return {**body, "signature": {**names, "value": encode(key.sign(dumps(body)))}}


def is_valid_signature(key: PublicKey, signature: bytes, message: bytes) -> bool:
    """Return True if the owner of ``key`` signed ``message`` with this signature."""
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def signature_of(document: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the field ``signature`` of a document, which has algorithm, fingerprint and value.

    Raises:
        VerificationError: the document has no signature (``signature_missing``).
    """
    signature = document.get("signature")
    if not isinstance(signature, dict):
        raise VerificationError("signature_missing", "the document has no signature")
    return signature


def check_form(document: Mapping[str, JSON]) -> bytes:
    """Check the fields ``signature`` and ``signer`` of a document, and return the 64 bytes of the signature.

    The signature itself is not verified.

    Raises:
        VerificationError: a field is unknown, or the encoding, the algorithm or the signer is not valid.
    """
    signature = signature_of(document)
    unknown = sorted(signature.keys() - FIELDS)
    if unknown:
        raise VerificationError(
            "field_unknown",
            f"the signature has an unknown field; expected only {', '.join(sorted(FIELDS))}",
            where=f"signature.{unknown[0]}",
        )
    signer = document.get("signer")
    for place, names in (("signature", signature), ("signer", signer)):
        if not isinstance(names, dict) or names.get("algorithm") != ALGORITHM:
            raise VerificationError(
                "algorithm_unsupported", f"the signature algorithm must be {ALGORITHM}", where=f"{place}.algorithm"
            )
    assert isinstance(signer, dict)
    if signer.get("publicKeyFingerprint") != signature.get("publicKeyFingerprint"):
        raise VerificationError("fingerprint_mismatch", 'the fields "signer" and "signature" name different keys')
    return decode(signature.get("value"))


def check_signature(document: Mapping[str, JSON], key: PublicKey) -> None:
    """Verify the signature of a parsed document with ``key``.

    Raises:
        VerificationError: the signature is missing, malformed, invalid or by another key.
    """
    raw = check_form(document)
    if signature_of(document).get("publicKeyFingerprint") != key.fingerprint:
        raise VerificationError("fingerprint_mismatch", f"the document does not name the key {key.fingerprint}")
    if not is_valid_signature(key, raw, signed_bytes(document)):
        raise VerificationError(
            "signature_invalid", "the signature does not match the document, so the document was altered"
        )


def verify_document(data: bytes, public_key_pem: bytes) -> dict[str, JSON]:
    """Parse a document from strict JSON, verify only its signature, and return the document.

    Every error has a stable ``.code``.
    """
    document = parse(data)
    if not isinstance(document, dict):
        raise VerificationError("signature_missing", "the document is not an object")
    check_signature(document, PublicKey.from_pem(public_key_pem))
    return document
