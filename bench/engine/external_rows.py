"""Read the rankings or answers of another tool from a TREC run file or JSON lines.

Errors name the file and the line.

Example::

    {"item": "q1", "hits": ["s3", ["s1", "s2"]], "answer": "Rayleigh scattering"}
    q1 Q0 s3 1 12.7 my-system

A hit is the id of a session or turn, or a list of such ids. A row needs hits or an answer. TREC hits are sorted by
score, then by rank.
"""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.errors import DataError, UsageError
from bench.events import log
from bench.visible_text import counted

KEYS = ("item", "hits", "answer")
TREC_FIELDS = 6
JSONL_HINT = 'a row is {"item": ID, "hits": [ids in order], "answer": TEXT}; "hits" or "answer" may be absent'
TREC_HINT = "a line is ITEM Q0 HIT RANK SCORE TAG"

Hits = tuple[tuple[str, ...], ...]
"""for each hit, the ids of the sessions or turns that it contains; the best hit comes first"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalRow:
    """The hits and the answer of one item in the file."""

    item: str
    where: str
    """place of the row, as file:line"""
    hits: Hits | None = None
    """None = the file has no ranking of the item"""
    answer: str | None = None
    lines: tuple[str, ...] = field(default=(), compare=False)
    """place of each hit, as file:line; empty if the row is one line"""

    def where_of(self, slot: int) -> str:
        """Return file:line of the hit at this index."""
        return self.lines[slot] if self.lines else self.where


@dataclass(frozen=True, slots=True, kw_only=True)
class TrecLine:
    """One line of a TREC file."""

    item: str
    where: str
    hit: str
    rank: int
    score: float


def read_external(path: Path) -> list[ExternalRow]:
    """Read all rows of a file; its first non-empty line shows whether it is JSON lines or TREC.

    If the last JSON line is cut off, it is ignored with a warning.

    Raises:
        UsageError: the file cannot be read.
        DataError: a line is invalid, or an item or hit occurs twice; the error names the line.
    """
    lines = list(_lines(path))
    if not lines:
        raise DataError("the file has no rows", where=str(path), hint=JSONL_HINT)
    if not lines[0][1].lstrip().startswith(("{", "[", '"')):
        return _from_trec(lines)
    if len(lines) > 1 and _torn(lines[-1][1]):
        log().warning(
            "torn_last_line",
            where=lines[-1][0],
            hint="the other lines are used; the last one was cut off while it was written",
        )
        lines.pop()
    return _from_json(lines)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each non-empty line as (file:line, text)."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                text = _decoded(raw, f"{path}:{number}").strip("\ufeff" if number == 1 else "")
                if text.strip():
                    yield f"{path}:{number}", text
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="name a readable file") from error


def _torn(text: str) -> bool:
    """Return True if the last line was cut off: it has no line end and is not valid JSON."""
    if text.endswith("\n"):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def _decoded(raw: bytes, where: str) -> str:
    """Decode a line from UTF-8; an incomplete character at the end of the file is ignored."""
    try:
        return getincrementaldecoder("utf-8")().decode(raw, final=raw.endswith(b"\n"))
    except UnicodeDecodeError as error:
        raise DataError("the file is not UTF-8 text", where=where, hint="save the file as UTF-8") from error


# ----------------------------------------------------------------------- JSON lines


def _from_json(lines: list[tuple[str, str]]) -> list[ExternalRow]:
    rows: dict[str, ExternalRow] = {}
    for where, text in lines:
        row = _json_row(_object(text, where), where)
        if row.item in rows:
            hint = f"remove one of the two; the first is at {rows[row.item].where}"
            raise DataError(f'item "{row.item}" occurs twice', where=where, hint=hint)
        rows[row.item] = row
    return list(rows.values())


def _object(text: str, where: str) -> Mapping[str, object]:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the line is not JSON: {error}", where=where, hint=JSONL_HINT) from error
    if not isinstance(value, dict):
        raise DataError("a row must be a JSON object", where=where, hint=JSONL_HINT)
    return value


def _json_row(row: Mapping[str, object], where: str) -> ExternalRow:
    unknown = next((key for key in row if key not in KEYS), None)
    if unknown is not None:
        raise DataError(f'unknown key "{unknown}"', where=where, hint=JSONL_HINT)
    if not _is_id(row.get("item")):
        raise DataError('"item" must be the id of an item', where=where, hint=JSONL_HINT)
    answer = row.get("answer")
    if answer is not None and not isinstance(answer, str):
        raise DataError('"answer" must be text', where=where, hint=JSONL_HINT)
    hits = row.get("hits")
    if hits is None and answer is None:
        raise DataError('the row has neither "hits" nor "answer"', where=where, hint=JSONL_HINT)
    return ExternalRow(
        item=str(row["item"]), where=where, hits=None if hits is None else _json_hits(hits, where), answer=answer
    )


def _json_hits(hits: object, where: str) -> Hits:
    slots = [hit if isinstance(hit, list) else [hit] for hit in hits] if isinstance(hits, list) else None
    if slots is None or not all(_is_id(name) for slot in slots for name in slot):
        raise DataError('"hits" must be a list of ids, or of lists of ids', where=where, hint=JSONL_HINT)
    return tuple(tuple(str(name) for name in slot) for slot in slots)


def _is_id(value: object) -> bool:
    return (isinstance(value, str) and value != "") or (isinstance(value, int) and not isinstance(value, bool))


# ----------------------------------------------------------------------------- TREC


def _from_trec(lines: list[tuple[str, str]]) -> list[ExternalRow]:
    by_item: dict[str, dict[str, TrecLine]] = {}
    for where, text in lines:
        line = _trec_line(text, where)
        hits = by_item.setdefault(line.item, {})
        if line.hit in hits:
            raise DataError(
                f'hit "{line.hit}" of item "{line.item}" occurs twice',
                where=where,
                hint=f"remove one of the two; the first is at {hits[line.hit].where}",
            )
        hits[line.hit] = line
    return [_trec_row(item, list(hits.values())) for item, hits in by_item.items()]


def _trec_line(text: str, where: str) -> TrecLine:
    parts = text.split()
    if len(parts) != TREC_FIELDS:
        fields = counted(len(parts), "field(|s)")
        raise DataError(
            f"the line has {fields}, but a line of a TREC run has {TREC_FIELDS}",
            where=where,
            hint=TREC_HINT,
        )
    item, _, hit, rank, score, _ = parts
    try:
        line = TrecLine(item=item, where=where, hit=hit, rank=int(rank), score=float(score))
    except ValueError as error:
        raise DataError(
            f"rank must be a whole number and score a number, not {rank} and {score}", where=where, hint=TREC_HINT
        ) from error
    if line.score != line.score:
        raise DataError(f"the score {score} is not a number", where=where, hint=TREC_HINT)
    return line


def _trec_row(item: str, lines: list[TrecLine]) -> ExternalRow:
    ordered = sorted(lines, key=lambda line: (-line.score, line.rank))
    return ExternalRow(
        item=item,
        where=lines[0].where,
        hits=tuple((one.hit,) for one in ordered),
        lines=tuple(one.where for one in ordered),
    )
