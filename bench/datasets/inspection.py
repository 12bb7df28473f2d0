"""Read the data for the first time: check every row, count items and memories, and create a compact index.

The index contains the place of each row, and the ids, question types and corpora of its items. Up to 20 errors are
reported together::

    scanned = scan(config, RowSource(config, files))
    scanned.counts.items, len(scanned.ids), scanned.content_sha256
"""

from __future__ import annotations

import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.file import CHUNK_HINT, RUBRIC_METHODS, questions_of
from bench.config.jsontext import TreePath
from bench.datasets.corpus_builder import TURN_BLANK, BuiltCorpus, build_corpus
from bench.datasets.evidence import MISSING, TURNS_MISSING
from bench.datasets.item_texts import ItemTexts, history_key
from bench.datasets.memories import LEVELS, gold_ids, memories, memory_texts, without_blank_turns
from bench.datasets.parser import ParsedRow, RowParser
from bench.datasets.rows.data_file import ContentDigest, OutOfRange
from bench.datasets.rows.index import IdTable, RowIndex
from bench.datasets.rows.row import FileRow, RowPlace, too_deep_error
from bench.datasets.rows.row_source import RowSource
from bench.datasets.turn_reader import is_blank_turn
from bench.errors import ConfigError, DataError
from bench.metrics.protocol import or_list
from bench.model import Item
from bench.visible_text import HIDDEN, counted

MAX_FINDINGS = 20
UNTYPED = 0


@dataclass(slots=True, kw_only=True)
class DatasetCounts:
    """The counts of a dataset.

    ``memories`` is the number of sessions, turns or corpora, because the config decides what one memory is.
    """

    items: int = 0
    corpora: int = 0
    sessions: int = 0
    turns: int = 0
    memories: int = 0
    question_types: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    turn_evidence: int = 0
    """number of items whose evidence names turns"""
    session_evidence: int = 0
    """number of items whose evidence names sessions"""
    scored: Counter[str] = field(default_factory=Counter)
    """level of evidence (turn, session or text) -> number of items with evidence that counts in retrieval metrics"""
    abstention: int = 0
    """number of items that cannot be answered, so that a refusal is right"""
    evidence_turns: int = 0
    """number of distinct evidence turns per item, summed over all items"""
    repeated_texts: int = 0
    """number of sessions without ids in the data, with a turn text that also occurs in another row of the corpus"""
    unfindable: int = 0
    """number of items with an evidence text that no memory contains"""

    def losses(self) -> Iterator[str]:
        """Yield notes on sessions that are stored twice and on evidence texts that no memory contains."""
        if count := self.repeated_texts:
            session = counted(count, "session(|s) (contains|contain) a text")
            yield (
                f"{session} that another row of the corpus also has, and all copies are ingested: make each "
                "element a session with an id (type: array, itemSchema.id), or give each row its own corpus"
            )
        if count := self.unfindable:
            items = counted(count, "item(|s) (has|have)")
            yield f"{items} an evidence text that no memory contains exactly, so no system can find all of it"


@dataclass(slots=True, kw_only=True)
class DatasetIndex:
    """The result of the first reading of the data: the counts, the content digest and the index."""

    ids: IdTable = field(default_factory=IdTable)
    rows: RowIndex = field(default_factory=RowIndex)
    types: list[str] = field(default_factory=lambda: [""])
    type_of: array[int] = field(default_factory=lambda: array("I"))
    corpora: IdTable | None = None
    """ids of the corpora; None if each item has its own corpus, which then has the id of the item"""
    views: IdTable | None = None
    """ids of corpora that end at a certain date or session; None if the config has no ``visibility``"""
    view_of: array[int] = field(default_factory=lambda: array("I"))
    """for each item, the index of its corpus in ``views``"""
    base_of_view: array[int] = field(default_factory=lambda: array("I"))
    cuts: list[str | None] = field(default_factory=list)
    counts: DatasetCounts = field(default_factory=DatasetCounts)
    content_sha256: str = ""
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """notes on evidence and question types, which are also shown in results"""
    texts: tuple[str, ...] = ()
    """notes on the texts of items, which are also shown in results"""
    repeated: int = 0
    """number of sessions that also occur in another row of the same corpus"""
    blank: int = 0
    """number of blank turns; no memory is made of a blank turn"""
    coverage_checks: list[str] = field(default_factory=list)
    """memory unit and text template of each passed check that the memories contain all evidence"""


class Scanner:
    """A reader that checks, counts and indexes all rows once. Invalid rows are collected and reported together."""

    def __init__(self, config: BenchmarkConfig, file: RowSource) -> None:
        self.config = config
        self.file = file
        self.parser = RowParser(config)
        self.digest = ContentDigest()
        self.texts = ItemTexts(config.evaluation.method_of)
        self.found = DatasetIndex()
        if self.parser.shared or not self.parser.one_item_a_row:
            self.found.corpora = IdTable()
        if config.visibility is not None:
            self.found.views = IdTable()
        self.type_index: dict[str, int] = {}
        self.findings: list[DataError] = []
        self.histories: dict[int, tuple[str, str]] = {}
        """corpus -> id of its joined history, and id of the first row with this history"""
        self.items_with_rubric = self.items_without_rubric = 0
        """numbers of items whose evaluator needs a rubric"""
        self.rows_without_questions = 0
        """number of rows whose list of questions is empty"""

    def run(self) -> DatasetIndex:
        """Read all rows and return the result.

        Raises:
            DataError: rows are invalid; the error lists up to 20 findings.
            ConfigError: the config does not fit the data.
        """
        for row in self.file.with_progress():
            if len(self.findings) >= MAX_FINDINGS:
                self._raise_findings(unchecked=row.place)
            try:
                self.add(row)
            except DataError as error:
                self.findings.append(self.file.at_origin(row, error))
        self._raise_findings()
        if len(self.found.rows) == 0 and self.file.left_out:
            keys = ", ".join(self.config.data.where)
            text = f"data.where ({keys}) excludes every row, {self.file.left_out} in all"
            raise ConfigError(text, where=self.config.place("data", "where"), hint="correct a condition")
        if len(self.found.rows) == 0:
            raise DataError("there are no rows", where=self.file.label, hint="check the file and its format")
        self._check_questions()
        self._check_turn_keys()
        self._check_chunk()
        self._check_rubrics()
        self._drop_undeclared_flags()
        for name, sha256 in sorted(self.file.joined.items()):
            self.digest.add({"file": name, "sha256": sha256})
        self.found.content_sha256 = self.digest.hexdigest()
        self.found.notes = tuple(self._notes())
        self.found.texts = self.texts.notes()
        self.found.remarks = (*self.parser.evidence_notes(), *similar_type_notes(self.found.counts.question_types))
        self.found.blank = self.found.counts.flags[TURN_BLANK]
        return self.found

    def add(self, row: FileRow) -> None:
        """Check one row and add it to the index."""
        if row.error is not None or row.values is None:
            raise row.error or row.place.error("", "is malformed")
        self._digest(row.file_values or row.values, row.place)
        known = self._repeats_history(row.values, row.place)
        parsed = self.parser.parse(row.values, row.place, history=not known)
        if not known:
            self._check_memory(row.values, parsed, row.place)
        corpus = self._corpus_index(parsed, row.place)
        shared = corpus if self.parser.shared else None
        self.found.rows.add(row, len(parsed.items), shared, adds_sessions=not known)
        self._store_history(row.values, corpus, parsed)
        self.rows_without_questions += not parsed.items and not self.parser.one_item_a_row
        self._add_items(parsed, row.place, corpus)
        if parsed.items and not self.parser.needs_whole_corpus:
            self._count_row(parsed)

    def _repeats_history(self, values: Mapping[str, object], place: RowPlace) -> bool:
        """Return True when an earlier row of the corpus has the same joined history as this row.

        Raises:
            DataError: an earlier row of the corpus has another joined history.
        """
        joined_id = self.parser.joined_history_id(values)
        if joined_id is None or self.found.corpora is None:
            return False
        name = self.parser.corpus_of(values, place, "")
        corpus = self.found.corpora.find(name)
        if corpus is None or corpus not in self.histories:
            return False
        first, row_id = self.histories[corpus]
        if first != joined_id:
            text = f'corpus "{name}": rows {row_id} and {self.parser.row_id(values, place)} have different histories'
            raise place.error("corpus.field", text, hint="give all rows of a corpus the same history")
        return True

    def _store_history(self, values: Mapping[str, object], corpus: int, parsed: ParsedRow) -> None:
        joined_id = self.parser.joined_history_id(values)
        if joined_id is not None:
            self.histories.setdefault(corpus, (joined_id, parsed.id))

    def _check_memory(self, values: Mapping[str, object], parsed: ParsedRow, place: RowPlace) -> None:
        """Raise a DataError when a row contains no text to store as a memory.

        In a shared corpus, a row with questions needs no such text.
        """
        removed = self.parser.removed_roles
        turns = (turn for session in parsed.sessions for turn in session.turns)
        if any((turn.role is None or turn.role not in removed) and not is_blank_turn(turn) for turn in turns):
            return
        if not self.parser.shared or not parsed.items:
            raise self.parser.history.no_memory_error(values, place.with_row_id(parsed.id), parsed.sessions)

    def _digest(self, values: Mapping[str, object], place: RowPlace) -> None:
        try:
            self.digest.add(values)
        except RecursionError as error:
            raise too_deep_error(place) from error
        except OutOfRange as error:
            raise place.error("", "contains a number beyond the range of a double", hint="write it as text") from error
        except ValueError as error:
            text = "contains half of a surrogate pair, which is not Unicode text"
            raise place.error("", text, hint="fix the escape \\ud8xx in the row") from error

    def _corpus_index(self, parsed: ParsedRow, place: RowPlace) -> int:
        """Return the index of the row's corpus. An unknown corpus is added.

        Raises:
            DataError: an earlier row has the same corpus id, although the config does not let rows share a corpus.
        """
        table = self.found.corpora
        if table is None:
            return len(self.found.rows)
        added = table.add(parsed.corpus)
        if added is not None:
            return added
        known = table.find(parsed.corpus)
        assert known is not None
        if not self.parser.shared:
            first = self._place_of_row(known)
            raise place.error("", f'has the same id as {first}: "{parsed.corpus}"', hint="give each row its own id")
        return known

    def _add_items(self, parsed: ParsedRow, place: RowPlace, corpus: int) -> None:
        history = corpus if self.parser.shared or len(parsed.items) > 1 else history_key(parsed.sessions)
        for raw in parsed.items:
            self.texts.add(raw, history)
            if self.config.evaluation.method_of(raw) in RUBRIC_METHODS:
                self.items_with_rubric += bool(raw.rubric)
                self.items_without_rubric += not raw.rubric
            if self.found.ids.add(raw.id) is None:
                self.found.ids.add(f"\0{len(self.found.ids)}")  # keeps positions right for the findings that follow
                self.findings.append(self._repeated_id_error(raw.id, place))
            self.found.type_of.append(self._type_number(raw.question_type))
            if raw.question_type is not None:
                self.found.counts.question_types[raw.question_type] += 1
            if self.found.views is not None:
                self._add_view(parsed.corpus, corpus, raw.cut)
        self.found.counts.items += len(parsed.items)

    def _repeated_id_error(self, item_id: str, place: RowPlace) -> DataError:
        first = self.found.ids.find(item_id)
        assert first is not None
        other = self._place_of_row(self.found.rows.row_of(first))
        return DataError(
            f'item id "{item_id}" occurs twice: {other} and {place}', where=str(place), hint="give each item its own id"
        )

    def _place_of_row(self, row: int) -> RowPlace:
        return row_place(self.found.rows, row, self.file)

    def _type_number(self, name: str | None) -> int:
        if name is None:
            return UNTYPED
        if name not in self.type_index:
            self.type_index[name] = len(self.found.types)
            self.found.types.append(name)
        return self.type_index[name]

    def _add_view(self, corpus_id: str, corpus: int, cut: str | None) -> None:
        assert self.found.views is not None
        name = corpus_id if cut is None else f"{corpus_id}@{cut}"
        index = self.found.views.add(name)
        if index is None:
            index = self.found.views.find(name)
            assert index is not None
        else:
            self.found.base_of_view.append(corpus)
            self.found.cuts.append(cut)
        self.found.view_of.append(index)

    def _count_row(self, parsed: ParsedRow) -> None:
        """Build the corpus of a row that has its own corpus, and add it to the counts."""
        parser = self.parser
        built = build_corpus(
            parsed.corpus, parsed.sessions, parser.removed_roles, parser=parser.rule.parser, in_order=parser.in_order
        )
        items = [self.parser.make_item(raw, 0, parsed.corpus, built.lookup) for raw in parsed.items]
        built = self.parser.reduce(built, [item.evidence for item in items])
        count_corpus(self.found.counts, self.config, built, items, self.parser)

    def _raise_findings(self, unchecked: RowPlace | None = None) -> None:
        """Raise the findings as one error. ``unchecked`` is the place of the first row that was not checked."""
        if not self.findings:
            return
        first = self.findings[0]
        rest = [f"error: {finding}" for finding in self.findings[1:] if str(finding) != str(first)]
        if unchecked is not None:
            rest.append(f"note: {unchecked} and later rows were not checked, after {len(self.findings)} errors in rows")
        rest += [f"note: {note}" for note in self.file.missing_names(of_file=True)]
        names = self.parser.names
        missing = names.around.missing_names() if names.around.searched else ()
        flags = [(name, text) for name, text in missing if name.key[0] == "abstention"]
        rest += [f"note: {self.config.place(*name.key)}: {names.label(name)}, but {text}" for name, text in flags]
        rest = [line for line in dict.fromkeys(rest) if line != f"error: {first}"]
        message = "\n".join([first.message, *rest])
        raise DataError(message, where=first.where, hint=first.hint)

    def _check_questions(self) -> None:
        if self.found.counts.items:
            return
        key: tuple[str | int, ...] = next(((*place, "field") for place, _ in questions_of(self.config)), ("schema",))
        text = f"no row of {self.file.label} has a question ({counted(len(self.found.rows), 'row(|s)')} read)"
        if left_out := self.parser.questions.left_out:
            key, conditions = next((place, one.where) for place, one in questions_of(self.config) if one.where)
            key, named = (*key, "where"), ", ".join(conditions)
            text = f"schema.questions.where ({named}) excludes every question, {left_out} in all"
        raise ConfigError(
            text, where=self.config.place(*key), hint="correct the condition or the path of the questions"
        )

    def _check_turn_keys(self) -> None:
        names = self.parser.names
        if self.parser.history.turns_read == 0 or not names.parts.open:
            return
        missing = [(names.key_of(name), name, absence) for name, absence in names.parts.missing_names()]
        raise ConfigError.of(
            [
                ConfigError(
                    f'{key} names "{name.text}", but {absence}',
                    where=self.config.place(*name.key),
                    hint=self._turn_key_hint(name.key),
                )
                for key, name, absence in missing
            ]
        )

    def _check_chunk(self) -> None:
        if self.config.ingestion.chunk is not None and not self.parser.history.has_texts:
            text = f"{self.config.written('ingestion', 'chunk')} has no effect: no history is a text or a list of texts"
            raise ConfigError(text, where=self.config.place("ingestion", "chunk"), hint=CHUNK_HINT)

    def _check_rubrics(self) -> None:
        if self.items_without_rubric and not self.items_with_rubric:
            text = f"{self._rubric_methods()} needs a rubric, but no item has one"
            raise ConfigError(
                text, where=self.config.place("schema", "rubric"), hint="correct the path of the points of the rubric"
            )

    def _rubric_methods(self) -> str:
        named = [name for name in self.config.evaluation.every_method if name in RUBRIC_METHODS]
        return f"method {or_list(named)}"

    def _turn_key_hint(self, key: TreePath) -> str:
        """Return the hint for a config key whose field no turn has.

        If the key is in a file that the config extends, the hint shows how to remove the key with null. Otherwise, the
        hint says to correct or remove the key.
        """
        origin = self.config.origin
        plain = all(isinstance(part, str) for part in key)
        if origin is None or not plain or origin.source_of(origin.spelt(key)) is origin.sources[0]:
            return "correct the path, or remove the key"
        *holders, last = self.config.written(*key).split(".")
        inner = f"{last}: null"
        for holder in reversed(holders):
            inner = f"{holder}: {{{inner}}}"
        return f"if your data has no such field, write in {origin.path.name}: {inner}"

    def _drop_undeclared_flags(self) -> None:
        """Remove the counts of missing evidence if the data of a manifest does not mark evidence turns at all.

        A manifest has a default name for the field that marks evidence. If no turn has this field, a missing mark is no
        problem of the data.
        """
        counts = self.found.counts
        if self.config.fields_by_name and not self.parser.history.flag_found:
            counts.flags.pop(TURNS_MISSING, None)
            if not self.parser.rule.has_references:
                counts.flags.pop(MISSING, None)

    def _notes(self) -> Sequence[str]:
        notes = []
        if self.file.left_out:
            notes.append(
                f"data.where excludes {counted(self.file.left_out, 'row(|s)')}; "
                f"{counted(len(self.found.rows), 'row(|s) (is|are)')} used"
            )
        notes += self.file.left_out_of_joined()
        notes += self.file.missing_names()
        if self.parser.questions.left_out:
            notes.append(f"schema.questions.where excludes {counted(self.parser.questions.left_out, 'question(|s)')}")
        if self.parser.questions.dropped:
            key = self.config.written("flatten", "maxItems")
            notes.append(f"{key} drops {counted(self.parser.questions.dropped, 'item(|s)')}")
        if self.parser.questions.unnamed:
            listed = ", ".join(sorted(self.parser.questions.unnamed))
            notes.append(f"these categories have no name, so their id is the label: {listed}")
        if self.parser.history.undated:
            notes.append(
                counted(self.parser.history.undated, "turn(|s) (has|have) no date and (is|are) ingested without a date")
            )
        if hidden := self.parser.hidden:
            items = counted(hidden, "item(|s) can see")
            place = self.config.place("visibility", "field")
            notes.append(
                f"{place}: {items} fewer sessions than its own row has, because a number in this field counts "
                "the sessions of the whole corpus"
            )
        if count := self.items_without_rubric:
            rest = f"of {count + self.items_with_rubric} items (has|have) no rubric, so"
            notes.append(counted(count, f"{rest} {self._rubric_methods()} cannot score (it|them)"))
        if self.rows_without_questions:
            notes.append(
                counted(
                    self.rows_without_questions, f"of {counted(len(self.found.rows), 'row(|s)')} (has|have) no question"
                )
            )
        names = self.parser.names
        names.types.meet(self.found.counts.question_types)
        return [*notes, *names.missing_names()] if self.found.counts.items else notes


def similar_type_notes(types: Iterable[str]) -> Iterator[str]:
    """Yield a note for question types that differ only in case, white space or hidden characters."""
    by_form: dict[str, list[str]] = {}
    for name in types:
        form = " ".join(HIDDEN.sub("", unicodedata.normalize("NFKC", name)).casefold().split())
        by_form.setdefault(form, []).append(name)
    for alike in by_form.values():
        if len(alike) > 1:
            listed = ", ".join(f'"{name}"' for name in alike)
            yield f"the question types {listed} differ only in case, white space or hidden characters"


def count_corpus(
    counts: DatasetCounts, config: BenchmarkConfig, built: BuiltCorpus, items: Sequence[Item], parser: RowParser
) -> None:
    """Add one ingested corpus and its items to ``counts``."""
    sessions = built.corpus.sessions
    counts.corpora += 1
    counts.sessions += len(sessions)
    counts.turns += sum(len(session.turns) for session in sessions)
    counts.memories += _count_memories(config, built)
    if built.flags:
        counts.flags.update(built.flags)
    for item in items:
        if item.flags:
            counts.flags.update(item.flags)
        counts.abstention += item.abstention
        counts.turn_evidence += bool(item.evidence.turns)
        counts.session_evidence += bool(item.evidence.sessions)
        for level in LEVELS:
            counts.scored[level] += bool(gold_ids(item, level, score_retrieval=config.abstention.score_retrieval))
        counts.evidence_turns += len(item.evidence.turns)
    quoting = [item for item in items if item.evidence.texts and not item.abstention]
    whole = "\n".join(map(_without_space, memory_texts(memories(config, built.corpus)))) if quoting else ""
    counts.unfindable += sum(any(_without_space(text) not in whole for text in item.evidence.texts) for item in quoting)


def _without_space(text: str) -> str:
    return "".join(text.split())


def _count_memories(config: BenchmarkConfig, built: BuiltCorpus) -> int:
    """Return the number of memories of a corpus.

    If the config has a session template, the memories are rendered to count them.
    """
    if config.ingestion.preprocessing.format_template is not None:
        return len(memories(config, built.corpus))
    full = [session for session in without_blank_turns(built.corpus).sessions if session.turns]
    match config.unit:
        case "session":
            return len(full)
        case "turn":
            return sum(len(session.turns) for session in full)
        case "corpus":
            return int(bool(full))


def row_place(rows: RowIndex, row: int, source: RowSource) -> RowPlace:
    """Return the place of a row in its data file: file, position and line."""
    label = source.label_of(rows.files[row])
    return RowPlace(file=label, index=row, line=rows.lines[row] or None, number=rows.numbers[row])


def scan(config: BenchmarkConfig, file: RowSource) -> DatasetIndex:
    """Read, check and index all rows; see `Scanner.run`."""
    return Scanner(config, file).run()
