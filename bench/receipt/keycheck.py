"""Is there a key to sign with? Asked before a run that will be signed, since a run may last days.

fingerprint = check_in_child(workspace, "default.key")     # raises with the refusal of ``bench sign``
python -m bench.receipt.keycheck < question.json           # the child, which alone reads the key
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.receipt.child import Words, answer_with, ask
from bench.receipt.keyring import Keyring, ask_passphrase


def check_in_child(workspace: Path, key: str | None) -> str:
    """The fingerprint of the key that ``bench sign`` would use; raise UsageError where it would refuse."""
    question = {"workspace": str(workspace.resolve()), "key": key}
    return str(ask("bench.receipt.keycheck", question)["fingerprint"])


def check(question: Words) -> Words:
    """The child's work."""
    ring = Keyring(workspace=Path(str(question["workspace"])), prompt=ask_passphrase)
    named = question["key"]
    key = ring.signing_key("receipt", None if named is None else Path(str(named)))
    return {"fingerprint": key.public.fingerprint}


if __name__ == "__main__":
    sys.exit(answer_with(check))
