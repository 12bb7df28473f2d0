"""Cycles in the log, empty receipts, hidden characters, errors next to empty results, huge documents."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.canonical import parse
from bench.config.traffic import ErrorRule
from bench.errors import CanonicalError, Unavailable
from bench.http import Response, Timings
from bench.providers.declarative.body_errors import BodyErrors
from bench.visible_text import HIDDEN
from tests.rows import each_row
from tests.small_world import World

Bench = Callable[..., Any]
EVIL = "a\u202eb\u2066c\u200bd\x1b[31me\x9bf\u2028g\u00adh\U000e0041i\u3164j"


@pytest.fixture
def keyed(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    bench("keys", "new", "me")

    def receipt(run: str) -> Path:
        bench("run", "--providers", "bm25", "--limit", "3", "--run-id", run, "--display", "none")
        bench("sign", run)
        path = next(one for one in (tmp_path / f"results/{run}/receipts").glob("*.json"))
        bench("publish", str(path))
        return path

    return receipt


def test_receipts_cannot_supersede_each_other_in_a_cycle(bench: Bench, keyed: Callable[[str], Path]) -> None:
    a, b, c = keyed("r1"), keyed("r2"), keyed("r3")
    bench("publish", str(b), "--supersedes", a.stem, "--reason", "better")
    bench("publish", str(c), "--supersedes", b.stem, "--reason", "better")
    for old in (b, c):
        done = bench("publish", str(a), "--supersedes", old.stem, "--reason", "back", check=2)
        text = f"receipt {a.stem} cannot replace receipt {old.stem}, because {old.stem} has already replaced {a.stem}"
        assert text in done.stderr
    bench("log", "verify")


def test_sign_makes_no_receipt_of_a_job_whose_items_all_failed(
    bench: Bench, tmp_path: Path, fault_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = fault_server("search:status:code=400")
    World.make(tmp_path, url, corpora=1, items=2)
    monkeypatch.setenv("FAULT_URL", url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    flags = ("--benchmarks", "facts", "--providers", "faulty", "--isolation", "off", "--max-error-rate", "1")
    bench("run", "--run-id", "r", *flags, check=None)
    bench("keys", "new", "me")
    done = bench("sign", "r", check=None)
    assert done.returncode != 0 and not list((tmp_path / "results/r").glob("receipts/*.json"))
    assert "no item was scored" in done.stdout + done.stderr


def test_no_hidden_character_is_printed_by_any_command(bench: Bench, tmp_path: Path) -> None:
    World.make(tmp_path, corpora=1, items=2)
    data = tmp_path / "datasets/facts.jsonl"
    row = json.loads(data.read_text())
    row["qa"][0]["q"] = f"What opens {EVIL}?"
    row["qa"][0]["a"] = EVIL
    row["sessions"][0][0]["content"] = f"{EVIL} {row['sessions'][0][0]['content']}"
    data.write_text(json.dumps(row) + "\n")
    bench(
        "run", "--benchmarks", "facts", "--providers", "bm25", "--run-id", "r", "--label", f"k={EVIL}", "--note", EVIL
    )
    for command in (
        ("describe", "facts", "--items"), ("describe", "facts", "--memories"), ("describe", "r"), ("list", "runs"),
        ("describe", "r", "--json"), ("results", "r"), ("results", "r", "--json"), ("results", "r", "--markdown"),
        ("failures", "r"), ("failures", "r", "--json"), ("status", EVIL),
        ("run", "--providers", EVIL),
    ):  # fmt: skip
        done = bench(*command, check=None)
        for text in (done.stdout.replace("\r\n", "\n"), done.stderr):
            assert not HIDDEN.search(text), command
            assert not any(unicodedata.category(char) == "Cf" for char in text), command
    first = json.loads(bench("describe", "facts", "--items").stdout.splitlines()[0])
    assert EVIL in json.dumps(first, ensure_ascii=False).replace("\\u001b", "\x1b"), "JSON keeps the value"


@pytest.mark.parametrize("body", [{"error": "index unavailable", "results": []}, {"results": [], "errors": [{"a": 1}]}])
def test_an_error_next_to_an_empty_result_raises_Unavailable_unless_rules_are_set(body: dict[str, object]) -> None:
    own_rule = BodyErrors.compile((ErrorRule(path="$.error", equals="fatal"),))
    with pytest.raises(Unavailable, match="an error instead of a result"):
        BodyErrors.compile(()).read(answer(body))
    assert own_rule.read(answer(body)) is None, "the rules of a config replace the default"


@each_row(
    "body",
    [
        {"error": None, "results": []}, {"error": "", "results": []}, {"error": "partial", "results": [{"id": 1}]},
        {"error": False, "results": []}, {"error": 0, "results": []}, {"error": "x", "id": "1"}, [{"error": "x"}],
    ],
)  # fmt: skip
def test_a_body_with_an_empty_error_or_partial_results_is_not_an_error(body: object) -> None:
    assert BodyErrors.compile(()).read(answer(body)) is None


def answer(body: object) -> Response:
    return Response(status=200, headers={}, timings=Timings(), body=json.dumps(body).encode(), request="POST /search")


def test_a_document_of_millions_of_empty_lists_is_rejected_before_parsing() -> None:
    with pytest.raises(CanonicalError, match="values"):
        parse(b"[" + b"[]," * 2_000_000 + b"[]]")
