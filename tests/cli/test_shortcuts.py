"""Commands typed by habit: they work, or the hint names the right command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli.app import COMMANDS, EXAMPLES, OTHER_NAMES, POINTERS

Bench = Callable[..., Any]
Ran = Callable[..., None]
PAIR = ("--providers", "bm25", "random", "oracle", "--limit", "20")


@pytest.fixture
def two(ran: Ran) -> None:
    ran("--run-id", "old", *PAIR)
    ran("--run-id", "new", *PAIR)


@pytest.mark.parametrize("command", ["results", "failures", "export", "status"])
def test_a_command_without_a_run_uses_the_newest_and_names_it(bench: Bench, two: None, command: str) -> None:
    done = bench(command, "--json") if command != "export" else bench(command)
    assert "new" in done.stdout
    assert done.stderr.startswith("run new (the newest run;")


@pytest.mark.parametrize("command", ["results", "failures", "export", "status", "sign", "compare"])
def test_a_command_in_a_workspace_without_runs_hints_at_bench_run(
    bench: Bench, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    if command == "sign":
        bench("keys", "new")
    assert "hint: start a run with: bench run" in bench(command, check=2).stderr


def test_sign_without_a_run_signs_the_newest_one(
    bench: Bench, two: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    bench("keys", "new")
    done = bench("sign", "--provider", "bm25")
    assert "results/new/receipts" in done.stdout


def test_run_accepts_benchmark_and_providers_as_positional_arguments(bench: Bench) -> None:
    bench("run", "-q", "demo", "bm25", "random", "--limit", "3", "--run-id", "r")
    found = json.loads(bench("results", "r", "--json").stdout)
    assert [job["provider"] for job in found["jobs"]] == ["bm25", "random"]


def test_list_flags_are_accepted_in_the_singular(bench: Bench) -> None:
    words = ("--benchmark", "demo", "--provider", "bm25", "--model", "none", "--metric", "mrr", "--phase", "search")
    found = json.loads(bench("plan", *words, "--json").stdout)
    (job,) = found["jobs"]
    assert (job["benchmark"], job["provider"], job["models"]["answering"]) == ("demo", "bm25", None)


def test_dry_run_prints_the_plan_and_starts_no_run(bench: Bench, tmp_path: Path) -> None:
    done = bench("run", "demo", "bm25", "--dry-run")
    assert done.stdout == bench("plan", "demo", "bm25").stdout
    assert not (tmp_path / "checkpoints").exists()


def test_compare_of_two_runs_pairs_the_same_providers(bench: Bench, two: None) -> None:
    found = json.loads(bench("compare", "old", "new", "--json").stdout)["comparisons"]
    sides = [(pair["a"]["provider"], pair["b"]["provider"]) for pair in found]
    assert sides == [("bm25", "bm25"), ("random", "random"), ("oracle", "oracle")]
    assert {pair["a"]["run_id"] for pair in found} == {"old"}
    assert bench("diff", "old", "new").stdout == bench("compare", "old", "new").stdout


def test_compare_of_one_run_omits_controls_if_two_other_providers_remain(bench: Bench, two: None) -> None:
    found = json.loads(bench("compare", "--json").stdout)["comparisons"]
    assert len(found) == 3, "bm25 alone is no pair, so the controls stay"
    bench(
        "run", "-q", "demo", "bm25", "bm25@b", "oracle", "--set", "bm25@b.displayName=b", "--run-id", "v", "--limit=9"
    )
    (pair,) = json.loads(bench("compare", "v", "--json").stdout)["comparisons"]
    assert {pair["a"]["provider"], pair["b"]["provider"]} == {"bm25", "bm25@b"}


def test_runs_without_a_common_provider_are_an_error_with_the_command_to_type(bench: Bench, ran: Ran) -> None:
    ran("--run-id", "x", "--providers", "bm25", "--limit", "2")
    ran("--run-id", "y", "--providers", "random", "--limit", "2")
    done = bench("compare", "x", "y", check=2)
    assert "no job in common: x has bm25 on demo; y has random on demo" in done.stderr
    assert "hint: name both sides: x:bm25 y:random" in done.stderr
    assert "hint: name a second run: bench compare x RUN_ID" in bench("compare", "x", check=2).stderr


def test_a_single_comparability_difference_is_on_the_line_of_the_error(bench: Bench, ran: Ran) -> None:
    ran("--run-id", "x", "--providers", "bm25", "--limit", "2")
    ran("--run-id", "y", "--providers", "bm25", "--limit", "2", "-k", "3")
    lines = bench("compare", "x", "y", check=2).stderr.splitlines()
    assert lines[0] == "error: not like for like: A = bm25 (run x), B = bm25 (run y): k: A has 10, B has 3"


@pytest.mark.parametrize(("word", "same"), [("show", "results"), ("report", "results"), ("watch", "status")])
def test_aliases_of_a_command_print_the_same(bench: Bench, two: None, word: str, same: str) -> None:
    assert bench(word, "old").stdout == bench(same, "old").stdout


def test_help_and_version_work_as_commands(bench: Bench) -> None:
    assert bench("help").stdout == bench("--help").stdout
    assert bench("version").stdout == bench("--version").stdout
    assert bench("help", "results").stdout == bench("results", "--help").stdout


@pytest.mark.parametrize("word", POINTERS)
def test_a_command_name_of_other_tools_hints_at_the_bench_command(bench: Bench, word: str) -> None:
    assert f"hint: {POINTERS[word]}" in bench(word, check=2).stderr


def test_each_command_has_examples_of_existing_commands() -> None:
    names = {name for name, *_ in COMMANDS}
    assert set(EXAMPLES) == names and {word.split()[0] for word in OTHER_NAMES.values()} <= names
    assert {line.split()[1] for lines in EXAMPLES.values() for line in lines} == names
    assert not set(OTHER_NAMES) & names


def test_help_shows_groups_choices_defaults_and_examples(bench: Bench) -> None:
    text = bench("run", "--help").stdout
    for words in ("What to measure", "Speed and limits", "choices: off, probe, full", "default: 0.02", "Examples:"):
        assert words in text
    assert "bench keys trust" in bench("keys", "--help").stdout


def test_keys_new_reuses_the_key_of_the_same_name_from_another_workspace(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    first = json.loads(bench("keys", "new", "me", "--workspace", "one", "--json").stdout)
    second = json.loads(bench("keys", "new", "me", "--workspace", "two", "--json").stdout)
    third = json.loads(bench("keys", "trust", "one/keys/me.pub", "--workspace", "three", "--json").stdout)
    assert first["fingerprint"] == second["fingerprint"] == third["fingerprint"]
    assert (tmp_path / "two/keys/me.pub").read_text() == (tmp_path / "one/keys/me.pub").read_text()
    assert "already" in bench("keys", "new", "me", "--workspace", "two", check=2).stderr
    assert (
        "trusted.json already has this key, as me"
        in bench("keys", "trust", "one/keys/me.pub", "--workspace", "two", check=2).stderr
    )
    private = tmp_path / "home/bench/keys/me.key"
    assert "PRIVATE" not in bench("keys", "trust", str(private), "--workspace", "two", check=None).stdout
