"""The page of what a run writes: the journal's tables and words, event lines of ``bench run --json``, item rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from bench.cli.schema import schema_of
from bench.journal.file import MIGRATIONS, VERSION
from bench.journal.rows import CorpusKind, RunState
from bench.metrics.failure_reason import LossKind
from bench.model import Phase, State
from bench.report.export import FIELDS, TEXT_FIELDS
from docs.site.markdown import code, page, table

LEAD = f"""\
`checkpoints/RUN_ID/journal.sqlite` is the only state of a run: an SQLite file that any SQLite tool opens. The program
appends to it and never rewrites an outcome. Schema version {VERSION}; a newer one migrates a file when it opens it.
Read results with `bench export`; the tables are for looking behind it."""

WORDS: Mapping[str, type[StrEnum]] = {
    "State of a run": RunState,
    "Phase": Phase,
    "How an item ends": State,
    "Step of a corpus": CorpusKind,
    "Why an item was lost": LossKind,
}

EVENTS = """\
`bench run --json` prints a JSON object a line on stdout: `launch` once, `progress` at least every ten seconds,
`stopping` after a signal or a limit, `done` last. `bench schema event` prints the JSON Schema."""


ROWS = """\
`bench export --format json` or `jsonl` gives an object an item of a job, with `--epochs` one a repeat.
`results/RUN_ID/items.jsonl` holds the same without the texts. `csv` and `parquet` hold the scalar fields, the models as
`embedding_model`, `answering_model` and `judge_model`, the error as `error_kind`, and a column a metric.

Every duration is in whole microseconds, also in columns of metrics that tables show in milliseconds."""


def text() -> str:
    """The page."""
    return page(
        "Journal and events",
        LEAD,
        "## Words",
        table(
            ["what", "values"], ([title, ", ".join(code(str(one)) for one in words)] for title, words in WORDS.items())
        ),
        "## Event lines",
        EVENTS,
        table(["event", "fields"], _events()),
        "## Rows of items",
        ROWS,
        table(["field", "what it holds"], ([code(name), said] for name, said in FIELDS.items())),
        "Texts, in exports alone:",
        table(["field", "what it holds"], ([code(name), said] for name, said in TEXT_FIELDS.items())),
        "## Tables",
        *(f"```sql\n{sql.strip()}\n```" for _, sql in sorted(MIGRATIONS.items())),
    )


def _events() -> Iterator[list[str]]:
    lines = schema_of("event")["oneOf"]
    assert isinstance(lines, list)
    for line in lines:
        fields = dict(line["properties"])
        yield [code(fields.pop("event")["const"]), ", ".join(map(code, fields))]
