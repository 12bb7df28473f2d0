"""All commands of the documentation run in the order of their page and print the output of the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.contract.servers import free_port
from tests.docs.model_server import model_server
from tests.docs.pages import Block, agrees, blocks, steps
from tests.docs.shell import Shell
from tests.rows import each_row
from tests.small_world import wait_for

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "keys/ROTATION.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNNABLE = ("sh", "console", "python")
PORTS = ("9000", "3000")
"""ports in pages; replaced by free ports, so that pages can be tested at the same time"""
FILES_OF = re.compile(r"<!-- files of: (\S+) -->")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def runs_something(page: Path) -> bool:
    return any(is_run(block) for block in read(page))


def is_run(block: Block) -> bool:
    """Tell whether a block is run; a titled block is a file or has a reason why it is not tested."""
    return block.language in RUNNABLE and not block.title


def read(page: Path) -> list[Block]:
    return list(blocks(page.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def models() -> Iterator[str]:
    with model_server() as url:
        yield url


@pytest.fixture
def environment(tmp_path: Path, models: str) -> dict[str, str]:
    """The environment of a reader of the page: bench on the PATH, keys of models, a home."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    home = tmp_path / "home"
    home.mkdir()
    author = {"GIT_AUTHOR_NAME": "reader", "GIT_AUTHOR_EMAIL": "reader@example.org"}
    committer = {name.replace("AUTHOR", "COMMITTER"): value for name, value in author.items()}
    return {
        **kept,
        **author,
        **committer,
        "COLUMNS": "100",
        "PATH": f"{forked.program()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        forked.PYTHON: str(forked.client("python")),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "PYTHONWARNINGS": "error",
        "OPENAI_API_KEY": "test-key-of-openai",
        "OPENAI_BASE_URL": f"{models}/v1",
        "ANTHROPIC_API_KEY": "test-key-of-anthropic",
        "ANTHROPIC_BASE_URL": models,
    }


@pytest.mark.parametrize("page", [page for page in PAGES if runs_something(page)], ids=name_of)
def test_each_command_of_the_page_prints_the_output_of_the_page(
    page: Path, tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    text = page.read_text(encoding="utf-8")
    lacking = [tool for tool in ("curl", "openssl") if re.search(rf"\b{tool} ", text) and shutil.which(tool) is None]
    if lacking:
        pytest.skip(f"{lacking[0]} is not installed")
    workspace = tmp_path / "work"
    workspace.mkdir()
    place_locomo(text, workspace, request)
    ports = {port: str(free_port()) for port in PORTS}
    for other in FILES_OF.findall(text):
        for block in read(page.parent / other):
            write(block, workspace, ports)
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    with Shell(workspace, environment) as shell:
        for block in blocks(text):
            write(block, workspace, ports)
            if is_run(block):
                run(shell, block, workspace, ports, name_of(page))


def run(shell: Shell, block: Block, workspace: Path, ports: dict[str, str], page: str) -> None:
    for step in steps(block):
        began = time.monotonic()
        code, printed = shell.run(local(with_run(step.command, workspace), ports))
        print(f"{time.monotonic() - began:6.2f} s  {step.command}")  # pytest -s shows where the time goes
        place = f"{page}:{step.line}: {step.command}"
        assert code == step.exit_code, f"{place}\nexit {code}, not {step.exit_code}\n" + "\n".join(printed)
        assert not any("Traceback" in line for line in printed), f"{place}\n" + "\n".join(printed)
        if step.output is not None:
            shown = [local(line, ports) for line in step.output]
            assert agrees(shown, printed), (
                f"{place}\n--- printed\n" + "\n".join(printed) + "\n--- the page\n" + "\n".join(shown)
            )


def write(block: Block, workspace: Path, ports: dict[str, str]) -> None:
    """Write a block that has a path as title."""
    if block.title and block.untested is None:
        path = workspace / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(local(block.body, ports), encoding="utf-8")


def with_run(command: str, workspace: Path) -> str:
    """Replace ``RUN_ID`` by the newest run."""
    if "RUN_ID" not in command:
        return command
    wait_for(lambda: any((workspace / "checkpoints").glob("[!.]*")))
    runs = sorted((workspace / "checkpoints").glob("[!.]*"), key=lambda path: path.stat().st_mtime)
    return command.replace("RUN_ID", runs[-1].name)


def local(text: str, ports: dict[str, str]) -> str:
    return re.sub(rf"\b({'|'.join(ports)})\b", lambda found: ports[found[1]], text)


def place_locomo(text: str, workspace: Path, request: pytest.FixtureRequest) -> None:
    """Copy LoCoMo, the only download of a page, into the workspace."""
    if re.search(r"^(?!.*# exit).*--benchmarks locomo(?![-\w])", text, re.M):
        shared: Path = request.getfixturevalue("shared")
        target = workspace / "datasets/locomo/locomo10.json"
        target.parent.mkdir(parents=True)
        target.write_bytes((shared / "data/locomo10/locomo10.json").read_bytes())


REASONS = {
    "needs the network",
    "needs Docker",
    "needs a cluster",
    "needs a key of the vendor",
    "installs packages",
    "takes minutes",
    "needs a forge",
    "needs jq",
    "needs matplotlib",
    "reads your own files",
    "sends a message",
}


def untested() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in read(page):
            if block.untested is not None:
                yield f"{name_of(page)}:{block.line}", block.untested


@each_row(("place", "reason"), list(untested()))
def test_untested_commands_have_a_known_reason(place: str, reason: str) -> None:
    assert reason in REASONS, place


@each_row("page", PAGES)
def test_no_command_is_in_a_block_that_is_not_run(page: Path) -> None:
    """A block without a language would be skipped silently."""
    for block in read(page):
        assert block.language, f"{name_of(page)}:{block.line}: a block needs a language; text for what is only shown"
        if block.language in ("text", "bash", "shell", "yaml"):
            first = block.body.lstrip().split(" ")[0]
            assert first not in ("bench", "$", "make", "python", "pip"), f"{name_of(page)}:{block.line}"
