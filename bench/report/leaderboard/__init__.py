"""The leaderboard: the newest complete valid job of each provider and models; only comparable rows share a table.

Pure values from the derived database, for the command line and the web pages alike::

    board = await load_board(Path("."), ["locomo"])
    tables = tables_of(board, "benchmark")
    board_grids(tables, "benchmark"), board_json("benchmark", tables), board_csv(tables)
"""

from __future__ import annotations

from bench.report.leaderboard.documents import board_csv, board_json
from bench.report.leaderboard.grids import board_grids
from bench.report.leaderboard.places import Place, load_board
from bench.report.leaderboard.saying import saying
from bench.report.leaderboard.views import VIEWS, Standing, Table, tables_of

__all__ = [
    "VIEWS",
    "Place",
    "Standing",
    "Table",
    "board_csv",
    "board_grids",
    "board_json",
    "load_board",
    "saying",
    "tables_of",
]
