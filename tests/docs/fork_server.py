"""The program, started by a fork of an interpreter that has imported it already: half a second less a command.

``bench`` on the PATH of a page's shell is a client of this server. A command runs in a process of its own, with the
client's arguments, folder, environment, output and signals, and no input; a client that is killed takes its command
with it.

Example::

    with fork_server(tmp_path) as folder: ...       # folder/bench is the program
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from bench.cli import run

PRELOADED = (
    "aiohttp",
    "bench.cli.run_command",
    "bench.engine",
    "bench.engine.run",
    "bench.plan.build",
    "bench.report.fold",
)
CLIENT = """\
#!{python} -IS
import json, os, signal, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect({address!r})
asked = json.dumps({{"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}).encode()
socket.send_fds(link, [len(asked).to_bytes(8, "big")], [1, 2])
link.sendall(asked)
pid = int.from_bytes(link.recv(8, socket.MSG_WAITALL), "big")
if not pid:
    sys.exit(255)  # the server is gone; to signal 0 would end everything in this process group
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
code = link.recv(1)
sys.exit(code[0] if code else 255)
"""


@contextmanager
def fork_server(folder: Path) -> Iterator[Path]:
    """Start the server; gives the folder that holds ``bench``."""
    address = folder / "socket"
    program = folder / "bench"
    program.write_text(CLIENT.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)
    command = [sys.executable, __file__, str(address)]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == b"ready\n", "the program cannot be imported: see above"
        yield folder
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def serve(address: str) -> NoReturn:
    """Accept clients for ever, a process each."""
    for name in PRELOADED:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        print("ready", flush=True)
        while True:
            link, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                watch(link)
            link.close()


def watch(link: socket.socket) -> NoReturn:
    """Run one command, hand its exit code over, and end it when its client is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(link, 8, 2)
    asked = json.loads(link.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
    pid = os.fork()
    if pid == 0:
        link.close()
        command(asked["argv"], asked["cwd"], asked["env"], streams)
    link.sendall(pid.to_bytes(8, "big"))
    for stream in streams:
        os.close(stream)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            link.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
            os._exit(0)
        if select.select([link], [], [], 0.01)[0]:
            os.kill(pid, signal.SIGKILL)
            os._exit(0)


def command(argv: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> NoReturn:
    """Become the program."""
    for number, stream in enumerate(streams, start=1):
        os.dup2(stream, number)
    # line by line, as on a terminal
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    code = run(argv)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
