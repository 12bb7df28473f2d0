"""Show a receipt as one row of a list, and as a badge.

Example::

    one = summary_of(document, outcome)
    one["headline"], one["signer"]          # {"metric": "accuracy", "value": 0.79, ...}, "ops"
    badge("demo bm25", "accuracy 0.79", "VALID")       # an SVG for a README

The content of a receipt is not trusted. A value of an unexpected type is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from bench.untyped_values import Json
from bench.visible_text import shorten, visible

if TYPE_CHECKING:
    from bench.receipt.verification.verify import VerificationOutcome

HEADLINE = "accuracy"
SCORES = ("judged", "deterministic")
COLORS = {"VALID": "#1a7f4b", "UNTRUSTED": "#8a5a00", "SUPERSEDED": "#8a5a00"}
CHAR = 7.2
"""maximum width of a character in a badge, in pixels"""
LONGEST = 60
TRUSTED = ("trust", "ok")
"""(check, status) of the finding whose detail is the signer's name in the trust store"""
CHECK_WORDS = {
    "tagged_commit": "a tagged commit of bench",
    "clean_tree": "no local changes",
    "container_image": "a named container image",
    "dataset_matches": "the data set matches",
    "signature": "a trusted signature",
    "rerun_identical": "a rerun with equal results",
}
"""name of a check -> its description in words"""


def summary_of(document: Mapping[str, object], outcome: VerificationOutcome) -> Json:
    """Return the values of a list row: main score, signer, commit, and the checks that the receipt does not pass."""
    return {
        "headline": headline_of(document),
        "n": _nested(document, "counts", "scored"),
        "signer": next((one.detail or None for one in outcome.findings if (one.check, one.status) == TRUSTED), None),
        "commit": _nested(document, "environment", "git", "commit"),
        "missing": [CHECK_WORDS.get(name, name) for name, answer in outcome.checklist.items() if answer != "yes"],
    }


def headline_of(document: Mapping[str, object]) -> Json | None:
    """Return the accuracy in a receipt, or its first score if it has no accuracy; None if it has no score."""
    scores = document.get("scores")
    found: dict[str, Mapping[str, object]] = {}
    for group in SCORES:
        part = scores.get(group) if isinstance(scores, Mapping) else None
        for name, one in part.items() if isinstance(part, Mapping) else ():
            if isinstance(one, Mapping) and isinstance(one.get("value"), int | float):
                found.setdefault(str(name), one)
    if not found:
        return None
    metric = HEADLINE if HEADLINE in found else next(iter(found))
    low, high = (_number(_nested(found[metric], "interval", end)) for end in ("low", "high"))
    interval = None if low is None or high is None else {"low": low, "high": high}
    return {"metric": metric, "value": found[metric]["value"], "interval": interval, "n": found[metric].get("n")}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _nested(value: object, *names: str) -> object:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def badge(left: str, right: str, verdict: str) -> str:
    """Return a badge as SVG; it shows the texts ``left`` and ``right`` and the verdict on the receipt."""
    texts = [shorten(visible(left), LONGEST), shorten(visible(right), LONGEST), verdict]
    widths = [round(len(text) * CHAR + 14) for text in texts]
    edges = [0, widths[0], widths[0] + widths[1]]
    colors = ["#3a424b", "#2b4c7e", COLORS.get(verdict, "#b3261e")]
    label = escape(", ".join(texts), quote=True)
    parts = "".join(
        f'<rect x="{x}" width="{width}" height="20" fill="{color}"/>'
        f'<text x="{x + width / 2:g}" y="14" text-anchor="middle">{escape(text)}</text>'
        for x, width, color, text in zip(edges, widths, colors, texts, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{sum(widths)}" height="20" role="img" aria-label="{label}">'
        f'<title>{label}</title><g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f"{parts}</g></svg>"
    )


def badge_of(row: Json) -> str:
    """Return the SVG badge of a receipt; ``row`` is the receipt's row in the list of receipts."""
    statement = row.get("statement")
    names = [_nested(statement, name, "name") for name in ("benchmark", "provider")]
    headline = row.get("headline")
    if not isinstance(headline, Mapping):
        return badge("bench receipt", "no score", str(row["verdict"]))
    value, half = float(headline["value"]), ""
    interval = headline.get("interval")
    if isinstance(interval, Mapping):
        half = f" [{interval['low']:.2f}, {interval['high']:.2f}]"
    left = " ".join(str(name) for name in names if isinstance(name, str)) or "bench receipt"
    return badge(left, f"{headline['metric']} {value:.2f}{half}", str(row["verdict"]))
