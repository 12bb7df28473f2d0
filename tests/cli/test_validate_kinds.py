"""``bench validate``: providers, models and run files; what only a run needs is a note."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]
LOCKED = "name: x\ntype: hosted\nconnection: {baseUrl: http://127.0.0.1:9}\nauth: {type: bearer, envVar: LOCKED_KEY}\n"
ENDPOINTS = """endpoints:
  add: {method: POST, path: /a}
  search: {method: POST, path: /s, response: {results: $.r, contentField: $.c}}
  clear: {method: DELETE, path: /c}
"""


def checked(bench: Bench, folder: Path, kind: str, text: str, *, code: int) -> dict[str, Any]:
    path = folder / "configs" / kind / "x.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    found: dict[str, Any] = json.loads(bench("validate", str(path), "--json", check=code).stdout)
    return found


@pytest.mark.parametrize(
    ("kind", "text", "place", "message"),
    [
        ("runs", "benchmarks: [dmo]\n", ":1:1", 'there is no benchmark "dmo"'),
        ("runs", "limit: 2\nproviders: [bm25@a, bm52]\n", ":2:1", 'there is no provider "bm52"'),
        ("models", "name: m\ndialect: nope\n", ":2:1", "dialect must be"),
        ("providers", "name: x\nendpoint: {}\n", ":2:1", 'unknown field "endpoint"'),
    ],
)
def test_an_error_in_a_config_of_any_kind_has_line_and_column(
    bench: Bench, tmp_path: Path, kind: str, text: str, place: str, message: str
) -> None:
    found = checked(bench, tmp_path, kind, text, code=2)
    assert any(one["where"].endswith(f"x.yaml{place}") and message in one["message"] for one in found["errors"])


def test_an_unset_variable_is_a_note_until_the_workspace_defines_it(bench: Bench, tmp_path: Path) -> None:
    output = "the environment variable LOCKED_KEY is not set, but a run needs it"
    notes = checked(bench, tmp_path, "providers", LOCKED + ENDPOINTS, code=0)["notes"]
    assert sum(note.endswith(output) for note in notes) == 1
    (tmp_path / ".env").write_text("LOCKED_KEY=a-word-of-this-test\n")
    notes = checked(bench, tmp_path, "providers", LOCKED + ENDPOINTS, code=0)["notes"]
    assert not any("LOCKED_KEY" in note for note in notes)


def test_validate_rejects_a_file_of_unknown_kind_and_a_missing_path(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: 1\n")
    assert "x.yaml: this is not a config of a known kind" in bench("validate", "x.yaml", check=2).stderr
    assert "gone.yaml: no such file, folder or config" in bench("validate", "gone.yaml", check=2).stderr


def test_validate_finds_a_config_by_its_name(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "configs/providers").mkdir(parents=True)
    (tmp_path / "configs/providers/mine.yaml").write_text("name: mine\ntype: hosted\n")
    assert bench("validate", "demo").stdout == "1 config checked, 0 with errors\n"
    assert "mine.yaml" in bench("validate", "mine", check=2).stderr


def test_every_shipped_config_validates(bench: Bench) -> None:
    assert ", 0 with errors" in bench("validate").stdout
