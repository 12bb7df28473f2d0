"""Let people label answers in the browser or over HTTP, to check the verdicts of a judge.

The labels are stored in the journal, like the labels from the TSV file of ``bench review``.

Example::

    document = await review_document(site, "r1", after=None, at=None)
    document["entry"]                                # question, expected, answer: no provider, no verdict
    await put_labels(site, "r1", {"4f0c...": True})
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.journal import Reader
from bench.report.judges.review_sheet import draw_sheet, read_sheet, record_labels, texts_to_label
from bench.untyped_values import Json
from bench.web.app_state import Site
from bench.web.documents.run_documents import folder_of
from bench.web.errors import RequestRefused


async def review_document(site: Site, run_id: str, *, after: str | None = None, at: str | None = None) -> Json:
    """Return the answer that a person is to label: the answer with the id ``at``.

    If no answer has this id, return the next answer after ``after`` that has no label.
    """
    async with Reader.open(folder_of(site, run_id)) as reader:
        sheet = await read_sheet(reader)
        entry = sheet.entries.get(at or "") or sheet.pending(after)
        words = None if entry is None else await texts_to_label(reader, entry)
    label = None if entry is None else sheet.labels.get(entry.id)
    shown = None if words is None else {**words, "right": label}
    return {"run_id": run_id, "n": len(sheet.entries), "labelled": sheet.labelled, "entry": shown}


async def draw_answers(site: Site, run_id: str, n: object, seed: object = 0) -> None:
    """Draw ``n`` answers of each provider and answering model, for people to label."""
    assert site.service is not None
    folder, count = folder_of(site, run_id), _whole("n", n, 1)
    async with site.service.labelling:
        await draw_sheet(folder, n=count, seed=_whole("seed", seed, 0))


async def put_labels(site: Site, run_id: str, labels: Mapping[str, object]) -> list[str]:
    """Write labels to the journal, and return the ids of the answers that had another label.

    ``labels`` is id of an answer in the review -> True if the answer is right.

    Raises:
        RequestRefused: a label is not a boolean, or an answer is not in the sample.
    """
    assert site.service is not None
    folder = folder_of(site, run_id)
    given = {name: right for name, right in labels.items() if isinstance(right, bool)}
    if len(given) < len(labels):
        raise RequestRefused(400, "usage", "a label is neither true nor false", 'send {"ID": true, "ID": false}')
    async with site.service.labelling:
        async with Reader.open(folder) as reader:
            await reader.refuse_held()
            sheet = await read_sheet(reader)
        for name in given:
            if name not in sheet.entries:
                raise RequestRefused(
                    400, "usage", f'"{name}" is not the id of an answer in this review', "load the review again"
                )
        await record_labels(folder, given.items())
        return sheet.changed_by(given)


def _whole(name: str, value: object, least: int) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and least <= int(text)):
        raise RequestRefused(
            400,
            "usage",
            f"{name} is {text!r}, expected a whole number of at least {least}",
            f"send a whole number, for example {name}=50",
        )
    return int(text)
