"""Cognee: files go into a dataset by form, ``cognify`` processes it in the background."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import Fault, flag, many, of, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, alike, best
from tests.fakes.shelf import Doc
from tests.fakes.vector_stores import form_of


class Cognee(Fake):
    """A dataset is unknown before its first add; a search of an unknown one is 404."""

    auth = Key("X-Api-Key", optional=True)
    variables: ClassVar[Mapping[str, str]] = {"COGNEE_URL": "URL", "COGNEE_API_KEY": "KEY"}

    def __init__(self) -> None:
        super().__init__()
        self.datasets: dict[str, str] = {}
        """name -> id"""
        self.processed: set[str] = set()

    def routes(self) -> Mapping[str, Route]:
        return {
            "GET /health": self.health,
            "POST /api/v1/add": self.add,
            "POST /api/v1/cognify": self.cognify,
            "GET /api/v1/datasets/status": self.status,
            "GET /api/v1/datasets": self.listed,
            "POST /api/v1/search": self.search,
            "DELETE /api/v1/datasets/{id}": self.clear,
        }

    def unauthorized(self) -> Refusal:
        return Refusal(401, {"detail": "Unauthorized"})

    async def health(self, call: Called) -> Reply:
        return 200, {"status": "ready", "health": "healthy", "version": "0.5.5"}

    async def add(self, call: Called) -> Reply:
        fields = form_of(call)
        faults = [Fault("missing", ("body", name), None) for name in ("data", "datasetName") if name not in fields]
        faults += [
            Fault("unknown", ("body", name), None) for name in set(fields) - {"data", "datasetName", "datasetId"}
        ]
        if faults or fields["data"][1] is None:
            raise self.refused(faults or [Fault("type", ("body", "data"), "no file")], None)
        name = fields["datasetName"][0]
        dataset = self.datasets.setdefault(name, str(uuid.uuid4()))
        self.shelf.put(dataset, Doc(content=fields["data"][0]))
        run = {"status": "PipelineRunCompleted", "pipeline_run_id": str(uuid.uuid4())}
        return 200, run | {"dataset_id": dataset, "dataset_name": name}

    def _named(self, names: object) -> list[str]:
        assert isinstance(names, list)
        unknown = [name for name in names if name not in self.datasets]
        if unknown:
            raise Refusal(404, {"detail": f"No datasets found: {unknown}"})
        return [self.datasets[name] for name in names]

    async def cognify(self, call: Called) -> Reply:
        body = call.body(table(datasets=many(text(), least=1), runInBackground=optional(flag())))
        ids = self._named(body["datasets"])
        self.processed |= set(ids)
        return 200, {one: {"status": "PipelineRunStarted", "pipeline_run_id": str(uuid.uuid4())} for one in ids}

    async def listed(self, call: Called) -> Reply:
        return 200, [{"id": one, "name": name} for name, one in self.datasets.items()]

    async def status(self, call: Called) -> Reply:
        asked = call.ask(table(dataset=of(str)))
        dataset = str(asked["dataset"])
        docs = self.shelf.all(dataset)
        if dataset not in self.processed:
            return 200, {}
        ready = [self.shelf.asked(doc) for doc in docs].count(False) == 0
        word = "ERRORED" if any(doc.failed for doc in docs) else "COMPLETED" if ready else "STARTED"
        return 200, {dataset: f"DATASET_PROCESSING_{word}"}

    async def search(self, call: Called) -> Reply:
        body = call.body(
            table(
                searchType=optional(text("CHUNKS", "SUMMARIES", "GRAPH_COMPLETION", "RAG_COMPLETION")),
                query=text(),
                datasets=optional(many(text())),
                topK=optional(whole(most=1000)),
            )
        )
        docs = [
            doc
            for dataset in self._named(body.get("datasets", []))
            if dataset in self.processed
            for doc in self.shelf.visible(dataset)
        ]
        found = best(docs, lambda doc: alike(str(body["query"]), doc.content), int(str(body.get("topK", 10))))
        return 200, [{"id": doc.id, "text": doc.content, "chunk_index": 0, "type": "IndexSchema"} for _, doc in found]

    async def clear(self, call: Called) -> Reply:
        name = next((name for name, one in self.datasets.items() if one == call.parts[0]), None)
        if name is None:
            raise Refusal(404, {"message": f"Dataset ({call.parts[0]}) not found."})
        self.shelf.spaces.pop(self.datasets.pop(name), None)
        return 200, None
