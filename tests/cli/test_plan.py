"""``bench plan``: jobs, calls, cost, time and origin of settings of a run, without a call and without a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small_world import PROVIDER, World

Bench = Callable[..., Any]


def planned(bench: Bench, *flags: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bench("plan", *flags, "--json").stdout)
    return found


def origins(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["name"]: (one["value"], one["from"]) for one in found["settings"]}


def test_plan_writes_no_file(bench: Bench, tmp_path: Path) -> None:
    bench("plan", "--providers", "bm25", "--limit", "2")
    assert list(tmp_path.iterdir()) == []


def test_plan_lists_one_job_per_provider_and_model_with_its_items(bench: Bench) -> None:
    models = ("none", "builtin/extractive")
    found = planned(bench, "--providers", "bm25", "oracle", "--answering-model", *models, "--limit", "7", "-k", "3")
    jobs = [(one["provider"], one["models"]["answering"], one["n_planned"], one["k"]) for one in found["jobs"]]
    assert jobs == [
        ("bm25", None, 7, 3),
        ("bm25", "builtin/extractive", 7, 3),
        ("oracle", None, 7, 3),
        ("oracle", "builtin/extractive", 7, 3),
    ]
    assert set(found) == {
        "plan_digest", "items", "corpora", "builds", "searches", "calls", "cost_usd", "least_s", "jobs", "endpoints",
        "settings", "notes", "unset",
    }  # fmt: skip


def test_a_plan_says_that_the_pages_of_a_search_add_calls(bench: Bench, tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=2)
    response = '    response: {results: "$.results"'
    world.provider("paged", base=PROVIDER.replace(response, "    page: {cursor: $.next, param: after}\n" + response))
    arguments = ("facts", "--providers", "paged", "faulty", "--isolation", "off")
    (note,) = [one for one in planned(bench, *arguments)["notes"] if "page" in one]
    assert note == (
        "paged: a search reads up to 5 pages with one call each, but calls, cost and time of a plan count one call per "
        "search"
    )
    assert note in " ".join(bench("plan", *arguments).stdout.split())


def test_the_plan_digest_changes_with_the_experiment_but_not_with_run_options(bench: Bench) -> None:
    base = ("--providers", "bm25", "--limit", "9")
    digest = planned(bench, *base)["plan_digest"]
    for same in (("--concurrency", "3"), ("--start", "2"), ("--run-id", "r"), ("--max-time", "6h"), ("--note", "x")):
        assert planned(bench, *base, *same)["plan_digest"] == digest, same
    for other in (("-k", "3"), ("--seed", "1"), ("--answering-model", "none"), ("--epochs", "2")):
        assert planned(bench, *base, *other)["plan_digest"] != digest, other


def test_positional_arguments_equal_the_benchmark_and_provider_flags(bench: Bench) -> None:
    flags = ("--benchmarks", "demo", "--providers", "bm25", "--limit", "2")
    assert planned(bench, "demo", "bm25", "--limit", "2") == planned(bench, *flags) | {
        "settings": planned(bench, "demo", "bm25", "--limit", "2")["settings"]
    }


@pytest.mark.parametrize("command", ["plan", "eval"])
@pytest.mark.parametrize(
    ("flags", "name", "flag"),
    [
        (("demo", "--benchmarks", "locomo"), "demo", "--benchmarks"),
        (("demo", "bm25", "--providers", "oracle"), "bm25", "--providers"),
        (("demo", "--benchmarks=demo"), "demo", "--benchmarks"),
    ],
)
def test_a_positional_name_combined_with_its_flag_is_rejected(
    bench: Bench, command: str, flags: tuple[str, ...], name: str, flag: str
) -> None:
    output = bench(command, *flags, check=2).stderr
    assert output == (
        f'error: the name "{name}" without a flag cannot be combined with {flag}\n'
        "hint: write BENCHMARK PROVIDER without flags, or use --benchmarks and --providers for all names\n"
    )


def test_one_positional_benchmark_can_be_combined_with_providers(bench: Bench) -> None:
    found = planned(bench, "demo", "--providers", "bm25", "--limit", "2")
    assert [job["provider"] for job in found["jobs"]] == ["bm25"]


def test_each_setting_shows_whether_it_comes_from_flag_file_or_default(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("providers: [bm25]\nlimit: 4\nk: 5\n")
    found = origins(planned(bench, "-c", "r.yaml", "-k", "3"))
    assert found["limit"] == ("4", "run file")
    assert found["k"] == ("3", "flag")
    assert found["providers"] == ("bm25", "run file")
    assert found["concurrency"] == ("10", "default")
    assert "note" not in found, "what is not set is not shown"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--no-circuit-breaker",), ("circuit_breaker", "no", "flag")),
        (("--concurrency", "auto"), ("concurrency", "auto", "flag")),
        (("--concurrency", "3"), ("concurrency", "3", "flag")),
        (("--max-time", "6h"), ("max_time", "21600.0", "flag")),
        (("--phases", "ingest,index"), ("phases", "ingest index", "flag")),
        (("--label", "a=b"), ("label", "a=b", "flag")),
    ],
)
def test_a_flag_is_shown_with_its_parsed_value(
    bench: Bench, flags: tuple[str, ...], expected: tuple[str, str, str]
) -> None:
    name, *shown = expected
    assert origins(planned(bench, "--providers", "bm25", "--limit", "2", *flags))[name] == tuple(shown)


def test_an_unknown_config_field_is_rejected_with_the_known_ones(bench: Bench) -> None:
    output = bench("plan", "--providers", "bm25", "--limit", "2", "--set", "bm25.k1=1.5", check=2).stderr
    assert output.startswith('error: --set bm25: unknown field "k1"\nhint: known fields: ')


def test_the_tables_show_the_same_values_as_the_json(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown = bench("plan", "--providers", "bm25", "--limit", "2").stdout
    found = planned(bench, "--providers", "bm25", "--limit", "2")
    for title in ("jobs", "traffic", "settings"):
        assert f"\n{title}\n" in f"\n{shown}"
    assert f"items {found['items']}, calls {found['calls']}" in shown
    assert f"plan digest {found['plan_digest']}\n" in shown
    assert "cost USD 0\n" in shown
    assert "k=10, one memory per turn" in shown


def test_a_lane_without_a_required_capability_is_skipped_with_its_reason(bench: Bench) -> None:
    found = planned(bench, "--benchmarks", "demo-deletion", "--providers", "bm25", "oracle")
    reasons = {job["provider"]: job["skipped"] for job in found["jobs"]}
    assert reasons == {"bm25": None, "oracle": "skipped: demo-deletion needs delete_memory, oracle does not have it"}
    alone = bench("plan", "--benchmarks", "demo-deletion", "--providers", "oracle", check=2).stderr
    assert f"no job is left to run: {reasons['oracle']}\n" in alone


def test_a_rate_limit_sets_a_minimum_time_and_unknown_prices_are_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key-of-anyone")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    flags = ("--providers", "bm25", "--limit", "60", "--answering-model", "openai/nobody-knows", "gpt-4o-mini")
    found = planned(bench, *flags, "--rate", "openai/nobody-knows=2/s")
    ends = {one["endpoint"]: one for one in found["endpoints"]}
    slow = ends["openai/nobody-knows.answering"]
    assert (slow["calls"], slow["rate_per_s"], slow["cost_usd"]) == (60, 2.0, None)
    assert found["least_s"] == slow["least_s"] == pytest.approx(30, rel=0.1)
    assert float(ends["openai/gpt-4o-mini.answering"]["cost_usd"]) > 0
    assert found["cost_usd"] is None
    shown = bench("plan", *flags).stdout
    assert "cost unknown: about USD 0." in shown
    assert ", plus calls without a known price: openai/nobody-knows.answering\n" in shown


@pytest.mark.parametrize("exported", [None, ""])
def test_plan_names_unset_variables_and_prints_no_secret(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: str | None
) -> None:
    (tmp_path / ".env").write_text("ZEP_API_KEY=z-quite-a-secret-word\n")
    if exported is not None:
        monkeypatch.setenv("ZEP_API_KEY", exported)
    done = bench("plan", "--providers", "zep", "mem0", "--limit", "2")
    assert "note: bench run needs variables that are not set: MEM0_API_KEY\n" in done.stdout
    assert "z-quite-a-secret-word" not in done.stdout + done.stderr
    assert "variables from .env (variables of the environment take precedence)\n" in done.stderr


def test_plan_shows_the_same_embedding_model_as_the_results(bench: Bench, tmp_path: Path) -> None:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.plan import make_plan
    from bench.plan.job_record import records
    from bench.settings import DryRunEnvironment

    names = ("bm25", "vector", "mem0", "letta", "chroma")
    found = planned(bench, "--providers", *names, "--limit", "2")
    shown = {one["provider"]: one["models"]["embedding"] for one in found["jobs"]}
    request = RunRequest.combine(None, {"providers": names, "limit": 2})
    plan = make_plan(Catalog.load(tmp_path), request, DryRunEnvironment(values={}))
    assert shown == {one.provider: one.models.embedding for one in records(plan)}
    assert (shown["bm25"], shown["mem0"]) == (None, "(builtin)")
    text = {
        name: json.loads(bench("describe", name, "--json").stdout)["embedding"] for name in ("mem0", "bm25", "chroma")
    }
    assert text == {name: shown[name] for name in text}


def test_a_prompt_with_gold_fields_is_named_in_plan_results_and_receipt(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "configs/benchmarks/leaky"
    folder.mkdir(parents=True)
    rows = [{"id": f"c{n}", "content": f"The code is {n}.", "q": f"Code {n}?", "answer": f"code {n}"} for n in "12"]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder.parent / "leaky.yaml").write_text(
        "name: leaky\nversion: '1'\ndata: {type: local, path: ./configs/benchmarks/leaky/rows.jsonl, format: jsonl}\n"
        "schema: {itemId: id, question: q, answer: answer, context: {field: content, type: string}, "
        "metadata: {hint: answer}}\n"
        "evaluation: {method: contains, answerPrompt: {default: '${question} ${hint} ${retrievedContext}', "
        "promptFields: [hint]}}\nmetrics: [accuracy]\n"
    )
    named = (
        'prompt knows the answer: the answer prompt "default" of leaky shows ${hint}, which contains the gold answer'
    )
    flags = ("--benchmarks", "leaky", "--providers", "bm25", "--answering-model", "builtin/extractive")
    assert named in bench("plan", *flags).stdout
    bench("run", "--run-id", "r", *flags)
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert any(note.startswith(named) for note in job["notes"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    bench("keys", "new")
    bench("sign", "r")
    (receipt,) = (one for one in (tmp_path / "results/r/receipts").glob("*.json"))
    assert any(why.startswith(named) for why in json.loads(receipt.read_text())["reproducibility"]["reasons"])


def test_plan_detect_shows_the_items_needed_for_a_difference(bench: Bench) -> None:
    found = json.loads(bench("plan", "demo", "bm25", "--detect", "0.05", "--json").stdout)["detect"]
    (one,) = found
    assert (one["benchmark"], one["clusters"], one["items"]) == ("demo", 8, 160)
    assert 0.15 < one["smallest_difference"] < 0.25, "eight conversations show no small difference"
    assert one["items_needed"] == 20 * one["clusters_needed"] > 160
    shown = bench("plan", "demo", "bm25", "--detect", "0.05").stdout
    assert "to detect 5 points between two systems" in shown and f" {one['items_needed']}" in shown
    assert (
        "hint: write a fraction: 0.05 means five percentage points"
        in bench("plan", "demo", "bm25", "--detect", "5", check=2).stderr
    )
