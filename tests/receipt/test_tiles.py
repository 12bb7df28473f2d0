"""The public log as C2SP tiles and with the cosignature of a witness, read by an independent client."""

from __future__ import annotations

import base64
import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from bench.cli import run
from bench.errors import VerificationError
from bench.receipt.log.log_store import Checkpoint, LogView, vkey, write_checkpoint
from bench.receipt.log.tiles import tile_files, tile_path
from bench.receipt.merkle import root
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.signature import SigningKey
from tests.receipt.test_log import folder, ring, start
from tests.rows import each_row

__all__ = ["folder", "ring"]
SEED = SigningKey.from_raw(bytes(range(32)))
ORIGIN = "log.example/results"


# ------------------------------------------------------- a client, from the text of the specifications


class Refused(Exception):
    """The client does not accept a file."""


def digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def tree(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, over leaf hashes: split at the largest power of two below the size."""
    if len(leaves) == 1:
        return leaves[0]
    at = 1 << (len(leaves) - 1).bit_length() - 1
    return digest(b"\1", tree(leaves[:at]), tree(leaves[at:]))


def plain(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise Refused("base64")
    return raw


def signed_note(data: bytes, key: str, *, cosigned: bool = False) -> str:
    """Return the text of a note that the key (a vkey NAME+ID+BASE64) signed."""
    text, _, lines = data.decode().partition("\n\n")
    text += "\n"
    name, shown, encoded = key.split("+", 2)
    raw = base64.b64decode(encoded)
    for line in lines.splitlines():
        dash, signer, value = line.split(" ")
        blob = plain(value)
        if dash != "\u2014" or signer != name or blob[:4].hex() != shown:
            continue
        signature, message = blob[4:], text
        if cosigned:
            assert raw[0] == 4 and len(blob) == 4 + 8 + 64
            signature, message = blob[12:], f"cosignature/v1\ntime {int.from_bytes(blob[4:12], 'big')}\n{text}"
        try:
            Ed25519PublicKey.from_public_bytes(raw[1:]).verify(signature, message.encode())
        except InvalidSignature:
            raise Refused("signature") from None
        if digest(name.encode(), b"\n", raw)[:4].hex() != shown:
            raise Refused("key id")
        return text
    raise Refused("no signature of the key")


def place(level: object, index: int, width: int) -> str:
    digits = f"{index:03}".zfill(-(-len(f"{index:03}") // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    path = "/".join([*(f"x{one}" for one in groups[:-1]), groups[-1]])
    return f"tile/{level}/{path}" + ("" if width == 256 else f".p/{width}")


def entries_of(files: dict[str, bytes], key: str) -> list[bytes]:
    """Check all tiles of a log against its checkpoint and return every entry."""
    _origin, size, encoded, *_ = signed_note(files["checkpoint"], key).split("\n")
    count, level, wanted = int(size), 0, {"checkpoint"}
    leaves: list[bytes] = []
    below: list[bytes] = []
    while count:
        hashes: list[bytes] = []
        for index in range(-(-count // 256)):
            path = place(level, index, min(256, count - 256 * index))
            wanted.add(path)
            hashes += [files[path][at : at + 32] for at in range(0, len(files[path]), 32)]
        if len(hashes) != count or (level and hashes != below):
            raise Refused(f"level {level}")
        leaves = hashes if level == 0 else leaves
        below = [tree(hashes[256 * at : 256 * at + 256]) for at in range(count // 256)]
        count, level = count // 256, level + 1
    if tree(leaves) != plain(encoded):
        raise Refused("root")
    entries: list[bytes] = []
    for index in range(-(-len(leaves) // 256)):
        path = place("entries", index, min(256, len(leaves) - 256 * index))
        wanted.add(path)
        bundle = files[path]
        while bundle:
            length = int.from_bytes(bundle[:2], "big")
            if len(bundle) < 2 + length:
                raise Refused("cut bundle")
            entries.append(bundle[2 : 2 + length])
            bundle = bundle[2 + length :]
    if [digest(b"\0", one) for one in entries] != leaves:
        raise Refused("entries")
    assert wanted == set(files)
    return entries


# --------------------------------------------------------------------------------------- tiles


def view_of(lines: list[bytes]) -> LogView:
    note = write_checkpoint(Checkpoint(origin=ORIGIN, size=len(lines), root=root(lines)), SEED)
    return LogView(folder=Path(), lines=tuple(lines), entries=(), faults=(), torn=b"", note=note)


KEY = vkey(ORIGIN, SEED.public)


@each_row("size", [1, 2, 255, 256, 257, 600])
def test_an_independent_client_reads_every_entry_from_the_tiles(size: int) -> None:
    lines = [b"entry %d" % number for number in range(size)]
    assert entries_of(tile_files(view_of(lines)), KEY) == lines


def test_the_tile_layout_matches_the_example_of_the_specification() -> None:
    """70,000 entries: 273 full tiles and one of 112, one full and one of 17, one of 1."""
    files = tile_files(view_of([b"%d" % number for number in range(70_000)]))
    tiles = [path for path in files if not path.startswith(("tile/entries", "checkpoint"))]
    partial = {path for path in tiles if ".p/" in path}
    assert partial == {"tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1"} and len(tiles) == 273 + 1 + 3
    assert tile_path(1234067) == "x001/x234/067"


def test_an_independent_client_refuses_a_flipped_byte_in_any_tile_file() -> None:
    files = tile_files(view_of([b"entry %d" % number for number in range(258)]))
    for path, content in files.items():
        for at in {0, len(content) // 2, len(content) - 2}:
            altered = bytearray(content)
            altered[at] ^= 1
            with pytest.raises((Refused, ValueError, UnicodeDecodeError)):
                entries_of({**files, path: bytes(altered)}, KEY)


def test_a_log_without_a_checkpoint_or_with_a_too_long_entry_has_no_tiles() -> None:
    with pytest.raises(VerificationError, match="expected at most 65535"):
        tile_files(view_of([b"x" * 65_536]))
    with pytest.raises(VerificationError, match="the log has no entry that a checkpoint covers"):
        tile_files(view_of([]))


def test_log_tiles_writes_the_published_log_and_refuses_an_altered_one(
    ring: Keyring, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(ring, "run-1")
    public = tmp_path / "public"
    command = ["--workspace", str(ring.workspace), "log", "tiles", str(public), "--json"]
    assert run(command) == 0
    found = {str(path.relative_to(public)): path.read_bytes() for path in public.rglob("*") if path.is_file()}
    assert found["checkpoint"] == (folder / "checkpoint").read_bytes()
    (key,) = (vkey("bench.local/log", one.key) for one in ring.trusted().keys)
    assert key in capsys.readouterr().out
    assert entries_of(found, key) == (folder / "entries.jsonl").read_bytes().splitlines()
    shutil.rmtree(public)
    (folder / "entries.jsonl").write_bytes((folder / "entries.jsonl").read_bytes().replace(b"run-1", b"run-2"))
    assert run(command) == 5 and not public.exists()


# -------------------------------------------------------------------------------------- witness


@pytest.fixture
def witness(ring: Keyring, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """``witness("cosign")``: exit code and output."""
    key = tmp_path / "w1.key"
    key.write_bytes(SEED.pem())
    key.chmod(0o600)
    start(ring, "run-1")

    def call(command: str, *more: str) -> tuple[int, str]:
        flags = ("--name", "witness.example/w1", "--key", str(key)) if command == "cosign" else ()
        capsys.readouterr()
        code = run(["--workspace", str(ring.workspace), "log", command, *flags, *more])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return call


def name_of(printed: str) -> str:
    return printed.rpartition("--witness ")[2].strip()


def test_an_independent_client_verifies_the_cosignature_of_a_witness(witness: Any, folder: Path) -> None:
    before = (folder / "checkpoint").read_bytes()
    code, printed = witness("cosign")
    data, key = (folder / "checkpoint").read_bytes(), name_of(printed)
    assert code == 0 and data.startswith(before) and data.count(b"\n") == before.count(b"\n") + 1
    assert signed_note(data, key, cosigned=True) == before.decode().partition("\n\n")[0] + "\n"
    assert witness("verify", "--witness", key)[0] == 0
    assert witness("cosign")[0] == 0 and (folder / "checkpoint").read_bytes().count(b"witness.example") == 1
    assert witness("verify", "--witness", key.replace("w1", "w2"))[0] == 2, "not a key of that name"


def test_one_flipped_byte_of_the_cosignature_is_refused(witness: Any, folder: Path) -> None:
    key = name_of(witness("cosign")[1])
    path = folder / "checkpoint"
    *lines, last = path.read_text().splitlines()
    dash, name, value = last.split(" ")
    for at in (4, 11, 12, 75):  # the time, the signature
        blob = bytearray(base64.b64decode(value))
        blob[at] ^= 1
        path.write_text("\n".join([*lines, f"{dash} {name} {base64.b64encode(blob).decode()}"]) + "\n")
        code, printed = witness("verify", "--witness", key)
        assert code == 5 and "log_witness" in printed
        with pytest.raises(Refused):
            signed_note(path.read_bytes(), key, cosigned=True)


def test_a_witness_does_not_cosign_a_rewritten_or_older_log(
    witness: Any, ring: Keyring, folder: Path, tmp_path: Path
) -> None:
    assert witness("cosign")[0] == 0
    shutil.copytree(folder, tmp_path / "older")
    start(ring, "run-2")
    key = name_of(witness("cosign")[1])
    for name in ("checkpoint", "checkpoints"):  # the entries stay, the signed head goes back
        place = folder / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        source = tmp_path / "older" / name
        shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)
    code, printed = witness("cosign")
    assert code == 5 and "2 entries, but this witness has already cosigned a checkpoint of 3" in printed
    shutil.rmtree(folder)
    start(ring, "run-1b")
    start(ring, "run-3")
    code, printed = witness("cosign")
    assert code == 5 and "log_inconsistent" in printed
    assert witness("verify", "--witness", key)[0] == 5


def test_the_next_append_needs_a_new_cosignature(witness: Any, ring: Keyring) -> None:
    key = name_of(witness("cosign")[1])
    start(ring, "run-2")
    assert witness("verify", "--witness", key)[0] == 5 and witness("verify")[0] == 0
    assert witness("cosign")[0] == 0 and witness("verify", "--witness", key)[0] == 0
