"""Compute the results of a run from its journal, and show them in files and tables.

A report reads only the rows of a journal, so it is the same for a local, merged or resumed run::

    async with Reader.open(folder) as reader:
        report = await fold(reader)
    report.jobs[0].metrics["ndcg_at_10"].value

``fold`` computes the results. ``tables``, ``rendering`` and ``results_document`` show them. This package makes no calls
and reads no dataset or config.
"""

from __future__ import annotations

import sys

from bench.lazy_exports import CallablePackage
from bench.report.fold import IsolationProof, JobReport, Report, fold
from bench.report.results_document import results_json

__all__ = ["IsolationProof", "JobReport", "Report", "fold", "results_json"]


sys.modules[__name__].__class__ = CallablePackage
