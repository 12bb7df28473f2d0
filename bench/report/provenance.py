"""Where tokens and money come from: what endpoints said or what was counted here, and whose prices.

Example::

    token_methods(record, spent, ingested)      # {"answer_in": ("usage", False), "context": ("chars/4", True), ...}
    price_methods(meta, resumes, record, spent, ingested)      # {"answer": ("genai-prices 0.2.3",)}

The keys are the roles of `bench.metrics.spending`; a role of which nothing is known is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from bench.journal import Resume, RunMeta
from bench.journal.records import Spent
from bench.model import TOKEN_METHOD
from bench.plan.record import JobRecord

Method = tuple[str, bool]
"""how it was counted, and whether that is an estimate"""
Owners = Mapping[str, Mapping[str, Spent]]
"""owner of rows -> role -> calls"""

USAGE = "usage"
"""the endpoint said it"""
OWN = "prices"
"""the run file or the provider's config named the price"""
TABLE = "genai-prices"
WITHOUT_CALLS: Mapping[str | None, Method] = {
    "builtin/extractive": (TOKEN_METHOD, True),
    "builtin/scripted": (USAGE, False),
}
"""models that nobody is called for, so that no ledger tells of them"""
NOTHING = Spent()


def token_methods(record: JobRecord, spent: Owners, ingested: Sequence[Spent]) -> dict[str, Method]:
    """How the tokens of each role were counted."""
    answered = _counted([spent[record.answer_owner].get("answering", NOTHING)])
    judged = _counted([spent[record.key].get("judge", NOTHING)])
    answered = answered or WITHOUT_CALLS.get(record.models.answering)
    judged = judged or WITHOUT_CALLS.get(record.models.judge)
    found = {
        "ingest": _counted(ingested),
        "context": (TOKEN_METHOD, True),
        "answer_in": answered,
        "answer_out": answered,
        "judge_in": judged,
        "judge_out": judged,
    }
    return {role: method for role, method in found.items() if method is not None}


def _counted(spent: Iterable[Spent]) -> Method | None:
    parts = list(spent)
    told, estimated = sum(one.told for one in parts), sum(one.estimated for one in parts)
    if not told:
        return None
    if not estimated:
        return USAGE, False
    return (TOKEN_METHOD if estimated == told else f"{USAGE} and {TOKEN_METHOD}"), True


def price_methods(
    meta: RunMeta, resumes: Sequence[Resume], record: JobRecord, spent: Owners, ingested: Mapping[str, Spent]
) -> dict[str, tuple[str, ...]]:
    """Whose prices the calls of each role were counted at; ``ingested`` is what the corpora took, by ledger role."""
    pricing = _Pricing.of(meta, resumes, record)
    searched = {role: _less(one, ingested.get(role, NOTHING)) for role, one in spent[record.lane].items()}
    found = {
        "ingest": pricing.of_lane(ingested),
        "search": pricing.of_lane(searched),
        "answer": pricing.of_model(record.models.answering, spent[record.answer_owner].get("answering", NOTHING)),
        "judge": pricing.of_model(record.models.judge, spent[record.key].get("judge", NOTHING)),
    }
    return {role: tuple(sorted(methods)) for role, methods in found.items() if methods}


@dataclass(frozen=True, slots=True)
class _Pricing:
    """What a run knew of prices."""

    own: frozenset[str]
    """models and providers with a price of their own"""
    table: str
    record: JobRecord

    @classmethod
    def of(cls, meta: RunMeta, resumes: Sequence[Resume], record: JobRecord) -> _Pricing:
        own = meta.request.get("prices")
        processes = [meta.versions, *(resume.data.get("versions") for resume in resumes)]
        tables = dict.fromkeys(name for one in processes if (name := _table(one)))
        return cls(frozenset(own) if isinstance(own, Mapping) else frozenset(), " and ".join(tables) or TABLE, record)

    def of_model(self, name: str | None, spent: Spent) -> set[str]:
        if not Decimal(spent.cost_usd):
            return set()
        return {OWN if name in self.own else self.table}

    def of_lane(self, spent: Mapping[str, Spent]) -> set[str]:
        """A provider's own calls have a price each; the models inside it are priced like any other."""
        found = self.of_model(self.record.models.embedding, spent.get("embedding", NOTHING))
        provider = spent.get("provider", NOTHING)
        if Decimal(provider.cost_usd):
            found |= {self.table} if provider.told else set()
            found |= {OWN} if self.own or not provider.told else set()
        return found


def _less(whole: Spent, part: Spent) -> Spent:
    return Spent(
        calls=whole.calls - part.calls,
        cost_usd=format(Decimal(whole.cost_usd) - Decimal(part.cost_usd), "f"),
        told=whole.told - part.told,
        estimated=whole.estimated - part.estimated,
    )


def _table(versions: object) -> str | None:
    packages = versions.get("packages") if isinstance(versions, Mapping) else None
    version = packages.get(TABLE) if isinstance(packages, Mapping) else None
    return None if version is None else f"{TABLE} {version}"
