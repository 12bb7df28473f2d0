"""Compare jobs.

``comparison_targets`` chooses the jobs, ``comparison_data`` loads them, and ``comparability`` checks that they may be
compared. ``compare`` and ``comparison_tests`` compute the rows of a ``comparison``; ``comparison_text`` formats them.
"""
