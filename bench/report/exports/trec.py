"""Export a run for TREC tools: one run file and one file of relevance judgments (qrels) per job.

Example::

    await export_trec(reader, Path("trec"))     # trec/locomo__bm25.run and .qrels
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path

from bench.journal import Reader
from bench.model import Phase
from bench.plan.job_record import JobRecord, read_jobs
from bench.untyped_values import list_texts

NO_HIT = "(nothing)"
"""document id for a query without hits, because some tools leave queries without documents out of their averages"""


async def export_trec(reader: Reader, folder: Path) -> dict[str, int]:
    """Write the files ``BENCHMARK__PROVIDER.run`` and ``.qrels`` for each job.

    The result maps each file name, without suffix, to the number of hits with several ids. Only the hits of items with
    evidence are counted.

    An item that has evidence but no hits gets the document `NO_HIT`, so that all tools average over the same queries.
    An item without evidence is only in the run file. A hit with several ids is written with one of them (see
    ``document_ids``). Each repeat of an item is a separate query, ``ID#epochN``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, int] = {}
    for record in read_jobs(reader.meta.extra):
        stem = _stem(record, taken=found)
        found[stem] = await _export_job(reader, record, folder / stem)
    return found


def _stem(record: JobRecord, *, taken: Mapping[str, int]) -> str:
    """Return a file name without suffix that is not taken.

    The name consists of benchmark and provider. If this name is taken, the names of the models are added. If the longer
    name is taken too, a number is added.
    """
    plain, models = f"{record.benchmark}__{record.provider}", record.models
    names = [name.replace("/", "-") for name in (models.embedding, models.answering, models.judge) if name]
    full = "__".join([plain, *names])
    numbered = (f"{full}__{number}" for number in count(2))
    used = {stem.lower() for stem in taken}  # two names in one case are one file on some systems
    return next(stem for stem in chain([plain, full], numbered) if stem.lower() not in used)


async def _export_job(reader: Reader, record: JobRecord, stem: Path) -> int:
    several = 0
    run, qrels = stem.with_name(stem.name + ".run"), stem.with_name(stem.name + ".qrels")
    tag = percent_encoded(record.provider)
    with run.open("w", encoding="utf-8") as runs, qrels.open("w", encoding="utf-8") as golds:
        async for item in reader.items(record.chain):
            entry, search = item.phases.get(Phase.EVALUATE), item.phases.get(Phase.SEARCH)
            gold = list_texts(entry.data.get("gold")) if entry is not None else ()
            slots = search.data.get("retrieved") if search is not None and search.ok else None
            if not isinstance(slots, list):
                continue
            hits = [list_texts(slot) for slot in slots]
            query = percent_encoded(item.item if record.epochs == 1 else f"{item.item}#epoch{item.epoch}")
            given = entry.data.get("grades") if entry is not None else None
            grades = dict(zip(gold, given if isinstance(given, list) and given else [1.0] * len(gold), strict=True))
            golds.writelines(f"{query} 0 {percent_encoded(name)} {grade:.15g}\n" for name, grade in grades.items())
            documents = document_ids(hits, grades) or ([NO_HIT] if gold else [])
            several += sum(len(ids) > 1 for ids in hits) if gold else 0
            runs.writelines(
                f"{query} Q0 {document} {rank} {len(documents) - rank + 1} {tag}\n"
                for rank, document in enumerate(documents, start=1)
            )
    return several


def document_ids(hits: Sequence[Sequence[str]], gold: Mapping[str, float]) -> list[str]:
    """Return one document id per hit. No document id is used twice.

    The document of a hit is the hit's evidence id with the highest grade. Evidence ids of earlier hits do not
    count. If no evidence id is left, the document is the hit's first id. A repeated document becomes ``ID#dupN``.
    """
    covered: set[str] = set()
    real = {*gold, *(name for ids in hits for name in ids)}  # an id may look like a duplicate's
    documents: dict[str, None] = {}
    for rank, ids in enumerate(hits, start=1):
        new = [name for name in ids if name in gold and name not in covered]
        covered.update(new)
        first = max(new, key=gold.__getitem__) if new else next(iter(ids), f"(unmapped {rank})")
        later = (f"{first}#dup{number}" for number in count(1))
        free = chain([first], (name for name in later if name not in real))
        documents[next(name for name in free if name not in documents)] = None
    return [percent_encoded(name) for name in documents]


def percent_encoded(text: str) -> str:
    """Percent-encode an id, because white space separates the columns of TREC files."""
    return urllib.parse.quote(text, safe="!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~#", errors="surrogatepass")
