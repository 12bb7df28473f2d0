"""Write notes on the searches of a job: facts that change the meaning of its retrieval scores.

Example::

    probe_notes(probes)       # ["in 2 of 10 corpora, only 17 of 20 sample memories were found before ..."]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bench.journal import ProbeRow
from bench.journal.records import HitCounts
from bench.model import (
    ERROR_HIT,
    IN_ORDER,
    MORE_HITS,
    NO_HITS,
    PAGE_REPEATED,
    QUESTION_FOUND,
    SCORES_FALL,
    SCORES_MISSING,
    SCORES_RISE,
    SHARED_MEMORY,
    TEXT_CONSTANT,
    TEXT_CUT,
    TEXT_DIFFERS,
    TEXT_FOLDED,
    TEXT_SPOILED,
    TEXT_WIDER,
    WARNED,
)
from bench.visible_text import counted

UNMAPPED_ALLOWED = 0.1
"""share of hits that match no memory; above this share, the note on such hits has a hint

A memory system that extracts facts can return a fact that has no single source memory. Such hits can only lower the
score of their provider, so the job is not INVALID.
"""

FEW = 0.1
"""minimum share of searches to report a flag that a few searches can have by chance"""
MOST = 0.5
"""minimum share of searches to report a flag that is normal for services which split memories into chunks"""
SHOWN_REPLIES = 3
FLAG_NOTES: Mapping[str, tuple[float, str]] = {
    SCORES_RISE: (
        FEW,
        "scores rise with rank in {}: perhaps the order is worst first; if a low score is good, set "
        "search.response.score: {{kind: distance}}",
    ),
    SCORES_FALL: (
        FEW,
        "scores fall with rank in {}: perhaps the order is worst first, because search.response.score declares "
        "that a low score is good",
    ),
    IN_ORDER: (
        0.9,
        "hits come in the order in which their memories were stored in {}: perhaps the service does not rank "
        "them; without a ranking, mrr and ndcg mean little, and the first k hits are the oldest or the newest",
    ),
    TEXT_CUT: (
        MOST,
        "hits are the beginnings of longer memories in {}: perhaps the service cuts texts; the answering model "
        "does not see the rest",
    ),
    TEXT_SPOILED: (
        FEW,
        "hits contain the text of their memories with broken characters (wrong encoding, HTML entities, "
        "question marks) in {}: the answering model reads the broken text",
    ),
    QUESTION_FOUND: (
        0.0,
        "the question itself is among the hits in {}: perhaps the service stores queries; such a hit takes the "
        "place of a memory",
    ),
    TEXT_DIFFERS: (
        FEW,
        "a hit shares no word with the memory that it maps to in {}: perhaps the id belongs to another "
        "memory, or the text is outdated; check search.response.id_from",
    ),
    TEXT_CONSTANT: (
        FEW,
        "all hits have the same text in {}, although they map to different memories: the answering model does not see "
        "the memories; check search.response.contentField",
    ),
    TEXT_FOLDED: (
        FEW,
        "hits contain the text of their memories with other upper or lower case in {}: the answering model "
        "sees changed names and codes",
    ),
    TEXT_WIDER: (
        MOST,
        "each hit contains its memory and at least as much other text in {}: the answering model reads "
        "more than with the same k of another provider, but retrieval metrics count only the memory",
    ),
    SHARED_MEMORY: (
        MOST,
        "several hits map to the same memory in {}, for example because the service cuts memories into "
        "parts: fewer than k different memories are found",
    ),
    NO_HITS: (
        0.0,
        "{} returned no hit: perhaps a part of the service does not see every memory, or a threshold removes hits",
    ),
    ERROR_HIT: (
        0.0,
        "the only hit of {} begins like an error message and maps to no memory: perhaps the service returns errors "
        "as hits",
    ),
    WARNED: (
        0.0,
        "{} returned hits next to a warning: perhaps a part of the search did not work",
    ),
    MORE_HITS: (
        0.0,
        "{} returned fewer than k hits, although the response reports more (has_more, a cursor, a total): "
        "set search.page, correct its cursor or raise its max_pages, or check whether the service ignores the limit "
        "of the request",
    ),
    PAGE_REPEATED: (
        0.0,
        "{} got the same page again instead of the next page: correct search.page.param (its name in the service's "
        "documentation)",
    ),
    SCORES_MISSING: (
        MOST,
        "no hit has a score in {}, although search.response.score is set: correct its path",
    ),
}
"""flag of a search -> (share of searches above which the flag is reported, text of the note)"""


def unmapped_notes(hits: int, unmapped: int) -> list[str]:
    """Return a note with the number of hits that match no memory of their corpus, or [] if all hits match a memory.

    If the share of such hits is large, the note also has a hint.
    """
    if not unmapped:
        return []
    share = unmapped / hits
    text = counted(
        unmapped, f"of {counted(hits, 'hit(|s)')} ({share:.0%}) (maps|map) to no memory of (its|their) corpus"
    )
    look = ": each counts as a miss; check search.response.id_from and the namespace that a search sends"
    return [text + (look if share > UNMAPPED_ALLOWED else "")]


def flag_notes(counts: HitCounts) -> list[str]:
    """Return one note for each flag (suspicious property) that too many searches have.

    The note has the number of these searches and examples of their items.
    """
    found = []
    for flag, (allowed, text) in FLAG_NOTES.items():
        one = counts.flags.get(flag)
        if one is not None and one.count > allowed * counts.searches:
            note = text.format(f"{one.count} of {counted(counts.searches, 'search(|es)')}")
            found.append(f"{note} (such as {', '.join(one.items)}){_response_texts(counts, flag)}")
    return found


def _response_texts(counts: HitCounts, flag: str) -> str:
    """Return the most frequent texts in the service's responses to searches with this flag.

    The result is "" for a flag for which no texts are stored.
    """
    texts, hits = {NO_HITS: (counts.replies, "without hits "), WARNED: (counts.warnings, "")}.get(flag, ({}, ""))
    shown = list(texts.items())[:SHOWN_REPLIES]
    return "".join(f"; {counted(count, 'response(|s)')} {hits}contained {text}" for text, count in shown)


def probe_notes(probes: Sequence[ProbeRow]) -> list[str]:
    """Return notes on stored memories that seem to be lost.

    Sample memories are lost if a search after the ingest does not find them. Other memories are lost if the service
    does not count them, or gives them no id of their own.
    """
    return [
        *(
            f"in {partly} of {counted(corpora, 'corp(us|ora)')}, only {found} of "
            f"{counted(looked, 'sample memor(y|ies)')} "
            f"were found before the first "
            "question: the service may have lost acknowledged memories, or may index them later (wait.settle_ms)"
            for partly, corpora, found, looked in _short_of(probes, "found", "looked")
        ),
        *(
            f"in {fewer} of {counted(corpora, 'corp(us|ora)')}, the service counts "
            f"{counted(held, 'memor(y|ies)')}, but it "
            f"acknowledged {sent}: the service "
            "lost, dropped or merged the others, so searches cannot find them (endpoints.count)"
            for fewer, corpora, held, sent in _short_of(probes, "held", "sent")
        ),
        *(
            f"in {partly} of {counted(corpora, 'corp(us|ora)')}, only {named} of "
            f"{counted(memories, 'memor(y|ies)')} got "
            f"an id of their own: the "
            "service merged or dropped the others, or id_map reads another id; no hit can map to the "
            "other memories, so "
            "hits with them count as misses"
            for partly, corpora, named, memories in _short_of(probes, "named", "memories")
        ),
    ]


def _short_of(probes: Sequence[ProbeRow], had: str, whole: str) -> Iterator[tuple[int, int, int, int]]:
    """Compare two numbers that a probe measured in each corpus, such as ``found`` and ``looked``.

    ``had`` and ``whole`` are the names of the numbers. A corpus is short if ``had`` is below ``whole``. If no corpus is
    short, yield nothing. Otherwise yield one tuple: (short corpora, checked corpora, sum of ``had``, sum of ``whole``).
    The sums are over the short corpora.
    """
    counts = [
        (int(str(probe.data[had])), int(str(probe.data[whole])))
        for probe in probes
        if probe.kind == "sentinel" and probe.last and whole in probe.data
    ]
    short = [(few, all_of_it) for few, all_of_it in counts if few < all_of_it]
    if short:
        yield len(short), len(counts), sum(few for few, _ in short), sum(all_of_it for _, all_of_it in short)
