"""Find signing keys: from a flag, the environment, or the only active key of the key folder.

Also in this module:

* ``check_in_child`` checks, before a run that will be signed, that a key is available.
* ``run_in_child`` runs work with a private key in a child process. The process that runs providers never reads one.

Example::

    ring = Keyring(workspace=Path("."), environ=os.environ)
    key = ring.signing_key(role="receipt", file=None)
    fingerprint = check_in_child(workspace, "default.key")     # raises if ``bench sign`` would refuse

    python -m bench.receipt.signing.keyring < question.json           # the child process, which reads the key

    answer = run_in_child("bench.receipt.log.publish", {"runId": "r1", ...})     # in the runner
    sys.exit(serve_parent(function))                                     # in the child: stdin -> function -> stdout

Order: file, ``MEMORYBENCH_SIGNING_KEY_FILE``, ``MEMORYBENCH_SIGNING_KEY``, the only active key in the folder; for the
log ``MEMORYBENCH_LOG_KEY_FILE`` comes first. No key, or several to choose from, is an error that names them. An error
of the child is raised again in the runner, with the same kind, message and hint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from bench.errors import BenchError, UsageError
from bench.receipt.log.log_store import has_log
from bench.receipt.signing.signature import KeyRefused, PublicKey, SigningKey
from bench.receipt.signing.trust_store import FILE, Role, TrustStore

KEY_FILE = "MEMORYBENCH_SIGNING_KEY_FILE"
KEY_TEXT = "MEMORYBENCH_SIGNING_KEY"
LOG_KEY_FILE = "MEMORYBENCH_LOG_KEY_FILE"
PASSPHRASE_FILE = "MEMORYBENCH_SIGNING_KEY_PASSPHRASE_FILE"  # noqa: S105 - a name, no secret
PUBLISHED = Path("results/published")


@dataclass(frozen=True, kw_only=True)
class Keyring:
    """The keys of a workspace and an environment. ``prompt`` asks a person for a passphrase."""

    workspace: Path
    environ: MutableMapping[str, str] = field(default_factory=lambda: os.environ)
    folder: Path | None = None
    """the key folder; None = the default one"""
    prompt: Callable[[], bytes | None] | None = None

    @property
    def key_folder(self) -> Path:
        """The folder that was given, else ``$XDG_CONFIG_HOME/bench/keys``."""
        if self.folder is not None:
            return self.folder
        config = self.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        return Path(config) / "bench" / "keys"

    @property
    def trusted_path(self) -> Path:
        """The path of the workspace's trusted.json."""
        return self.workspace / FILE

    @property
    def log_folder(self) -> Path | None:
        """The folder of the workspace's public log; None if it has none."""
        folder = self.workspace / PUBLISHED
        return folder if has_log(folder) else None

    def trusted(self) -> TrustStore:
        """Return the workspace's trusted keys; empty if there is no file."""
        return TrustStore.load_or_empty(self.trusted_path)

    def signing_key(self, role: Role, file: Path | None = None) -> SigningKey:
        """Return the key to sign with; the docstring of the module has the order of the search.

        Raises:
            KeyRefused: there is no such key, or it is retired, revoked or without this role.
        """
        path = file or self._file_named_in_environment(role)
        text = self.environ.pop(KEY_TEXT, None) if path is None else None
        if path is not None:
            key, where = SigningKey.load(path, self._passphrase), str(path)
        elif text:
            key, where = SigningKey.from_pem(text.encode(), where=KEY_TEXT, passphrase=self._passphrase), KEY_TEXT
        else:
            return self._only_active(role)
        self._refuse_out_of_use(key, role, where)
        return key

    def log_key_or_none(self, *, excluding: str | None = None) -> SigningKey | None:
        """Return a key that may sign the log; None if there is none. ``excluding`` is a fingerprint to exclude."""
        store = self.trusted()
        allowed = {key.fingerprint for key in store.active("log")} - {excluding}
        for path in self._log_candidates(store):
            if path.is_file():
                key = SigningKey.load(path, self._passphrase)
                if key.public.fingerprint in allowed:
                    return key
        return None

    def private_key_of(self, name: str) -> SigningKey:
        """Return the private key ``name`` from the key folder; raise KeyRefused if trusted.json has another one."""
        path = self.key_folder / f"{name}.key"
        key = SigningKey.load(path, self._passphrase)
        if key.public.fingerprint != self.trusted().named(name).fingerprint:
            told = f"the private key {name} is not the key with this name in trusted.json"
            raise KeyRefused("key_fingerprint", told, where=str(path), hint="restore the private key file")
        return key

    def private_key(self, file: Path) -> SigningKey:
        """Load a private key without a role in this workspace, such as a witness's; ask for its passphrase."""
        return SigningKey.load(file, self._passphrase)

    def public_key_of(self, private: Path) -> PublicKey:
        """Return the public key of a private key file; ask for its passphrase."""
        return self.private_key(private).public

    def _file_named_in_environment(self, role: Role) -> Path | None:
        names = (LOG_KEY_FILE, KEY_FILE) if role == "log" else (KEY_FILE,)
        return next((Path(self.environ[name]) for name in names if self.environ.get(name)), None)

    def _log_candidates(self, store: TrustStore) -> list[Path]:
        named = self._file_named_in_environment("log")
        own = [self.key_folder / f"{key.name}.key" for key in store.active("log")]
        return own if named is None else [named, *own]

    def _only_active(self, role: Role) -> SigningKey:
        store = self.trusted()
        found = [key for key in store.active(role) if (self.key_folder / f"{key.name}.key").is_file()]
        if len(found) != 1:
            raise _no_single_key(role, [key.name for key in found], self.key_folder)
        return self.private_key_of(found[0].name)

    def _refuse_out_of_use(self, key: SigningKey, role: Role, where: str) -> None:
        """Raise KeyRefused for a key that trusted.json lists as not active or without this role.

        A key that trusted.json does not list may sign: other readers may trust it.
        """
        entry = self.trusted().find(key.public.fingerprint)
        if entry is None:
            return
        if entry.status != "active":
            told = f"the key {entry.name} is {entry.status}: new signatures with it are not trusted"
            raise KeyRefused(f"key_{entry.status}", told, where=where, hint="bench keys list shows the active keys")
        if role not in entry.roles:
            hint = f"create a key with this role: bench keys new NAME --roles {role}"
            raise KeyRefused("key_role", f"{entry.name} has no role {role}", where=where, hint=hint)

    def _passphrase(self) -> bytes | None:
        path = self.environ.get(PASSPHRASE_FILE)
        if path:
            try:
                return Path(path).read_bytes().rstrip(b"\r\n")
            except OSError as error:
                hint = f"correct the path in {PASSPHRASE_FILE}"
                raise KeyRefused("key_unreadable", error.strerror or "cannot be read", where=path, hint=hint) from error
        return self.prompt() if self.prompt else None


def _no_single_key(role: Role, names: list[str], folder: Path) -> KeyRefused:
    if names:
        return KeyRefused(
            "key_ambiguous",
            f"several active keys have the role {role}: {', '.join(names)}",
            where=str(folder),
            hint="choose one with --key FILE",
        )
    hint = f"create a key with bench keys new, or name a key file with --key or {KEY_FILE}"
    return KeyRefused("key_missing", f"no active key with the role {role}", where=str(folder), hint=hint)


def ask_passphrase() -> bytes | None:
    """Ask for a passphrase on the terminal; return None without a terminal."""
    import getpass

    return getpass.getpass("passphrase: ").encode() if sys.stderr.isatty() else None


Message = Mapping[str, object]
REFUSED = "refused"


class ChildError(UsageError):
    """An error that a child process reported; nothing was started."""

    def __init__(self, kind: str, message: str, *, where: str | None, hint: str) -> None:
        super().__init__(message, where=where, hint=hint)
        self.kind = kind  # type: ignore[misc]


def run_in_child(module: str, question: Message) -> Message:
    """Run ``python -m module`` with a question on stdin and return its answer.

    Raises:
        ChildError: the child process reported an error; it has the child's kind, message and hint.
    """
    command = [sys.executable, "-m", module]
    done = subprocess.run(  # noqa: S603 - ourselves
        command, input=json.dumps(question), stdout=subprocess.PIPE, text=True, check=False
    )
    try:
        answer: Message = json.loads(done.stdout)
    except ValueError:
        raise ChildError(
            "internal", f"{module} ended with exit code {done.returncode}", where=None, hint="see its output above"
        ) from None
    refused = answer.get(REFUSED)
    if refused is not None:
        told = cast("Mapping[str, str]", refused)
        raise ChildError(told["kind"], told["message"], where=told["where"], hint=told["hint"])
    return answer


def serve_parent(work: Callable[[Message], Message]) -> int:
    """Read the question on stdin, call ``work``, and write the answer or the error to stdout; return 0."""
    try:
        answer = work(json.load(sys.stdin))
    except BenchError as error:
        words = {"kind": error.kind, "message": error.message, "where": error.where, "hint": error.hint}
        answer = {REFUSED: words}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def check_in_child(workspace: Path, key: str | None) -> str:
    """Return the fingerprint of the key that ``bench sign`` would use; raise UsageError if it would refuse."""
    question = {"workspace": str(workspace.resolve()), "key": key}
    return str(run_in_child("bench.receipt.signing.keyring", question)["fingerprint"])


def check_key(question: Message) -> Message:
    """Return the fingerprint of the key that a question names; runs in the child process."""
    ring = Keyring(workspace=Path(str(question["workspace"])), prompt=ask_passphrase)
    named = question["key"]
    key = ring.signing_key("receipt", None if named is None else Path(str(named)))
    return {"fingerprint": key.public.fingerprint}


if __name__ == "__main__":
    sys.exit(serve_parent(check_key))
