"""Export a run in the format "Every Eval Ever": one JSON file and one JSON Lines file per job.

Example::

    await export_records(reader, Path("out"))
    # out/data/locomo/openai/gpt-4o-mini/UUID.json and UUID_samples.jsonl, the folders of the shared datastore

An instance is one item with its score. The schema (version 0.3.0) requires a score, so an item without a score has no
instance and is only counted in the record. A job that is INVALID or has no value is not exported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from bench.journal import Reader
from bench.model import Measurement
from bench.plan.job_record import JobRecord, MetricRecord
from bench.report.exports.export import ExportedRow, rows_of
from bench.report.fold import JobReport, fold
from bench.untyped_values import Json
from bench.version import __version__

SCHEMA = "0.3.0"
SAMPLES = "_samples.jsonl"
SELF_DEPLOYED = frozenset({"builtin", "ollama", "local"})


async def export_records(reader: Reader, folder: Path) -> dict[str, int]:
    """Write one record file and one file of instances per job.

    An instance is an item with a score. The result maps the name of each file of instances to the number of its
    instances.
    """
    found: dict[str, int] = {}
    for job in (await fold(reader)).jobs:
        headline = job.headline
        if headline is None or headline.value is None:
            continue
        record = EvalRecord(reader=reader, job=job, headline=headline)
        path = folder / record.path
        path.parent.mkdir(parents=True, exist_ok=True)
        found[str(record.path)] = await record.write(path)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRecord:
    """The record of one job.

    ``headline`` is the metric whose values are the scores of the instances.
    """

    reader: Reader
    job: JobReport
    headline: Measurement

    @property
    def model(self) -> str:
        """The name of the answering model; for a job without answers, ``memorybench/PROVIDER``."""
        record = self.job.record
        return record.models.answering or f"memorybench/{record.provider}"

    @property
    def evaluation(self) -> str:
        """The id of the evaluation: benchmark, memory system, model and creation time of the run."""
        record, at = self.job.record, self.reader.meta.created_at.timestamp()
        return f"{record.benchmark}/{record.provider}/{self.model}/{at:.6f}"

    @property
    def path(self) -> Path:
        """The path of the file of instances, relative to the datastore."""
        vendor, _, model = self.model.partition("/")
        seed = sha256(f"{self.reader.meta.run_id}\0{self.job.record.key}".encode()).digest()
        name = f"{UUID(bytes=seed[:16], version=4)}{SAMPLES}"
        return Path("data", *map(_folder_name, (self.job.record.benchmark, vendor, model)), name)

    async def write(self, path: Path) -> int:
        """Write the items with a score to ``path``, and a record with the checksum of this file next to it.

        Return the number of items that were written.
        """
        digest, written = sha256(), 0
        with path.open("wb") as sink:
            async with aclosing(rows_of(self.reader, self.reader.meta.run_id, self.job.record)) as rows:
                async for row in rows:
                    instance = self._instance(row)
                    if instance is None:
                        continue
                    line = json.dumps(instance, ensure_ascii=True, allow_nan=False).encode() + b"\n"
                    digest.update(line)
                    sink.write(line)
                    written += 1
        tree = self._record(rows=written, checksum=digest.hexdigest())
        record_path = path.with_name(path.name.replace(SAMPLES, ".json"))
        record_path.write_text(json.dumps(tree, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        return written

    def _record(self, *, rows: int, checksum: str) -> Json:
        at, metrics = f"{self.reader.meta.created_at.timestamp():.6f}", self.job.metrics
        scored = [one for one in self.job.record.metrics if one.is_score and one.name in metrics]
        return {
            "schema_version": SCHEMA,
            "evaluation_id": self.evaluation,
            "evaluation_timestamp": at,
            "retrieved_timestamp": at,
            "source_metadata": {
                "source_name": f"bench run {self.reader.meta.run_id}",
                "source_type": "evaluation_run",
                "source_organization_name": "unknown",
                "evaluator_relationship": "other",
            },
            "eval_library": {"name": "memorybench", "version": __version__},
            "model_info": self._model_info(),
            "evaluation_results": [
                self._result(one, metrics[one.name]) for one in scored if metrics[one.name].value is not None
            ],
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": self.path.as_posix(),
                "hash_algorithm": "sha256",
                "checksum": checksum,
                "total_rows": rows,
            },
        }

    def _model_info(self) -> Json:
        record = self.job.record
        vendor = self.model.partition("/")[0]
        details = {
            "deployment_type": "self_deployed" if vendor in SELF_DEPLOYED else "unknown",
            "model_availability": "unknown",
            "memory_system": record.provider,
            "embedding_model": record.models.embedding or "none",
        }
        return {"name": self.model, "id": self.model, "developer": vendor, "additional_details": details}

    def _result(self, metric: MetricRecord, one: Measurement) -> Json:
        record = self.job.record
        counts = {"failed": one.n_failed, "excluded": one.n_excluded, "failures_as_zero": one.value_failures_as_zero}
        return {
            "evaluation_result_id": _result_id(metric.name),
            "evaluation_name": record.benchmark,
            "source_data": _source(record),
            "metric_config": {
                "metric_id": metric.definition,
                "metric_name": metric.name,
                "metric_kind": metric.name,
                "lower_is_better": metric.lower_is_better,
                **({} if metric.category == "custom" else {"score_type": "continuous", "min_score": 0, "max_score": 1}),
                "metric_parameters": {"k": record.k},
            },
            "score_details": {"score": one.value, "details": _as_texts(counts), "uncertainty": _uncertainty(one)},
            "generation_config": {
                "additional_details": _as_texts(
                    {"memory_system": record.provider, "k": record.k, "judge_model": record.models.judge}
                )
            },
        }

    def _instance(self, row: ExportedRow) -> Json | None:
        """Return an item as an instance of the format.

        Return None if the item failed, or if the headline metric has no value for the item.
        """
        value = row["metrics"].get(self.headline.metric)
        if value is None or row["error"] is not None:
            return None
        answer, expected = row.get("answer"), list(row["expected"] or ())
        correct, question = row["correct"], str(row.get("question") or "")
        identity = str(row["item_id"]) if row["epoch"] == 1 else f"{row['item_id']}#epoch{row['epoch']}"
        return {
            "schema_version": SCHEMA,
            "evaluation_id": self.evaluation,
            "model_id": self.model,
            "evaluation_name": self.job.record.benchmark,
            "evaluation_result_id": _result_id(self.headline.metric),
            "sample_id": identity,
            "sample_hash": sha256((question + "".join(expected)).encode("utf-8", "surrogatepass")).hexdigest(),
            "interaction_type": "single_turn",
            "input": {"raw": question, "reference": expected},
            "output": {"raw": [] if answer is None else [answer]},
            "messages": None,
            "answer_attribution": [] if answer is None else [_attribution(str(answer), self.job.record)],
            "evaluation": {"score": value, "is_correct": value == 1 if correct is None else correct},
            "token_usage": _usage(row),
            "performance": {"latency_ms": sum(times.get("total", 0) for times in row["latency"].values()) / 1000},
            "metadata": _as_texts({"corpus": row["corpus"], **row["labels"]}),
        }


def _source(record: JobRecord) -> Json:
    about = {name: record.dataset.get(name) for name in ("source", "license", "sha256")}
    details = _as_texts({"version": record.benchmark_version, **about})
    return {"dataset_name": record.benchmark, "source_type": "other", "additional_details": details}


def _uncertainty(one: Measurement) -> Json:
    if one.interval is None:
        return {"num_samples": one.n}
    low, high, level, method = one.interval.low, one.interval.high, one.interval.level, one.interval.method
    interval = {"lower": low, "upper": high, "confidence_level": level, "method": method}
    return {"num_samples": one.n, "confidence_interval": interval}


def _usage(row: ExportedRow) -> Json | None:
    tokens = row["tokens"].get("answering")
    if tokens is None:
        return None
    total = tokens["input"] + tokens["output"]
    return {"input_tokens": tokens["input"], "output_tokens": tokens["output"], "total_tokens": total}


def _attribution(answer: str, record: JobRecord) -> Json:
    return {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": answer,
        "extraction_method": next(iter(record.evaluators), "none"),
        "is_terminal": True,
    }


def _folder_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name).lstrip(".") or "_"


def _result_id(metric: str) -> str:
    return f"memorybench.{metric}"


def _as_texts(values: Mapping[str, object]) -> dict[str, str]:
    """Convert the values to strings, because the schema requires strings for additional details.

    Values that are None are left out.
    """
    return {name: str(value) for name, value in values.items() if value is not None}
