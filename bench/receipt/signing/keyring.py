"""Find signing keys: from a flag, the environment, or the only active key of the key folder.

``run_in_child`` runs work with a private key in a child process, because the process that runs providers must not read
private keys. ``check_in_child`` checks before a run whether a key is available.

Example::

    ring = Keyring(workspace=Path("."), environ=dict(environment.values))
    key = ring.signing_key(role="receipt", file=None)
    fingerprint = check_in_child(workspace, "default.key", environment)     # raises if ``bench sign`` would refuse
    answer = run_in_child("bench.receipt.log.publish", {"runId": "r1", ...}, environment)     # in the parent process
    sys.exit(serve_parent(function))                         # in the child process: stdin -> function -> stdout

The key comes from the first of these: the file that the caller names, ``MEMORYBENCH_SIGNING_KEY_FILE``,
``MEMORYBENCH_SIGNING_KEY``, the only active key in the key folder. For a log key, ``MEMORYBENCH_LOG_KEY_FILE`` precedes
the other variables. If the folder has no active key or several active keys, KeyRefused is raised.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.errors import BenchError, UsageError
from bench.receipt.log.log_store import has_log
from bench.receipt.signing.signature import KeyRefused, SigningKey
from bench.receipt.signing.trust_store import FILE, Role, TrustStore
from bench.settings import Environment

KEY_FILE = "MEMORYBENCH_SIGNING_KEY_FILE"
KEY_TEXT = "MEMORYBENCH_SIGNING_KEY"
LOG_KEY_FILE = "MEMORYBENCH_LOG_KEY_FILE"
PASSPHRASE_FILE = "MEMORYBENCH_SIGNING_KEY_PASSPHRASE_FILE"  # noqa: S105 - a name, no secret
PUBLISHED = Path("results/published")


@dataclass(frozen=True, kw_only=True)
class Keyring:
    """Finds the keys of a workspace, in its files and in environment variables.

    ``prompt`` is called to ask a person for the passphrase of an encrypted key.
    """

    workspace: Path
    environ: MutableMapping[str, str]
    """the variables of the process and of ``.env``"""
    folder: Path | None = None
    """the folder of private keys; None = ``$XDG_CONFIG_HOME/bench/keys``"""
    prompt: Callable[[], bytes | None] | None = None

    @property
    def key_folder(self) -> Path:
        """The folder of private keys: ``folder`` if it is set, else ``$XDG_CONFIG_HOME/bench/keys``."""
        if self.folder is not None:
            return self.folder
        config = self.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        return Path(config) / "bench" / "keys"

    @property
    def trusted_path(self) -> Path:
        """The path of the file trusted.json in the workspace."""
        return self.workspace / FILE

    @property
    def log_folder(self) -> Path | None:
        """The folder of the workspace's public log; None if the workspace has no log."""
        folder = self.workspace / PUBLISHED
        return folder if has_log(folder) else None

    def trusted(self) -> TrustStore:
        """Return the trusted keys of the workspace. If trusted.json does not exist, the store is empty."""
        return TrustStore.load_or_empty(self.trusted_path)

    def signing_key(self, role: Role, file: Path | None = None) -> SigningKey:
        """Return the key to sign with. The module docstring lists where this function searches, in order.

        Raises:
            KeyRefused: no key was found, or the key is retired, revoked or does not have this role.
        """
        path = file or self._file_named_in_environment(role)
        text = None
        if path is None:
            text = self.environ.pop(KEY_TEXT, None)
            os.environ.pop(KEY_TEXT, None)
        if path is not None:
            key, where = SigningKey.load(path, self._passphrase), str(path)
        elif text:
            key, where = SigningKey.from_pem(text.encode(), where=KEY_TEXT, passphrase=self._passphrase), KEY_TEXT
        else:
            return self._only_active(role)
        self._refuse_out_of_use(key, role, where)
        return key

    def log_key_or_none(self, *, excluding: str | None = None) -> SigningKey | None:
        """Return an active log key whose private key file exists; None if no such key is found.

        ``excluding`` is the fingerprint of a key that must not be returned.
        """
        store = self.trusted()
        allowed = {key.fingerprint for key in store.active("log")} - {excluding}
        for path in self._log_candidates(store):
            if path.is_file():
                key = SigningKey.load(path, self._passphrase)
                if key.public.fingerprint in allowed:
                    return key
        return None

    def private_key_of(self, name: str) -> SigningKey:
        """Return the private key ``name`` from the key folder.

        Raises:
            KeyRefused: trusted.json has a different key with this name.
        """
        path = self.key_folder / f"{name}.key"
        key = SigningKey.load(path, self._passphrase)
        if key.public.fingerprint != self.trusted().named(name).fingerprint:
            message = f"the private key {name} is not the key with this name in trusted.json"
            raise KeyRefused("key_fingerprint", message, where=str(path), hint="restore the private key file")
        return key

    def private_key(self, file: Path) -> SigningKey:
        """Load a private key from a file, without checking trusted.json. An encrypted file needs the passphrase."""
        return SigningKey.load(file, self._passphrase)

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
        """Raise KeyRefused if trusted.json lists the key as not active or without this role.

        A key that is not in trusted.json is accepted, because other readers may trust this key.
        """
        entry = self.trusted().find(key.public.fingerprint)
        if entry is None:
            return
        if entry.status != "active":
            message = f"the key {entry.name} is {entry.status}: new signatures with it are not trusted"
            raise KeyRefused(
                f"key_{entry.status}", message, where=where, hint="list the active keys with: bench keys list"
            )
        if role not in entry.roles:
            hint = f"create a key with this role: bench keys new NAME --roles {role}"
            raise KeyRefused("key_role", f'the key {entry.name} has no role "{role}"', where=where, hint=hint)

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
            f'several active keys have the role "{role}": {", ".join(names)}',
            where=str(folder),
            hint="choose a key with --key FILE",
        )
    hint = f"create a key (bench keys new NAME), or name a key file with --key or {KEY_FILE}"
    return KeyRefused("key_missing", f'no active private key has the role "{role}"', where=str(folder), hint=hint)


def ask_passphrase() -> bytes | None:
    """Ask for a passphrase on the terminal; return None if there is no terminal."""
    import getpass

    return getpass.getpass("passphrase: ").encode() if sys.stderr.isatty() else None


Message = Mapping[str, object]
REFUSED = "refused"


class ChildError(UsageError):
    """The error of a child process, raised in the parent process with the child's kind, message and hint."""

    def __init__(self, kind: str, message: str, *, where: str | None, hint: str) -> None:
        super().__init__(message, where=where, hint=hint)
        self.kind = kind  # type: ignore[misc]


def run_in_child(module: str, question: Message, environment: Environment) -> Message:
    """Run ``python -m module``, write ``question`` to its stdin as JSON, and return its answer.

    The child process gets all variables of ``environment``, also those of ``.env``.

    Raises:
        ChildError: the child process reported an error, or ended without an answer.
    """
    command = [sys.executable, "-m", module]
    done = subprocess.run(  # noqa: S603 - ourselves
        command,
        input=json.dumps(question),
        stdout=subprocess.PIPE,
        env=dict(environment.values),
        text=True,
        check=False,
    )
    try:
        answer: Message = json.loads(done.stdout)
    except ValueError:
        raise ChildError(
            "internal",
            f"{module} ended with exit code {done.returncode}",
            where=None,
            hint="read the output of the program above",
        ) from None
    refused = answer.get(REFUSED)
    if refused is not None:
        error = cast("Mapping[str, str]", refused)
        raise ChildError(error["kind"], error["message"], where=error["where"], hint=error["hint"])
    return answer


def serve_parent(work: Callable[[Message], Message]) -> int:
    """Answer a call of ``run_in_child``: read stdin, call ``work``, write its answer or error to stdout.

    Always return 0, the exit code of the child process.
    """
    try:
        answer = work(json.load(sys.stdin))
    except BenchError as error:
        words = {"kind": error.kind, "message": error.message, "where": error.where, "hint": error.hint}
        answer = {REFUSED: words}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def check_in_child(workspace: Path, key: str | None, environment: Environment) -> str:
    """Return the fingerprint of the key with which ``bench sign`` would sign receipts.

    Raises:
        UsageError: ``bench sign`` would find no usable key.
    """
    question = {"workspace": str(workspace.resolve()), "key": key}
    return str(run_in_child("bench.receipt.signing.keyring", question, environment)["fingerprint"])


def check_key(question: Message) -> Message:
    """Return the fingerprint of the signing key; this function runs in the child process.

    ``question`` contains the workspace and the key file. If the key file is None, search for a key in the usual order.
    """
    ring = Keyring(workspace=Path(str(question["workspace"])), environ=os.environ, prompt=ask_passphrase)
    named = question["key"]
    key = ring.signing_key("receipt", None if named is None else Path(str(named)))
    return {"fingerprint": key.public.fingerprint}


if __name__ == "__main__":
    sys.exit(serve_parent(check_key))
