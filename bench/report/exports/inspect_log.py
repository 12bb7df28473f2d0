"""Export a run as Inspect logs: one JSON file per job, for ``inspect view`` and ``inspect_ai.log.read_eval_log``.

Example::

    await export_inspect(reader, Path("logs"))      # {"2026-11-29T10-00-00_locomo_1f0a....json": 200}

A sample is one item: question, reference answers, answer, and one score per evaluator and metric. A failed item is a
sample with an error and without scores. The log of an INVALID job is marked as invalidated.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from bench.journal import Reader, RunState
from bench.journal.records import Status
from bench.report.exports.export import ExportedRow, rows_of
from bench.report.fold import JobReport, fold
from bench.untyped_values import Json
from bench.version import __version__

FORMAT = 2
"""version number of Inspect's log format"""
STATUS = {RunState.COMPLETE: "success", RunState.RUNNING: "started", RunState.FAILED: "error"}
STOP = {"stop": "stop", "length": "max_tokens", "refusal": "content_filter"}
MICROS = 1_000_000


async def export_inspect(reader: Reader, folder: Path) -> dict[str, int]:
    """Write one log file per job. Return file name -> number of samples in the file; a sample is one item."""
    folder.mkdir(parents=True, exist_ok=True)
    report, status = await fold(reader), await reader.status()
    found: dict[str, int] = {}
    for job in report.jobs:
        stamp = reader.meta.created_at.strftime("%Y-%m-%dT%H-%M-%S")
        name = f"{stamp}_{_file_name_part(job.record.benchmark)}_{_task_id(reader, job)}.json"
        with (folder / name).open("w", encoding="utf-8") as sink:
            found[name] = await _write_log(reader, job, status, sink)
    return found


async def _write_log(reader: Reader, job: JobReport, status: Status, sink: TextIO) -> int:
    """Write the log of one job; return the number of samples.

    Samples are written one by one, so that memory use does not grow with the run.
    """
    head = {
        "version": FORMAT,
        "status": STATUS.get(status.state, "cancelled"),
        "eval": _eval(reader, job),
        "plan": {"name": "plan", "steps": [{"solver": job.record.provider, "params": {"k": job.record.k}}]},
        "results": _results(job),
        "stats": _stats(reader, job, status.at),
        "invalidated": not job.valid,
    }
    sink.write(_json_text(head)[:-1] + ', "samples": [')
    written = 0
    async with aclosing(rows_of(reader, reader.meta.run_id, job.record)) as rows:
        async for row in rows:
            sink.write((",\n" if written else "\n") + _json_text(_sample(job, row)))
            written += 1
    sink.write("\n]}\n")
    return written


def _eval(reader: Reader, job: JobReport) -> Json:
    record, identity = job.record, _task_id(reader, job)
    return {
        "run_id": reader.meta.run_id,
        "eval_id": identity,
        "task_id": identity,
        "created": reader.meta.created_at.isoformat(),
        "task": record.benchmark,
        "task_display_name": f"{record.benchmark} ({record.provider})",
        "task_version": record.benchmark_version,
        "task_args": {"provider": record.provider, "k": record.k, "embedding_model": record.models.embedding},
        "tags": [record.provider],
        "dataset": {"name": record.benchmark, "samples": job.n_planned, "shuffled": False},
        "model": record.models.answering or "none/none",
        "config": {"epochs": record.epochs, "epochs_reducer": [record.epochs_reducer]},
        "packages": {"memorybench": __version__},
        "metadata": {
            "plan_digest": reader.meta.plan_digest,
            "judge_model": record.models.judge,
            "dataset_sha256": record.dataset.get("sha256"),
            **({"invalid": list(job.invalid)} if job.invalid else {}),
        },
    }


def _results(job: JobReport) -> Json:
    scores = []
    for name, one in job.metrics.items():
        if one.value is None:
            continue
        values = {"mean": one.value}
        if one.interval is not None:
            values |= {"ci_lower": one.interval.low, "ci_upper": one.interval.high}
        scores.append(
            {
                "name": name,
                "scorer": name,
                "scored_samples": one.n,
                "unscored_samples": one.n_excluded + one.n_failed,
                "metrics": {key: {"name": key, "value": value} for key, value in values.items()},
                "metadata": {"definition": one.definition, "failures_as_zero": one.value_failures_as_zero},
            }
        )
    return {"total_samples": job.n_planned, "completed_samples": job.n_scored, "scores": scores}


def _stats(reader: Reader, job: JobReport, ended: datetime) -> Json:
    spent, model = job.usage.get("answering"), job.record.models.answering
    usage = {model: _usage(spent.usage.input_tokens, spent.usage.output_tokens)} if spent and model else {}
    return {
        "started_at": reader.meta.created_at.isoformat(),
        "completed_at": ended.isoformat(),
        "model_usage": usage,
    }


def _sample(job: JobReport, row: ExportedRow) -> Json:
    question, answer = str(row.get("question") or ""), row.get("answer")
    messages: list[Json] = [{"role": "user", "content": question, "source": "input"}]
    sample: Json = {
        "id": row["item_id"],
        "epoch": row["epoch"],
        "input": question,
        "target": list(row["expected"] or ()),
        "messages": messages,
        "scores": _scores(job, row),
        "metadata": {
            name: row.get(name) for name in ("corpus", "state", "labels", "retrieved", "hits", "evidence", "metadata")
        },
        "total_time": sum(times.get("total", 0) for times in row["latency"].values()) / MICROS,
    }
    if answer is not None:
        messages.append({"role": "assistant", "content": answer, "source": "generate"})
        sample["output"] = _output(job, row, messages[-1])
    error = row["error"]
    if error is not None:
        text = f"{error['kind']}: {error['message']}"
        sample["error"] = {"message": text, "traceback": text, "traceback_ansi": text}
    return sample


def _output(job: JobReport, row: ExportedRow, message: Json) -> Json:
    tokens = row["tokens"].get("answering")
    stop = STOP.get(str(row["finish"]), "unknown")
    return {
        "model": row.get("answer_model") or job.record.models.answering or "none",
        "choices": [{"message": message, "stop_reason": stop}],
        **({"usage": _usage(tokens["input"], tokens["output"])} if tokens else {}),
    }


def _scores(job: JobReport, row: ExportedRow) -> Json:
    """Return one score per verdict and per metric of the item; empty if the item failed."""
    if row["error"] is not None:
        return {}
    metrics = row["metrics"]
    names = [metric.name for metric in job.record.metrics if metric.is_score]
    found: Json = {name: {"value": metrics[name]} for name in names if metrics.get(name) is not None}
    for verdict in row["verdicts"]:
        if verdict["value"] is not None:
            found[str(verdict["evaluator"])] = {
                "value": verdict["value"],
                "answer": row.get("answer"),
                "explanation": verdict["reason"] or None,
                "metadata": {"correct": verdict["correct"], "judge_reply": verdict["raw"]},
            }
    return found


def _usage(tokens_in: int, tokens_out: int) -> dict[str, int]:
    return {"input_tokens": tokens_in, "output_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def _task_id(reader: Reader, job: JobReport) -> str:
    return sha256(f"{reader.meta.run_id}\0{job.record.key}".encode()).hexdigest()[:22]


def _file_name_part(name: str) -> str:
    return "".join(one if one.isalnum() or one == "-" else "-" for one in name)


def _json_text(tree: object) -> str:
    return json.dumps(tree, ensure_ascii=True, allow_nan=False)
