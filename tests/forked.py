"""Processes that are forked from an interpreter that has already run bench, which saves over a second of CPU each.

``forked.Popen`` and ``forked.run`` are those of :mod:`subprocess` for a command of this interpreter. The process has
its usual pid, signals, pipes, folder, environment and exit code, and its own session. It is killed when the process
that started it ends. Settings that an interpreter reads at its start (locale, hash seed, switches such as ``-W``), and
the ``bench`` that it imports, are those of the tests; to test these, use :mod:`subprocess`.

Example::

    process = forked.Popen([sys.executable, "-m", "bench", "run"], cwd=folder, stdout=subprocess.PIPE, text=True)

A server forks commands on demand; all workers of a test run share one. It reports the pid and the end of a command over
a socket to the process that asked for it. When this socket is closed, the server kills the command.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import CodeType, ModuleType
from typing import Any, NoReturn

from cyclopts import CycloptsError
from pydantic import BaseModel

import bench
from bench import events
from bench.cli import app
from bench.engine.run import has_frozen_objects

PRELOADED = (
    "aiohttp.web",
    "anyio._backends._asyncio",
    "cyclopts.help",
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_worker",
    "genai_prices",
    "ijson.backends.yajl2_c",
    "mcp.server",
    "nltk.stem.porter",
    "rich.console",
    "rich.table",
    "structlog.dev",
)
ROOT = Path(__file__).resolve().parents[1]
SHARED_MATERIAL = Path(os.environ.get("MEMORYBENCH_SHARED", ROOT.parent / "shared")).resolve()
SCRIPTS = (SHARED_MATERIAL / "tools/fault_server.py",)
"""programs that hundreds of tests start"""
SIZE = struct.Struct("!q")
LARGE_PAGE = 2**21
MADV_COLLAPSE = 25
"""a number of Linux, which the mmap module does not name"""
SHARED = "FORKED_SERVER"
"""variable in which the workers of pytest find the shared server"""
PYTHON = "FORKED_PYTHON"
"""variable with the path that a process uses as its interpreter to start other processes"""
CLIENT = """\
#!{python} -IS
import marshal, os, sys
from _signal import SIG_DFL, SIGINT, SIGKILL, SIGTERM, signal
from _socket import AF_UNIX, MSG_WAITALL, SCM_RIGHTS, SOL_SOCKET, socket
link = socket(AF_UNIX)
link.connect({address!r})
asked = marshal.dumps({{"argv": [*{first!r}, *sys.argv[1:]], "cwd": os.getcwd(), "env": dict(os.environ)}})
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
link.sendmsg([len(asked).to_bytes(8, "big")], [(SOL_SOCKET, SCM_RIGHTS, streams)])
link.sendall(asked)
pid = int.from_bytes(link.recv(8, MSG_WAITALL), "big")
if not pid:
    sys.exit(255)  # the server is gone; to signal 0 would end everything in this process group
with open({address!r} + f".{{os.getpid()}}", "w") as file:
    file.write(str(pid))
for number in (SIGINT, SIGTERM):
    signal(number, lambda number, frame: os.kill(pid, number))
raw = link.recv(8, MSG_WAITALL)
code = int.from_bytes(raw, "big", signed=True) if raw else 255
if code < 0:
    signal(-code, SIG_DFL) if -code != SIGKILL else None
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""a program for other tools; what socket, signal and json import takes as long as its interpreter"""


class Popen(subprocess.Popen[Any]):
    """``subprocess.Popen`` of a command that begins with this interpreter."""

    _link = -1

    def _execute_child(
        self,
        args: Sequence[str | Path],
        executable: object,
        preexec_fn: object,
        close_fds: object,
        pass_fds: object,
        cwd: str | Path | None,
        env: Mapping[str, str] | None,
        startupinfo: object,
        creationflags: object,
        shell: object,
        *ends: int,
    ) -> None:
        """Let the server fork; ``ends`` begins with the pipe ends of stdin, stdout and stderr, or -1."""
        assert str(args[0]) == sys.executable and not (shell or preexec_fn or pass_fds), "use subprocess"
        asked = {
            "argv": [str(argument) for argument in args[1:]],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        raw = marshal.dumps(asked)
        here, there = (ends[1], ends[2], ends[4]), (ends[0], ends[3], ends[5])
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(address())
            socket.send_fds(link, [SIZE.pack(len(raw))], [n if end == -1 else end for n, end in enumerate(there)])
            link.sendall(raw)
            self._link = link.detach()
        self.pid = self._read_number("start")
        self._child_created = True
        for end in {theirs for ours, theirs in zip(here, there, strict=True) if ours != -1}:
            os.close(end)
        if getattr(self, "_devnull", None) is not None:
            os.close(self._devnull)  # type: ignore[attr-defined]

    def _read_number(self, what: str) -> int:
        """Read a number from the server."""
        raw = os.read(self._link, SIZE.size)
        if not raw:
            raise ChildProcessError(f"the server of forked processes did not send the {what} of {self.args!r}")
        return int(SIZE.unpack(raw)[0])

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        """Return the exit code, or None if the process has not ended."""
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        """Wait until the process has ended."""
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._link], [], [], timeout)[0]:
            with self._waitpid_lock:  # type: ignore[attr-defined]
                if self.returncode is None:
                    self.returncode = self._read_number("end")
        return self.returncode

    def __del__(self) -> None:
        super().__del__()  # type: ignore[misc]
        if self._link != -1:
            os.close(self._link)


def run(
    command: Sequence[str | Path], *, check: bool = False, timeout: float = 300, **more: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end and capture its output: ``subprocess.run(command, capture_output=True)``."""
    with Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def program() -> Path:
    """Return the folder of an executable ``bench`` for the PATH of a shell."""
    return client("bench", "-m", "bench").parent


def client(name: str, *first: str) -> Path:
    """Create a program that runs this interpreter with these first arguments, for tools that start processes."""
    file = Path(address()).with_name(name)
    if not file.exists():  # another worker may be running it
        written = file.with_name(f"{name}.{os.getpid()}")
        written.write_text(CLIENT.format(python=sys.executable, address=address(), first=first))
        written.chmod(0o755)
        written.replace(file)
    return file


def pid_behind(client: int) -> int | None:
    """Return the pid of the process that a program of :func:`client` runs; None until it has one."""
    try:
        return int(Path(f"{address()}.{client}").read_text() or 0) or None
    except FileNotFoundError:
        return None


@cache
def address() -> str:
    """Start the server of this process, or return the shared one; the server ends when its stdin is closed."""
    if shared := os.environ.get(SHARED):
        return shared
    folder = tempfile.mkdtemp(prefix="forked")
    place = f"{folder}/socket"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen([sys.executable, __file__, place], **pipes, start_new_session=True, cwd=ROOT)  # type: ignore[call-overload]
    assert server.stdout.readline() == b"ready\n", "bench cannot be imported: the traceback is above"

    @atexit.register
    def stop() -> None:
        server.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    return place


def serve(place: str) -> None:
    """Fork a command for each client until stdin ends; clients that come while bench is loaded wait."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(16)
        print("ready", flush=True)
        preload()
        del sys.path[0]
        commands = Commands(listener)
        while commands.serve_until_stdin_ends():
            pass
        commands.kill()


@dataclass(frozen=True, slots=True)
class Command:
    """A command that runs, with the socket to the process that asked for it."""

    pid: int
    ended: int
    """file descriptor that is readable when the command has ended"""
    link: socket.socket


class Commands:
    """The commands that run, by the file descriptors that report their ends and the ends of their clients."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._watched: dict[int, Command] = {}

    def serve_until_stdin_ends(self) -> bool:
        """Wait for a client, for the end of a command or of its client; return False when stdin has ended."""
        ready = select.select([0, self._listener.fileno(), *self._watched], [], [])[0]
        for number in ready:
            command = self._watched.pop(number, None)
            if command is not None and number == command.ended:
                self._report(command)
            elif command is not None:
                os.kill(command.pid, signal.SIGKILL)
        if self._listener.fileno() in ready:
            self._start()
        return 0 not in ready

    def _start(self) -> None:
        """Fork what the next client asks for, and report the pid."""
        link, _ = self._listener.accept()
        head, streams, _, _ = socket.recv_fds(link, SIZE.size, 3)
        raw = link.recv(SIZE.unpack(head)[0], socket.MSG_WAITALL) if streams else b""
        if not raw:  # the client has ended
            link.close()
            return
        asked = marshal.loads(raw)
        pid = os.fork()
        if pid == 0:
            for number in (link.fileno(), self._listener.fileno(), *self._watched):
                os.close(number)
            become(streams=streams, **asked)
        for stream in streams:
            os.close(stream)
        command = Command(pid, os.pidfd_open(pid), link)
        self._watched.update({command.ended: command, link.fileno(): command})
        with suppress(BrokenPipeError):  # of a client that has ended: the command is killed when its socket is read
            link.sendall(SIZE.pack(pid))

    def _report(self, command: Command) -> None:
        """Report how a command has ended."""
        self._watched.pop(command.link.fileno(), None)
        _, status = os.waitpid(command.pid, 0)
        os.close(command.ended)
        with command.link as link, suppress(OSError):
            link.sendall(SIZE.pack(os.waitstatus_to_exitcode(status)))

    def kill(self) -> None:
        for command in self._watched.values():
            os.kill(command.pid, signal.SIGKILL)


def preload() -> None:
    """Import what commands import, and create what they create only once."""
    sys.path.insert(0, str(ROOT))
    from tests import checkout, lean_nltk, parsing

    sys.path.pop(0)
    for part in (checkout, lean_nltk, parsing):
        part.register()
    for name in (*PRELOADED, *(module.name for module in walk_packages(bench.__path__, "bench."))):
        if not name.endswith("__main__"):
            with suppress(ImportError):  # of an extra that is not installed
                import_module(name)
    for script in SCRIPTS:
        with suppress(FileNotFoundError):
            compiled(str(script))
    run_once()
    gc.freeze()
    use_large_pages()
    has_frozen_objects.cache_clear()
    assert has_frozen_objects(), "a run that unfreezes these objects copies their memory"


def run_once() -> None:
    """Create what a process creates only once: parsers, schemas, templates, the digest of the code, shipped configs."""
    for name, *_ in app.COMMANDS:
        with suppress(CycloptsError):  # of a command that needs words
            app.build().parse_args(name, exit_on_error=False, print_error=False, help_on_error=False)
    for model in descendants(BaseModel):
        if model.__module__.startswith("bench."):
            model.model_rebuild(raise_errors=False)
    pages = import_module("bench.web.rendering").templates()
    for name in pages.list_templates():
        pages.get_template(name)
    with tempfile.TemporaryDirectory() as folder, chdir(folder), events.redactor.forget_new_secrets():
        plan = bench.plan(benchmarks="demo", limit=40, providers=["bm25"], run_id="once")
        asyncio.run(bench.run(plan))
        bench.report("once")
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(timeout=60)
    assert threading.active_count() == 1, "a fork has no threads"


def use_large_pages() -> None:
    """Move memory to pages of 2 MB where the system has them; a fork copies an entry for each page, in half the time.

    It fails without consequences on a system without such pages, and for memory that cannot be moved.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, _, _, inode, *_ = line.split()
        start, end = (int(address, 16) for address in addresses.split("-"))
        start, end = -(-start // LARGE_PAGE) * LARGE_PAGE, end // LARGE_PAGE * LARGE_PAGE
        if rights == "rw-p" and inode == "0" and start < end:
            madvise(start, end - start, MADV_COLLAPSE)


def descendants(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        yield child
        yield from descendants(child)


def become(argv: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> NoReturn:
    """Set up this process as an interpreter with these arguments, and run it."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    opened = [open(0, closefd=False)]  # noqa: SIM115
    for number, errors in ((1, "strict"), (2, "backslashreplace")):
        whole_lines = number == 2 or os.isatty(number) or "PYTHONUNBUFFERED" in env
        opened.append(open(number, "w", 1 if whole_lines else -1, errors=errors, closefd=False))  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = opened
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.executable = env.get(PYTHON, sys.executable)
    sys.path[:0] = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part]
    if action := env.get("PYTHONWARNINGS"):
        warnings.simplefilter(action)  # type: ignore[arg-type]
    warnings.filterwarnings("ignore", ".* found in sys.modules", RuntimeWarning)  # of what is imported beforehand
    code = 0
    try:
        interpret(argv)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    leave(code)


def interpret(argv: list[str]) -> None:
    """Run ``-m MODULE``, ``-c CODE``, ``-`` for stdin, or a file, with its arguments; ``-P`` may come first."""
    safe, argv = argv[0] == "-P", argv[argv[0] == "-P" :]
    first, name = argv[0], argv[1] if argv[0] in ("-m", "-c") else argv[0]
    sys.argv = argv[1:] if first == "-m" else ["-c", *argv[2:]] if first == "-c" else argv
    if not safe:
        sys.path.insert(0, str(Path(name).resolve().parent if name == first else Path.cwd()))
    if first == "-m":
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif first in ("-c", "-"):
        exec(compile(sys.stdin.read() if first == "-" else name, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.modules["__main__"] = main = ModuleType("__main__")
        main.__file__ = name
        exec(compiled(name), main.__dict__)


@cache
def compiled(script: str) -> CodeType:
    return compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)


def leave(code: int) -> NoReturn:
    """End as an interpreter does: run exit handlers, and flush the streams."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
