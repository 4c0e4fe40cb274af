"""What secure aggregation costs, beside Flower's SecAgg+: the same members, values, neighbours and shares.

Both run in one process without a network. Flower's workflow sends its messages to Flower's mod; a member that is lost
answers no more once it has shared its keys. Bytes of Flower are those of its records as protocol buffers.
"""

import collections
import importlib.metadata
import json
import logging
import random
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy

import processes
import rows

MEMBERS, VALUES, LOST = (32, 128), 1_000_000, 0.05
NODE_BASE = 1_000_000


def measure(program, cycles):
    flower = f"Flower {importlib.metadata.version('flwr')}"
    for members in MEMBERS:
        ours, theirs = collections.defaultdict(list), collections.defaultdict(list)
        for _ in range(cycles):
            row = tributary(program, members)
            for figures, measured in ((ours, row), (theirs, secaggplus(members, row["degree"], row["threshold"]))):
                for name in ("client_ms", "server_ms", "bytes_up", "bytes_down"):
                    figures[name].append(measured[name])
            print(f"{members} members: {dict(ours)} beside {dict(theirs)}", file=sys.stderr, flush=True)
        what = f"{members} members, {VALUES:,} values, {LOST:.0%} lost"
        for name, unit, figure in (
            ("client_ms", "ms", "processor time of a member"),
            ("server_ms", "ms", "time of the coordinator"),
            ("bytes_up", "bytes", "sent by a member"),
        ):
            yield rows.cost(f"{figure}, {what}", unit, ours[name], flower, theirs[name])


def tributary(program, members):
    command = [processes.benchmarks(program), "secure", "--json", "--members", str(members)]
    command += ["--parameters", str(VALUES), "--lost", str(LOST)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def secaggplus(members, degree, threshold):
    from flwr.common import ConfigRecord, FitIns, RecordDict, ndarrays_to_parameters
    from flwr.compat.common import recorddict_compat as compat
    from flwr.server import LegacyContext
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
    from flwr.supercore.task_identity import TaskIdentity

    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
    random.seed(members)
    update = [numpy.random.default_rng(7).uniform(-1e-3, 1e-3, VALUES).astype(numpy.float32)]
    parameters = ndarrays_to_parameters(update)
    proxies = [SimpleNamespace(node_id=NODE_BASE + index, cid=str(index)) for index in range(members)]
    strategy = SimpleNamespace(
        configure_fit=lambda number, model, manager: [(proxy, FitIns(model, {})) for proxy in proxies],
        aggregate_fit=lambda number, results, failures: (None, {}),
    )
    state = RecordDict()
    state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(parameters, keep_input=True)
    manager = SimpleNamespace(num_available=lambda: members)
    context = LegacyContext(Members.context(1, state), strategy=strategy, client_manager=manager)
    grid = Members(parameters, proxies, int(members * LOST))
    # Flower counts a member among its own neighbours.
    workflow = SecAggPlusWorkflow(num_shares=degree + 1, reconstruction_threshold=threshold)
    began = time.perf_counter()
    workflow(grid, context)
    whole = time.perf_counter() - began
    # A halted workflow says so in its log alone.
    if grid.exchanges != 4:
        raise processes.Failed("Flower's workflow was halted")
    left = members - grid.lost
    return {
        "client_ms": 1e3 * grid.working / left,
        "server_ms": 1e3 * (whole - grid.working - grid.wasted - grid.counting),
        "bytes_up": grid.sent / left,
        "bytes_down": grid.received / left,
    }


class Members:
    """Flower's grid, with all members in this process."""

    def __init__(self, parameters, proxies, lost):
        from flwr.app import RecordDict

        self.parameters, self.lost, self.exchanges = parameters, lost, 0
        # Seconds of the members that are left, of the others, and of counting bytes; bytes of those that are left.
        self.working = self.wasted = self.counting = 0.0
        self.sent = self.received = 0
        self.contexts = {proxy.node_id: self.context(proxy.node_id, RecordDict()) for proxy in proxies}
        self.left = {proxy.node_id for proxy in proxies[lost:]}

    @staticmethod
    def context(node, state):
        from flwr.app import Context

        return Context(run_id=1, node_id=node, node_config={}, state=state, run_config={})

    def send_and_receive(self, messages, *, timeout=None):
        from flwr.client.mod import secaggplus_mod

        self.exchanges += 1
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            if self.exchanges > 2 and node not in self.left:
                continue
            counted = node in self.left
            message, size = self.arrived(message)
            self.received += size if counted else 0
            began = time.perf_counter()
            reply = secaggplus_mod(message, self.contexts[node], self.trained)
            took = time.perf_counter() - began
            if counted:
                self.working += took
            else:
                self.wasted += took
            reply, size = self.arrived(reply)
            self.sent += size if counted else 0
            replies.append(reply)
        return replies

    def trained(self, message, context):
        from flwr.common import Code, FitRes, Message, Status
        from flwr.compat.common import recorddict_compat as compat

        result = FitRes(Status(Code.OK, ""), self.parameters, 10, {})
        return Message(compat.fitres_to_recorddict(result, keep_input=True), reply_to=message)

    def arrived(self, message):
        """A message as it comes out of a network, and its bytes there."""
        from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
        from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict

        began = time.perf_counter()
        travels = recorddict_to_proto(message.content).SerializeToString()
        message.content = recorddict_from_proto(ProtoRecordDict.FromString(travels))
        self.counting += time.perf_counter() - began
        return message, len(travels)
