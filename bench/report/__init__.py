"""Reports: a pure fold of a journal into numbers, and the files and tables made of them.

A report cannot tell a local run from a merged, resumed or unfinished one: it reads rows, nothing else::

    async with Reader.open(folder) as reader:
        report = await fold(reader)
    report.jobs[0].metrics["ndcg_at_10"].value

Where things are: ``fold`` (with ``job_data`` and ``job_notes``) makes the numbers; ``tables``, ``rendering`` and
``results_document`` show them; ``publish``, ``export`` and ``summary`` write them. ``compare`` sets jobs side by side:
``comparison_data`` which and their values, ``comparability`` whether they may be compared, ``comparison`` and
``comparison_tests`` the rows, ``comparison_text`` what is said. ``failures`` states why items were lost, ``status``
how far runs are, ``leaderboard`` who is first. Nothing here may call anyone, or read a dataset or a config."""

from __future__ import annotations

import sys

from bench.report.fold import IsolationProof, JobReport, Report, fold
from bench.report.results_document import results_json
from bench.rooms import CallableRoom

__all__ = ["IsolationProof", "JobReport", "Report", "fold", "results_json"]


sys.modules[__name__].__class__ = CallableRoom
