"""What the first visitor would wait for is done when the site opens: imports, templates, the check of every config.

Example::

    tasks.start_soon(warm, workspace)
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio.to_thread

from bench.errors import BenchError


async def warm(workspace: Path) -> None:
    """Do it in a thread that nobody waits for."""
    await anyio.to_thread.run_sync(_warm, workspace, abandon_on_cancel=True)


def _warm(workspace: Path) -> None:
    import bench.receipt.verify
    import bench.report.compareview  # noqa: F401
    from bench.web import openapi
    from bench.web.configviews import all_configs
    from bench.web.render import templates

    for name in templates().list_templates():
        templates().get_template(name)
    openapi.document()
    with suppress(BenchError):  # the page of configs says it
        all_configs(workspace)
