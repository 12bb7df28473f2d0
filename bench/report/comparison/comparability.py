"""Decide whether two jobs may be compared: check every setting that can change a score.

Two jobs are not comparable if they differ in a setting that affects results. A difference in any other setting is only
reported::

    found = check_comparability(a, b, metrics=["accuracy"])
    found.ok, [check.text for check in found.differences]       # False, ["k: A has 10, B has 5"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from bench.metrics.fold_input import NO_LABEL
from bench.report.comparison.sides import LOAD_SETTINGS, Side
from bench.visible_text import counted

SHOWN_DIGEST = 12
SHOWN_DEFINITIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparabilityCheck:
    """One setting of the two compared jobs, such as k or the judge model.

    ``a`` and ``b`` are the values of this setting in the two jobs, as JSON.
    """

    name: str
    a: object
    b: object
    same: bool
    affects_results: bool = True

    @property
    def prevents_comparison(self) -> bool:
        """True if the setting differs and can change results, so that the comparison would be unfair."""
        return self.affects_results and not self.same

    @property
    def text(self) -> str:
        """The setting and its values as text, such as ``k: A has 10, B has 5``."""
        return f"{self.name.replace('_', ' ')}: A has {value_text(self.a)}, B has {value_text(self.b)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparability:
    """The checks of all settings of two compared jobs, the sides a and b."""

    checks: tuple[ComparabilityCheck, ...]

    @property
    def ok(self) -> bool:
        return not self.differences

    @property
    def differences(self) -> tuple[ComparabilityCheck, ...]:
        """The settings whose difference makes the two jobs not comparable."""
        return tuple(check for check in self.checks if check.prevents_comparison)

    @property
    def by_design(self) -> tuple[ComparabilityCheck, ...]:
        """The settings that differ without making the comparison unfair, such as the provider.

        Concurrency and rate limits are not included (see ``load``).
        """
        return tuple(check for check in self._harmless if check.name not in LOAD_SETTINGS)

    @property
    def load(self) -> tuple[ComparabilityCheck, ...]:
        """The concurrency and rate limits that differ; they can change only times."""
        return tuple(check for check in self._harmless if check.name in LOAD_SETTINGS)

    @property
    def _harmless(self) -> Iterator[ComparabilityCheck]:
        return (check for check in self.checks if not check.same and not check.affects_results)


def check_comparability(a: Side, b: Side, *, metrics: Sequence[str]) -> Comparability:
    """Compare all settings of two jobs, the sides ``a`` and ``b``.

    ``metrics`` are the names of the metrics that will be compared.
    """
    return Comparability(checks=tuple(_checks(a, b, metrics)))


def _checks(a: Side, b: Side, metrics: Sequence[str]) -> Iterator[ComparabilityCheck]:
    def check(name: str, of: Callable[[Side], object], *, affects: bool = True) -> ComparabilityCheck:
        left, right = of(a), of(b)
        return ComparabilityCheck(name=name, a=left, b=right, same=left == right, affects_results=affects)

    yield check("benchmark", lambda side: side.record.benchmark)
    yield check("benchmark_version", lambda side: side.record.benchmark_version)
    yield check("dataset", lambda side: _digest(side.record.dataset.get("content_sha256")))
    yield check("items", _item_set)
    yield check("k", lambda side: side.record.k, affects=not _compares_variants(a, b))
    yield check("context_budget", lambda side: side.record.context_budget)
    yield check("track", lambda side: side.record.track)
    answered = any(side.record.models.answering for side in (a, b))
    yield check("answer_prompt", lambda side: _prompt_digests(side, "answer"), affects=answered)
    yield check("answering_model", lambda side: side.record.models.answering, affects=not _compares_models(a, b))
    yield check("hit_dates", lambda side: "missing" if side.lacks_dates else "there", affects=answered)
    judged = any(side.record.models.judge for side in (a, b))
    yield check("judge_model", lambda side: side.record.models.judge)
    yield check("judge_prompt", lambda side: _prompt_digests(side, "judge"), affects=judged)
    yield check("evaluator", lambda side: next(iter(side.record.evaluators), None), affects=answered)
    yield check("metric_definition", lambda side: _definitions(side, (a, b), metrics))
    yield check("sample_seed", lambda side: side.record.selection.get("seed"))
    yield check("epochs_reducer", lambda side: side.record.epochs_reducer if side.record.epochs > 1 else "mean")
    retrieval = any(one.category == "retrieval" for one in a.record.metrics if one.name in metrics)
    yield check("evidence_level", lambda side: side.record.level, affects=retrieval)
    for state in (
        check("valid", lambda side: not side.invalid or f"INVALID: {'; '.join(side.invalid)}"),
        check(
            "complete",
            lambda side: not side.partial or f"{side.status}, {side.n_ended} of {counted(side.n_planned, 'item(|s)')}",
        ),
    ):
        yield replace(state, same=state.a is True and state.b is True)
    yield check("provider", lambda side: side.record.provider, affects=False)
    yield check("provider_version", lambda side: side.version or "unknown", affects=False)
    yield check("provider_config", lambda side: _digest(side.record.config_sha256.get("provider")), affects=False)
    yield check("embedding_model", lambda side: side.record.models.embedding, affects=False)
    yield check("epochs", lambda side: side.record.epochs, affects=False)
    for name in LOAD_SETTINGS if a.load and b.load else ():
        left, right = a.load.get(name), b.load.get(name)
        yield ComparabilityCheck(name=name, a=left, b=right, same=left == right, affects_results=False)


def _compares_models(a: Side, b: Side) -> bool:
    """Return True if both sides have the same provider and configs, and the user named both answering models.

    The models are then the subject of the comparison.
    """
    same = a.record.provider == b.record.provider and a.record.config_sha256 == b.record.config_sha256
    return same and a.named_model and b.named_model


def _compares_variants(a: Side, b: Side) -> bool:
    """Return True if both sides are variants of one provider, as with ``-k 5 10``.

    Then k may be the subject of the comparison.
    """
    left, right = a.record.provider, b.record.provider
    return left != right and left.partition("@")[0] == right.partition("@")[0] and "@" in left and "@" in right


def _item_set(side: Side) -> object:
    digest = sha256("\n".join(sorted(side.items)).encode("utf-8", "surrogatepass")).hexdigest()
    return {"n": len(side.items), "sha256": digest[:SHOWN_DIGEST]}


def _prompt_digests(side: Side, role: str) -> object:
    named = [(name.partition("."), digest) for name, digest in side.record.prompts.items()]
    found = {label: _digest(digest) for (of_role, _, label), digest in sorted(named) if of_role == role}
    return next(iter(found.values())) if len(found) == 1 else found


def _definitions(side: Side, both: tuple[Side, Side], metrics: Sequence[str]) -> object:
    """Return the metric definitions of ``side`` that differ between both sides, or ``the same`` if none differs."""
    tables = [{one.name: one.definition for one in each.record.metrics} for each in both]
    differing = [name for name in metrics if len({table[name] for table in tables if name in table}) > 1]
    own = {one.name: one.definition for one in side.record.metrics}
    return {name: own[name] for name in differing[:SHOWN_DEFINITIONS]} or "the same"


def _digest(text: object) -> str | None:
    return None if text is None else str(text)[:SHOWN_DIGEST]


def value_text(value: object) -> str:
    """Format the value of a setting as short text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={value_text(one)}" for name, one in value.items()) or NO_LABEL
    return "none" if value is None else "yes" if value is True else str(value)
