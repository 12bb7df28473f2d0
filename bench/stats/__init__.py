"""Confidence intervals, significance tests and correlations: pure functions without third-party packages.

Example::

    from bench import stats

    stats.interval([1, 0, 1, 1])                       # Interval(low=0.30, high=0.95, method="wilson")
    stats.compare({"q1": 1, "q2": 0}, {"q1": 0, "q2": 0}).p

A cluster is a group of items that are not independent, such as all questions about one conversation. This package must
not import ``bench.metrics``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from bench.stats.corrected import CorrectedShare, Stratum, allocation, corrected_share
    from bench.stats.correlation import cohen_kappa, kendall_tau_b, krippendorff_alpha, pearson, spearman
    from bench.stats.descriptive import by_cluster, mean, percentile, stderr, stderr_clustered
    from bench.stats.intervals import (
        ORDER_STATISTIC_FROM,
        bootstrap_interval,
        interval,
        interval_cluster,
        interval_macro_of,
        interval_of,
        interval_t,
        interval_wilson,
        order_statistic_interval,
        percentile_interval,
    )
    from bench.stats.paired import Comparison, as_ratio, compare, compare_columns, compare_macro
    from bench.stats.ratios import percentile_ratio
    from bench.stats.significance import (
        EXACT_UP_TO,
        McNemar,
        PairedT,
        SignFlip,
        holm,
        least_max_t,
        max_t,
        mcnemar,
        mde,
        paired_t,
        sign_flip,
    )
    from bench.stats.tally import ClusterValues, MixedValues, RunningSums, Tally, exact_sum, from_units, to_units

__all__ = [
    "EXACT_UP_TO",
    "ORDER_STATISTIC_FROM",
    "ClusterValues",
    "Comparison",
    "CorrectedShare",
    "McNemar",
    "MixedValues",
    "PairedT",
    "RunningSums",
    "SignFlip",
    "Stratum",
    "Tally",
    "allocation",
    "as_ratio",
    "bootstrap_interval",
    "by_cluster",
    "cohen_kappa",
    "compare",
    "compare_columns",
    "compare_macro",
    "corrected_share",
    "exact_sum",
    "from_units",
    "holm",
    "interval",
    "interval_cluster",
    "interval_macro_of",
    "interval_of",
    "interval_t",
    "interval_wilson",
    "kendall_tau_b",
    "krippendorff_alpha",
    "least_max_t",
    "max_t",
    "mcnemar",
    "mde",
    "mean",
    "order_statistic_interval",
    "paired_t",
    "pearson",
    "percentile",
    "percentile_interval",
    "percentile_ratio",
    "sign_flip",
    "spearman",
    "stderr",
    "stderr_clustered",
    "to_units",
]

__getattr__ = lazy_exports(
    __name__,
    paired="Comparison as_ratio compare compare_columns compare_macro",
    corrected="CorrectedShare Stratum allocation corrected_share",
    correlation="cohen_kappa kendall_tau_b krippendorff_alpha pearson spearman",
    descriptive="by_cluster mean percentile stderr stderr_clustered",
    intervals=(
        "ORDER_STATISTIC_FROM bootstrap_interval interval interval_cluster "
        "interval_macro_of interval_of interval_t interval_wilson order_statistic_interval percentile_interval"
    ),
    ratios="percentile_ratio",
    significance="EXACT_UP_TO McNemar PairedT SignFlip holm least_max_t max_t mcnemar mde paired_t sign_flip",
    tally="ClusterValues MixedValues RunningSums Tally to_units exact_sum from_units",
)
