"""Rank the newest complete valid job of each provider and set of models, in tables of comparable rows.

All values come from the results database. The command line and the web pages show the same values::

    board = await load_board(Path("."), ["locomo"])
    tables = tables_of(board, "benchmark")
    board_grids(tables, "benchmark"), board_json("benchmark", tables), board_csv(tables)
"""

from __future__ import annotations

from bench.report.leaderboard.formats import (
    BoardMetric,
    JobRow,
    TableDocument,
    board_csv,
    board_grids,
    board_json,
    row_json,
)
from bench.report.leaderboard.standings import (
    VIEWS,
    RankedJob,
    RankingTable,
    Standing,
    leaders,
    load_board,
    load_invalid,
    rank_spreads,
    ranked_by_type,
    summary_sentences,
    tables_of,
)

__all__ = [
    "VIEWS",
    "BoardMetric",
    "JobRow",
    "RankedJob",
    "RankingTable",
    "Standing",
    "TableDocument",
    "board_csv",
    "board_grids",
    "board_json",
    "leaders",
    "load_board",
    "load_invalid",
    "rank_spreads",
    "ranked_by_type",
    "row_json",
    "summary_sentences",
    "tables_of",
]
