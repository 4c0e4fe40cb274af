"""What rounds and idle clients cost with Tributary and with Flower, measured in turns.

A round is FedAvg without training: clients of Flower add 1 to each parameter, those of Tributary send bytes that were
made once. Clients, servers and this script share the machine.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata

import flower
import processes
import rows
from packaging.requirements import Requirement
from processes import Group
from rows import Row

ROUNDS = 3
# An empty round of Tributary takes milliseconds.
EMPTY_ROUNDS = 100
BENCH_S_MAX = 600


@dataclasses.dataclass(frozen=True)
class Cell:
    clients: int
    params: int

    @property
    def arguments(self) -> list[str]:
        return ["--clients", str(self.clients), "--params", str(self.params)]

    def __str__(self) -> str:
        return f"{self.clients} clients, {self.params:,} parameters"


LARGE = [Cell(2, 10_000_000), Cell(8, 1_663_370)]
EMPTY = Cell(8, 1_000)


def measure(program: str, cycles: int) -> Iterator[Row]:
    for cell in LARGE:
        yield from _large(program, cell, cycles)
    yield _empty(program, cycles)
    yield from _nodes(program, cycles)


def _large(program: str, cell: Cell, cycles: int) -> Iterator[Row]:
    ours, theirs = [], []
    for _ in range(cycles):
        ours.append(_bench(program, "aggregate", *cell.arguments, "--codec", "f32", "--rounds", str(ROUNDS)))
        theirs.append(_flower_rounds(cell))
        _note(f"{cell}: {ours[-1]['server_cpu_s_per_round']:.3f} s beside {theirs[-1]}")
    figures = lambda our, their: (
        [measured[our] for measured in ours], flower.NAME, [getattr(measured, their) for measured in theirs]
    )  # fmt: skip
    what = f"a round of {cell}"
    yield rows.cost(f"{what}: processor time of the server", "s", *figures("server_cpu_s_per_round", "cpu_s"))
    yield rows.cost(f"{what}: wall time", "ms", *figures("round_ms_p50", "round_ms"))
    yield rows.cost(f"{what}: peak memory of the server", "MB", *figures("server_peak_rss_mb", "peak_mb"))


def _empty(program: str, cycles: int) -> Row:
    ours, theirs = [], []
    for _ in range(cycles):
        ours.append(_bench(program, "round", *EMPTY.arguments, "--rounds", str(EMPTY_ROUNDS))["round_ms_p50"])
        theirs.append(_flower_rounds(EMPTY).round_ms)
        _note(f"{EMPTY}: {ours[-1]:.0f} ms beside {theirs[-1]:.0f} ms")
    return rows.cost(f"a round of {EMPTY}: wall time", "ms", ours, flower.NAME, theirs)


def _nodes(program: str, cycles: int) -> Iterator[Row]:
    ours, theirs = [], []
    for _ in range(cycles):
        ours.append(_idle_client_mb(program))
        with flower.deployed(nodes=1) as deployment:
            theirs.append(deployment.idle_node_mb())
        _note(f"an idle client: {ours[-1]:.1f} MB beside {theirs[-1]:.1f} MB")
    size_mb = pathlib.Path(program).stat().st_size / 1e6
    yield rows.cost("memory of an idle client", "MB", ours, flower.NAME, theirs)
    yield rows.cost("a client on disk", "MB", [size_mb], flower.NAME, [_packages_mb("flwr", "numpy")])


def _bench(program: str, *arguments: str) -> dict:
    command = [processes.benchmarks(program), *arguments, "--json"]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=BENCH_S_MAX)
    return json.loads(ended.stdout.splitlines()[-1])


def _flower_rounds(cell: Cell) -> flower.Rounds:
    with flower.deployed(cell.clients) as deployment:
        return deployment.play(cell.params, ROUNDS)


def _idle_client_mb(program: str) -> float:
    """Resident memory of `tributary client run` while its check-in is held."""
    [port] = processes.free_ports(1)
    with tempfile.TemporaryDirectory() as name, Group(pathlib.Path(name), {"TRIBUTARY_CONFIG_DIR": name}) as group:
        command = [program, "--json", "serve", "--listen", f"127.0.0.1:{port}", "--database", "tributary.db"]
        coordinator = group.start("coordinator", command)
        log = group.folder / "coordinator.log"
        group.wait("coordinator", lambda: '"serving"' in log.read_text())
        serving = next(line for line in map(json.loads, log.read_text().splitlines()) if line.get("event") == "serving")
        operator = {"TRIBUTARY_SERVER": serving["url"], "TRIBUTARY_TOKEN": serving["operator_token"]}
        group.output([program, "population", "create", "bench"], operator)
        created = group.output([program, "--json", "token", "create", "--population", "bench"], operator)
        lines = ["x,y", *(f"{number},{number % 2}" for number in range(100))]
        (group.folder / "examples.csv").write_text("\n".join(lines))
        command = [program, "client", "run", "--state-dir", "client", "--csv", "examples.csv"]
        client = group.start("client", command, operator | {"TRIBUTARY_TOKEN": json.loads(created)["secret"]})
        return processes.settled_mb(client.pid)


def _packages_mb(*names: str) -> float:
    """Files of packages and of all that they require, without Python itself."""
    wanted, found = list(names), {}
    for name in wanted:  # which grows
        if (package := metadata.distribution(name)).name not in found:
            paths = [file.locate() for file in package.files or []]
            found[package.name] = sum(path.stat().st_size for path in paths if path.exists())
            required = map(Requirement, package.requires or [])
            wanted.extend(each.name for each in required if not each.marker or each.marker.evaluate({"extra": ""}))
    return sum(found.values()) / 1e6


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
