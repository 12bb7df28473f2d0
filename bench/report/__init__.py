"""Reports: a pure fold of a journal into numbers, and the files and tables made of them.

A report cannot tell a local run from a merged, resumed or unfinished one: it reads rows, nothing else::

    async with Reader.open(folder) as reader:
        report = await fold(reader)
    report.jobs[0].metrics["ndcg_at_10"].value

Where things are: ``fold`` (with ``gathering`` and ``gold``) makes the numbers; ``tables``, ``rendering``, ``page`` and
``wire`` show them; ``publish``, ``export`` and ``summary`` write them. ``compare`` sets jobs side by side: ``choosing``
which, ``sides`` their values, ``likeforlike`` whether they may be compared, ``pairing`` and ``rowtests`` the rows,
``verdicts`` and ``compareview`` what is said. ``failures`` says why items were lost, ``progress`` and ``runs`` how far
runs are, ``leaderboard`` who is first. Nothing here may call anybody, or read a dataset or a config.
"""

from __future__ import annotations

import sys

from bench.report.fold import IsolationProof, JobReport, Report, fold
from bench.report.results_document import results_json
from bench.rooms import CallableRoom

__all__ = ["IsolationProof", "JobReport", "Report", "fold", "results_json"]


sys.modules[__name__].__class__ = CallableRoom
