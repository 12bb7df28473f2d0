"""The page of what a run writes: the journal's tables and words, event lines of ``bench run --json``, item rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from bench.cli.commands.schema import schema_of
from bench.config.json_schema import docstrings
from bench.journal.file import MIGRATIONS, VERSION
from bench.journal.rows import CorpusKind, RunState
from bench.metrics.failure_reason import LossKind
from bench.model import Phase, State
from bench.report.exports.export import AnswerStatus, RowTexts, RowWithoutTexts
from docs.site.markdown import code, page, table

LEAD = f"""\
To read results, use `bench export`. The journal of a run, `checkpoints/RUN_ID/journal.sqlite`, has further details. Any
SQLite tool can open it. `bench` never changes a recorded outcome. The schema version is {VERSION}; a newer version of
`bench` migrates the file."""

WORDS: Mapping[str, type[StrEnum]] = {
    "State of a run": RunState,
    "Phase": Phase,
    "How an item ends": State,
    "Step of a corpus": CorpusKind,
    "Why an item was lost": LossKind,
}

STATES = """\
These runs can be resumed: `paused` (by a signal or `bench pause`), `stopped` (for example by a limit or a refused key)
and `interrupted` (the process died). A `partial` run ended, but has only some of the items. [Why items were
lost](../failures.md) explains the values of the last row."""

EVENTS = """\
`bench run --json` prints one JSON object per line on stdout: `launch` once, `progress` at least every ten seconds,
`stopping` after a signal or a limit, and `done` at the end. `bench schema event` prints the JSON Schema."""


ROWS = """\
`bench export --format json` and `jsonl` write one object per item of a job, or one per repeat with `--epochs`.
`results/RUN_ID/items.jsonl` has the same rows without the texts. `csv` and `parquet` have one column per scalar
field and per metric. In these two formats, the columns for the models are `embedding_model`, `answering_model` and
`judge_model`, the column for the error is `error_kind`, and `retrieved` and `evidence` are JSON text. In `csv`, a text
that a spreadsheet would run as a formula (it begins with `=`, `+`, `-` or `@`, and is not a number) has an apostrophe
before it. The other formats have the unchanged text.

Every duration is in whole microseconds, also if `bench results` shows it in milliseconds."""


def text() -> str:
    """Return the page."""
    return page(
        "Journal and events",
        LEAD,
        "## Words",
        "These words occur in the journal, and some of them also in event lines and exports.",
        table(
            ["what", "values"], ([title, ", ".join(code(str(one)) for one in words)] for title, words in WORDS.items())
        ),
        STATES,
        "## Event lines",
        EVENTS,
        table(["event", "fields"], _events()),
        "## Rows of items",
        ROWS,
        _fields(RowWithoutTexts, AnswerStatus),
        "Texts, only in exports:",
        _fields(RowTexts),
        "## Tables",
        *(f"```sql\n{sql.strip()}\n```" for _, sql in sorted(MIGRATIONS.items())),
    )


def _fields(*rows: type) -> str:
    texts = {name: " ".join(text.split()) for row in rows for name, text in docstrings(row).items()}
    return table(["field", "content"], ([code(name), text] for name, text in texts.items()))


def _events() -> Iterator[list[str]]:
    lines = schema_of("event")["oneOf"]
    assert isinstance(lines, list)
    for line in lines:
        fields = dict(line["properties"])
        yield [code(fields.pop("event")["const"]), ", ".join(map(code, fields))]
