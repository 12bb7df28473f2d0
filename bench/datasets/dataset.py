"""The items and corpora of one benchmark. They are checked once and then read from the data file on demand.

This module is the only interface to the data of a benchmark.

Example::

    dataset = open_benchmark(config, Path("."))
    for ref in dataset.items(Selection(sample=20, seed=7)):
        item = dataset.item(ref)
        corpus = dataset.corpus(ref.corpus)
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.terms import Unit
from bench.datasets.corpus_builder import SESSION_JOINED, TURN_BLANK, BuiltCorpus, build_corpus
from bench.datasets.evidence import CoverageGap, coverage_gaps
from bench.datasets.history import NO_HISTORY_HINT
from bench.datasets.inspection import DatasetCounts, DatasetIndex, count_corpus, row_place, scan, similar_type_notes
from bench.datasets.memories import RenderedMemory, memories, memory_texts, without_blank_turns
from bench.datasets.parser import ParsedRow, RowParser
from bench.datasets.rows.data_file import DataFile, checked_files, digest_error, sha256_of_all
from bench.datasets.rows.index import SizedCache
from bench.datasets.rows.reading import ReadingPass
from bench.datasets.rows.row import RowPlace
from bench.datasets.rows.row_source import RowSource
from bench.datasets.selection import Selection, select
from bench.datasets.stored_index import StoredIndex
from bench.errors import DataError, UsageError
from bench.fast_dataclass import dataclass
from bench.model import Corpus, Item
from bench.visible_text import counted

CACHE_BYTES = 1_000_000
ROW_COST = 2_000
"""approximate memory of a parsed row in bytes, without the text of the row"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRef:
    """The index entry of one item. With it, items can be listed and selected before their rows are read."""

    position: int
    """position of the item in file order, counted from 1"""
    id: str
    corpus: str
    question_type: str | None


class Dataset:
    """The items and corpora of one benchmark. The position of an item is its place in file order, counted from 1."""

    def __init__(
        self, config: BenchmarkConfig, file: DataFile, rows: RowSource, found: DatasetIndex, store: StoredIndex
    ) -> None:
        self.config = config
        self.file = file
        self.sha256 = file.sha256
        self.content_sha256 = found.content_sha256
        self._rows = rows
        self._index = found
        self._store = store
        self._parser = RowParser(config)
        self._parsed: SizedCache[ParsedRow] = SizedCache(CACHE_BYTES)
        self._built: SizedCache[BuiltCorpus] = SizedCache(CACHE_BYTES)

    def count(self) -> None:
        """Check and count every corpus that can consist of several rows.

        Corpora of one row were already counted when the data was first read.
        """
        if not self._parser.needs_whole_corpus:
            return
        counts, seen = self._index.counts, set[int]()
        for view in self._watched_corpora():
            base = self._base_of(view)
            whole = self._full_corpus(base)
            if base not in seen:
                seen.add(base)
                self._check_memory(base, whole)
                self._index.repeated += whole.flags[SESSION_JOINED]
                self._index.blank += whole.flags[TURN_BLANK]
                counts.repeated_texts += whole.repeated_texts
            built = replace(whole, corpus=self.corpus(view))
            items = [self.item(ref) for ref in self.items_of(view)]
            count_corpus(counts, self.config, built, items, self._parser)
        self._index.remarks = (*self._parser.evidence_notes(), *similar_type_notes(counts.question_types))

    def _watched_corpora(self) -> Iterable[str]:
        """Return all corpus ids. If the data is large, progress is reported while a caller iterates over the ids."""
        if not self._rows.is_large:
            return self.corpora()
        corpora = len(self._index.views or self._index.corpora or ())
        return ReadingPass(f"checking {self.name}", corpora, "corpora").over(self.corpora(), lambda number, _: number)

    def _check_memory(self, base: int, whole: BuiltCorpus) -> None:
        """Raise a DataError when a corpus has questions but no text that a memory can contain."""
        if any(session.turns for session in without_blank_turns(whole.corpus).sessions):
            return
        row = next(iter(self._index.rows.rows_of(base)))
        place = self._place(row).with_row_id(self._row(row).id)
        missing = [f"note: {note}" for note in self._rows.missing_names()]
        text = f'has a question about the corpus "{whole.corpus.id}", but no row contains a memory of this corpus'
        error = place.error("", text, hint="correct the name that no row has" if missing else NO_HISTORY_HINT)
        raise DataError("\n".join([error.message, *missing]), where=error.where, hint=error.hint)

    # ------------------------------------------------------------------- facts

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def files(self) -> Mapping[str, str]:
        """Return a map from each file name to its SHA-256 if the data has several files; otherwise an empty map."""
        return self.file.parts

    @property
    def size(self) -> int:
        """Return the size of all data files in bytes."""
        return self._rows.size

    @property
    def counts(self) -> DatasetCounts:
        return self._index.counts

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes for the user on the config and the data."""
        count = self._index.repeated
        joined = counted(
            count, "session(|s) (occurs|occur) again in other rows of (its|their) corpus and (is|are) ingested once"
        )
        return (*self.config.notes, *self._index.notes, *([joined] if count else []), *self.data_notes)

    @property
    def data_notes(self) -> tuple[str, ...]:
        """Return the notes on problems of the data that affect scores, such as blank turns or unmatched evidence."""
        count = self._index.blank
        turns = counted(count, "turn(|s) (is|are)")
        blank = f"{turns} blank (only white space or hidden characters) and not ingested"
        return (*([blank] if count else []), *self.counts.losses(), *self._index.remarks, *self._index.texts)

    @property
    def turn_evidence(self) -> bool:
        """Return True when the evidence of at least one item names turns."""
        return self.counts.turn_evidence > 0

    @property
    def has_evidence(self) -> bool:
        """Return True when at least one item has evidence."""
        return self.counts.session_evidence > 0

    @cached_property
    def groups(self) -> dict[str, int]:
        """Return a map from the name of each group of question types to the number of items in the group."""
        types = self.counts.question_types
        return {name: sum(types[kind] for kind in members) for name, members in self.config.groups.items()}

    # ------------------------------------------------------------------- items

    def __len__(self) -> int:
        return len(self._index.ids)

    def items(self, selection: Selection | None = None) -> Iterator[ItemRef]:
        """Yield a reference to each selected item, or to every item, in file order.

        Raises:
            UsageError: the selection names an unknown item, corpus or question type.
        """
        if selection is None:
            return (self.ref(index + 1) for index in range(len(self)))
        return (self.ref(index + 1) for index in select(self, selection))

    def selected(self, selection: Selection) -> array[int]:
        """Return the positions of the selected items, counted from 1, in file order."""
        return array("I", (index + 1 for index in select(self, selection)))

    def types_of(self, positions: Iterable[int]) -> dict[str, int]:
        """Return a map from each question type to the number of its items at the given positions.

        Items without a type are not counted.
        """
        found = Counter(self._index.type_of[position - 1] for position in positions)
        return {kind: count for number, count in sorted(found.items()) if (kind := self._index.types[number])}

    def ref(self, position: int) -> ItemRef:
        """Return the reference of the item at a position, counted from 1."""
        index = position - 1
        return ItemRef(
            position=position, id=self.id_at(index), corpus=self.corpus_at(index), question_type=self.type_at(index)
        )

    def find(self, item_id: str) -> ItemRef:
        """Return the reference of the item with this id. An unknown id raises a UsageError."""
        index = self.index_of(item_id)
        if index is None:
            raise UsageError(
                f'{self.name} has no item "{item_id}"', hint=f"list the ids with: bench describe {self.name} --items"
            )
        return self.ref(index + 1)

    def item(self, ref: ItemRef | str) -> Item:
        """Read one item, given by its reference or its id. The item includes its answers and evidence."""
        if isinstance(ref, str):
            ref = self.find(ref)
        index = ref.position - 1
        row = self._index.rows.row_of(index)
        raw = self._row(row).items[index - self._index.rows.first_item[row]]
        base = self._base_of_item(index)
        lookup = self._full_corpus(base).lookup
        last = self._parser.last_session(self.corpus(ref.corpus).sessions)
        item = self._parser.make_item(raw, ref.position, ref.corpus, lookup, last)
        return item if self._index.views is None else self._parser.within_view(item, self.corpus(ref.corpus))

    # ----------------------------------------------------------------- corpora

    def corpora(self) -> Iterator[str]:
        """Yield the ids of the corpora that have items, in the order of their first item."""
        if self._index.views is not None:
            yield from self._index.views
        elif self._index.corpora is None:
            yield from self._index.ids
        else:
            for corpus, name in enumerate(self._index.corpora):
                if any(self._index.rows.items_of(row) for row in self._index.rows.rows_of(corpus)):
                    yield name

    def corpus(self, corpus_id: str) -> Corpus:
        """Read one corpus, with exactly the sessions that are ingested.

        The history mode can exclude sessions. If the corpus id contains a cut-off date, later sessions are excluded.
        """
        built = self._reduced_corpus(self._base_of(corpus_id))
        if self._index.views is None:
            return built.corpus
        view = self._index.views.find(corpus_id)
        assert view is not None
        cut = self._index.cuts[view]
        return built.corpus if cut is None else self._parser.cut(built.corpus, corpus_id, cut)

    def items_of(self, corpus_id: str) -> Iterator[ItemRef]:
        """Yield the reference of each item of a corpus, in file order."""
        return (self.ref(index + 1) for index in self.indexes_of_corpus(corpus_id) or ())

    def memories(self, corpus_id: str, *, unit: Unit | None = None, text: str | None = None) -> list[RenderedMemory]:
        """Return the memories of one corpus in the order in which they are sent.

        ``unit`` and ``text`` replace the benchmark's own settings.
        """
        return memories(self.config, self.corpus(corpus_id), unit=unit, text=text)

    def coverage_gaps(
        self, corpus_id: str, items: Sequence[Item] | None = None, *, unit: Unit | None = None, text: str | None = None
    ) -> list[CoverageGap]:
        """Return the evidence turns whose text is in none of the memories that are sent.

        All items of the corpus are checked, unless ``items`` is given. ``unit`` and ``text`` replace the benchmark's
        settings.
        """
        checked = [self.item(ref) for ref in self.items_of(corpus_id)] if items is None else items
        sent = memory_texts(self.memories(corpus_id, unit=unit, text=text))
        return coverage_gaps(checked, self.corpus(corpus_id), sent)

    def check_coverage_once(self, unit: Unit, text: str | None, check: Callable[[], None], *, whole: bool) -> None:
        """Run ``check``, unless an earlier check with this memory unit and text has passed for all items.

        ``whole`` must be true if ``check`` covers all items. Only such a check is stored as passed.
        """
        way = f"{unit} {text or ''}"
        if way in self._index.coverage_checks:
            return
        check()
        if whole:
            self._index.coverage_checks.append(way)
            self._store.write(self._index, self._rows)

    # ------------------------------------------- what a selection asks (indexes)

    def id_at(self, index: int) -> str:
        return self._index.ids[index]

    def type_at(self, index: int) -> str | None:
        return self._index.types[self._index.type_of[index]] or None

    def corpus_at(self, index: int) -> str:
        """Return the corpus id of the item at an index, counted from 0."""
        if self._index.views is not None:
            return self._index.views[self._index.view_of[index]]
        if self._index.corpora is None:
            return self._index.ids[index]
        return self._index.corpora[self._base_of_item(index)]

    def index_of(self, item_id: str) -> int | None:
        return self._index.ids.find(item_id)

    def known_types(self) -> Sequence[str]:
        return self._index.types[1:]

    def indexes_of_corpus(self, corpus_id: str) -> Iterator[int] | None:
        """Return the indexes of a corpus's items, counted from 0. Return None if the corpus is unknown."""
        views = self._index.views
        table = views or self._index.corpora or self._index.ids
        known = table.find(corpus_id)
        if known is None:
            return None
        base = self._index.base_of_view[known] if views is not None else known
        every = (index for row in self._index.rows.rows_of(base) for index in self._index.rows.items_of(row))
        return every if views is None else (index for index in every if self._index.view_of[index] == known)

    # ----------------------------------------------------------------- reading

    def _base_of(self, corpus_id: str) -> int:
        """Return the index of the corpus with this id. For an id with a cut-off, return the index of the whole corpus.

        Raises:
            UsageError: the corpus id is unknown.
        """
        table = self._index.views or self._index.corpora or self._index.ids
        known = table.find(corpus_id)
        if known is None:
            raise UsageError(
                f'{self.name} has no corpus "{corpus_id}"',
                hint=f"list the ids with: bench describe {self.name} --items",
            )
        return self._index.base_of_view[known] if self._index.views is not None else known

    def _base_of_item(self, index: int) -> int:
        if self._index.views is not None:
            return self._index.base_of_view[self._index.view_of[index]]
        row = self._index.rows.row_of(index)
        if not self._parser.shared:
            return row
        assert self._index.corpora is not None
        known = self._index.corpora.find(self._row(row).corpus)
        assert known is not None
        return known

    def _place(self, row: int) -> RowPlace:
        return row_place(self._index.rows, row, self._rows)

    def _row(self, row: int) -> ParsedRow:
        def make() -> tuple[ParsedRow, int]:
            index = self._index.rows
            length = index.lengths[row]
            place = self._place(row)
            values = self._rows.read(index.files[row], index.offsets[row], length, index.parts[row], place)
            parsed = self._parser.parse(values, place, history=bool(index.adds_sessions[row]))
            return parsed, max(length, parsed.size if self._rows.steps else 0) + ROW_COST

        return self._parsed.get(row, make)

    def _full_corpus(self, corpus: int) -> BuiltCorpus:
        """Build a corpus with all sessions, and the tables in which its evidence is looked up."""

        def make() -> tuple[BuiltCorpus, int]:
            rows = self._index.rows.rows_of(corpus)
            first = self._row(next(iter(rows)))
            sessions = (session for row in self._index.rows.rows_of(corpus) for session in self._row(row).sessions)
            parser = self._parser
            built = build_corpus(
                first.corpus, sessions, parser.removed_roles, parser=parser.rule.parser, in_order=parser.in_order
            )
            built = replace(built, corpus=replace(built.corpus, metadata=first.metadata))
            return built, built.size

        return self._built.get(corpus, make)

    def _reduced_corpus(self, corpus: int) -> BuiltCorpus:
        """Build a corpus with only the sessions that the config's history mode keeps."""
        built = self._full_corpus(corpus)
        if self.config.history.mode == "full":
            return built
        rows = list(self._index.rows.rows_of(corpus))
        raws = [raw for row in rows for raw in self._row(row).items]
        return self._parser.reduce(built, [self._parser.rule.resolve(raw, built.lookup)[0] for raw in raws])


def open_benchmark(config: BenchmarkConfig, workspace: Path) -> Dataset:
    """Open the data of a benchmark. The data is checked and indexed, unless its index is already stored.

    Raises:
        DataError: the data is missing or invalid; the error lists up to 20 findings.
        ConfigError: the config does not fit the data.
    """
    files = checked_files(config, workspace)
    source = RowSource(config, files)
    store = StoredIndex.of(config, files, workspace)
    stored = store.read(source)
    found = stored or scan(config, source)
    file = files[0]
    if len(files) > 1 or source.joined:
        parts = {one.name: one.sha256 for one in files} | source.joined
        whole = sha256_of_all(parts)
        if config.data.sha256 not in (None, whole):
            raise digest_error(where=f"the files of {config.name}", expected=config.data.sha256 or "", found=whole)
        file = replace(file, sha256=whole, parts=parts)
    dataset = Dataset(config, file, source, found, store)
    if stored is None:
        dataset.count()
        store.write(found, source)
    return dataset
