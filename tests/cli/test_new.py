"""``bench new``: valid configs, a list of what was guessed, and no overwritten file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands.workspace import write_new
from bench.config.provider.file import load_provider
from bench.errors import DataError, UsageError
from tests.rows import each_row

Bench = Callable[..., Any]
NAMING = "use lower case letters, digits, dots, dashes and underscores"


@each_row(
    ("name", "variable"),
    [
        ("mine", "MINE"),
        ("a.b-c_d", "A_B_C_D"),
        ("0", "P_0"),
        ("9lives", "P_9LIVES"),
        ("1e3", "P_1E3"),
        ("null", "NULL"),
        ("on", "ON"),
        ("word-" * 12 + "end", "WORD_" * 8),
    ],
)
def test_a_new_provider_config_is_valid_for_every_valid_name(tmp_path: Path, name: str, variable: str) -> None:
    made = write_new("provider", name, data=None, workspace=tmp_path)
    assert (made.path, made.guesses) == (tmp_path / "configs/providers" / f"{name}.yaml", ())
    config = load_provider(made.path)
    assert config.name == name
    (auth,) = config.auth
    assert auth.env_var == f"{variable}_API_KEY"


@pytest.mark.parametrize("name", ["mine", "0", "true", "2024-01-01"])
@pytest.mark.parametrize("kind", ["provider", "benchmark"])
def test_new_writes_a_config_that_validates(bench: Bench, kind: str, name: str) -> None:
    done = bench("new", kind, name)
    path = done.stdout.strip()
    assert path == f"configs/{kind}s/{name}.yaml"
    assert done.stderr == f"next: bench validate {path}\n"
    assert "1 config checked, 0 with errors" in bench("validate", path).stdout


def test_the_new_sample_benchmark_runs_with_all_items_correct(bench: Bench) -> None:
    bench("new", "benchmark", "mine")
    bench("run", "-q", "--benchmarks", "mine", "--providers", "bm25", "--run-id", "r")
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert job["counts"] == {"correct": 2}


@each_row("name", ["", "Mine", "-x", ".x", "a b", "a/b", "../x", "é", "x" * 65])
def test_new_rejects_an_invalid_name_and_writes_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        write_new("provider", name, data=None, workspace=tmp_path)
    assert (str(caught.value), caught.value.hint) == (f'"{name}" is not a valid name', NAMING)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["provider", "benchmark"])
def test_new_does_not_overwrite_an_existing_config(bench: Bench, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "configs" / f"{kind}s" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("mine: own\n")
    done = bench("new", kind, "mine", check=2)
    assert "mine.yaml" in done.stderr and "choose another name" in done.stderr
    assert path.read_text() == "mine: own\n"


def test_new_does_not_overwrite_existing_sample_data_and_leaves_no_config(bench: Bench, tmp_path: Path) -> None:
    rows = tmp_path / "datasets/mine/mine.jsonl"
    rows.parent.mkdir(parents=True)
    rows.write_text("own\n")
    done = bench("new", "benchmark", "mine", check=2)
    assert done.stderr == (
        "error: datasets/mine/mine.jsonl exists already\nhint: choose another name, or move this file away\n"
    )
    assert rows.read_text() == "own\n"
    assert not (tmp_path / "configs").exists()


def test_new_provider_rejects_data(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a\n1\n")
    done = bench("new", "provider", "mine", "--from", "d.csv", check=2)
    assert done.stderr == "error: --from is only for a benchmark, not for a provider\nhint: remove --from\n"


# ------------------------------------------------------------------ fields of the data


@pytest.mark.parametrize(
    "row",
    [
        {"id": "1", "question": "Who?", "answer": "Ada", "content": "Ada did."},
        {"question_id": "1", "query": "Who?", "gold": "Ada", "messages": [{"role": "user", "content": "Ada did."}]},
        {"uid": "1", "qa": [{"q": "Who?", "a": "Ada"}], "sessions": [["Ada did."]]},
    ],
)
def test_fields_with_known_names_are_mapped_without_a_guess(bench: Bench, tmp_path: Path, row: dict[str, Any]) -> None:
    (tmp_path / "d.jsonl").write_text(json.dumps(row) + "\n")
    text = [
        line.partition(": ")[0] for line in bench("new", "benchmark", "mine", "--from", "d.jsonl").stderr.splitlines()
    ]
    assert text == ["mapped", "next"]
    assert json.loads(bench("new", "benchmark", "mine2", "--from", "d.jsonl", "--json").stdout)["guesses"] == []


ID = 'no field looks like itemId: the first field "{}" is used'
HISTORY = 'no field looks like context.field (the history): the name "{}" is used'
QUESTION = 'no field looks like question: the name "question" is used'


@pytest.mark.parametrize(
    ("row", "guesses"),
    [
        ({"id": "1", "question": "q", "foo": "x"}, [HISTORY.format("foo")]),
        ({"key": "1", "question": "q", "text": "x"}, [ID.format("key")]),
        ({"id": "1", "text": "x", "what": "q"}, [QUESTION]),
        ({"id": "1", "text": "x", "qa": [{"stem": "q"}]}, [QUESTION]),
        ({"a b": "1"}, [ID.format("a b"), HISTORY.format("a b"), QUESTION]),
    ],
)
def test_a_field_without_a_known_name_is_reported_as_a_guess(
    bench: Bench, tmp_path: Path, row: dict[str, Any], guesses: list[str]
) -> None:
    (tmp_path / "d.jsonl").write_text(json.dumps(row) + "\n")
    lines = bench("new", "benchmark", "mine", "--from", "d.jsonl").stderr.splitlines()
    assert lines[0].startswith("mapped: itemId: ")
    output = [line for line in lines if line.startswith("guessed: ")]
    assert output == [f"guessed: {text}; correct the file if this is wrong" for text in guesses]
    assert json.loads(bench("new", "benchmark", "other", "--from", "d.jsonl", "--json").stdout)["guesses"] == guesses


@pytest.mark.parametrize(
    "name", ["#hash", "a: b", "yes", "null", "- x", "{x", "3", "é 😀", 'quo"te', "line\nbreak", "&a"]
)
def test_a_field_of_any_name_is_quoted_as_valid_yaml(bench: Bench, tmp_path: Path, name: str) -> None:
    (tmp_path / "d.jsonl").write_text(json.dumps({name: "1", "question": "q"}) + "\n")
    bench("new", "benchmark", "mine", "--from", "d.jsonl")
    assert "0 with errors" in bench("validate", "configs/benchmarks/mine.yaml").stdout


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("d.jsonl", "", "d.jsonl: there are no rows"),
        ("d.jsonl", "{}\n", "d.jsonl:1: row is empty, but needs at least one field"),
        ("d.json", "[]", "d.json: there are no rows"),
        ("d.csv", "a,b\n", "d.csv: there are no rows"),
        ("d.txt", "x", 'cannot tell the format of "d.txt"'),
        ("gone.zip", None, 'cannot tell the format of "gone.zip"'),
        ("d.zip", "PK\x03\x04", '"d.zip" is a zip file\nhint: unpack the file, and name the data in it'),
        ("d.jsonl", "{torn", "d.jsonl:1"),
        ("gone.jsonl", None, "gone.jsonl: cannot read the file: No such file or directory"),
    ],
)
def test_new_rejects_data_without_rows_and_writes_no_config(
    bench: Bench, tmp_path: Path, file: str, content: str | None, text: str
) -> None:
    if content is not None:
        (tmp_path / file).write_text(content)
    done = bench("new", "benchmark", "mine", "--from", file, check=2)
    assert done.stderr.startswith(f"error: {text}")
    assert not (tmp_path / "configs").exists()


def test_the_path_of_the_data_is_relative_to_the_workspace(tmp_path: Path) -> None:
    inside, outside = tmp_path / "w" / "rows.jsonl", tmp_path / "rows.jsonl"
    inside.parent.mkdir()
    for path, written in ((inside, '"./rows.jsonl"'), (outside, f'"{outside}"')):
        path.write_text('{"id": "1", "question": "q", "text": "x"}\n')
        made = write_new("benchmark", f"b{len(written)}", data=path, workspace=tmp_path / "w")
        assert f"path: {written} " in made.path.read_text()


def test_new_reports_an_error_in_the_data_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("[1]\n")
    with pytest.raises(DataError, match=r"d\.jsonl:1"):
        write_new("benchmark", "mine", data=tmp_path / "d.jsonl", workspace=tmp_path)
