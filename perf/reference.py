"""The reference results as tables and a chart, made from the published receipts: ``python -m perf.reference``.

It writes the rows between the markers of README.md and docs/systems.md, and docs/reference-results.svg. Every number is
from a receipt in results/published; `tests/receipt/test_published.py` checks the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PICTURE = "docs/reference-results.svg"
BENCHMARKS = {
    "demo": "demo",
    "locomo": "LoCoMo, sessions",
    "locomo-turns": "LoCoMo, turns",
    "longmemeval-subset": "LongMemEval subset",
}
"""benchmark -> title, in the order of the columns"""
BETWEEN = re.compile(r"(?<=<!-- results -->\n).*?(?=<!-- end of results -->)", re.DOTALL)
ROW, LEFT, WIDTH = 15, 300, 760


@dataclass(frozen=True, kw_only=True)
class Published:
    """The data of one receipt that the tables show."""

    receipt_id: str
    system: str
    version: str
    benchmark: str
    scores: dict[str, Any]
    failed: int
    planned: int

    @classmethod
    def of(cls, path: Path) -> Published:
        tree = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            receipt_id=tree["receiptId"],
            system=tree["provider"]["name"],
            version=tree["provider"]["version"] or "built in",
            benchmark=tree["benchmark"]["name"],
            scores=tree["scores"]["deterministic"],
            failed=tree["counts"]["byState"]["error"],
            planned=tree["counts"]["planned"],
        )

    def shown(self, metric: str) -> str:
        """Format a value with its interval."""
        one = self.scores[metric]
        low, high = self.ends(metric)
        return f"{one['value']:.4f}" + (f" [{low:.2f}, {high:.2f}]" if one.get("interval") else "")

    def ends(self, metric: str) -> tuple[float, float]:
        one = self.scores[metric]
        found = one.get("interval") or {"low": one["value"], "high": one["value"]}
        return float(found["low"]), float(found["high"])


def published(root: Path = ROOT) -> list[Published]:
    """Return every receipt that is not superseded or retracted, by benchmark, the best first."""
    log = [json.loads(line) for line in (root / "results/published/entries.jsonl").read_text().splitlines()]
    gone = {one["old"] for one in log if one["type"] == "supersede"}
    gone |= {one["receiptId"] for one in log if one["type"] == "retract"}
    found = [Published.of(path) for path in sorted((root / "results/published/receipts").glob("*.json"))]
    order = list(BENCHMARKS)
    kept = [one for one in found if one.receipt_id not in gone]
    return sorted(kept, key=lambda one: (order.index(one.benchmark), -one.scores["ndcg_at_10"]["value"], one.system))


def overview(rows: Sequence[Published]) -> str:
    """Return a table of the nDCG@10 of each system on each benchmark."""
    names = [name for name in BENCHMARKS if any(one.benchmark == name for one in rows)]
    by_place = {(one.system, one.benchmark): one for one in rows}
    lines = ["| nDCG@10 | " + " | ".join(BENCHMARKS[name] for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    for system in dict.fromkeys(one.system for one in rows):
        cells = [by_place[system, name].shown("ndcg_at_10") if (system, name) in by_place else "-" for name in names]
        lines.append(f"| `{system}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def details(rows: Sequence[Published]) -> str:
    """Return a table with one row per receipt."""
    lines = [
        "| benchmark | system | version | hit@10 | nDCG@10 | failed | receipt |",
        "|---" * 7 + "|",
    ]
    for one in rows:
        cells = (
            BENCHMARKS[one.benchmark],
            f"`{one.system}`",
            one.version,
            one.shown("hit_at_10"),
            one.shown("ndcg_at_10"),
            f"{one.failed} of {one.planned}",
            f"`{one.receipt_id}`",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def picture(rows: Sequence[Published]) -> str:
    """Return an SVG chart with a dot and an interval for each receipt."""

    def across(value: float) -> float:
        return LEFT + value * (WIDTH - LEFT - 70)

    body, y = [], 36.0
    for tick in range(0, 11, 2):
        x = across(tick / 10)
        body.append(f'<text x="{x:.1f}" y="20" text-anchor="middle" class="soft">{tick / 10:.1f}</text>')
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="26" y2="100%" class="grid"/>')
    for name, title in BENCHMARKS.items():
        group = [one for one in rows if one.benchmark == name]
        if not group:
            continue
        body.append(f'<text x="12" y="{y + 10:.1f}" class="head">{escape(title)}</text>')
        for one in group:
            y += ROW
            low, high = map(across, one.ends("ndcg_at_10"))
            value, middle = float(one.scores["ndcg_at_10"]["value"]), y + 6
            body.append(f'<text x="{LEFT - 12}" y="{y + 10:.1f}" text-anchor="end">{escape(one.system)}</text>')
            body.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" class="range"/>')
            body.append(f'<circle cx="{across(value):.1f}" cy="{middle:.1f}" r="4"/>')
            body.append(f'<text x="{WIDTH - 12}" y="{y + 10:.1f}" text-anchor="end">{value:.4f}</text>')
        y += 2 * ROW
    style = (
        "text{font:12px sans-serif;fill:#222}.head{font-weight:bold}.soft{fill:#555}.grid{stroke:#ddd}"
        ".range{stroke:#4a6fa5;stroke-width:2}circle{fill:#1f4e8c}"
    )
    told = "nDCG@10 of each system on each benchmark, with its 95% interval"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" role="img" aria-label="{told}">\n'
        f"<style>{style}</style>\n"
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def made(root: Path = ROOT) -> dict[str, str]:
    """Return file -> the text that it should have."""
    rows = published(root)
    texts = {PICTURE: picture(rows)}
    for name, block in (("README.md", overview(rows)), ("docs/systems.md", details(rows))):
        texts[name] = BETWEEN.sub(lambda _, block=block: block, (root / name).read_text(encoding="utf-8"))
    return texts


if __name__ == "__main__":
    for name, text in made().items():
        (ROOT / name).write_text(text, encoding="utf-8")
