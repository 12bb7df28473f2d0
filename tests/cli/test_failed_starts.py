"""A command that exits 2 before the first call leaves no files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.engine.run import StartupFolders
from bench.errors import UsageError
from bench.receipt.log.log_store import read_log

pytestmark = pytest.mark.usefixtures("forked_children")

Bench = Callable[..., Any]
KEYED = """\
name: keyed
type: hosted
connection: {baseUrl: "http://127.0.0.1:9"}
auth: {type: bearer, envVar: KEYED_API_KEY}
endpoints:
  add: {method: POST, path: /add, body: {content: $.content, ns: $.runTag}}
  search: {method: POST, path: /search, body: {query: $.query, ns: $.runTag}, response: {results: $.r, contentField: $.t}}
  clear: {method: DELETE, path: "/ns/${runTag}"}
"""  # noqa: E501
FILES = {
    "key": ("keyed", KEYED),
    "variable": ("keyed", KEYED.replace("http://127.0.0.1:9", "${KEYED_URL}")),
    "docker": (
        "boxed",
        KEYED.replace("name: keyed", "name: boxed").replace("auth: {type: bearer, envVar: KEYED_API_KEY}\n", "")
        + "docker: {compose: ./none.yaml, baseUrl: 'http://127.0.0.1:9', healthcheck: /healthz}\n",
    ),
}
WAYS: dict[str, tuple[str, ...]] = {
    "key": ("--providers", "bm25", "keyed"),
    "variable": ("--providers", "keyed"),
    "docker": ("--providers", "boxed"),
    "model key": ("--providers", "bm25", "--answering-model", "openai/gpt-4o-mini"),
    "judge key": ("--providers", "bm25", "--evaluators", "llm-judge", "--judge-model", "anthropic/claude-x"),
    "model": ("--providers", "bm25", "--answering-model", "nobody/knows-it"),
    "builtin model": ("--providers", "bm25", "--answering-model", "builtin/unknown"),
    "embedder": ("--providers", "vector", "--embedding-model", "nobody/knows-it"),
    "provider": ("--providers", "unknown"),
    "benchmark": ("--providers", "bm25", "--benchmarks", "unknown"),
    "prompt": ("--providers", "bm25", "--answer-prompt", "@missing.txt"),
    "signing key": ("--providers", "bm25", "--sign", "--key", "missing.key"),
    "output": ("--providers", "bm25", "--output", "taken/out"),
}


def wrote(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_lacks_a_key_model_or_file_exits_2_and_leaves_no_files(
    bench: Bench, tmp_path: Path, way: str
) -> None:
    (tmp_path / "configs/providers").mkdir(parents=True)
    (tmp_path / "taken").write_text("a file where a folder is needed")
    if way in FILES:
        name, text = FILES[way]
        (tmp_path / f"configs/providers/{name}.yaml").write_text(text)
    before = wrote(tmp_path)
    done = bench("run", "--limit", "2", "--display", "none", *WAYS[way], check=None)
    assert done.returncode == 2, done.stderr
    assert wrote(tmp_path) == before
    assert json.loads(bench("list", "runs", "--json").stdout)["runs"] == []


def test_an_existing_run_is_unchanged_if_the_next_run_or_fork_cannot_start(bench: Bench, tmp_path: Path) -> None:
    bench("run", "--limit", "2", "--display", "none", "--providers", "bm25", "--run-id", "r1")
    before = wrote(tmp_path)
    bench("fork", "r1", "--from", "answer", "--answering-model", "openai/gpt-4o-mini", "--run-id", "r2", check=2)
    bench("run", "--limit", "2", "--providers", "bm25", "--answering-model", "openai/x", "--run-id", "r2", check=2)
    assert wrote(tmp_path) == before


def test_startup_cleanup_keeps_the_journal_of_another_process(tmp_path: Path) -> None:
    with pytest.raises(UsageError), StartupFolders.of(tmp_path / "checkpoints/r", tmp_path / "results/r"):
        (tmp_path / "checkpoints/r").mkdir(parents=True)
        (tmp_path / "checkpoints/r/journal.sqlite").write_text("of the first")
        raise UsageError("run r was just created by another process")
    assert (tmp_path / "checkpoints/r/journal.sqlite").read_text() == "of the first"
    assert not (tmp_path / "results").exists()


def test_a_run_that_cannot_start_is_not_announced_in_the_log(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    bench("keys", "new", "me")
    log = tmp_path / "results/published"
    before = len(read_log(log).entries) if log.exists() else 0
    run = ("run", "--limit", "2", "--providers", "bm25", "--display", "none", "--publishable")
    bench(*run, "--answering-model", "openai/gpt-4o-mini", check=2)
    assert (len(read_log(log).entries) if log.exists() else 0) == before
    bench(*run)
    assert len(read_log(log).entries) > before
