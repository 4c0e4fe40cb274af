#!/usr/bin/env python3
"""Starts what tree.yaml starts, as processes on this machine, and plays a job in the tree.

Usage: tree_check.py PROGRAM    (needs PyYAML)

Names of services become loopback addresses, and each volume a folder. Everything else is the file's: commands,
settings, and the order in which its head says that tokens are made. The job waits for all eight clients in each round,
so it ends only if both relays send the sums of four. Programs are killed at the end.
"""

import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROUNDS = 3
CLIENTS = 8
# Longest time until a line that is waited for.
PATIENCE_S = 120


class Service:
    """A process, and the first line that it prints."""

    def __init__(self, program, described, folder, tokens, addresses):
        self.line = queue.SimpleQueue()
        written = described["environment"].items()
        settings = {name: self.here(value, folder, tokens, addresses) for name, value in written}
        settings["TRIBUTARY_LOG"] = "error"
        command = [program, "--json", *described["command"]]
        out = subprocess.PIPE
        self.process = subprocess.Popen(command, env=settings, cwd=folder, stdout=out, stderr=sys.stderr, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    @staticmethod
    def here(value, folder, tokens, addresses):
        value = re.sub(r"\$\{(\w+):-\}", lambda name: tokens[name[1]], value)
        value = re.sub(r"https://(\w+):7300", lambda name: addresses.get(name[1], name[0]), value)
        value = value.replace("0.0.0.0:7300", "127.0.0.1:0").replace("/data", str(folder))
        return "127.0.0.1" if value in ("root", "north", "south") else value

    def read(self):
        self.line.put(self.process.stdout.readline())
        # A full pipe would stop it.
        for _ in self.process.stdout:
            pass

    def first(self):
        """Its first line, as an object."""
        line = self.line.get(timeout=PATIENCE_S)
        assert line, "it has ended"
        return json.loads(line)


def main(program):
    program = str(Path(program).resolve())
    services = yaml.safe_load((HERE / "tree.yaml").read_text())["services"]
    tokens, addresses, running = {}, {}, []
    with tempfile.TemporaryDirectory() as parent:
        def start(name):
            folder = Path(parent) / name
            folder.mkdir()
            running.append(Service(program, services[name], folder, tokens, addresses))
            return running[-1].first() if services[name]["command"][0] in ("serve", "relay") else None

        try:
            root = start("root")
            addresses["root"] = root["url"].rstrip("/")
            operator = {
                "TRIBUTARY_SERVER": root["url"],
                "TRIBUTARY_CA": root["ca_file"],
                "TRIBUTARY_TOKEN": root["operator_token"],
            }

            def operate(*arguments, text=None):
                command = [program, "--json", *arguments]
                ran = subprocess.run(command, env=operator, cwd=parent, input=text, capture_output=True, text=True,
                                     timeout=PATIENCE_S)
                assert ran.returncode == 0, ran.stderr
                return [json.loads(line) for line in ran.stdout.splitlines()]

            tokens["RELAY_TOKEN"] = operate("token", "create", "--population", "default", "--relay")[0]["secret"]
            for relay in ("north", "south"):
                told = start(relay)
                addresses[relay] = told["url"].rstrip("/")
                tokens[f"{relay.upper()}_TOKEN"] = told["enrolment_token"]
            for relay in ("north", "south"):
                start(f"{relay}-fleet")
            operate("job", "create", "-", text=f"""
                name = "tree"
                population = "default"
                seed = 7
                [model]
                input = [64]
                layers = [{{ kind = "linear", out_features = 10 }}]
                [training]
                epochs = 1
                optimizer = {{ kind = "sgd", learning_rate = 0.1 }}
                [round]
                updates_goal = {CLIENTS}
                updates_min = {CLIENTS}
                over_selection = 1.0
                [stop]
                rounds = {ROUNDS}
            """)
            watched = operate("job", "watch", "tree")
            assert watched[-1]["state"] == "completed", watched[-1]
            rounds = operate("round", "list", "tree")
            assert [one["reported"] for one in rounds] == [CLIENTS] * ROUNDS, rounds
        finally:
            for service in reversed(running):
                service.process.kill()
                service.process.wait()
    print(f"{ROUNDS} rounds of {CLIENTS} clients below two relays: ok")


if __name__ == "__main__":
    main(sys.argv[1])
