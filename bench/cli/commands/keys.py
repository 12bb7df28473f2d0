"""``bench keys``: create, trust, list, rotate and revoke signing keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from bench.cli import console
from bench.cli.app import examples
from bench.cli.commands.receipts import keyring, log_time
from bench.cli.flags import Many, whole_number
from bench.cli.global_flags import current
from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.receipt.signing.keys import KeyChange

ROLES: tuple[Literal["receipt", "log"], ...] = ("receipt", "log")

keys_app = App(name="keys", help="Create, trust, list, rotate and revoke signing keys.", help_epilogue=examples("keys"))


@keys_app.command(name="new")
def keys_new(
    name: str = "default",
    *,
    roles: Many = None,
    key_dir: Path | None = None,
) -> int:
    """Create a key pair. The private key is in the key folder; the public key is in keys/ and is trusted from now on.

    Parameters
    ----------
    name
        Name of the key and its files. If the key folder already has a private key of this name, this key is used,
        and its public key is written to this workspace.
    roles
        What the key can sign: receipt (receipts), log (entries of the public log), or both (default).
    key_dir
        Folder of the private key, outside any work tree.
    """
    from bench.receipt.signing.keys import new_key

    change = new_key(keyring(key_dir), name, read_roles(roles))
    show_change(change, f"{'made' if change.is_new else 'kept the private key of'} {change.key.name}")
    return 0


@keys_app.command(name="trust")
def keys_trust(file: Path, /, *, name: str | None = None, roles: Many = None) -> int:
    """Trust a public key of another workspace or person. The key is copied to keys/.

    Parameters
    ----------
    file
        A public key (PEM), for example keys/NAME.pub of the other workspace.
    name
        Name of the key in this workspace. Default: the name of the file.
    roles
        What the key can sign: receipt (receipts), log (entries of the public log), or both (default).
    """
    from bench.receipt.signing.keys import trust_key

    change = trust_key(keyring(), file, name or file.stem, read_roles(roles))
    show_change(change, f"trusted {change.key.name}")
    return 0


@keys_app.command(name="list")
def keys_list() -> int:
    """List the trusted keys: name, fingerprint, roles, status, range of log indexes."""
    from bench.receipt.signing.keys import list_keys

    found = list_keys(keyring())
    if current.get().json:
        console.json_value({"keys": found})
        return 0
    head = ("name", "status", "roles", "from", "to", "revoked from", "fingerprint")
    fields = ("name", "status", "roles", "validFromIndex", "validToIndex", "revokedFromIndex", "fingerprint")
    console.table(head, [[cell_text(key[field]) for field in fields] for key in found])
    return 0


@keys_app.command(name="rotate")
def keys_rotate(new_name: str | None = None, *, old: str | None = None, key_dir: Path | None = None) -> int:
    """Replace a key by a new one, with a statement that both keys sign.

    Parameters
    ----------
    new_name
        Name of the new key. Default: the name of the old key with a number.
    old
        Name or fingerprint of the replaced key; required if several keys are active.
    key_dir
        Folder of the private keys.
    """
    from bench.receipt.signing.keys import rotate

    change = rotate(keyring(key_dir), old=old, new=new_name, at=log_time())
    show_change(change, f"{change.key.name} is the new key")
    return 0


@keys_app.command(name="revoke")
def keys_revoke(
    name: str,
    *,
    from_index: Annotated[int, Parameter(converter=whole_number)],
    reason: str | None = None,
    key_dir: Path | None = None,
) -> int:
    """Revoke a key: its signatures count only for log entries before --from-index.

    Parameters
    ----------
    name
        Name or fingerprint of the key.
    from_index
        First log index at which the key is not trusted.
    reason
        Reason, for the log.
    key_dir
        Folder of the private keys.
    """
    from bench.receipt.signing.keys import revoke

    change = revoke(keyring(key_dir), name, from_index=from_index, reason=reason or "", at=log_time())
    show_change(change, f"{change.key.name} is revoked from index {from_index} on")
    return 0


def show_change(change: KeyChange, text: str) -> None:
    """Print a changed key with its files, and notes on what the user must still do.

    ``text`` describes the change.
    """
    if current.get().json:
        console.json_value(
            {
                "name": change.key.name,
                "fingerprint": change.key.fingerprint,
                "roles": list(change.key.roles),
                "status": change.key.status,
                "files": [str(path) for path in change.files],
                "logged": change.logged,
                "logPending": change.log_pending,
                "toCommit": [str(path) for path in change.to_commit],
            }
        )
    else:
        console.line(f"{text}: {change.key.fingerprint}")
        for path in change.files:
            console.line(f"  {path}")
    if change.log_pending:
        console.note("no checkpoint covers the log entry yet, because there is no other active log key")
    if change.to_commit:
        folders = " ".join(map(str, change.to_commit))
        console.note(
            "others need the public key: commit it (if bench runs from this checkout, receipts are marked dirty "
            "until then)"
        )
        console.note(f"next: git add {folders} && git commit")


def read_roles(names: Sequence[str] | None) -> tuple[Literal["receipt", "log"], ...]:
    """Return the roles in ``names``, which has the form ``receipt,log`` or ``receipt log``.

    None means both roles.

    Raises:
        UsageError: a role is unknown, or no role is given.
    """
    given = [part for name in names or ROLES for part in name.split(",") if part]
    unknown = [name for name in given if name not in ROLES]
    if unknown or not given:
        raise UsageError(f'unknown role "{unknown[0] if unknown else ""}"', hint='use the role "receipt" or "log"')
    return tuple(role for role in ROLES if role in given)


def cell_text(value: object) -> str:
    """Format a value as a cell of the table of keys."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
