"""Compare jobs.

``comparison_targets`` chooses the jobs, ``sides`` loads them, and ``comparability`` checks that they may be compared.
``compare`` and ``paired_tests`` compute the ``comparison_rows``; ``formats`` writes them as tables, Markdown and JSON.
"""
