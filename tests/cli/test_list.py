"""``bench list``: benchmarks, providers, metrics, models and runs; a broken file is listed as broken."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as some

from bench.cli.commands import list as listing
from bench.cli.commands.list import KINDS, filter_by_tags, read_flags
from bench.cli.commands.workspace import list_
from bench.config.catalog import builtin_root
from bench.errors import UsageError
from bench.journal import RunState
from tests.rows import each_row
from tests.small_journal import Job, made, record

Bench = Callable[..., Any]
HINT = "write bench list [benchmarks|providers|metrics|evaluators|models|runs] [--tags T] [--json]"
REST = """version: "1"
schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}
evaluation: {method: contains}
"""
LOCAL = f"name: mine\ndata: {{type: local, path: ./rows.jsonl}}\n{REST}"


def rows(bench: Bench, kind: str, *flags: str) -> dict[str, dict[str, Any]]:
    found = json.loads(bench("list", kind, "--json", *flags).stdout)[kind]
    return {row.get("name") or row["run_id"]: row for row in found}


def write(folder: Path, kind: str, name: str, text: str) -> Path:
    path = folder / "configs" / kind / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# -------------------------------------------------------------------------- flags


@each_row(
    ("line", "kinds", "tags"),
    [
        ("", [], set()),
        ("runs", ["runs"], set()),
        ("--benchmarks", ["benchmarks"], set()),
        ("--providers models", ["providers", "models"], set()),
        ("--tags rag", [], {"rag"}),
        ("--tags=rag,code", [], {"rag", "code"}),
        ("--tags rag code benchmarks", ["benchmarks"], {"rag", "code"}),
        ("--tags rag,code runs --tags keyless", ["runs"], {"rag", "code", "keyless"}),
        ("--tags runs", [], {"runs"}),
        ("--tags ,rag,", [], {"rag"}),
    ],
)
def test_list_accepts_kinds_and_tags_in_any_order(line: str, kinds: list[str], tags: set[str]) -> None:
    assert read_flags(line.split()) == (kinds, frozenset(tags))


@each_row(
    ("line", "text"),
    [
        ("cats", 'unexpected argument "cats"'),
        ("--tag rag", 'unexpected argument "--tag"'),
        ("--tagsrag", 'unexpected argument "--tagsrag"'),
        ("runs --limit", 'unexpected argument "--limit"'),
        ("--tags", "--tags needs a value"),
        ("--tags=", "--tags needs a value"),
        ("--tags --json", "--tags needs a value"),
        ("--tags ,", "--tags needs a value"),
    ],
)
def test_an_unknown_argument_of_list_is_rejected_with_the_usage(line: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_flags(line.split())
    assert (str(caught.value), caught.value.hint) == (text, HINT)


TAGS = some.frozensets(some.sampled_from("abcd"))


@given(own=some.lists(TAGS, max_size=5), wanted=TAGS)
def test_a_row_is_listed_if_it_has_all_given_tags(own: list[frozenset[str]], wanted: frozenset[str]) -> None:
    given_rows: list[dict[str, object]] = [{"tags": sorted(tags)} for tags in own]
    assert filter_by_tags(given_rows, wanted) == [{"tags": sorted(tags)} for tags in own if wanted <= tags]


def test_a_row_without_tags_is_listed_only_without_tags() -> None:
    assert filter_by_tags([{"name": "x"}], frozenset()) == [{"name": "x"}]
    assert filter_by_tags([{"name": "x"}], frozenset({"a"})) == []


# --------------------------------------------------------------------------- show


def test_columns_are_aligned_and_truncated_to_the_terminal_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    given_rows: list[dict[str, object]] = [
        {"name": "a", "state": "ready", "description": "two\nlines   and more than fits"},
        {"name": "longer", "state": None, "description": ["x", "y"]},
        {"name": "m", "state": {"a": 1, "b": 2}, "description": None},
    ]
    listing.print_kind("benchmarks", given_rows)
    assert capsys.readouterr().out == (
        "benchmarks (3)\n  a       ready  two lines an…\n  longer         x, y\n  m       1 2\n\n"
    )


def test_a_benchmark_without_data_is_listed_with_license_size_and_the_tags_of_its_base(bench: Bench) -> None:
    found = rows(bench, "benchmarks")["locomo-turns"]
    assert (found["state"], found["license"]) == ("needs download", "CC-BY-NC-4.0")
    assert found["size"].startswith("10 conversations, 272 sessions") and "retrieval" in found["tags"]
    assert "\n  locomo-turns " in bench("list", "benchmarks", "--tags", "retrieval").stdout


def test_the_text_shows_license_and_size_of_missing_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown: dict[str, object] = {"description": "Chats", "license": "MIT", "size": "9 chats"}
    given: list[dict[str, object]] = [
        {"name": "a", "state": "ready", **shown},
        {"name": "b", "state": "needs download", **shown},
    ]
    listing.print_kind("benchmarks", given)
    assert capsys.readouterr().out == (
        "benchmarks (2)\n  a  ready           Chats\n  b  needs download  Chats (license MIT; 9 chats)\n\n"
    )


def test_an_empty_kind_prints_only_its_heading(bench: Bench) -> None:
    assert bench("list", "runs").stdout == "runs (0)\n\n"
    assert json.loads(bench("list", "runs", "--json").stdout) == {"runs": []}


def test_list_without_a_kind_lists_benchmarks_and_providers(bench: Bench) -> None:
    assert list(json.loads(bench("list", "--json").stdout)) == ["benchmarks", "providers"]
    shown = bench("list").stdout
    assert shown.startswith("benchmarks (") and "\nproviders (" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_json_list_the_same_number_of_rows(bench: Bench, kind: str) -> None:
    count = len(json.loads(bench("list", kind, "--json").stdout)[kind])
    shown = bench("list", kind).stdout.splitlines()
    assert shown[0] == f"{kind} ({count})"
    assert len(shown) == count + 2


# -------------------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    ("text", "data", "state"),
    [
        (LOCAL, "rows.jsonl", "ready"),
        (LOCAL, None, "needs download"),
        (LOCAL.replace("contains", "no-such"), "rows.jsonl", "broken"),
        (LOCAL.replace("itemId: id, ", ""), "rows.jsonl", "broken"),
        (
            f'name: mine\ndata:\n  type: url\n  path: https://x/r\n  localPath: "rows.jsonl"   # here\n{REST}',
            "rows.jsonl",
            "ready",
        ),
        (f"name: mine\ndata:\n  type: url\n  path: https://x/rows.jsonl\n{REST}", None, "needs download"),
        ("name: mine\nextends: demo\n", None, "ready"),
        ("name: mine\nextends: locomo\n", None, "needs download"),
        ("name: mine\nextends: nobody\n", None, "broken"),
        ("name: mine\nextends: mine\n", None, "broken"),
        (f"name: mine\ndata: {{path: 'rows.jsonl', type: local}}\n{REST}", "rows.jsonl", "ready"),
        ("name: mine\nversion: [1\n", None, "broken"),
        ("- a list\n", None, "broken"),
    ],
)
def test_a_benchmark_is_ready_if_its_config_is_valid_and_its_data_exists(
    bench: Bench, tmp_path: Path, text: str, data: str | None, state: str
) -> None:
    path = write(tmp_path, "benchmarks", "mine.yaml", text)
    if data is not None:
        (path.parent / data).write_text("{}\n")
    found = rows(bench, "benchmarks")["mine"]
    assert (found["state"], found["builtin"]) == (state, False)
    assert Path(found["path"]).resolve() == path.resolve()


@pytest.mark.parametrize(("there", "state"), [(True, "ready"), (False, "data missing")])
def test_a_benchmark_with_a_manifest_needs_the_data_file_it_names(
    bench: Bench, tmp_path: Path, there: bool, state: str
) -> None:
    path = write(
        tmp_path,
        "benchmarks/mine",
        "manifest.json",
        (builtin_root() / "configs/benchmarks/demo-deletion/manifest.json")
        .read_text()
        .replace("demo-deletion", "mine")
        .replace("datasets/demo/deletion.jsonl", "d.jsonl"),
    )
    if there:
        (path.parent / "d.jsonl").write_text("{}\n")
    assert rows(bench, "benchmarks")["mine"]["state"] == state


def test_a_workspace_config_replaces_the_built_in_one_with_the_same_name(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, "benchmarks", "demo.yaml", "name: demo\ndescription: mine\nextends: locomo\n")
    assert rows(bench, "benchmarks")["demo"]["description"] == "mine"
    assert bench("list", "benchmarks").stdout.count("\n  demo ") == 1


def test_a_built_in_benchmark_has_display_name_state_and_tags(bench: Bench) -> None:
    found = rows(bench, "benchmarks")["demo"]
    assert (found["displayName"], found["state"], found["builtin"]) == ("Demo", "ready", True)
    assert "keyless" in found["tags"]


def test_tags_filter_benchmarks(bench: Bench) -> None:
    assert set(rows(bench, "benchmarks", "--tags", "keyless,code")) == {"code-rag"}
    assert bench("list", "benchmarks", "--tags", "no-such-tag").stdout == "benchmarks (0)\n\n"


@pytest.mark.parametrize("kind", ["benchmarks", "providers", "models"])
def test_a_config_that_cannot_be_parsed_is_listed_with_its_line(bench: Bench, tmp_path: Path, kind: str) -> None:
    write(tmp_path, kind, "torn.yaml", "name: torn\ndescription: fine\nendpoints: [1\n")
    (torn,) = [line for line in bench("list", kind).stdout.splitlines() if line.startswith("  torn")]
    assert "torn.yaml:4:1" in torn and "fine" not in torn
    assert kind == "models" or torn.split()[1] == "broken"


def test_built_in_providers_are_listed_first(bench: Bench) -> None:
    lines = bench("list", "providers").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["bm25", "full-context", "no-memory"]


def test_a_metric_is_listed_with_definition_aliases_and_unit(bench: Bench) -> None:
    found = rows(bench, "metrics")
    keys = {"definition", "aliases", "category", "unit", "lower_is_better", "description"}
    assert all(keys <= set(one) for one in found.values())
    assert (found["ndcg_at_K"]["definition"], found["ndcg_at_K"]["lower_is_better"]) == ("ndcg@K/1", False)
    assert found["ndcg_at_K"]["aliases"] == ["retrieval_ndcg_at_K"]
    assert (found["latency_p50"]["unit"], found["latency_p50"]["lower_is_better"]) == ("ms", True)


def test_built_in_model_prefixes_and_model_files_of_the_workspace_are_listed(bench: Bench, tmp_path: Path) -> None:
    write(
        tmp_path, "models", "local.yaml", "name: local\ndescription: on this desk\ndialect: openai\nbaseUrl: http://x\n"
    )
    found = rows(bench, "models")
    assert found["builtin/extractive"]["description"] == "built in, no key"
    assert "OPENAI_API_KEY" in found["openai/MODEL"]["description"]
    assert found["local/"]["description"] == "on this desk"


def test_each_evaluator_is_listed_with_a_description(bench: Bench) -> None:
    found = rows(bench, "evaluators")
    assert {"contains", "exact-match", "llm-judge", "custom"} <= set(found)
    assert all(row["description"] for row in found.values())


def test_runs_are_listed_newest_first_with_their_state(bench: Bench, tmp_path: Path) -> None:
    async def two() -> None:
        await made(tmp_path, "older", [Job(record=record("x"), values={"q": 1.0})])
        await made(tmp_path, "newer", [Job(record=record("y"), values={"q": 1.0})], state=RunState.STOPPED)

    anyio.run(two)
    found = json.loads(bench("list", "runs", "--json").stdout)["runs"]
    assert [(one["run_id"], one["state"], one["providers"]) for one in found] == [
        ("newer", "stopped", ["y"]),
        ("older", "complete", ["x"]),
    ]


def test_the_function_list_prints_the_same_as_the_command(bench: Bench) -> None:
    short = bench("list", "evaluators").stdout
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        assert list_("evaluators") == 0
    assert written.getvalue() == short
