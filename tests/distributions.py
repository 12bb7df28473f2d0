"""Distributions in a folder of ``sys.path`` that look like installed plug-ins.

Example::

    install(tmp_path, "acme-evaluators", "bench.evaluators", "loud = acme_loud:Loud")
    monkeypatch.syspath_prepend(str(tmp_path))
"""

from __future__ import annotations

import shutil
from pathlib import Path


def install(folder: Path, distribution: str, group: str, *points: str, version: str = "1") -> None:
    """Write the metadata of a distribution with these entry points, but no code; it replaces another version."""
    stem = distribution.replace("-", "_")
    for other in folder.glob(f"{stem}-*.dist-info"):
        shutil.rmtree(other)
    info = folder / f"{stem}-{version}.dist-info"
    info.mkdir()
    text = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    (info / "METADATA").write_text(text, encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *points, ""]), encoding="utf-8")
