"""Write the public log as static files in the format C2SP tlog-tiles.

Example::

    files = tile_files(view)                # {"checkpoint": ..., "tile/0/000.p/7": ..., "tile/entries/000.p/7": ...}
    write_tiles(view, Path("public"))

A web server can serve this folder to clients of this format. No key is needed, because the files contain the existing
signed checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.errors import VerificationError
from bench.receipt.files import write_atomically
from bench.receipt.log.log_store import CHECKPOINT, LogView, read_note, vkey
from bench.receipt.merkle import Frontier, leaf_hash
from bench.receipt.signing.trust_store import TrustStore

WIDTH = 256
"""number of hashes in a full tile"""
MAX_ENTRY_BYTES = 0xFFFF
"""maximum number of bytes of one entry"""


def tile_files(view: LogView) -> dict[str, bytes]:
    """Return path -> content of each file, for the entries that the checkpoint covers.

    Raises:
        VerificationError: the log has no entry that a checkpoint covers, or an entry is too long.
    """
    size = view.covered
    if view.note is None or not size:
        raise VerificationError(
            "log_pending",
            "the log has no entry that a checkpoint covers",
            hint="sign a checkpoint with: bench publish RECEIPT.json",
        )
    lines = view.lines[:size]
    long = next((at for at, line in enumerate(lines) if len(line) > MAX_ENTRY_BYTES), None)
    if long is not None:
        raise VerificationError(
            "log_entry",
            f"entry {long} has {len(lines[long])} bytes, expected at most {MAX_ENTRY_BYTES}",
            hint="restore the published copy of the log",
        )
    files = {CHECKPOINT: view.note}
    bundle = [len(line).to_bytes(2, "big") + line for line in lines]
    files |= {f"tile/entries/{path}": b"".join(parts) for path, parts in _tiles(bundle)}
    level, hashes = 0, [leaf_hash(line) for line in lines]
    while hashes:
        files |= {f"tile/{level}/{path}": b"".join(parts) for path, parts in _tiles(hashes)}
        full = len(hashes) // WIDTH
        level, hashes = level + 1, [_root(hashes[at * WIDTH : (at + 1) * WIDTH]) for at in range(full)]
    return files


def write_tiles(view: LogView, folder: Path) -> Mapping[str, bytes]:
    """Write the files of the log to ``folder``, with the checkpoint as the last file. Older files are kept."""
    files = tile_files(view)
    for path, content in sorted(files.items(), key=lambda file: file[0] == CHECKPOINT):
        write_atomically(folder / path, content)
    return files


def log_keys(view: LogView, store: TrustStore) -> list[str]:
    """Return the trusted keys that signed the checkpoint, each as NAME+ID+KEY for clients of the log."""
    note = read_note(view.note or b"")
    origin = note.checkpoint().origin
    return [vkey(origin, one.key) for one in store.keys if note.signed_by(origin, one.key)]


def _tiles(parts: Sequence[bytes]) -> Iterator[tuple[str, Sequence[bytes]]]:
    """Split hashes or entries into tiles of 256; yield (path, content) of each tile."""
    for number, start in enumerate(range(0, len(parts), WIDTH)):
        some = parts[start : start + WIDTH]
        yield tile_path(number) + (f".p/{len(some)}" if len(some) < WIDTH else ""), some


def tile_path(number: int) -> str:
    """Return the path of the tile with this number: 1234067 gives x001/x234/067."""
    groups = [f"{number % 1000:03}"]
    while number := number // 1000:
        groups.append(f"x{number % 1000:03}")
    return "/".join(reversed(groups))


def _root(hashes: Sequence[bytes]) -> bytes:
    frontier = Frontier()
    for one in hashes:
        frontier.append(one)
    return frontier.root()
