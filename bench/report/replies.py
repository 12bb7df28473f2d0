"""Find replies that came from another model than the requested model, such as a fallback.

Example::

    same_model("openai/gpt-4o", "gpt-4o-2024-08-06")        # True: a dated name of the same model
    same_model("openai/gpt-4o", "gpt-4o-mini")              # False
"""

from __future__ import annotations

import re

from bench.journal import Reader
from bench.model import Phase
from bench.plan.job_record import JobRecord

NAMED_BY_USERS = frozenset({"azure"})
"""vendors whose model names are names of deployments, which the users choose"""
VERSION = r"(?:\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|\d{8}|\d{6}|\d{4}|\d{3}|v\d+(?:-\d+)*|latest|preview|exp|free)"
VERSIONS = re.compile(f"(?:-{VERSION})+")
ALIAS = re.compile(r"(?:-(?:latest|preview|exp|free|nitro|floor))+$")


def same_model(requested: str, reported: str) -> bool:
    """Return True if the reported name means the requested model. Suffixes with a date, version or alias are
    ignored.
    """
    one, other = _plain(requested), _plain(reported)
    short, long = sorted((ALIAS.sub("", one), ALIAS.sub("", other)), key=len)
    return long == short or (long.startswith(short) and VERSIONS.fullmatch(long[len(short) :]) is not None)


def _plain(name: str) -> str:
    return re.sub(r"[.:@_ ]", "-", name.rpartition("/")[2].lower())


async def reply_notes(reader: Reader, record: JobRecord) -> list[str]:
    """Return notes on replies of a job that came from another model than planned, with the number of such replies."""
    models = record.models
    found = []
    for what, owner, phase, role, requested in (
        ("answers", record.answer_owner, Phase.ANSWER, "answering", models.answering),
        ("verdicts", record.key, Phase.EVALUATE, "judge", models.judge),
        ("vectors of questions", record.lane, Phase.SEARCH, "embedding", models.embedding),
    ):
        if requested is None or requested.partition("/")[0] in NAMED_BY_USERS:
            continue
        if all(same_model(requested, name) for name in (await reader.repliers()).get(role, ())):
            continue
        counts = await reader.reply_models(owner, phase, role)
        total = sum(counts.values())
        found += [
            f'{count} of {total} {what} came from "{name}", but "{requested}" was requested'
            for name, count in counts.items()
            if not same_model(requested, name)
        ]
    return found
