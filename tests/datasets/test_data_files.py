"""Locating a data file, its expected digest, and the findings of validate."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.datasets import open_benchmark
from bench.datasets.rows.data_file import (
    cache_path,
    candidates,
    checked_file,
    download_hint,
    find_file,
    format_of,
    is_shipped,
    missing_file_error,
)
from bench.datasets.validation import validate_benchmark
from bench.errors import DataError
from tests.datasets.conftest import Workspace, row, turn
from tests.rows import each_row

ROW = '{"id": "1", "q": "Q?", "a": "A", "c": "C"}'
SHA = hashlib.sha256(ROW.encode()).hexdigest()


def yaml(data: str, *, metrics: str = "[accuracy]", evaluation: str = "{method: exact-match}", more: str = "") -> str:
    return (
        f'name: b\nversion: "1"\ndata: {data}\n'
        "schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}\n"
        f"evaluation: {evaluation}\nmetrics: {metrics}\n{more}"
    )


LOCAL = "{type: local, path: ./d.jsonl}"
REMOTE = "{type: url, path: 'http://127.0.0.1:9/d.jsonl', localPath: datasets/b/d.jsonl}"


# ------------------------------------------------------------------ looking


def test_the_config_folder_is_searched_before_the_workspace(workspace: Workspace) -> None:
    beside = workspace.yaml("b", yaml(LOCAL)).parent / "d.jsonl"
    inside = workspace.root / "d.jsonl"
    config = workspace.config("b")
    assert candidates(config, workspace.root)[:2] == [beside, inside]
    assert find_file(config, workspace.root) is None
    inside.write_text(ROW)
    assert find_file(config, workspace.root) == inside
    beside.write_text(ROW)
    assert find_file(config, workspace.root) == beside


def test_a_folder_with_the_name_of_the_data_file_is_not_used(workspace: Workspace) -> None:
    (workspace.yaml("b", yaml(LOCAL)).parent / "d.jsonl").mkdir()
    assert find_file(workspace.config("b"), workspace.root) is None


def test_an_absolute_path_is_searched_only_there(workspace: Workspace, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("far") / "d.jsonl"
    path.write_text(ROW)
    workspace.yaml("b", yaml(f"{{type: local, path: {path}}}"))
    config = workspace.config("b")
    assert set(candidates(config, workspace.root)) == {path}
    assert workspace.open("b").path == path


def test_cache_path_is_the_localPath_of_the_config(workspace: Workspace) -> None:
    workspace.yaml("b", yaml(REMOTE))
    assert cache_path(workspace.config("b"), workspace.root) == workspace.root / "datasets" / "b" / "d.jsonl"


def test_a_child_config_uses_the_data_file_next_to_its_parent(workspace: Workspace) -> None:
    workspace.yaml("b", yaml(LOCAL)).with_name("d.jsonl").write_text(ROW)
    workspace.yaml("child", "extends: b\nname: child\n")
    assert workspace.open("child").sha256 == workspace.open("b").sha256 == SHA


@each_row(
    ("name", "option", "form"),
    [
        ("d.json", "", "json"),
        ("d.JSONL", "", "jsonl"),
        ("d.ndjson", "", "jsonl"),
        ("d.csv", "", "csv"),
        ("d.txt", ", format: csv", "csv"),
        ("d.json", ", format: jsonl", "jsonl"),
    ],
)
def test_the_file_format_comes_from_the_config_or_else_the_suffix(
    workspace: Workspace, name: str, option: str, form: str
) -> None:
    workspace.yaml("b", yaml(f"{{type: local, path: ./{name}{option}}}"))
    assert format_of(workspace.config("b"), Path(name)) == form


# ------------------------------------------------------------------ the digest


def test_a_different_sha256_is_refused_with_both_digests(workspace: Workspace) -> None:
    path = workspace.yaml("b", yaml(f"{{type: local, path: ./d.jsonl, sha256: {SHA}}}")).with_name("d.jsonl")
    path.write_text(ROW)
    assert checked_file(workspace.config("b"), workspace.root).sha256 == SHA
    path.write_text(ROW + "\n")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(DataError) as caught:
        checked_file(workspace.config("b"), workspace.root)
    assert str(caught.value) == f"{path}: the SHA-256 is {found}, but the config expects {SHA}"
    assert caught.value.hint == "this is another version of the file: download the version that the config expects"


def test_a_local_file_is_hashed_again_even_if_its_time_is_unchanged(workspace: Workspace) -> None:
    path = workspace.yaml("b", yaml(f"{{type: local, path: ./d.jsonl, sha256: {SHA}}}")).with_name("d.jsonl")
    path.write_text(ROW)
    status = path.stat()
    checked_file(workspace.config("b"), workspace.root)
    path.write_text(ROW.replace("C", "D", 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(DataError, match="but the config expects"):
        checked_file(workspace.config("b"), workspace.root)


def test_the_digest_of_a_downloaded_file_is_stored_next_to_it(workspace: Workspace) -> None:
    workspace.yaml("b", yaml(REMOTE))
    path = workspace.data("b/d.jsonl", ROW)
    assert workspace.open("b").sha256 == SHA
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["d.jsonl", "d.jsonl.checked"]
    path.with_name("d.jsonl.checked").unlink()
    path.with_name("d.jsonl.checked").mkdir()
    assert workspace.open("b").sha256 == SHA, "a note that cannot be written only costs another check"


# ------------------------------------------------------------------ what is not there


@pytest.mark.parametrize(
    ("data", "comes", "way"),
    [
        (LOCAL, True, "bench download b --from FILE"),
        ("{type: local, path: ./d.jsonl, localPath: ./d.jsonl}", False, "bench download b --from FILE"),
        (REMOTE, False, "bench download b, or bench download b --from FILE"),
    ],
)
def test_download_hint_names_the_command_for_each_kind_of_data(
    workspace: Workspace, data: str, comes: bool, way: str
) -> None:
    workspace.yaml("b", yaml(data))
    config = workspace.config("b")
    assert (is_shipped(config), download_hint(config)) == (comes, way)


def test_download_hint_names_a_license_that_forbids_redistribution(workspace: Workspace) -> None:
    workspace.yaml("b", yaml("{type: local, path: ./d.jsonl, localPath: ./d.jsonl}", more="license: ACME-1\n"))
    way = "bench download b --from FILE; the license (ACME-1) does not allow redistribution"
    assert download_hint(workspace.config("b")) == way


def test_missing_downloadable_data_is_reported_with_path_sha256_and_command(workspace: Workspace) -> None:
    path = workspace.yaml("b", yaml(REMOTE[:-1] + f", sha256: {SHA}}}"))
    error = missing_file_error(workspace.config("b"), workspace.root)
    place = workspace.root / "datasets" / "b" / "d.jsonl"
    assert str(error) == f"{path}:3:19: the dataset of b is missing: {place}, sha256 {SHA}"
    assert error.hint == "bench download b, or bench download b --from FILE"


def test_missing_local_data_is_reported_with_the_searched_folders(workspace: Workspace) -> None:
    path = workspace.yaml("b", yaml(LOCAL))
    with pytest.raises(DataError) as caught:
        open_benchmark(workspace.config("b"), workspace.root)
    assert str(caught.value) == f'{path}:3:21: the data file "./d.jsonl" is not there'
    assert caught.value.hint == f"put the file into {path.parent} or {workspace.root}"


def test_a_file_with_unreadable_bytes_is_reported(workspace: Workspace) -> None:
    workspace.yaml("b", yaml("{type: local, path: /proc/self/mem, format: jsonl}"))
    with pytest.raises(DataError, match=r"^/proc/self/mem: cannot read the file: Input/output error$"):
        workspace.open("b")


# ------------------------------------------------------------------ validate


def test_errors_of_config_metrics_evaluator_and_data_are_reported_together(workspace: Workspace) -> None:
    text = yaml(LOCAL, metrics="[accuracy, recal_at_5]", evaluation="{method: custom, customEvaluator: './j.py:J'}")
    path = workspace.yaml("b", text)
    path.with_name("d.jsonl").write_text("{")
    report = validate_benchmark(path, Catalog.load(workspace.root))
    assert not report.ok and report.name == "b"
    assert [str(error).removeprefix(f"{path.parent}/") for error in report.errors] == [
        'b.yaml:6:21: unknown metric "recal_at_5"; did you mean "recall_at_K" or "recall_any_at_K" or '
        '"recall_all_at_K"?',
        'b.yaml:5:30: "./j.py" is not there',
        "d.jsonl:1: row is malformed: Expecting property name enclosed in double quotes",
    ]


def test_an_unknown_metric_without_a_similar_name_has_no_suggestion(workspace: Workspace) -> None:
    path = workspace.yaml("b", yaml(LOCAL, metrics="[zzz]"))
    path.with_name("d.jsonl").write_text(ROW)
    (error,) = validate_benchmark(path, Catalog.load(workspace.root)).errors
    assert str(error) == f'{path}:6:11: unknown metric "zzz"'


def test_a_custom_metric_is_not_looked_up_but_its_file_must_exist(workspace: Workspace) -> None:
    path = workspace.yaml("b", yaml(LOCAL, metrics="[{name: mine, method: custom, evaluator: './m.py:M'}]"))
    path.with_name("d.jsonl").write_text(ROW)
    assert [
        str(error).partition("yaml:")[2] for error in validate_benchmark(path, Catalog.load(workspace.root)).errors
    ] == ['6:40: "./m.py" is not there']
    (workspace.root / "m.py").write_text("class M: ...\n")
    assert validate_benchmark(path, Catalog.load(workspace.root)).ok, "a plug-in may be in the workspace too"


def test_evidence_missing_from_the_sent_text_is_an_error_unless_altered(chat) -> None:
    changed = row(sessions=[[turn("a & b", has_answer=True)], []])

    def errors(extra: str) -> list[str]:
        config = chat(changed, extra=f"ingestion: {{preprocessing: {{{extra}}}}}\n").config
        path = config.origin.path
        return [str(error) for error in validate_benchmark(path, Catalog.load(path.parents[2])).errors]

    assert errors("escapeHtml: true") == []
    assert errors("formatTemplate: '${session|lines}'") == []
    (problem,) = errors("formatTemplate: '${turns} turns'")
    assert problem.endswith(
        "chat: the evidence of 1 item is missing in the texts that providers would receive: q1 (s1#1)"
    )


def test_an_invalid_config_file_is_one_error_of_validate(workspace: Workspace) -> None:
    path = workspace.yaml("b", "name: b\nname: b\n")
    report = validate_benchmark(path, Catalog.load(workspace.root))
    assert not report.ok and report.name is None
    assert str(report.errors[0]).startswith(f"{path}:2:1: ")
