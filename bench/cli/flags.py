"""The flags of ``bench run`` as one flat record; ``plan``, ``eval`` and ``resume`` take the same.

A flag that was not given is None, so that a run file or an earlier run can fill it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, Token

from bench.errors import UsageError

Many = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]
Maybe = Annotated[str | None, Parameter()]


def spread(given: Sequence[str] | None) -> list[str]:
    """The words of a list flag, whose values may also be parted by commas."""
    return [word for text in given or () for word in text.split(",") if word]


def whole_number(_type: object, tokens: Sequence[Token]) -> int:
    """Read a number as it is written: the parser's own reading rounds 1.5."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f'"{tokens[0].value}" is no whole number') from None


Whole = Annotated[int | None, Parameter(converter=whole_number)]
Switch = Annotated[bool | None, Parameter(negative=())]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SelectionFlags:
    """Which items; filters apply after the range, then the sample, then the limit."""

    limit: Whole = None
    """the first N items that are left"""
    sample: Whole = None
    """N items, seeded and stratified by type"""
    per_type: Switch = None
    """with --sample: N of each type"""
    start: Whole = None
    """first position of the range, 1-based"""
    end: Whole = None
    """last position of the range, inclusive"""
    shard: Maybe = None
    """i/n: the i-th of n equal ranges"""
    items: Many = None
    """item ids"""
    items_of: Many = None
    """corpus ids: all items of them"""
    question_type: Many = None
    """question types"""
    seed: Whole = None
    """seed of samples, random baselines and models"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags(SelectionFlags):
    """Everything ``bench run`` takes."""

    benchmarks: Many = None
    """names; none = the embedded demo"""
    providers: Many = None
    """names, or variants NAME@LABEL; none = the key-less built-ins"""
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None
    """run file with any of these flags, also prices: and metrics:"""
    set_: Annotated[list[str] | None, Parameter(name="--set", consume_multiple=True, negative=())] = None
    """PROVIDER.path=VALUE: one config value"""
    concurrency: Maybe = None
    """requests in flight over all endpoints, or auto"""
    ingest_concurrency: Whole = None
    """corpora ingested at once"""
    rate: Many = None
    """NAME[.add|.search]=R/s or R/m"""
    answering_model: Annotated[
        list[str] | None,
        Parameter(name=["--answering-model", "--answering-models"], consume_multiple=True, negative=()),
    ] = None
    """models, none, or builtin/extractive"""
    judge_model: Annotated[
        list[str] | None, Parameter(name=["--judge-model", "--judge-models"], consume_multiple=True, negative=())
    ] = None
    """models, or none"""
    embedding_model: Maybe = None
    """for providers that take vectors"""
    max_answer_tokens: Whole = None
    """tokens of an answer, reasoning included"""
    max_judge_tokens: Whole = None
    """tokens of a verdict, reasoning included"""
    answer_prompt: Maybe = None
    """file or text"""
    judge_prompt: Many = None
    """file or text; TYPE=FILE for one question type"""
    k: Annotated[int | None, Parameter(name=["-k", "--k"], converter=whole_number)] = None
    """hits asked for"""
    context_budget: Whole = None
    """tokens of context in an answer prompt"""
    epochs: Whole = None
    """repeats of each item"""
    metrics: Many = None
    """replace the benchmark's list"""
    phases: Many = None
    """stop after: ingest,index,search,answer,evaluate"""
    track: Maybe = None
    """uniform or vendor"""
    isolation: Maybe = None
    """off, probe or full"""
    cleanup: Maybe = None
    """corpus, run or never"""
    no_circuit_breaker: Switch = None
    """go on when the first 20 items find nothing"""
    max_error_rate: float | None = None
    """above it a job is INVALID (0.02)"""
    max_cost: float | None = None
    """USD that the run may cost over all its resumes; stops cleanly, exit 3"""
    max_time: Maybe = None
    """for example 6h, of this process; stops cleanly, exit 3"""
    timeout: Maybe = None
    """seconds, one attempt of one call"""
    item_timeout: Maybe = None
    """seconds, one item's phases together"""
    run_id: Maybe = None
    """name of the new run"""
    resume: Maybe = None
    """run id, journal file or run folder to go on with"""
    label: Many = None
    """K=V, kept with the run"""
    note: Maybe = None
    """text, kept with the run"""
    sign: Switch = None
    """sign receipts when the report is durable"""
    key: Maybe = None
    """signing key for --sign"""
    on_end: Maybe = None
    """command started when the run has ended"""
    download: Switch = None
    """fetch missing datasets first"""
    publishable: Switch = None
    """register the run in the public log first"""
    judge_calibration: Switch = None
    """measure the judge's own errors first"""
    allow_code_execution: Switch = None
    """let code-correctness run answers"""
    output: Maybe = None
    """folder for reports instead of results/"""
    cluster: Maybe = None
    """dask scheduler address, or local:N"""
    shards: Whole = None
    """tasks for --cluster"""
    min_score: Many = None
    """METRIC=V: exit 4 below it"""


NOT_IN_REQUEST = frozenset({"config", "resume", "set_", "no_circuit_breaker"})


def given(flags: SelectionFlags) -> dict[str, object]:
    """The flags that stood on the command line, under the names of a run file.

    Raises:
        UsageError: a list flag without a value.
    """
    found: dict[str, object] = {}
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
        raise UsageError(f"{flag} {text}: a whole number or auto") from None
