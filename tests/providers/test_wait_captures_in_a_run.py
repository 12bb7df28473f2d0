"""Ids captured by the status call map to memories in a whole run, also after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.small_world import PROVIDER, World

FOREIGN = """
wait:
  request: {method: GET, path: /v1/memories, query: {namespace: $.runTag}}
  count_at_least: $.count
  id_map: {name: own, key: "$.memories[*].id", value: "$.memories[*].metadata.bench_id"}
  interval_ms: 20
"""


async def test_ids_of_the_status_call_are_available_after_a_resume(
    fault_server: Callable[..., str], tmp_path: Path
) -> None:
    world = World.make(tmp_path / "w", fault_server(), corpora=2, items=4)
    text = PROVIDER.replace('{id: "$.id", content:', "{content:")
    text = text.replace('    response: {ids: "$.job_id"}\n', "")
    text = text.replace('scoreField: "$.score"}', 'scoreField: "$.score", id_from: [{captured: own, field: "$.id"}]}')
    world.provider("foreign", base=text, extra=FOREIGN)
    first = await world.run(providers="foreign", run_id="one", phases="ingest,index")
    assert first.exit_code == 0
    second = await world.resume("one", phases="ingest,index,search,evaluate")
    assert second.exit_code in (0, 4)
    rows = world.query("one", "select outcome, count(distinct unit) from phase group by outcome")
    assert rows == [("ok", 8)]
