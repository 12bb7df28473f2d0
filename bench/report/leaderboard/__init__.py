"""Rank the results of providers in tables. All results in one table are comparable.

The newest complete and valid job of each provider and set of models is ranked::

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
