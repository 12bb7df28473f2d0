"""Run requests: flags and keys of run files, and their valid values."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.file import Source, load
from bench.config.run import Experiment, MetricChoice, Operation, RunRequest, new_run_id
from bench.errors import ConfigError, UsageError
from bench.model import Phase
from tests.rows import each_row

NO_RUN_ID = "a run id has 1 to 100 characters of A-Z a-z 0-9 . _ - and does not begin with a dot or hyphen"


def of(**flags: object) -> RunRequest:
    return RunRequest.combine(None, flags)


def file(text: str) -> RunRequest:
    return load(Source.parse(text, Path("nightly.yaml")), RunRequest)


def refused(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        file(text)
    return [(str(one), one.hint) for one in caught.value.problems or (caught.value,)]


def test_a_RunRequest_has_defaults() -> None:
    request = RunRequest()
    assert (request.benchmarks, request.providers, request.answering_model, request.metrics) == ((), (), (), ())
    assert (request.k, request.limit, request.sample, request.seed, request.epochs) == ((), None, None, 0, 1)
    assert (request.concurrency, request.max_error_rate, request.track) == (10, 0.02, "uniform")
    assert (request.isolation, request.cleanup, request.circuit_breaker) == ("probe", "corpus", True)
    assert request.phases == tuple(Phase)
    assert (request.sign, request.download, request.publishable, request.allow_code_execution) == (False,) * 4


def test_Experiment_and_Operation_have_no_common_keys_and_form_RunRequest() -> None:
    experiment, operation = set(Experiment.model_fields), set(Operation.model_fields)
    assert experiment & operation == set()
    assert experiment | operation == set(RunRequest.model_fields)
    assert set(RunRequest().operation()) == operation


@each_row(
    ("flag", "given", "value"),
    [
        ("benchmarks", "a b,c", ("a", "b", "c")),
        ("benchmarks", [], ()),
        ("benchmarks", [" a ", "b,,c"], ("a", "b", "c")),
        ("providers", ["p@one", "p@two"], ("p@one", "p@two")),
        ("question_type", "single hop", ("single hop",)),
        ("question_type", ["1", "a, b"], ("1", "a, b")),
        ("judge_prompt", "temporal=when.txt", ("temporal=when.txt",)),
        ("set", "p.a=1", {"p.a": "1"}),
        ("set", ["p.a=1", "p.b = x=y "], {"p.a": "1", "p.b": "x=y"}),
        ("set", {"p.a": 1}, {"p.a": 1}),
        ("set", [], {}),
        ("label", ["team=red", "team=blue"], {"team": "blue"}),
        ("phases", "ingest,index", (Phase.INGEST, Phase.INDEX)),
        ("concurrency", "auto", "auto"),
        ("concurrency", 1, 1),
        ("max_time", "90", 90.0),
        ("max_time", "90s", 90.0),
        ("max_time", " 1.5h ", 5400.0),
        ("max_time", "2d", 172800.0),
        ("max_time", 7, 7.0),
        ("timeout", "15m", 900.0),
        ("metrics", "mrr, hit_at_5", (MetricChoice(name="mrr"), MetricChoice(name="hit_at_5"))),
        ("metrics", ["mrr hit_at_5"], (MetricChoice(name="mrr"), MetricChoice(name="hit_at_5"))),
        (
            "metrics",
            [{"name": "mrr", "breakdown": ["x"]}, "map"],
            (MetricChoice(name="mrr", breakdown=("x",)), MetricChoice(name="map")),
        ),
        ("shard", "2/8", "2/8"),
        ("run_id", "_a.B-9", "_a.B-9"),
        ("run_id", "a" * 100, "a" * 100),
        ("max_error_rate", 0, 0.0),
        ("max_error_rate", 1, 1.0),
    ],
)
def test_each_flag_parses_its_values(flag: str, given: object, value: object) -> None:
    assert getattr(of(**{flag: given}), flag) == value


NO_NAME = "expected a name, got an empty text; remove the flag or key to use the default"


@each_row(
    ("flags", "message"),
    [
        ({"set": ["novalue"]}, "--set: expected NAME=VALUE, got 'novalue'"),
        ({"label": ["a=1", "b"]}, "--label: expected NAME=VALUE, got 'b'"),
        ({"max_time": "soon"}, "--max-time: expected a time such as 90s, 15m or 6h, got 'soon'"),
        ({"max_time": "-5"}, "--max-time: expected a time such as 90s, 15m or 6h, got '-5'"),
        ({"max_time": "1w"}, "--max-time: expected a time such as 90s, 15m or 6h, got '1w'"),
        ({"max_time": "0"}, '--max-time must be greater than 0, not "0"'),
        ({"rate": ["p=fast"]}, "--rate: p=fast: expected a rate such as 50/s or 3000/m"),
        ({"rate": ["p=0/s"]}, "--rate: p=0/s: expected a rate such as 50/s or 3000/m"),
        ({"rate": ["p=5/h"]}, "--rate: p=5/h: expected a rate such as 50/s or 3000/m"),
        ({"rate": ["p=-1/s"]}, "--rate: p=-1/s: expected a rate such as 50/s or 3000/m"),
        ({"run_id": "../x"}, f"--run-id: {NO_RUN_ID}"),
        (
            {"run_id": "CON"},
            '--run-id: "CON" cannot be a file name on every system: it is a device name, or it ends with a dot',
        ),
        (
            {"run_id": "end."},
            '--run-id: "end." cannot be a file name on every system: it is a device name, or it ends with a dot',
        ),
        ({"run_id": ""}, f"--run-id: {NO_RUN_ID}"),
        ({"shard": "1/2", "start": 3}, "flags: --shard and --start/--end exclude each other: give one"),
        ({"shard": "1/2", "end": 3}, "flags: --shard and --start/--end exclude each other: give one"),
        ({"start": 5, "end": 2}, "flags: --end 2 is smaller than --start 5"),
        ({"k": 0}, "--k must be greater than or equal to 1, not 0"),
        ({"limit": "x"}, '--limit must be a whole number, not "x"'),
        ({"limit": True}, "--limit must be a whole number, not true"),
        ({"max_error_rate": True}, "--max-error-rate must be a number, not true"),
        ({"max_error_rate": 1.01}, "--max-error-rate must be less than or equal to 1, not 1.01"),
        ({"max_cost": 0}, "--max-cost must be greater than 0, not 0"),
        ({"isolation": "none"}, "--isolation must be 'off', 'probe' or 'full', not \"none\""),
        ({"benchmarks": ""}, f"--benchmarks: {NO_NAME}"),
        ({"providers": [" , "]}, f"--providers: {NO_NAME}"),
        ({"seed": 2**53}, "--seed must be less than or equal to 9007199254740991, not 9007199254740992"),
        ({"benchmarks": 5}, "--benchmarks must be a list, not 5"),
        ({"metrics": 5}, "--metrics must be a list, not 5"),
        ({"nonsense": 1}, "there is no --nonsense"),
        (
            {"limit": 0, "concurrency": 0},
            "--concurrency must be greater than or equal to 1, not 0\n"
            "error: --limit must be greater than or equal to 1, not 0",
        ),
    ],
)
def test_an_invalid_flag_is_a_UsageError_with_the_expected_form(flags: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        of(**flags)
    assert str(caught.value) == message


@each_row(("start", "end"), [(1, 1), (None, 3), (3, None), (2, 9)])
def test_a_range_may_be_open_or_a_single_item(start: int | None, end: int | None) -> None:
    request = of(start=start, end=end)
    assert (request.start, request.end) == (start, end)


def test_rates_are_converted_to_calls_per_second() -> None:
    assert of(rate=["a=50/s", "b.search=600/m", "c = 0.5 / s "]).rates_per_s() == {"a": 50, "b.search": 10, "c": 0.5}


def test_a_flag_that_is_not_given_keeps_the_value_below() -> None:
    below = of(k=7, seed=3, label=["a=1"])
    assert RunRequest.combine(below, {"k": None, "seed": 0, "label": None}) == of(k=7, seed=0, label=["a=1"])
    assert RunRequest.combine(below, {}) == below


def test_a_flag_that_is_not_given_stays_unset() -> None:
    """A resume uses it to distinguish a default from a choice."""
    assert RunRequest.combine(of(k=7), {"seed": None}).model_fields_set == {"k"}


@each_row(
    ("text", "found"),
    [
        (
            "concurency: 3\n",
            'nightly.yaml:1:1: unknown field "concurency"; did you mean "concurrency"?',
        ),
        ("maxTime: soon\n", "nightly.yaml:1:1: maxTime: expected a time such as 90s, 15m or 6h, got 'soon'"),
        ("rate: {p: fast}\n", "nightly.yaml:1:1: rate: p=fast: expected a rate such as 50/s or 3000/m"),
        (
            "metrics: [{name: x, configs: {}}]\n",
            'nightly.yaml:1:21: unknown field "configs" in metrics[0]; did you mean "config"?',
        ),
        ("shard: half\n", 'nightly.yaml:1:1: shard: "half" is not a shard: expected i/n, for example 1/4'),
        ("start: 5\nend: 2\n", "nightly.yaml:1:1: --end 2 is smaller than --start 5"),
    ],
)
def test_an_error_in_a_run_file_points_to_its_line(text: str, found: str) -> None:
    assert [message for message, _ in refused(text)] == [found]


def test_keys_of_a_run_file_may_have_either_spelling() -> None:
    one = file("answering_model: builtin/extractive\nmax_time: 6h\ncontextBudget: 100\n")
    two = file("answeringModel: [builtin/extractive]\nmaxTime: 21600\ncontext_budget: 100\n")
    assert one == two and one.answering_model == ("builtin/extractive",)


@pytest.mark.parametrize("role", ["answering", "judge"])
def test_model_keys_of_a_run_file_may_be_plural(role: str) -> None:
    keys = (f"{role}_model", f"{role}Model", f"{role}_models", f"{role}Models")
    requests = [file(f"{key}: [openai/a, openai/b]\n") for key in keys]
    assert {getattr(one, f"{role}_model") for one in requests} == {("openai/a", "openai/b")}
    assert len({one.model_dump_json(exclude_unset=True) for one in requests}) == 1
    assert [message for message, _ in refused(f"{keys[2]}: [openai/a]\nk: 3\n{keys[1]}: [openai/b]\n")] == [
        f'nightly.yaml:3:1: "{keys[1]}" and "{keys[2]}" are the same field'
    ]
    assert [message for message, _ in refused(f"k: 3\n{keys[3]}: 5\n")] == [
        f"nightly.yaml:2:1: {keys[3]} must be a list, not 5"
    ]


@pytest.mark.parametrize("key", ["no_circuit_breaker", "noCircuitBreaker"])
def test_no_circuit_breaker_is_a_key_of_a_run_file(key: str) -> None:
    assert file(f"{key}: true\n").circuit_breaker is False
    assert file(f"{key}: false\n") == file("circuit_breaker: true\n")
    assert [message for message, _ in refused(f"circuitBreaker: true\n{key}: true\n")] == [
        f'nightly.yaml:2:1: "circuitBreaker" and "{key}" exclude each other'
    ]
    ((message, _),) = refused(f"k: 2\n{key}: maybe\n")
    assert message.startswith(f'nightly.yaml:2:1: unknown field "{key}"')


def test_a_run_file_accepts_the_name_of_every_flag() -> None:
    from dataclasses import fields

    from bench.cli.flags import RunFlags
    from bench.config.file import keys_of
    from bench.config.run import NO_BREAKER

    keys = {key for name, info in RunRequest.model_fields.items() for key in keys_of(name, info)} | set(NO_BREAKER)
    flags = {one.name.rstrip("_") for one in fields(RunFlags)} | {"answering_models", "judge_models"}
    assert flags - keys == {"config", "dry_run", "resume"}, "these change the command, not the run"


@pytest.mark.parametrize("name", ["model-comparison", "provider-comparison"])
def test_the_shipped_run_files_load(root: Path, name: str) -> None:
    request = load(Source.read(root / "configs" / "runs" / f"{name}.yaml"), RunRequest)
    assert request.benchmarks and request.providers


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "benchmarks": st.lists(st.from_regex(r"[a-z]{1,5}", fullmatch=True), max_size=3),
        "k": st.integers(1, 100),
        "seed": st.integers(-5, 5),
        "set": st.dictionaries(
            st.from_regex(r"[a-z]\.[a-z]", fullmatch=True), st.integers() | st.text(max_size=4), max_size=2
        ),
        "max_time": st.sampled_from(["6h", "15m", 3.5]),
        "phases": st.sampled_from(["ingest", "ingest,index", list(Phase)]),
        "metrics": st.sampled_from(["mrr", ["mrr", "map"], [{"name": "x", "config": {"a": 1}}]]),
        "concurrency": st.sampled_from([1, "auto"]),
        "question_type": st.lists(st.text(min_size=1, max_size=5), max_size=2),
    },
)


@given(VALUES)
def test_a_stored_request_has_the_same_values_and_set_fields(values: dict[str, object]) -> None:
    request = of(**values)
    stored = request.model_dump(mode="json", exclude_unset=True)
    again = RunRequest.model_validate(stored)
    assert again == request and again.model_fields_set == request.model_fields_set


@given(VALUES, VALUES)
def test_flags_override_a_file_key_by_key(below: dict[str, object], above: dict[str, object]) -> None:
    assert RunRequest.combine(of(**below), above) == of(**{**below, **above})


def test_a_new_run_id_begins_with_its_date() -> None:
    assert new_run_id(date(2026, 11, 7), "4f9c0a1b") == "20261107-4f9c0a1b"
    assert of(run_id=new_run_id(date(2026, 11, 7), "4f9c0a1b")).run_id is not None
