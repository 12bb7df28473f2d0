"""The sixteen checks of the doctor, in order. To add a check, write a function of an Examination and list it in
``CHECKS``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from bench.errors import CallError, Rejected, Unavailable
from bench.events import redactor
from bench.model import MORE_HITS, PAGE_REPEATED, SCORES_MISSING, Hit, Memory
from bench.providers.batching import pieces, whole_id
from bench.providers.doctor.examination import (
    EMPTY,
    OTHER,
    SAMPLE_FACTS,
    CheckDefinition,
    CheckFailed,
    CheckSkipped,
    Examination,
)
from bench.providers.protocol import Versioned
from bench.providers.ranking import reversed_scores
from bench.visible_text import counted

AWKWARD_TEXT = (
    "Line one\nline \"two\" with 'quotes' and \\ back\\slashes; \U0001f408 cat, \u05e2\u05d1\u05e8\u05d9\u05ea, "
    "${x} and $.x, {{y}} & <b>\u00e9</b> zephyrine"
)
EDGE = 40
"""number of characters at each end of a memory that must be found even if the service splits the memory"""
_LINES = "The marmalade ledger begins here. " + "Every line of the marmalade ledger names one jar and one shelf. " * 156
_END = " Here the marmalade ledger ends: shelf 41."
LONG_TEXT = _LINES[: 10_000 - len(_END)] + _END
"""a text of 10,000 characters with unique words at its beginning and end, to detect truncation"""
LONG_QUESTION = 1000
PAGED = tuple(f"Parcel number {number} waits at the counter of the post office." for number in range(12))
"""memories that one question matches, to get more than one page of hits"""
SHORTER_QUESTIONS = (500, 256, 250, 200, 128, 100)
FILLER = "Please look through everything that was said about it and tell me when and why it was so. " * 11
REVERSED_WARNING = (
    "; warning: in {} of {} searches, the hit with the best score comes last: perhaps a lower score is better (set "
    "search.response.score.kind), or the service returns the worst hit first (set search.response.score.order)"
)
_K = re.compile(r"\$\.k\b|\$\{k\b")


async def _version(exam: Examination) -> str:
    if isinstance(exam.provider, Versioned):
        exam.version = await exam.provider.upstream_version()
        if not exam.version.strip():
            raise CheckFailed("the provider reports an empty version")
    return exam.version


async def _setup(exam: Examination) -> str:
    await exam.prepare(exam.first)
    await exam.prepare(exam.first)
    if not exam.single:
        await exam.prepare(exam.second)
    return f"captured {', '.join(exam.first.space.captures)}" if exam.first.space.captures else "nothing to set up"


async def _empty(exam: Examination) -> str:
    exam.require_store()
    count = await exam.count(exam.first, SAMPLE_FACTS[0][0])
    found = len(await exam.hits(exam.first, SAMPLE_FACTS[0][0]))
    if count or found:
        raise CheckFailed(
            f"a new namespace is not empty: memories stored {count}, hits of a search {found}; expected 0 and 0"
        )
    return "contains nothing"


async def _add(exam: Examination) -> str:
    await exam.fill(exam.first, exam.memories)
    return counted(len(exam.memories), "memor(y|ies)")


async def _ready(exam: Examination) -> str:
    if not exam.provider.keeps_store:
        raise CheckSkipped("the provider stores nothing")
    return await exam.until_ready(exam.first, [text for text, _ in SAMPLE_FACTS])


async def _found(exam: Examination) -> str:
    exam.require_store()
    mapped, reversed_in, scored = True, 0, False
    for memory in exam.memories:
        found = await exam.search(exam.first, memory.content, 3)
        hits, scored = found.hits, scored or SCORES_MISSING not in found.flags
        reversed_in += reversed_scores(exam.config, hits) is not None
        if not hits:
            raise CheckFailed(f'a search for the text of a stored memory has no hits: "{memory.content[:40]}"')
        own = [hit for hit in hits if memory.id in map(whole_id, hit.source_ids)]
        mapped = mapped and any(hit.source_ids for hit in hits)
        if any(hit.source_ids for hit in hits) and not own:
            raise CheckFailed(
                f'the memory "{memory.content[:40]}" is not among the first 3 hits of a search for its own text'
            )
        exam.rewrites = exam.rewrites or not any(hit.content == memory.content for hit in own or hits)
        _check_date(memory, own)
    if not scored:
        raise CheckFailed("no hit has a score, although search.response.score is set: correct its path")
    how = "by id" if mapped else "by text; hits have no id that was sent, so retrieval metrics do not apply"
    return how + (REVERSED_WARNING.format(reversed_in, len(exam.memories)) if reversed_in else "")


def _check_date(memory: Memory, own: Sequence[Hit]) -> None:
    """Raise CheckFailed if the first hit has a wrong date. A hit without a date is accepted."""
    for hit in own[:1]:
        if hit.when is not None and memory.when is not None and hit.when.date() != memory.when.date():
            raise CheckFailed(
                f"the hit of {memory.id} has the date {hit.when.isoformat()}, but {memory.when.isoformat()} was sent"
            )


async def _dates(exam: Examination) -> str:
    exam.require_store()
    if not exam.provider.capabilities.timestamps:
        raise CheckSkipped("the config declares that memories keep no date (capabilities.timestamps: false)")
    mapped = True
    for memory in exam.memories:
        hits = await exam.hits(exam.first, memory.content)
        if any(hit.when is not None for hit in hits):
            return "with the hits"
        mapped = mapped and any(hit.source_ids for hit in hits)
    endpoints = exam.config.endpoints
    if endpoints is not None and endpoints.search.response.when is not None:
        raise CheckFailed("no hit has a date, although search.response.when is set")
    if mapped:
        raise CheckSkipped(
            "hits have no date, so each gets the date of its memory; set search.response.when if the service has dates"
        )
    raise CheckFailed(
        "hits have no date and cannot be mapped to memories, so the answering model gets no dates: "
        "set search.response.when, or declare capabilities.timestamps: false"
    )


async def _long_question(exam: Examination) -> str:
    exam.require_store()
    limit = exam.provider.capabilities.max_query_chars
    try:
        found = await exam.search(exam.first, _question(LONG_QUESTION), 3)
    except (Rejected, Unavailable) as error:
        taken = await _longest_accepted(exam)
        raise CheckFailed(
            f"a question of {LONG_QUESTION} characters fails ({error.kind}: {str(error)[:120]}); "
            f"a question of {taken} characters is answered: set capabilities: {{max_query_chars: {taken}}}"
            if taken
            else f"{error.kind}: {error}"
        ) from error
    if not found.hits:
        raise CheckFailed(
            f"a question of {LONG_QUESTION} characters finds nothing, although it contains the text of a memory"
        )
    return f"cut to {limit}" if limit and limit < LONG_QUESTION else f"{LONG_QUESTION} characters"


def _question(size: int) -> str:
    """Return a question of ``size`` characters about the first memory."""
    return f"{SAMPLE_FACTS[0][0]} {FILLER}"[:size]


async def _longest_accepted(exam: Examination) -> int | None:
    """Return the length of the longest question that the service accepts, out of a few common lengths.

    Return None if the service accepts none of them.
    """
    for size in SHORTER_QUESTIONS:
        try:
            await exam.search(exam.first, _question(size), 3)
        except CallError:
            continue
        return size
    return None


async def _k_limit(exam: Examination) -> str:
    if exam.provider.unbounded:
        raise CheckSkipped("the provider returns all memories by design")
    exam.require_store()
    found = [await exam.search(exam.first, SAMPLE_FACTS[0][0], k) for k in (1, 2)]
    one, two = (len(each.hits) for each in found)
    if one != 1 or two > 2:
        raise CheckFailed(
            f"expected 1 hit for k = 1 and at most 2 hits for k = 2, but k = 1 gives {one}, k = 2 gives {two}"
        )
    sent = [each.returned for each in found]
    pages = await _pages(exam)
    if sent[0] <= 1 and sent[1] <= 2:
        return f"1 and {two}{pages}"
    if _sends_k(exam):
        raise CheckFailed(
            f"the search sends k, but the service ignores it: k = 1 gives {sent[0]}, k = 2 gives {sent[1]}"
        )
    return f"1 and {two}, cut by bench: the service returns {sent[0]} for k = 1 and {sent[1]} for k = 2{pages}"


async def _pages(exam: Examination) -> str:
    """Search for more hits than usually fit on a small page, and return a text with their number.

    The text is empty if the config reads only one page.

    Raises:
        CheckFailed: a part of the pages was not read.
    """
    endpoints = exam.config.endpoints
    if endpoints is None or endpoints.search.page is None:
        return ""
    await exam.fill(exam.first, [Memory(id=f"page-{at}", content=text) for at, text in enumerate(PAGED)])
    await exam.until_ready(exam.first, PAGED)
    page, k = endpoints.search.page, len(PAGED)
    found = await exam.search(exam.first, PAGED[0], k)
    if PAGE_REPEATED in found.flags:
        raise CheckFailed(
            f"the request for the second page returned the first page again ({counted(found.returned, 'hit(|s)')}): "
            f'correct search.page.param "{page.param}"'
        )
    if MORE_HITS in found.flags:
        raise CheckFailed(
            f"the search returned {found.returned} of {k} hits, although the response reports more: "
            f'correct search.page.cursor "{page.cursor}", or raise search.page.max_pages'
        )
    return f"; {found.returned} for k = {k}"


def _sends_k(exam: Examination) -> bool:
    """Return True if the config sends k to the service. Otherwise only bench limits the hits to k."""
    config = exam.config
    calls = (config.endpoints.search if config.endpoints else None, config.mcp)
    return any(call is not None and _K.search(call.model_dump_json()) for call in calls)


async def _isolation(exam: Examination) -> str:
    exam.require_store()
    if exam.single:
        raise CheckSkipped("the provider has one namespace only (scoping: single)")
    found = await exam.hits(exam.second, SAMPLE_FACTS[0][0])
    if found:
        raise CheckFailed(f"a search in the second namespace finds {counted(len(found), 'memor(y|ies)')} of the first")
    await exam.fill(exam.second, [Memory(id="other-1", content=OTHER, when=SAMPLE_FACTS[0][1])])
    await exam.until_ready(exam.second, [OTHER])
    return "the second does not see the first"


async def _repeat_batch(exam: Examination) -> str:
    exam.require_store()
    rule = exam.provider.on_unknown
    if rule != "repeat":
        await exam.provider.clear(exam.first.space)
        exam.first = exam.new_namespace("first", attempt=2)
        await exam.prepare(exam.first)
    await exam.fill(exam.first, exam.memories)
    await exam.until_ready(exam.first, [text for text, _ in SAMPLE_FACTS])
    hits = await exam.hits(exam.first, SAMPLE_FACTS[1][0], 10)
    sources = [source for hit in hits for source in set(map(whole_id, hit.source_ids))]
    if rule == "repeat" and len(sources) != len(set(sources)):
        raise CheckFailed(f'on_unknown "repeat" is wrong, because the service stores a repeated batch again: {sources}')
    if not hits:
        raise CheckFailed("a memory is not found after it was added a second time")
    return f"{rule}: each memory once" if sources else rule


async def _text_unchanged(exam: Examination) -> str:
    exam.require_store()
    if exam.rewrites:
        raise CheckSkipped("the service changes the texts that it stores")
    awkward = [Memory(id="awkward-1", content=AWKWARD_TEXT), Memory(id="long-1", content=LONG_TEXT)]
    dated = [replace(memory, when=SAMPLE_FACTS[0][1]) for memory in awkward]
    await exam.fill(exam.first, dated)
    await exam.until_ready(exam.first, [memory.content for memory in dated])
    for memory in pieces(dated, exam.batching):
        hits = await exam.hits(exam.first, memory.content[:200], 10)
        if any(hit.content == memory.content for hit in hits):
            continue
        hits += await exam.hits(exam.first, memory.content[-200:], 10)
        if not _is_in_parts(memory, hits):
            shown = json.dumps([hit.content[:60] for hit in hits], ensure_ascii=False)
            raise CheckFailed(f"{memory.id} is returned with a changed text: found {shown}")
    return "newlines, quotes, emoji, right-to-left text, placeholders, 10,000 characters"


def _is_in_parts(memory: Memory, hits: Sequence[Hit]) -> bool:
    """Return True if the hits are unchanged parts of the memory, including the memory's beginning and end."""
    parts = [hit.content for hit in hits if memory.id in hit.source_ids and hit.content.strip() in memory.content]
    edges = (memory.content[:EDGE].strip(), memory.content[-EDGE:].strip())
    return all(any(edge in part for part in parts) for edge in edges)


async def _empty_query(exam: Examination) -> str:
    try:
        found = await exam.hits(exam.first, "")
    except Rejected as error:
        return f"Rejected: {str(error)[:80]}"
    return counted(len(found), "hit(|s)")


async def _clear(exam: Examination) -> str:
    if not exam.provider.capabilities.clear:
        raise CheckSkipped("the config declares that the provider cannot clear (capabilities.clear: false)")
    if exam.provider.keeps_store and exam.is_filled and not await exam.count(exam.first, SAMPLE_FACTS[0][0]):
        raise CheckFailed("the search finds nothing in a namespace with memories, so clearing cannot be checked")
    await exam.provider.clear(exam.first.space)
    await exam.provider.clear(exam.first.space)
    if not exam.provider.keeps_store:
        return "nothing to clear"
    await exam.prepare(exam.first)
    count = await exam.count(exam.first, SAMPLE_FACTS[0][0])
    if count:
        raise CheckFailed(counted(count, "memor(y is|ies are) left after clearing"))
    return "cleared twice; nothing is left"


async def _other_namespace(exam: Examination) -> str:
    exam.require_store()
    if exam.single:
        raise CheckSkipped("the provider has one namespace only (scoping: single)")
    found = await exam.hits(exam.second, OTHER)
    if not found:
        raise CheckFailed("clearing one namespace also cleared the other")
    return "still there"


async def _no_secret(exam: Examination) -> str:
    kept = [repr((scratch.space.captures, scratch.ingested)) for scratch in (exam.first, exam.second)]
    for place, texts in (("an error or detail", exam.texts), ("the journal", kept), ("the log", exam.log)):
        if any(redactor.holds_secret(text) for text in texts):
            raise CheckFailed(f"a secret is visible in {place}")
    return "not visible in log, journal or errors"


CHECKS: tuple[CheckDefinition, ...] = (
    CheckDefinition("version", _version),
    CheckDefinition("setup twice", _setup),
    CheckDefinition(EMPTY, _empty, ("setup twice",)),
    CheckDefinition("add", _add, ("setup twice",)),
    CheckDefinition("ready", _ready, ("add",)),
    CheckDefinition("found by own text", _found, ("ready",)),
    CheckDefinition("dates come back", _dates, ("found by own text",)),
    CheckDefinition("long question", _long_question, ("found by own text",)),
    CheckDefinition("k is kept", _k_limit, ("ready",)),
    CheckDefinition("namespaces apart", _isolation, ("ready",)),
    CheckDefinition("adding again", _repeat_batch, ("ready",)),
    CheckDefinition("text survives", _text_unchanged, ("adding again",)),
    CheckDefinition("empty query", _empty_query, ("found by own text",)),
    CheckDefinition("clear", _clear, ("setup twice",)),
    CheckDefinition("other namespace lives", _other_namespace, ("namespaces apart", "clear")),
    CheckDefinition("no secret shown", _no_secret, calls_provider=False),
)
