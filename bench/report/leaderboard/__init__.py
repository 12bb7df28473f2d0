"""Rank the results of providers in tables. All results in one table are comparable.

The newest complete and valid job of each provider and set of models is ranked: ``standings`` builds the tables, and
``formats`` writes them::

    board = await load_board(Path("."), ["locomo"])
    tables = tables_of(board, "benchmark")
    board_grids(tables, "benchmark"), board_json("benchmark", tables), board_csv(tables)
"""
