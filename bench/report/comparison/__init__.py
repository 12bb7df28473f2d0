"""Compare jobs: ``comparison_data`` loads the sides, ``comparability`` checks that they may be compared, ``comparison``
and ``comparison_tests`` compute the rows, ``comparison_text`` formats them."""
