"""What processes cost, from /proc, and how they end."""

import contextlib
import os
import pathlib
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Self

# How long processes may take to start.
START_S_MAX = 120
# Characters of a log in an error.
_LOG_END = 500
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A process did not do what it was started for."""


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time of the processes and of their children that have ended."""
    return sum(sum(map(int, fields[11:15])) for fields in map(_stat, pids) if fields) / _TICKS_PER_S


def resident_mb(pids: Iterable[int]) -> float:
    """Resident memory. Of the pages of files, those of the process with most of them count: the others map the same
    libraries."""
    own, files = 0, 0
    for pid in pids:
        status = _status(pid)
        own += status.get("RssAnon", 0) + status.get("RssShmem", 0)
        files = max(files, status.get("RssFile", 0))
    return (own + files) * 1024 / 1e6


def settled_mb(root: int) -> float:
    """Resident memory of a process and of all that it started, once it has hardly changed for 5 s."""
    until, last = time.monotonic() + START_S_MAX, []
    while len(last) < 6 or max(last) > 1.01 * min(last):
        if time.monotonic() > until:
            raise Failed(f"the memory of process {root} still changes after {START_S_MAX} s")
        last = [*last[-5:], resident_mb(tree([root]))]
        time.sleep(1)
    return last[-1]


def tree(roots: Iterable[int]) -> list[int]:
    """The processes, and all that they and their children started."""
    children: dict[int, list[int]] = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(folder.name)):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found = list(roots)
    for pid in found:  # which grows
        found.extend(children.get(pid, []))
    return found


class Group:
    """Processes that are killed at the end of a `with`, and with them all that they started. Each writes to a log."""

    def __init__(self, folder: pathlib.Path, env: Mapping[str, str]) -> None:
        self.folder, self.env = folder, {**os.environ, **env}
        self.logs: dict[pathlib.Path, subprocess.Popen] = {}

    def start(self, name: str, command: list[str], env: Mapping[str, str] = {}) -> subprocess.Popen:
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=self.folder, env={**self.env, **env}, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        self.logs[log] = process
        return process

    def output(self, command: list[str], env: Mapping[str, str] = {}) -> str:
        """What a command prints that ends by itself."""
        ended = subprocess.run(
            command, cwd=self.folder, env={**self.env, **env}, timeout=START_S_MAX, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if ended.returncode != 0:
            raise Failed(f"{' '.join(command[:3])} ended with {ended.returncode}: {ended.stdout}")
        return ended.stdout

    def wait(self, what: str, ready: Callable[[], object], limit_s: float = START_S_MAX, step_s: float = 0.1) -> None:
        """Waits until something is ready while all processes run."""
        until = time.monotonic() + limit_s
        while not ready():
            for log, process in self.logs.items():
                if process.poll() is not None:
                    raise Failed(f"{log.stem} ended with {process.returncode}: {_end_of(log)}")
            if time.monotonic() > until:
                ends = "\n".join(f"{log.stem}: {_end_of(log)}" for log in self.logs)
                raise Failed(f"no {what} within {limit_s:.0f} s\n{ends}")
            time.sleep(step_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _kill(list(self.logs.values()))


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


def listens(port: int) -> bool:
    """Whether a process accepts connections at a port of the loopback address."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


def _kill(started: list[subprocess.Popen], wait_s: float = 10) -> None:
    # A handle keeps its process apart from a later one with the same number. Stopped processes start no others.
    handles: dict[int, int] = {}
    while new := set(tree(process.pid for process in started if process.poll() is None)) - handles.keys():
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                handles[pid] = os.pidfd_open(pid)
                signal.pidfd_send_signal(handles[pid], signal.SIGSTOP)
    for handle in handles.values():
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    until = time.monotonic() + wait_s
    for handle in handles.values():
        select.select([handle], [], [], max(0, until - time.monotonic()))
        os.close(handle)
    for process in started:
        process.wait(wait_s)


def _end_of(log: pathlib.Path) -> str:
    return log.read_text(errors="replace")[-_LOG_END:].strip()


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name; none of a process that has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _status(pid: int) -> dict[str, int]:
    """The lines of /proc/PID/status in kB."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}


def benchmarks(program: str) -> str:
    """The program of benchmarks, which is built beside `tributary`."""
    return str(pathlib.Path(program).with_name("tributary-bench"))
