"""Compare jobs, using only the items that these jobs share.

``comparison_targets`` chooses the jobs, and ``comparability`` checks that they may be compared. ``compare`` computes
the result, and ``formats`` writes it as tables, Markdown and JSON.
"""
