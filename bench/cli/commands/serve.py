"""``bench explore`` and ``bench serve``: serve the web pages. Only ``bench serve`` can start runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.flags import whole_number
from bench.cli.global_flags import current

if TYPE_CHECKING:
    from bench.web.app import OpenSite, Settings

DEFAULT_PORT = 3000
Whole = Annotated[int, Parameter(converter=whole_number)]


def explore(
    run_id: str = "",
    *,
    run: str | None = None,
    host: str = "127.0.0.1",
    port: Whole = DEFAULT_PORT,
    token_file: Path | None = None,
    public_host: str | None = None,
) -> int:
    """Open the web pages of this workspace, read-only.

    Parameters
    ----------
    run_id
        Open this run first. Default: the newest run.
    run
        The same as RUN_ID.
    host
        Address to listen on. Any address other than this machine's own needs --token-file.
    port
        Port to listen on. 0 chooses a free port.
    token_file
        File with the token. It is created if it does not exist.
    public_host
        Host name of a reverse proxy in front of this service, for example bench.example.com.
    """
    from bench.journal.paths import find_run, run_ids
    from bench.web.app import Settings

    flags = current.get()
    run = run_id or run or next(iter(run_ids(flags.workspace)), None)
    if run is not None:
        find_run(flags.workspace, run)
    flags.configure_log()
    environment = flags.environment()
    return _serve(
        Settings(
            workspace=flags.workspace,
            environment=environment,
            host=host,
            port=port,
            token_file=token_file,
            public_host=public_host,
            run=run,
        )
    )


def serve(
    *,
    host: str = "127.0.0.1",
    port: Whole = DEFAULT_PORT,
    token_file: Path | None = None,
    max_runs: Whole = 1,
    public_host: str | None = None,
) -> int:
    """Serve the web pages, and start, queue, pause and resume runs from them.

    Parameters
    ----------
    host
        Address to listen on. Any address other than this machine's own needs --token-file.
    port
        Port to listen on. 0 chooses a free port.
    token_file
        File with the token. It is created if it does not exist. Default: checkpoints/.token.
    max_runs
        Maximum number of runs at the same time. Other runs wait in a queue.
    public_host
        Host name of a reverse proxy in front of this service, for example bench.example.com.
    """
    from bench.errors import UsageError
    from bench.web.app import Settings

    if max_runs < 1:
        raise UsageError(f"--max-runs {max_runs}: expected at least 1")
    flags = current.get()
    flags.configure_log()
    return _serve(
        Settings(
            workspace=flags.workspace,
            environment=flags.environment(),
            host=host,
            port=port,
            token_file=token_file,
            public_host=public_host,
            runs=True,
            max_runs=max_runs,
        )
    )


def _serve(settings: Settings) -> int:
    from bench.web.app import serve_until_signal

    return anyio.run(serve_until_signal, settings, _show_address)


def _show_address(site: OpenSite) -> None:
    """Print the address of the site. If this process created the token, print the login address too."""
    console.line(f"listening on {site.url}")
    if site.secret is not None and site.secret.fresh:
        console.line(f"log in once: {site.login}")
    elif site.secret is not None:
        console.note("log in with the token in the token file")
    for run_id in site.recovered:
        console.note(f"continuing run {run_id}")
    import sys

    sys.stdout.flush()
