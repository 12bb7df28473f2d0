"""Three files with which anybody checks a signature without this program.

Example::

    print(export(outcome, store, folder))     # the openssl command
"""

from __future__ import annotations

from pathlib import Path

from bench.errors import VerificationError
from bench.receipt.foreign import foreign_signed_bytes
from bench.receipt.signature import decode, signature_of, signed_bytes
from bench.receipt.trusted import TrustStore
from bench.receipt.verify import Outcome, Question
from bench.receipt.written import write_atomically

COMMAND = "openssl pkeyutl -verify -rawin -in canonical.bin -sigfile sig.bin -pubin -inkey pub.pem"


def export(outcome: Outcome, question: Question, folder: Path) -> str:
    """Write canonical.bin, sig.bin and pub.pem; return the command to run in that folder.

    Raises VerificationError unless parse, schema and signature are ok.
    """
    key = _key(outcome, question.trust)
    assert isinstance(outcome.document, dict)
    if question.profile == "bench":
        body = signed_bytes(outcome.document)
    else:
        body = foreign_signed_bytes(outcome.document, question.profile)
    write_atomically(folder / "canonical.bin", body)
    write_atomically(folder / "sig.bin", decode(signature_of(outcome.document).get("value")))
    write_atomically(folder / "pub.pem", key.encode())
    return COMMAND


def _key(outcome: Outcome, store: TrustStore) -> str:
    good = {finding.check for finding in outcome.findings if finding.status == "ok"}
    bad = {finding.check for finding in outcome.findings if finding.status == "fail"}
    known = store.find(outcome.fingerprint or "")
    if known is None or not {"parse", "schema", "signature"} <= good - bad:
        raise VerificationError(
            "signature_invalid",
            "nothing was exported: parse, schema and signature must be good, and the key known",
            where=str(outcome.file),
        )
    return known.public_key
