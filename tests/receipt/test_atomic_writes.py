"""Files are written completely or not at all, and an error names the target file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from bench.receipt.files import error_naming, name_in_errors, write_atomically
from tests.rows import each_row


def test_write_atomically_creates_folders_and_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o644)
    assert [file.name for file in path.parent.iterdir()] == ["c.json"]


@pytest.mark.parametrize("call", ["fsync", "fchmod"])
def test_a_full_disk_leaves_the_old_file_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "keep.json"
    write_atomically(path, b"old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(path, b"new")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert (path.read_bytes(), [file.name for file in tmp_path.iterdir()]) == (b"old", ["keep.json"])


def test_an_interrupt_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x", b"new")
    assert list(tmp_path.iterdir()) == []


@each_row(
    ("number", "kind"),
    [
        (errno.EACCES, PermissionError),
        (errno.ENOENT, FileNotFoundError),
        (errno.EEXIST, FileExistsError),
        (errno.EIO, OSError),
    ],
)
def test_error_naming_keeps_class_and_cause_and_adds_the_file_name(number: int, kind: type[OSError]) -> None:
    first = OSError(number, os.strerror(number), "/tmp/draft")
    error = error_naming(first, Path("/x/y.json"))
    assert (type(error), str(error)) == (kind, f"[Errno {number}] {os.strerror(number)}: '/x/y.json'")
    with pytest.raises(kind) as caught, name_in_errors(Path("z")):
        raise first
    assert (caught.value.filename, caught.value.__cause__) == ("z", first)
