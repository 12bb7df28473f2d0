"""The simulation of what a comparison promises, in few rounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_equal_systems_are_seldom_told_apart_and_the_mde_is_kept(root: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, 'perf'); import significance as s\n"
        "equals, apart, mde = s.simulated(150, spread=0.03, seed=1)\n"
        "assert s.share_found(equals) <= 0.12, s.share_found(equals)\n"
        "assert s.share_found(apart) >= 0.6, s.share_found(apart)\n"
        "assert 0.03 < mde < 0.1, mde\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_sizes_are_those_of_locomo(root: Path, shared: Path) -> None:
    import json

    data = json.loads((shared / "data/locomo10/locomo10.json").read_text(encoding="utf-8"))
    sizes = ", ".join(str(len(one["qa"])) for one in data)
    assert f"LOCOMO = ({sizes})" in (root / "perf/significance.py").read_text(encoding="utf-8")
