"""The flags of ``bench run`` as one record. ``plan``, ``eval`` and ``resume`` accept the same flags.

A flag that was not given is None. Then a run file or an earlier run can set its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter, Token

from bench.cli import console
from bench.cli.global_flags import current
from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.untyped_values import Json


def has_value(_type: object, values: object) -> None:
    """Raise ValueError if a flag that takes a list was given without a value."""
    if values == []:
        raise ValueError("needs a value")


SEVERAL = Parameter(consume_multiple=True, negative=(), validator=has_value)
Many = Annotated[list[str] | None, SEVERAL]
Maybe = Annotated[str | None, Parameter()]


def split_values(given: Sequence[str] | None) -> list[str]:
    """Return the values of a flag that takes a list. A given text can contain several values, separated by commas."""
    return [word for text in given or () for word in text.split(",") if word]


def whole_number(_type: object, tokens: Sequence[Token]) -> int:
    """Parse an integer. A value such as 1.5 is an error, although the flag parser itself would round it."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f'"{tokens[0].value}" is not a whole number') from None


def whole_numbers(_type: object, tokens: Sequence[Token]) -> list[int]:
    """Parse a list of integers. A text can contain several integers, separated by commas."""
    parts = [token.evolve(value=part) for token in tokens for part in token.value.split(",") if part]
    return [whole_number(int, [part]) for part in parts]


Whole = Annotated[int | None, Parameter(converter=whole_number)]
Switch = Annotated[bool | None, Parameter(negative=())]
Toggle = Annotated[bool, Parameter(negative=())]


ITEMS = Group("Which items", sort_key=2)
WHAT = Group("What to measure", sort_key=1)
MODELS = Group("Models and prompts", sort_key=3)
METHOD = Group("Method", sort_key=4)
LIMITS = Group("Speed and limits", sort_key=5)
ABOUT = Group("The run and its output", sort_key=6)


@Parameter(name="*", group=ITEMS)
@dataclass(frozen=True, kw_only=True)
class SelectionFlags:
    """The selection of items, applied in this order: range, filters, sample, limit."""

    limit: Whole = None
    """at most N items: the first N that the other flags select (default: all)"""
    sample: Whole = None
    """N random items (--seed), with the same share of each question type as in the data"""
    per_type: Switch = None
    """with --sample: N items of each question type"""
    start: Whole = None
    """position of the first item to run, counted from 1"""
    end: Whole = None
    """position of the last item to run"""
    shard: Maybe = None
    """i/n: the i-th of n equal ranges of the items, for example 1/4"""
    items: Annotated[Many, Parameter(name=["--items", "--item"], validator=())] = None
    """ids of the items to run; a text that is not an id itself is split at commas and spaces"""
    items_of: Many = None
    """ids of corpora: run all items of these corpora"""
    question_type: Annotated[Many, Parameter(name=["--question-type", "--question-types"])] = None
    """only items of these question types"""
    seed: Whole = None
    """seed of samples, random baselines and models (default: 0)"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags(SelectionFlags):
    """All flags of ``bench run``."""

    benchmarks: Annotated[Many, Parameter(name=["--benchmarks", "--benchmark"], group=WHAT)] = None
    """names of benchmarks (default: demo)"""
    providers: Annotated[Many, Parameter(name=["--providers", "--provider"], group=WHAT)] = None
    """names of providers, or variants NAME@LABEL (default: the built-in providers that need no key)"""
    config: Annotated[Path | None, Parameter(name=["--config", "-c"], group=WHAT)] = None
    """run file: a YAML file with any of these settings, and with prices: and metrics:"""
    set_: Annotated[Many, Parameter(name="--set", group=WHAT)] = None
    """PROVIDER.path=VALUE: replace one value of a provider's config"""
    dry_run: Annotated[Switch, Parameter(group=WHAT)] = None
    """show the plan (items, calls, tokens, cost, time) and call nothing, as bench plan does"""
    download: Annotated[Switch, Parameter(group=WHAT)] = None
    """download missing datasets first"""
    answering_model: Annotated[
        Many, Parameter(name=["--answering-model", "--answering-models", "--model"], group=MODELS)
    ] = None
    """models that answer, or none; builtin/extractive needs no key (default: the benchmark's)"""
    judge_model: Annotated[Many, Parameter(name=["--judge-model", "--judge-models"], group=MODELS)] = None
    """models that judge, or none (default: the benchmark's)"""
    embedding_model: Annotated[Maybe, Parameter(group=MODELS)] = None
    """model for providers that need vectors, for example ollama/nomic-embed-text (default: the provider's)"""
    max_answer_tokens: Annotated[Whole, Parameter(group=MODELS)] = None
    """maximum tokens of an answer, including reasoning"""
    max_judge_tokens: Annotated[Whole, Parameter(group=MODELS)] = None
    """maximum tokens of a judge's reply, including reasoning"""
    answer_prompt: Annotated[Maybe, Parameter(group=MODELS)] = None
    """answer prompt: file or text"""
    judge_prompt: Annotated[Many, Parameter(group=MODELS)] = None
    """judge prompt: file or text; TYPE=FILE for one question type"""
    judge_calibration: Annotated[Switch, Parameter(group=MODELS)] = None
    """measure the judge's errors first, with answers whose verdict is known"""
    k: Annotated[
        list[int] | None,
        Parameter(name=["-k", "--k"], consume_multiple=True, negative=(), converter=whole_numbers, group=METHOD),
    ] = None
    """maximum memories per search; several values: one job per value, one ingest for all (default: the benchmark's)"""
    context_budget: Annotated[Whole, Parameter(group=METHOD)] = None
    """maximum tokens of context in an answer prompt (default: the benchmark's)"""
    epochs: Annotated[Whole, Parameter(group=METHOD)] = None
    """repeats of each item (default: 1)"""
    metrics: Annotated[Many, Parameter(name=["--metrics", "--metric"], group=METHOD)] = None
    """metrics to compute instead of the benchmark's list"""
    phases: Annotated[Many, Parameter(name=["--phases", "--phase"], group=METHOD)] = None
    """run only these phases: ingest, index, search, answer, evaluate (default: all)"""
    track: Annotated[Literal["uniform", "vendor"] | None, Parameter(group=METHOD)] = None
    """vendor: use the provider's own answer prompt (default: uniform)"""
    isolation: Annotated[Literal["off", "probe", "full"] | None, Parameter(group=METHOD)] = None
    """check that no corpus sees the memories of another one; full: with one more search per corpus (default: probe)"""
    cleanup: Annotated[Literal["corpus", "run", "never"] | None, Parameter(group=METHOD)] = None
    """clear memories after each corpus, after the run, or never (default: corpus)"""
    reuse_build: Annotated[Maybe, Parameter(group=METHOD)] = None
    """RUN, auto or never: search the memories that an earlier run ingested and kept (default: never)"""
    allow_code_execution: Annotated[Switch, Parameter(group=METHOD)] = None
    """allow the evaluator code-correctness to execute answers"""
    concurrency: Annotated[Maybe, Parameter(group=LIMITS)] = None
    """requests in flight over all endpoints, or auto (default: 10)"""
    ingest_concurrency: Annotated[Whole, Parameter(group=LIMITS)] = None
    """corpora ingested at the same time (default: --concurrency)"""
    rate: Annotated[Many, Parameter(group=LIMITS)] = None
    """NAME[.add|.search]=R/s or R/m: rate limit of a provider or model"""
    max_cost: Annotated[float | None, Parameter(group=LIMITS)] = None
    """maximum USD of the run, including resumes; at this cost the run stops cleanly with exit 3"""
    max_time: Annotated[Maybe, Parameter(group=LIMITS)] = None
    """maximum time of this process: seconds, or a text such as 6h; then the run stops cleanly with exit 3"""
    max_error_rate: Annotated[float | None, Parameter(group=LIMITS)] = None
    """a job with a larger share of failed items is INVALID (default: 0.02)"""
    timeout: Annotated[Maybe, Parameter(group=LIMITS)] = None
    """maximum time of one attempt of a call: seconds, or for example 90s"""
    item_timeout: Annotated[Maybe, Parameter(group=LIMITS)] = None
    """maximum time of all phases of an item: seconds, or for example 15m"""
    no_circuit_breaker: Annotated[Switch, Parameter(group=LIMITS)] = None
    """continue even if the first 20 searches return nothing, or the first 10 items fail with the same error"""
    batch: Annotated[Switch, Parameter(group=LIMITS)] = None
    """request answers and verdicts from the batch endpoints of models; replies cost about half, but can take a day"""
    cache: Annotated[Literal["read", "write", "readwrite"] | None, Parameter(group=LIMITS)] = None
    """reuse model replies of earlier runs of this workspace (read), store new replies (write), or both"""
    workers: Annotated[Maybe, Parameter(group=LIMITS)] = None
    """number of worker processes on this machine, or auto (one per core); each gets whole corpora"""
    cluster: Annotated[Maybe, Parameter(group=LIMITS)] = None
    """address of a dask scheduler, or local:N for N workers on this machine"""
    shards: Annotated[Whole, Parameter(group=LIMITS)] = None
    """number of parts into which --cluster divides the items"""
    run_id: Annotated[Maybe, Parameter(group=ABOUT)] = None
    """name of the new run"""
    resume: Annotated[Maybe, Parameter(group=ABOUT)] = None
    """run id, journal file or run folder to continue"""
    label: Annotated[Many, Parameter(name=["--label", "--labels"], group=ABOUT)] = None
    """KEY=VALUE, stored with the run"""
    note: Annotated[Maybe, Parameter(group=ABOUT)] = None
    """text, stored with the run"""
    output: Annotated[Maybe, Parameter(group=ABOUT)] = None
    """folder for reports (default: results/)"""
    min_score: Annotated[Many, Parameter(group=ABOUT)] = None
    """METRIC=VALUE: exit 4 if the metric of a job is below VALUE"""
    on_end: Annotated[Maybe, Parameter(group=ABOUT)] = None
    """command to run when the run has ended, with BENCH_RUN_ID and BENCH_EXIT_CODE in its environment"""
    sign: Annotated[Switch, Parameter(group=ABOUT)] = None
    """sign receipts after the report is written"""
    key: Annotated[Maybe, Parameter(group=ABOUT)] = None
    """private key file for --sign"""
    publishable: Annotated[Switch, Parameter(group=ABOUT)] = None
    """announce the run in the public log before its first call"""


NOT_IN_REQUEST = frozenset({"config", "resume", "set_", "no_circuit_breaker", "dry_run"})


def given_flags(flags: SelectionFlags) -> Json:
    """Return the flags that were given on the command line, under the names of a run file.

    Raises:
        UsageError: a list flag has no value.
    """
    found: Json = {}
    for field in fields(flags):
        value = getattr(flags, field.name)
        if value == []:
            raise UsageError(f"--{field.name.strip('_').replace('_', '-')} needs a value")
        if value is not None and field.name not in NOT_IN_REQUEST:
            found[field.name] = value
    if isinstance(flags, RunFlags):
        if flags.set_ is not None:
            found["set"] = flags.set_
        if flags.no_circuit_breaker:
            found["circuit_breaker"] = False
        if flags.concurrency is not None and flags.concurrency != "auto":
            found["concurrency"] = _whole(flags.concurrency, "--concurrency")
    return found


def _whole(text: str, flag: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{flag} {text} is not valid: expected a whole number or auto") from None


def run_or_newest(run_id: str | None) -> str:
    """Return ``run_id``. If it is empty, return the newest run of the workspace, and print a note on stderr.

    Raises:
        UsageError: no run is named, and the workspace has no run.
    """
    from bench.journal.paths import run_ids

    if run_id:
        return run_id
    newest = next(iter(run_ids(current.get().workspace)), None)
    if newest is None:
        raise UsageError("this workspace has no run yet", hint="start a run with: bench run")
    console.note(f"run {newest} (the newest run; list all runs with: bench list runs)")
    return newest
