"""The site builds without warnings and loads no external resource."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import blocks

OUTSIDE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(https?://[^\"> ]+)")


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site like ``make docs``: a dead link or a page outside the navigation is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=root, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_each_page_of_the_docs_is_built(site: Path, root: Path) -> None:
    for page in (root / "docs").rglob("*.md"):
        assert (site / page.relative_to(root / "docs").with_suffix(".html")).is_file(), page
    assert (site / "verify.html").read_bytes() == (root / "docs/verify.html").read_bytes()
    assert not (site / "site").exists()


def test_no_page_loads_a_resource_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert OUTSIDE.findall(page.read_text(encoding="utf-8")) == [], page.name


def test_links_of_the_readme_point_to_existing_files(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", readme):
        assert (root / target).is_file(), target


def test_titles_of_blocks_are_paths_inside_the_workspace(root: Path) -> None:
    for page in (root / "docs").rglob("*.md"):
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.title and block.untested is None:
                assert not block.title.startswith(("/", "..")), f"{page.name}:{block.line}"
