"""Flower's deployment engine on this machine: a SuperLink and SuperNodes in processes of their own, without TLS.

The SuperLink starts a SuperExec, which starts a process for the ServerApp of a run. Each SuperNode starts a SuperExec,
too, which starts a process for each message to the ClientApp. The SuperLink keeps its state in memory. All of this is
Flower's default.
"""

import contextlib
import dataclasses
import importlib.metadata
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import processes
from processes import Failed, Group

NAME = f"Flower {importlib.metadata.version('flwr')}"
ROUND_S_MAX = 300
_APP = pathlib.Path(__file__).parent / "flower_app"
_PROGRAMS = pathlib.Path(sys.executable).parent
_SAMPLE_S = 0.02
_TREE_S = 0.5


@dataclasses.dataclass(frozen=True)
class Rounds:
    """Medians of the rounds after the warm-up, and the peak of all rounds.

    Processor time and memory are those of the SuperLink and all it started.
    """

    round_ms: float
    cpu_s: float
    peak_mb: float


@dataclasses.dataclass(frozen=True)
class Deployment:
    group: Group
    superlink: subprocess.Popen
    nodes: list[subprocess.Popen]

    def play(self, params: int, rounds: int) -> Rounds:
        """Plays a round as warm-up and those that are measured."""
        marks = self.group.folder / "marks"
        marks.touch()
        settings = f"clients={len(self.nodes)} params={params} rounds={rounds + 1} marks='{marks}'"
        self.group.output([program("flwr"), "run", str(_APP), "bench", "--run-config", settings])
        server = _Server(self.superlink.pid)
        for number in range(rounds + 2):
            ended = lambda: server.sample(_times(marks)) > number
            self.group.wait(f"end of round {number}", ended, ROUND_S_MAX, _SAMPLE_S)
        self.group.wait("end of the run", lambda: "ended" in marks.read_text().split())
        return Rounds(1e3 * _median_step(server.times), _median_step(server.cpu_s), server.peak_mb)

    def idle_node_mb(self) -> float:
        """Resident memory of the first node while it waits for work."""
        node = self.nodes[0].pid
        self.group.wait("SuperExec of a node", lambda: len(processes.tree([node])) > 1)
        return processes.settled_mb(node)


class _Server:
    """What the SuperLink and all it started cost, sampled."""

    def __init__(self, superlink: int) -> None:
        self.superlink = superlink
        self.times: list[float] = []
        self.cpu_s: list[float] = []
        self.peak_mb = 0.0
        self._tree: list[int] = []
        self._tree_until = 0.0

    def sample(self, times: list[float]) -> int:
        """Takes the times at which rounds have ended so far, and returns their number."""
        ended = len(times) > len(self.times)
        if ended or time.monotonic() > self._tree_until:
            self._tree, self._tree_until = processes.tree([self.superlink]), time.monotonic() + _TREE_S
        if ended:
            self.times = times
            self.cpu_s.append(processes.cpu_s(self._tree))
        self.peak_mb = max(self.peak_mb, processes.resident_mb(self._tree))
        return len(self.cpu_s)


@contextlib.contextmanager
def deployed(nodes: int) -> Iterator[Deployment]:
    """A SuperLink and its nodes, which are killed at the end."""
    port, *node_ports = processes.free_ports(1 + nodes)
    address = f"127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as name, Group(pathlib.Path(name), _environment(name)) as group:
        (group.folder / "config.toml").write_text(f'[superlink.bench]\naddress = "{address}"\ninsecure = true\n')
        superlink = group.start(
            "superlink",
            [program("flower-superlink"), "--insecure", "--host", "127.0.0.1", "--port", str(port),
             "--disable-runtime-dependency-installation"],
        )  # fmt: skip
        group.wait("SuperLink", lambda: processes.listens(port))
        started = []
        for number, node_port in enumerate(node_ports):
            home = group.folder / f"node-{number}"
            home.mkdir()
            command = [program("flower-supernode"), "--insecure", "--superlink", address, "--port", str(node_port)]
            started.append(group.start(home.name, command, {"FLWR_HOME": str(home)}))
        yield Deployment(group, superlink, started)


def program(name: str) -> str:
    """A program that pip installed beside this Python."""
    return str(_PROGRAMS / name)


def _environment(home: str) -> dict[str, str]:
    return {
        "FLWR_HOME": home, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "NO_PROXY": "127.0.0.1",
        # A SuperExec starts its programs by name.
        "PATH": f"{_PROGRAMS}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip


def _times(marks: pathlib.Path) -> list[float]:
    """The times before and after the rounds so far."""
    text = marks.read_text()
    if failed := re.search("^failed (.*)", text, re.MULTILINE):
        raise Failed(f"Flower's ServerApp failed: {failed[1]}")
    return [float(time) for time in re.findall(r"^round (.*)\n", text, re.MULTILINE)]


def _median_step(values: list[float]) -> float:
    """Of the steps between values, without the first, which is the warm-up."""
    return statistics.median(after - before for before, after in zip(values[1:], values[2:]))
