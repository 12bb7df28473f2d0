"""An installed distribution adds a provider, an evaluator and a metric."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import forked

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the plug-in into its own folder, offline."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), str(HERE)], check=True, capture_output=True)
    return target


def bench(site: Path, folder: Path, *arguments: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "bench", *arguments, "--json"]
    done = forked.run(command, cwd=folder, env=environment, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1] if arguments[0] == "run" else done.stdout)


def test_an_installed_distribution_adds_a_provider_an_evaluator_and_a_metric(site: Path, tmp_path: Path) -> None:
    evaluators = [row["name"] for row in bench(site, tmp_path, "list", "evaluators")["evaluators"]]
    assert "shouting" in evaluators
    assert "newest" in [row["name"] for row in bench(site, tmp_path, "list", "providers")["providers"]]
    (tmp_path / "configs/benchmarks").mkdir(parents=True)
    (tmp_path / "configs/benchmarks/loud.yaml").write_text(
        "name: loud\nversion: '1'\nextends: demo\n"
        "evaluation: {method: shouting, answeringModel: {model: builtin/extractive}}\n"
        "metrics: [accuracy, answer_words, ndcg_at_10]\n"
    )
    flags = ("--benchmarks", "loud", "--providers", "newest", "--limit", "10", "--run-id", "r")
    bench(site, tmp_path, "run", *flags)
    (job,) = bench(site, tmp_path, "results", "r")["jobs"]
    assert job["provider"] == "newest" and job["n_scored"] == 10
    assert job["metrics"]["accuracy"]["n"] == 10
    assert job["metrics"]["answer_words"]["definition"] == "answer_words/1"
    assert job["metrics"]["answer_words"]["value"] > 1
