"""Reports: a pure fold of a journal into numbers, and the files and tables made of them.

A report cannot tell a local run from a merged, resumed or unfinished one: it reads rows, nothing else::

    async with Reader.open(folder) as reader:
        report = await fold(reader)
    report.jobs[0].metrics["ndcg_at_10"].value
"""

from __future__ import annotations

import sys

from bench.report.fold import IsolationProof, JobReport, Report, fold
from bench.report.wire import results_json
from bench.rooms import CallableRoom

__all__ = ["IsolationProof", "JobReport", "Report", "fold", "results_json"]


sys.modules[__name__].__class__ = CallableRoom
