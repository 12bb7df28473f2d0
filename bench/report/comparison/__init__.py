"""Compare jobs over the items that they share.

``comparison_targets`` chooses the jobs, ``sides`` loads the jobs, and ``comparability`` checks that they may be
compared. ``compare`` and ``paired_tests`` compute the rows of ``comparison_rows``. ``formats`` writes a comparison as
tables, Markdown and JSON.
"""
