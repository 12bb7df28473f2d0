"""Under which load a run took its times: a service that is asked more at once answers later.

Example::

    load_of(reader.meta, reader.resumes, "chroma")      # {"concurrency": 10, "rate": {"search": "5/s"}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.journal import Resume, RunMeta

SETTINGS = ("concurrency", "ingest_concurrency", "rate")


def load_of(meta: RunMeta, resumes: Sequence[Resume], provider: str) -> dict[str, object]:
    """The settings of every process of a run, in order, as far as they were recorded; one value where all agree."""
    processes = [meta.extra.get("operation"), *(resume.data.get("operation") for resume in resumes)]
    known = [one for one in processes if isinstance(one, Mapping)]
    found: dict[str, object] = {}
    for name in SETTINGS:
        values: list[object] = []
        for one in known:
            value = _rates(one.get(name), provider) if name == "rate" else one.get(name)
            if value not in values:
                values.append(value)
        found[name] = values[0] if len(values) == 1 else values
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _rates(stored: object, provider: str) -> dict[str, str]:
    """The limits, those of the provider without its name: two providers that are asked as often are asked alike."""
    plain = provider.partition("@")[0]
    found = {}
    for name, rate in stored.items() if isinstance(stored, Mapping) else ():
        of, _, endpoint = str(name).partition(".")
        found[(endpoint or "all") if of in (plain, provider) else str(name)] = str(rate)
    return found
