"""Render the memories that are sent for a corpus, and decide what a job's retrieval metrics count.

Example::

    first, second, *others = memories(config, corpus)
    first.memory.content, first.sessions, first.turns
    level = evidence_level(config, unit="session", turn_evidence=True)     # "session"
    gold_ids(item, level), ids_at_level([first], level)     # the ids of an item's evidence, and of a memory
    ranked_ids([[first], [second]], level=level, unit="session")     # the ids of each hit, for metrics

The benchmark sets what one memory is (turn, session or corpus) and how its text is written. A provider's config can
replace these settings for its own jobs. All ids in this module are ids of the dataset, which are never sent to a
provider.

Retrieval metrics count turns only if memories are turns and the benchmark has evidence turns. If a memory is a session,
its hit does not count as a hit on the turns of the session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, get_args

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.file import session_names
from bench.config.benchmark.terms import Unit
from bench.config.template import DateText, Template, iso_utc, make_filter, render_turn, turn_text
from bench.datasets.turn_reader import is_blank_turn
from bench.model import Corpus, Item, Memory, Message, Session, Turn

TurnText = Callable[[Session, Turn], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedMemory:
    """A memory, and the ids of the dataset's sessions and turns that the memory contains."""

    memory: Memory
    sessions: tuple[str, ...]
    turns: tuple[str, ...]
    corpus: str
    position: int
    """position of the memory in the order in which memories are sent, counted from 1"""

    def as_json(self) -> dict[str, object]:
        """Return the JSON object that ``bench describe --memories`` prints for this memory."""
        when = self.memory.when
        return {
            "corpus": self.corpus,
            "position": self.position,
            "session": self.sessions[0] if len(self.sessions) == 1 else None,
            "turns": list(self.turns),
            "when": None if when is None else iso_utc(when),
            "content": self.memory.content,
        }


def memories(
    config: BenchmarkConfig, corpus: Corpus, *, unit: Unit | None = None, text: str | None = None
) -> list[RenderedMemory]:
    """Return the memories of a corpus in the order in which they are sent.

    ``unit`` and ``text`` replace the benchmark's own settings. ``text`` is plain, speaker, dated or a template.
    """
    corpus = without_blank_turns(corpus)
    writer = _MemoryRenderer(config, corpus, text)
    match unit or config.unit:
        case "turn":
            pieces = _turn_memories(corpus, writer)
        case "session":
            pieces = _session_memories(corpus, writer)
        case "corpus":
            pieces = _corpus_memory(corpus, writer)
    return [
        RenderedMemory(memory=memory, sessions=sessions, turns=turns, corpus=corpus.id, position=position)
        for position, (memory, sessions, turns) in enumerate(pieces, 1)
    ]


def without_blank_turns(corpus: Corpus) -> Corpus:
    """Return the corpus without blank turns. No memory is made of a blank turn."""
    if not any(is_blank_turn(turn) for session in corpus.sessions for turn in session.turns):
        return corpus
    sessions = (
        replace(session, turns=tuple(turn for turn in session.turns if not is_blank_turn(turn)))
        for session in corpus.sessions
    )
    return replace(corpus, sessions=tuple(sessions))


RenderedPiece = tuple[Memory, tuple[str, ...], tuple[str, ...]]


def _session_memories(corpus: Corpus, writer: _MemoryRenderer) -> Iterator[RenderedPiece]:
    for session in corpus.sessions:
        if not session.turns:
            continue
        memory = Memory(
            id=session.id,
            content=writer.session(session),
            when=session.when or _first_date(session),
            session_id=session.id,
            messages=writer.messages(session),
            metadata=session.metadata,
        )
        yield memory, (session.id,), tuple(turn.id for turn in session.turns)


def _turn_memories(corpus: Corpus, writer: _MemoryRenderer) -> Iterator[RenderedPiece]:
    for session in corpus.sessions:
        for turn in session.turns:
            memory = Memory(
                id=turn.id,
                content=writer.turn(session, turn),
                when=turn.when or session.when,
                role=turn.role,
                speaker=turn.speaker,
                session_id=session.id,
                messages=(writer.message(session, turn),),
                metadata=session.metadata,
            )
            yield memory, (session.id,), (turn.id,)


def _corpus_memory(corpus: Corpus, writer: _MemoryRenderer) -> Iterator[RenderedPiece]:
    full = [session for session in corpus.sessions if session.turns]
    if not full:
        return
    memory = Memory(
        id=corpus.id,
        content="\n\n".join(writer.session(session) for session in full),
        when=(full[0].when or _first_date(full[0])) if len(full) == 1 else None,
        session_id=full[0].id if len(full) == 1 else None,
        messages=tuple(message for session in full for message in writer.messages(session)),
        metadata=full[0].metadata if len(full) == 1 else {},
    )
    yield memory, tuple(session.id for session in full), tuple(turn.id for session in full for turn in session.turns)


def _first_date(session: Session) -> datetime | None:
    """Return the date of the first turn that has a date, or None if no turn has a date."""
    return next((turn.when for turn in session.turns if turn.when), None)


class _MemoryRenderer:
    """A renderer of sessions and turns as text. The benchmark or the provider's ``ingest.text`` sets the rules."""

    def __init__(self, config: BenchmarkConfig, corpus: Corpus, text: str | None) -> None:
        rules = config.ingestion.preprocessing
        self.header = "never" if text else config.ingestion.date_header
        self.formatter = "conversation" if text else config.rendering.formatter
        self.line = _turn_renderer(text)
        self.by_provider = text is not None
        place = config.place("ingestion", "preprocessing", "formatTemplate")
        self.template = None if text else _session_template(rules.format_template, session_names(config), place)
        self.finish: Callable[[str], str] = _escaped if rules.escape_html else str
        self.metadata = {f"metadata.{key}": value for key, value in corpus.metadata.items()}

    def session(self, session: Session) -> str:
        """Return the text of a memory that is one session."""
        if self.template is not None:
            return self.finish(self.template.render(self._values(session)))
        date = session.date_text or self._turn_date(_first_date(session))
        head = f"{date}\n" if self.header != "never" and date else ""
        return self.finish(head + self._body(session))

    def turn(self, session: Session, turn: Turn) -> str:
        """Return the text of a memory that is one turn."""
        date = session.date_text or self._turn_date(turn.when)
        head = f"{date}\n" if self.header == "always" and date else ""
        return self.finish(head + self.line(session, turn))

    def _turn_date(self, when: datetime | None) -> str | None:
        """Return the date ``when`` of a turn as text.

        Return None if ``when`` is None, or if the config does not add a date to every memory.
        """
        return iso_utc(when) if when and self.header == "always" else None

    def messages(self, session: Session) -> tuple[Message, ...]:
        return tuple(self.message(session, turn) for turn in session.turns)

    def message(self, session: Session, turn: Turn) -> Message:
        """Return a turn as a chat message. The text of the message can contain the speaker's name, but not the role."""
        plain = not self.by_provider and not turn.speaker
        content = turn_text(turn) if plain else self.line(session, turn)
        return Message(
            content=self.finish(content), role=turn.role, speaker=turn.speaker, when=turn.when or session.when
        )

    def _body(self, session: Session) -> str:
        match self.formatter:
            case "json":
                return str(_AS_JSON(session.turns))
            case "raw":
                return "\n".join(turn_text(turn) for turn in session.turns)
            case "conversation":
                return "\n".join(self.line(session, turn) for turn in session.turns)

    def _values(self, session: Session) -> dict[str, object]:
        return {
            **session.fields,
            **self.metadata,
            "date": session.when,
            "sessionDate": session.date_text and DateText(session.date_text, session.when),
            "session": session.turns,
            "turns": len(session.turns),
        }


_AS_JSON = make_filter("json", None)


@lru_cache(maxsize=64)
def _session_template(text: str | None, names: tuple[str, ...], where: str) -> Template | None:
    return None if text is None else Template.parse(text, names, where=where)


def _escaped(text: str) -> str:
    """Escape a text for HTML, as the config key ``escapeHtml`` asks."""
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(char, entity)
    return text


# ------------------------------------------------------------ the provider's ingest.text

_FORMS = {"plain": "${content}", "speaker": "${speaker}: ${content}", "dated": "[${when}] ${speaker}: ${content}"}
_PART = re.compile(r"(?P<before>[\[(<]?)\$\{(?P<name>speaker|when|content)\}(?P<after>[\])>]?[:,;]?[ -]*)")


def _turn_renderer(text: str | None) -> TurnText:
    """Return a function that renders a turn as text.

    ``text`` is the provider's setting ``ingest.text``: a template or the name of a template. If ``text`` is None, a
    turn is rendered as ``speaker: content``. A missing speaker or date is left out together with its punctuation.
    """
    if text is None:
        return lambda session, turn: render_turn(turn)
    form = _FORMS.get(text, text)

    def line(session: Session, turn: Turn) -> str:
        values = {
            "speaker": turn.speaker or turn.role,
            "when": _minute(turn.when or session.when),
            "content": turn_text(turn),
        }

        def fill(match: re.Match[str]) -> str:
            value = values[match["name"]]
            return "" if value is None else f"{match['before']}{value}{match['after']}"

        return _PART.sub(fill, form)

    return line


def _minute(when: datetime | None) -> str | None:
    return None if when is None else when.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def memory_texts(rendered: Sequence[RenderedMemory]) -> list[str]:
    """Return the text of each memory, in the order of the memories."""
    return [entry.memory.content for entry in rendered]


Level = Literal["turn", "session", "text"]
LEVELS: tuple[Level, ...] = get_args(Level)


def evidence_level(config: BenchmarkConfig, *, unit: Unit, turn_evidence: bool) -> Level:
    """Return what the retrieval metrics of a job count: turns, sessions or texts.

    ``unit`` is what one memory of the job is.
    """
    wanted = config.evaluation.granularity
    if wanted == "text":
        return "text"
    return "turn" if unit == "turn" and turn_evidence and wanted != "session" else "session"


def gold_ids(item: Item, level: Level, *, score_retrieval: bool = False) -> tuple[str, ...]:
    """Return the ids of an item's evidence. ``level`` decides between ids of turns, sessions and texts.

    An abstention item has no evidence ids, unless ``score_retrieval`` is true.
    """
    if item.abstention and not score_retrieval:
        return ()
    if level == "text":
        return tuple(f"text {n}" for n in range(1, len(item.evidence.texts) + 1)) or item.evidence.turns
    return item.evidence.turns if level == "turn" else item.evidence.sessions


def evidence_sentences(item: Item, turn_texts: Mapping[str, str]) -> dict[str, str]:
    """Return a map from evidence id to evidence text, for metrics that count texts.

    The texts are quotes in the dataset. If an item has no quotes, the texts of its evidence turns are used.
    """
    ids = gold_ids(item, "text", score_retrieval=True)
    return dict(zip(ids, item.evidence.texts or [turn_texts.get(turn, "") for turn in ids], strict=True))


def contained_ids(sentences: Mapping[str, str], content: str) -> tuple[str, ...]:
    """Return the ids of the sentences that occur in ``content``. Differences in white space are ignored."""
    body = "".join(content.split())
    return tuple(name for name, text in sentences.items() if (plain := "".join(text.split())) and plain in body)


def ids_at_level(memories: Iterable[RenderedMemory], level: Level) -> tuple[str, ...]:
    """Return the ids of the turns or sessions in a hit's memories, without repetitions."""
    ids = (name for memory in memories for name in (memory.turns if level == "turn" else memory.sessions))
    return tuple(dict.fromkeys(ids))


def ranked_ids(hits: Iterable[Sequence[RenderedMemory]], *, level: Level, unit: Unit) -> list[tuple[str, ...]]:
    """Return the ids of each hit, in the provider's order: ids of turns or of sessions.

    A hit without a known memory has no ids. If memories are turns but sessions are counted, only the first hit of each
    session is kept.
    """
    slots = [ids_at_level(sources, level) for sources in hits]
    if unit == "turn" and level == "session":
        return list(_first_occurrences(slots))
    return slots


def _first_occurrences(slots: Iterable[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
    seen: set[str] = set()
    for ids in slots:
        fresh = tuple(name for name in ids if name not in seen)
        seen.update(fresh)
        if fresh or not ids:
            yield fresh
