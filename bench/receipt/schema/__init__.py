"""What a receipt says, field by field: the closed schema ``bench.receipt/1``.

    receipt = read_receipt(parse(data))
    receipt.scores.deterministic["recall_at_10"].value

Field names here are snake_case, outside they are camelCase. ``| None`` = may be null; every field must be there.
Hex is lower case, times are UTC, durations are microseconds, money is micro-USD.
"""

from __future__ import annotations

from bench.receipt.schema.place import Environment, Git
from bench.receipt.schema.receipt import (
    SCHEMA,
    Body,
    PerQuery,
    Receipt,
    Reproducibility,
    Signature,
    SignedReceipt,
    Signer,
    items_file_name,
    read_receipt,
)
from bench.receipt.schema.results import (
    ALWAYS_MEASURED,
    ByState,
    Cost,
    Counts,
    Interval,
    Label,
    Pace,
    Score,
    Scores,
    State,
    Times,
    Usage,
)
from bench.receipt.schema.run import IsolationProof, LogHead, Preregistration, Resume, Run, Shard
from bench.receipt.schema.subject import (
    Benchmark,
    DatasetFile,
    MetricUse,
    ModelUse,
    PromptUse,
    Provider,
    Role,
    Selection,
)

__all__ = [
    "ALWAYS_MEASURED",
    "SCHEMA",
    "Benchmark",
    "Body",
    "ByState",
    "Cost",
    "Counts",
    "DatasetFile",
    "Environment",
    "Git",
    "Interval",
    "IsolationProof",
    "Label",
    "LogHead",
    "MetricUse",
    "ModelUse",
    "Pace",
    "PerQuery",
    "Preregistration",
    "PromptUse",
    "Provider",
    "Receipt",
    "Reproducibility",
    "Resume",
    "Role",
    "Run",
    "Score",
    "Scores",
    "Selection",
    "Shard",
    "Signature",
    "SignedReceipt",
    "Signer",
    "State",
    "Times",
    "Usage",
    "items_file_name",
    "read_receipt",
]
