"""``bench clean --orphans``: namespaces that runs left at providers are cleared, the runs are unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.small_world import World

Bench = Callable[..., Any]
Results = Callable[[str], dict[str, Any]]


@pytest.fixture
def world(bench: Bench, tmp_path: Path, fault_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> World:
    """A finished run that left its two namespaces."""
    url = fault_server()
    world = World.make(tmp_path, url, corpora=2, items=2)
    monkeypatch.setenv("FAULT_URL", url)
    flags = ("--benchmarks", "facts", "--providers", "faulty", "--answering-model", "none", "--cleanup", "never")
    bench("run", "--run-id", "r", *flags)
    return world


@pytest.fixture
def second(world: World, tmp_path: Path, fault_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> World:
    """Another service of the same kind in the same workspace, with a provider of that name."""
    other = World(workspace=world.workspace, url=fault_server())
    monkeypatch.setenv("SECOND_URL", str(other.url))
    config = (tmp_path / "configs/providers/faulty.yaml").read_text()
    changed = config.replace("name: faulty", "name: second").replace("FAULT_URL", "SECOND_URL")
    (tmp_path / "configs/providers/second.yaml").write_text(changed)
    return other


def provider_calls(document: dict[str, Any]) -> dict[str, int]:
    (job,) = document["jobs"]
    return cast("dict[str, int]", job["usage"]["provider"])


def test_clean_orphans_clears_namespaces_once_and_leaves_the_results_of_the_run(
    bench: Bench, world: World, results: Results
) -> None:
    before = results("r")
    assert len(world.namespaces()) == 2
    done = bench("clean", "--orphans", "--yes")
    assert "cleared 2 namespaces" in done.stderr and not world.namespaces()
    after = results("r")
    built = [document["jobs"][0]["memory_cost"]["build"] for document in (before, after)]
    for counted, more in zip(
        [provider_calls(before), built[0], built[0]["price"]],
        [provider_calls(after), built[1], built[1]["price"]],
        strict=True,
    ):
        assert more.pop("calls") == counted.pop("calls") + 4, "two clears, and a search after each, in the call log"
        assert more.pop("cost_unknown_calls") == counted.pop("cost_unknown_calls") + 2, (
            "searches alone may have a price"
        )
    assert after == before and before["status"] == "complete"
    assert "cleared" not in bench("clean", "--orphans", "--yes").stderr
    assert "complete" in bench("status", "r").stdout


def test_clean_keeps_the_run_if_the_provider_rejects_the_clear(bench: Bench, world: World, tmp_path: Path) -> None:
    world.fault("clear:status:code=400")
    bench("clean", "r", "--yes", check=3)
    assert (tmp_path / "checkpoints/r/journal.sqlite").is_file() and len(world.namespaces()) == 2
    world.heal()
    bench("clean", "r", "--yes")
    assert not world.namespaces() and not (tmp_path / "checkpoints/r").exists()


def test_clean_orphans_lists_only_runs_that_left_namespaces(bench: Bench, world: World) -> None:
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "tidy")
    listed = json.loads(bench("clean", "--orphans", "--json").stdout)
    assert [(run["run_id"], run["namespaces"]) for run in listed["runs"]] == [("r", 2)]
    assert listed["done"] is False and len(world.namespaces()) == 2
    bench("clean", "--orphans", "--yes")
    assert json.loads(bench("clean", "--orphans", "--json").stdout)["runs"] == []


def test_clean_deletes_a_run_with_a_broken_journal(bench: Bench, tmp_path: Path) -> None:
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "torn")
    (tmp_path / "checkpoints/torn/journal.sqlite").write_bytes(b"no database at all" * 100)
    listed = bench("clean", "torn")
    assert "torn: " in listed.stderr
    assert listed.stdout.endswith(" MB, unknown data left at providers\n")
    assert "it was not changed" not in listed.stderr
    assert json.loads(bench("clean", "torn", "--json").stdout)["runs"][0]["namespaces"] is None
    bench("clean", "torn", "--yes")
    assert not (tmp_path / "checkpoints/torn").exists()


def test_clean_rejects_a_changed_base_url_before_any_request(
    bench: Bench, world: World, tmp_path: Path, fault_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = fault_server()
    monkeypatch.setenv("FAULT_URL", other)
    for words in (("r",), ("--orphans",), ("--older-than", "0m")):
        done = bench("clean", *words, "--yes", check=2)
        assert f"providers.faulty.base_url: {world.url} -> {other}" in done.stderr
        again = "bench clean r --orphans" if words == ("--orphans",) else "bench clean r"
        assert f"hint: undo the change (config, variable, data), then {again}; " in done.stderr
    assert World(workspace=tmp_path, url=other).calls("clear") == world.calls("clear") == 0
    assert len(world.namespaces()) == 2 and (tmp_path / "checkpoints/r/journal.sqlite").is_file()
    monkeypatch.setenv("FAULT_URL", str(world.url))
    bench("clean", "r", "--yes")
    assert not world.namespaces()


def test_a_rejected_clean_prints_the_error_as_one_json_object(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT_URL", "http://127.0.0.1:9")
    found = json.loads(bench("clean", "r", "--yes", "--json", check=2).stdout)
    assert list(found) == ["error"] and found["error"]["kind"] == "identity"
    monkeypatch.setenv("FAULT_URL", str(world.url))
    assert json.loads(bench("clean", "r", "--yes", "--json").stdout)["done"] is True


def test_clean_of_several_runs_deletes_none_if_the_config_of_one_changed(
    bench: Bench, world: World, tmp_path: Path
) -> None:
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "tidy")
    path = tmp_path / "configs/providers/faulty.yaml"
    before = path.read_text()
    path.write_text(before.replace("/v1/namespaces/", "/v2/namespaces/"))
    done = bench("clean", "--older-than", "0m", "--yes", check=2)
    assert "providers.faulty.config_sha256: " in done.stderr
    assert {one.name for one in (tmp_path / "checkpoints").iterdir()} >= {"r", "tidy"}
    assert "complete" in bench("status", "r").stdout
    path.write_text(before.replace("timeout: 2000", "timeout: 3000"))
    bench("clean", "r", "--yes")
    assert not world.namespaces(), "a timeout does not change the address"


def test_a_failed_clear_keeps_the_run_and_the_hint_names_clean_and_forget(
    bench: Bench, world: World, tmp_path: Path
) -> None:
    world.fault("clear:status:code=503")
    done = bench("clean", "r", "--yes", check=3)
    hint = done.stderr.partition("hint: ")[2]
    assert hint == (
        "the run was kept; fix the cause, then bench clean r; "
        "if the service no longer exists: bench clean r --forget faulty\n"
    )
    world.heal()
    world.fault("clear:status:code=401")
    hint = bench("clean", "r", "--yes", check=3).stderr.partition("hint: ")[2]
    assert hint == (
        "the run was kept; fix the cause, then bench clean r; "
        "if the service no longer exists: bench clean r --forget faulty\n"
    )
    assert (tmp_path / "checkpoints/r/journal.sqlite").is_file()


def test_an_unavailable_service_does_not_stop_clean_orphans_of_other_runs(
    bench: Bench, world: World, second: World, tmp_path: Path
) -> None:
    flags = ("--benchmarks", "facts", "--providers", "second", "--answering-model", "none", "--cleanup", "never")
    bench("run", "--run-id", "s", *flags)
    world.fault("clear:status:code=503")
    done = bench("clean", "--orphans", "--yes", check=3)
    assert "s: cleared 2 namespaces\n" in done.stderr and (len(second.namespaces()), len(world.namespaces())) == (0, 2)
    assert done.stderr.endswith(
        "hint: the run was kept; fix the cause, then bench clean r --orphans; "
        "if the service no longer exists: bench clean r --orphans --forget faulty\n"
    )
    assert "error: r: 2 namespaces left at faulty: " in done.stderr, "which run, and what is left"
    listed = bench("clean", "r")
    assert listed.stderr == (
        "nothing was changed; --yes deletes the run: journal, report and receipts; "
        "--orphans clears the namespaces and keeps it\n"
    )


# ------------------------------------------------- services that moved or no longer exist


def test_clean_with_moved_clears_at_the_new_base_url(
    bench: Bench, world: World, tmp_path: Path, fault_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = World(workspace=tmp_path, url=fault_server())
    monkeypatch.setenv("FAULT_URL", str(other.url))
    refused = bench("clean", "r", "--yes", check=2).stderr
    assert "if the service only has a new address: bench clean r --moved faulty" in refused
    assert other.calls("clear") == 0
    assert "cleared 2 namespaces" in bench("clean", "--orphans", "--moved", "faulty", "--yes").stderr
    assert (other.calls("clear"), world.calls("clear")) == (2, 0)
    assert bench("clean", "--orphans").stderr == "nothing to clean\n"


def test_clean_with_moved_accepts_a_literal_base_url_and_a_changed_config_file(
    bench: Bench, world: World, tmp_path: Path, fault_server: Callable[..., str]
) -> None:
    path = tmp_path / "configs/providers/faulty.yaml"
    literal = path.read_text().replace("${FAULT_URL}", str(world.url))
    path.write_text(literal)
    flags = ("--benchmarks", "facts", "--providers", "faulty", "--answering-model", "none", "--cleanup", "never")
    bench("run", "--run-id", "s", *flags)
    other = World(workspace=tmp_path, url=fault_server())
    moved = literal.replace(str(world.url), str(other.url))
    path.write_text(moved + "vars: {model: a}\n")
    assert "base_url" in bench("clean", "s", "--yes", check=2).stderr
    assert "cleared 2 namespaces" in bench("clean", "s", "--moved", "faulty", "--yes").stderr
    assert other.calls("clear") == 2


def test_clean_with_forget_abandons_namespaces_and_records_them_as_not_cleared(
    bench: Bench, world: World, tmp_path: Path
) -> None:
    (tmp_path / "configs/providers/faulty.yaml").unlink()
    refused = bench("clean", "--orphans", "--yes", check=2).stderr
    assert "if the service no longer exists: bench clean r --orphans --forget faulty" in refused, "the run is to stay"
    listed = bench("clean", "--orphans", "--forget", "faulty")
    assert "2 namespaces left at faulty" in listed.stdout and "nothing was changed" in listed.stderr
    done = bench("clean", "--orphans", "--forget", "faulty", "--yes")
    assert done.stderr == "r: abandoned 2 namespaces without clearing them\n"
    assert bench("clean", "--orphans").stderr == "nothing to clean\n"
    assert (len(world.namespaces()), world.calls("clear")) == (2, 0)
    assert world.query("r", "select count(*) from corpus_row where kind = 'cleared'") == [(0,)]
    assert world.query("r", "select kind, message from event where kind = 'forgotten'") == [
        ("forgotten", "2 namespaces at faulty were abandoned: not cleared")
    ]
    assert "complete" in bench("status", "r").stdout
    bench("clean", "r", "--yes")
    assert not (tmp_path / "checkpoints/r").exists()


def test_clean_with_forget_clears_the_namespaces_of_the_other_providers(
    bench: Bench, world: World, tmp_path: Path
) -> None:
    path = tmp_path / "configs/providers/faulty.yaml"
    path.with_name("second.yaml").write_text(path.read_text().replace("name: faulty", "name: second"))
    flags = (
        "--benchmarks",
        "facts",
        "--answering-model",
        "none",
        "--cleanup",
        "never",
        "--set",
        "second.ingest.order=serial",
    )
    bench("run", "--run-id", "two", "--providers", "faulty", "second", *flags)
    path.with_name("second.yaml").unlink()
    before = world.calls("clear")
    done = bench("clean", "two", "--forget", "second", "--yes")
    assert "abandoned 2 namespaces" in done.stderr and "cleared 2 namespaces" in done.stderr
    assert world.calls("clear") - before == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--forget", "fautly"),
            "error: --forget fautly: the run left no data at this provider\n"
            "hint: name a provider that has data of the run: faulty\n",
        ),
        (
            ("--moved", "bm25"),
            "error: --moved bm25: the run left no data at this provider\n"
            "hint: name a provider that has data of the run: faulty\n",
        ),
        (
            ("--moved", "faulty", "--forget", "faulty"),
            "error: --moved and --forget both name faulty\n"
            "hint: use --moved if the service has a new address; use --forget if the service no longer exists\n",
        ),
    ],
)
def test_moved_and_forget_reject_a_provider_without_data_of_the_run_and_each_other(
    bench: Bench, world: World, words: tuple[str, ...], message: str
) -> None:
    assert bench("clean", "r", *words, "--yes", check=2).stderr == message
    assert len(world.namespaces()) == 2


def test_the_note_of_a_failed_clear_disappears_after_clear_or_forget(
    bench: Bench, world: World, results: Results
) -> None:
    flags = ("--benchmarks", "facts", "--providers", "faulty", "--answering-model", "none")
    world.fault("clear:status:code=400")
    for name in ("gone", "back"):
        bench("run", "--run-id", name, *flags)
        assert f"clear the namespace again with: bench clean {name} --orphans --yes" in str(
            results(name)["jobs"][0]["notes"]
        )
    bench("clean", "gone", "--orphans", "--forget", "faulty", "--yes")
    world.heal()
    bench("clean", "back", "--orphans", "--yes")
    given_up, cleared = (results(name)["jobs"][0]["notes"] for name in ("gone", "back"))
    assert "clear the namespace again" not in f"{given_up}{cleared}"
    assert "2 namespaces at faulty were abandoned: not cleared" in given_up


def test_resume_at_another_base_url_hints_at_restoring_the_old_one(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT_URL", "http://127.0.0.1:9")
    hint = bench("resume", "r", check=2).stderr.partition("hint: ")[2]
    assert hint == (
        f"restore the old address, then resume: providers.faulty.base_url ({world.url} -> http://127.0.0.1:9); "
        "or start a new run for the changed settings\n"
    )


def test_clean_without_yes_shows_what_would_be_abandoned_and_why_it_would_be_rejected(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = "r: 2 namespaces would be abandoned without clearing them; "
    assert f"{given_up}the journal records this\n" in bench("clean", "r", "--orphans", "--forget", "faulty").stderr
    output = bench("clean", "r", "--forget", "faulty").stderr
    assert f"{given_up}no record is kept, because the journal is deleted\n" in output
    monkeypatch.setenv("FAULT_URL", "http://127.0.0.1:9")
    output = bench("clean", "--orphans").stderr
    assert (
        "r: --yes would be refused: the namespaces of run r " in output
        and f"{world.url} -> http://127.0.0.1:9" in output
    )
    assert "bench clean r --orphans --moved faulty" in output and len(world.namespaces()) == 2
    assert "refused" not in bench("clean", "--orphans", "--moved", "faulty").stderr


def test_an_unavailable_service_does_not_stop_clean_older_than_of_other_runs(
    bench: Bench, world: World, tmp_path: Path
) -> None:
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "a")
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "z")
    world.fault("clear:status:code=503")
    done = bench("clean", "--older-than", "0m", "--yes", check=3).stderr
    assert "error: r: 2 namespaces left at faulty: " in done
    assert [one.name for one in (tmp_path / "checkpoints").iterdir()] == ["r"]


def test_an_unavailable_service_does_not_stop_clean_of_the_other_services_of_a_run(
    bench: Bench, world: World, second: World, tmp_path: Path
) -> None:
    flags = ("--benchmarks", "facts", "--answering-model", "none", "--cleanup", "never")
    bench("clean", "r", "--yes")
    bench("run", "--run-id", "two", "--providers", "faulty", "second", *flags)
    world.fault("clear:status:code=503")
    bench("clean", "two", "--orphans", "--yes", check=3)
    assert not second.namespaces()
    assert len(world.namespaces()) == 2 and "2 namespaces left at faulty" in bench("clean", "two").stdout
