"""The run request: all flags of ``bench run``. A file ``configs/runs/NAME.yaml`` can also set these flags.

`Experiment` has the flags that can change a result. They are part of the plan's digest and must not change on resume.
`Operation` has all other flags. They may change on resume and are recorded.

Example::

    benchmarks: [locomo]
    providers: [bm25, chroma@big]
    set: {"chroma@big.ingest.batch.max_items": 200}
    answering_model: openai/gpt-4o-mini
    concurrency: 20
    max_cost: 5

A key is the name of a flag. A flag on the command line takes precedence over the same key in the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from bench.config.file import BOTH_SPELLINGS, ConfigModel
from bench.config.model import ModelSettings
from bench.config.traffic import Prices, TokenPrices
from bench.config.value_rules import check_run_id
from bench.errors import UsageError
from bench.model import Phase

DEFAULT_CONCURRENCY = 10
DEFAULT_MAX_ERROR_RATE = 0.02
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
NO_BREAKER = ("no_circuit_breaker", "noCircuitBreaker")
_SHARD = r"^\d+/\d+$"


def _cores(value: object) -> object:
    """Convert ``auto`` to the number of cores that this process can use. Return any other value unchanged."""
    if value != "auto":
        return value
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


LARGEST_SEED = 2**53 - 1
"""the largest seed: the largest integer that every JSON parser reads exactly"""


def _words(value: object) -> object:
    """Split a text, or each text of a list, at commas and white space: ``["a,b", "c"]`` gives a, b, c."""
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list | tuple):
        return entries
    parted = (re.split(r"[,\s]+", entry) if isinstance(entry, str) else (entry,) for entry in entries)
    found = tuple(part for parts in parted for part in parts if part != "")
    if entries and not found:  # a variable of a shell that is not set; left out, the default would be taken
        raise ValueError("expected a name, got an empty text; remove the flag or key to use the default")
    return found


def _ids(value: object) -> object:
    """Convert a single text to a tuple. The texts are not split, because an id may contain commas and white space."""
    return _texts(value) if _words(value) else value


def _texts(value: object) -> object:
    """Convert a single text or number to a tuple. Return any other value unchanged."""
    return (value,) if isinstance(value, str | int) else value


def _pairs(value: object) -> object:
    """Convert ``"a=1"`` or ``["a=1", "b=2"]`` to a dict. Return any other value unchanged."""
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list | tuple):
        return entries
    parted = [str(entry).partition("=") for entry in entries]
    wrong = [str(entry) for entry, part in zip(entries, parted, strict=True) if not part[1]]
    if wrong:
        raise ValueError(f"expected NAME=VALUE, got {wrong[0]!r}")
    return {name.strip(): text.strip() for name, _, text in parted}


def _seconds(value: object) -> object:
    """Convert a time such as ``90``, ``"90s"``, ``"15m"``, ``"6h"`` or ``"2d"`` to seconds."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value)
    if found is None:
        raise ValueError(f"expected a time such as 90s, 15m or 6h, got {value!r}")
    return float(found[1]) * _UNITS[found[2]]


def _cutoffs(value: object) -> object:
    """Convert one or more numbers to a tuple without duplicates. A text can have several numbers, as in ``"5,10"``."""
    if value is None:
        return ()
    parts = _words(value) if isinstance(value, str | list | tuple) else (value,)
    return tuple(dict.fromkeys(parts)) if isinstance(parts, tuple) else parts


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Ids = Annotated[tuple[str, ...], BeforeValidator(_ids)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Pairs = Annotated[Mapping[str, object], BeforeValidator(_pairs)]
LONGEST_WAIT_S = 7 * 86400.0
LONGEST_RUN_S = 366 * 86400.0
MOST_EPOCHS = 1000
MOST_IN_FLIGHT = 10_000
MOST_HITS = 10_000
MOST_SHARDS = 10_000
MOST_WORKERS = 64
LONGEST_SHARD = 19


def _time_schema(longest_s: float) -> WithJsonSchema:
    number = {"type": "number", "exclusiveMinimum": 0, "maximum": longest_s}
    return WithJsonSchema({"anyOf": [number, {"type": "string"}]})


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=LONGEST_WAIT_S), _time_schema(LONGEST_WAIT_S)]
RunTime = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=LONGEST_RUN_S), _time_schema(LONGEST_RUN_S)]
Processes = Annotated[
    int,
    BeforeValidator(_cores),
    Field(ge=1, le=MOST_WORKERS),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_WORKERS}, {"const": "auto"}]}),
]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Epochs = Annotated[int, Field(ge=1, le=MOST_EPOCHS)]
Cutoff = Annotated[int, Field(ge=1, le=MOST_HITS)]
CUTOFF_SCHEMA = {"type": "integer", "minimum": 1, "maximum": MOST_HITS}
Cutoffs = Annotated[
    tuple[Cutoff, ...],
    BeforeValidator(_cutoffs),
    WithJsonSchema({"anyOf": [CUTOFF_SCHEMA, {"type": "array", "items": CUTOFF_SCHEMA}], "default": []}),
]
InFlight = Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)]


def singular_and_plural(plural: str) -> AliasChoices:
    """Return the keys that a file can use for a flag, in singular and plural: ``judgeModel``, ``judge_models``."""
    return AliasChoices(to_camel(plural[:-1]), plural, to_camel(plural))


class MetricChoice(ConfigModel):
    """One entry of ``metrics``: a name, or an object with a name and options."""

    name: str
    """name or alias of a metric, as bench list metrics shows it"""
    method: str | None = None
    """the evaluator whose verdicts the metric reads"""
    config: Mapping[str, object] = Field(default_factory=dict)
    """parameters of the metric"""
    breakdown: tuple[str, ...] = ()
    """properties of items by which the metric is also grouped: question_type, or a metadata key"""
    evaluator: str | None = None
    """./file.py:Class of a custom metric or evaluator"""

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value


class Experiment(ConfigModel):
    """The flags that can change a result; they are part of the plan's digest."""

    benchmarks: Words = ()
    """names of benchmarks; unset: the benchmark demo"""
    providers: Words = ()
    """names of providers, or of variants ``name@label``; unset: the built-in providers that need no key"""
    set: Pairs = Field(default_factory=dict)
    """``PROVIDER.path`` -> value that replaces the value at ``path`` in the config of this provider or variant"""
    limit: Count | None = None
    sample: Count | None = None
    per_type: bool = False
    items: Ids = ()
    items_of: Ids = ()
    question_type: Texts = ()
    answering_model: Words = Field(default=(), validation_alias=singular_and_plural("answering_models"))
    """answering models, each in its own job. none: retrieval only; unset: the model of the benchmark. The key can also
    be ``answering_models``"""
    judge_model: Words = Field(default=(), validation_alias=singular_and_plural("judge_models"))
    """judge models, each in its own job. none: no judge; unset: the model of the benchmark. The key can also be
    ``judge_models``"""
    embedding_model: str | None = None
    models: Mapping[str, ModelSettings] = Field(default_factory=dict)
    """full model name such as ``vllm/qwen3-8b`` -> its settings, with the same keys as under ``models`` in a model
    file"""
    max_answer_tokens: Count | None = None
    """maximum tokens of an answer, reasoning included"""
    max_judge_tokens: Count | None = None
    """maximum tokens of a judge's reply, reasoning included"""
    answer_prompt: str | None = None
    """text of the answer prompt, ``@file``, or the name of an existing file"""
    judge_prompt: Texts = ()
    """text of the judge prompt, ``@file``, or the name of an existing file; ``TYPE=FILE`` for one question type"""
    k: Cutoffs = ()
    """number of hits to request; several numbers: one job per number, one ingest for all; unset: the benchmark's
    number"""
    context_budget: Count | None = None
    """maximum tokens of retrieved context in an answer prompt"""
    epochs: Epochs = 1
    epochs_reducer: Literal["mean", "mode", "max"] | None = None
    """rule to combine the values of an item's epochs: mean, mode or max"""
    seed: Annotated[int, Field(ge=-LARGEST_SEED, le=LARGEST_SEED)] = 0
    metrics: tuple[MetricChoice, ...] = ()
    evaluators: Words = ()
    """evaluators that replace those of the benchmark; the first evaluator decides whether an answer is right"""
    prices: Prices = Field(default_factory=dict)
    """name of a provider -> USD per add call and per search call; full name of a model, such as ``openai/gpt-4o-mini``
    -> ``{input, output}``, USD per million tokens"""
    track: Literal["uniform", "vendor"] = "uniform"
    """uniform: all providers have the same answer prompt; vendor: each provider has its own answer prompt. Results of
    the two tracks are never in one table"""
    allow_code_execution: bool = False

    @property
    def token_prices(self) -> dict[str, dict[str, Decimal]]:
        """Return model name -> token prices in USD per million tokens."""
        return {name: one.known for name, one in self.prices.items() if isinstance(one, TokenPrices)}

    @field_serializer("k")
    def _one_number(self, value: tuple[int, ...]) -> int | list[int]:
        return value[0] if len(value) == 1 else list(value)

    @field_validator("metrics", mode="before")
    @classmethod
    def _one_metric(cls, value: object) -> object:
        return _words(value)


def _shard(value: str) -> str:
    if re.fullmatch(_SHARD, value) is None:
        raise ValueError(f'"{value}" is not a shard: expected i/n, for example 1/4')
    if len(value) > LONGEST_SHARD:
        raise ValueError(
            f'"{value[:LONGEST_SHARD]}..." is not a shard: expected i/n with at most nine digits in each number'
        )
    return value


class Operation(ConfigModel):
    """The flags that never change a result. They may change on resume and are recorded."""

    start: Count | None = None
    end: Count | None = None
    shard: Annotated[str, AfterValidator(_shard), Field(json_schema_extra={"pattern": _SHARD})] | None = None
    phases: tuple[Phase, ...] = tuple(Phase)
    concurrency: InFlight | Literal["auto"] = DEFAULT_CONCURRENCY
    ingest_concurrency: InFlight | None = None
    rate: Pairs = Field(default_factory=dict)
    """provider ``NAME``, or only its calls ``NAME.add`` or ``NAME.search`` -> a rate such as ``50/s`` or ``600/m``"""
    timeout: Seconds | None = None
    """maximum time of one attempt of a call: seconds, or a text such as ``90s``"""
    item_timeout: Seconds | None = None
    """maximum time of all phases of one item: seconds, or a text such as ``15m``"""
    isolation: Literal["off", "probe", "full"] = "probe"
    cleanup: Literal["corpus", "run", "never"] = "corpus"
    reuse_build: str = "never"
    """a run id: search the memories of the run with this id, without a new ingest; auto: search the memories of the
    newest matching run; never: always ingest"""
    circuit_breaker: bool = True
    """true: a job stops if its first 20 searches return no hits, or if its first 10 items fail with the same error
    about a wrong request. ``false``, or the key ``no_circuit_breaker: true``: such a job continues"""
    max_error_rate: Annotated[float, Field(ge=0, le=1)] = DEFAULT_MAX_ERROR_RATE
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """maximum USD that a run may cost"""
    max_time: RunTime | None = None
    min_score: Pairs = Field(default_factory=dict)
    """metric -> value: exit 4 if the metric of a job is below this value"""
    run_id: str | None = None
    label: Pairs = Field(default_factory=dict)
    """key -> value, stored with the run"""
    note: str | None = None
    sign: bool = False
    key: str | None = None
    on_end: str | None = None
    download: bool = False
    publishable: bool = False
    judge_calibration: bool = False
    output: str | None = None
    batch: bool = False
    """true: answers and verdicts use the batch endpoints of the models, which are cheaper but can take up to a day"""
    cache: Literal["read", "write", "readwrite"] | None = None
    """read: reuse model replies of earlier runs of this workspace; write: store replies for later runs; readwrite:
    both"""
    workers: Processes | None = None
    """number of processes on this machine that share the run; auto: one per core"""
    cluster: str | None = None
    shards: Annotated[int, Field(ge=1, le=MOST_SHARDS)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _resolve_flag_alias(cls, value: object) -> object:
        """Convert ``no_circuit_breaker``, the name of the flag, to ``circuit_breaker``."""
        key = next((key for key in NO_BREAKER if isinstance(value, Mapping) and isinstance(value.get(key), bool)), None)
        if key is None or not isinstance(value, Mapping):
            return value
        rest = {name: one for name, one in value.items() if name != key}
        other = next((name for name in ("circuit_breaker", "circuitBreaker", *NO_BREAKER) if name in rest), None)
        if other is not None:
            text = '"{alias}" and "{name}" exclude each other'
            raise PydanticCustomError(BOTH_SPELLINGS, text, {"alias": other, "name": key})
        return {**rest, "circuit_breaker": not value[key]}

    @field_validator("phases", mode="before")
    @classmethod
    def _some_phases(cls, value: object) -> object:
        return _words(value)

    @field_validator("rate")
    @classmethod
    def _readable_rates(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        for name, text in value.items():
            _per_second(name, text)
        return value

    @field_validator("run_id")
    @classmethod
    def _safe_segment(cls, value: str | None) -> str | None:
        return value if value is None else check_run_id(value)

    @model_validator(mode="after")
    def _no_deadline_of_a_batch(self) -> Self:
        if self.batch and self.item_timeout is not None:
            raise ValueError("--item-timeout cannot be combined with --batch, because a batch may take a day")
        return self

    @model_validator(mode="after")
    def _one_way_to_spread(self) -> Self:
        if self.workers is not None and self.cluster is not None:
            raise ValueError("--workers is for one machine, --cluster for several: give one of them")
        return self

    @model_validator(mode="after")
    def _one_range(self) -> Self:
        if self.shard is not None and (self.start or self.end):
            raise ValueError("--shard and --start/--end exclude each other: give one")
        if self.start and self.end and self.end < self.start:
            raise ValueError(f"--end {self.end} is smaller than --start {self.start}")
        return self

    def rates_per_s(self) -> dict[str, float]:
        """Return name -> requests per second, for each entry of ``rate``."""
        return {name: _per_second(name, text) for name, text in self.rate.items()}


class RunRequest(Experiment, Operation):
    """All flags of one run."""

    @classmethod
    def combine(cls, below: RunRequest | None, flags: Mapping[str, object]) -> RunRequest:
        """Return a run request that combines ``below`` with ``flags``.

        ``below`` is a run file or an earlier request. A flag that is not None takes precedence.

        Raises:
            UsageError: a value is invalid.
        """
        given = {name: value for name, value in flags.items() if value is not None}
        base = below.model_dump(exclude_unset=True) if below is not None else {}
        try:
            return cls.model_validate({**base, **given})
        except ValidationError as error:
            from bench.config.file import flag_message

            first_of_each = {found["loc"][:1]: found for found in reversed(error.errors())}
            raise UsageError("\nerror: ".join(map(flag_message, reversed(first_of_each.values())))) from error

    def operation(self) -> dict[str, object]:
        """Return the flags of `Operation` as JSON data. They never change a result."""
        return self.model_dump(mode="json", include=set(Operation.model_fields))


def _per_second(name: str, value: object) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|m)\s*", str(value))
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{name}={value}: expected a rate such as 50/s or 3000/m")
    return float(found[1]) / _UNITS[found[2]]


def new_run_id(today: date, entropy: str) -> str:
    """Return a run id such as ``20261127-4f9c0a1b``. It is unique if ``entropy`` is unique."""
    return f"{today:%Y%m%d}-{entropy}"
