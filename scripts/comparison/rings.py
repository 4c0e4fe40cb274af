"""Processor time of a ring of members beside that of gloo's all-reduce of 64-bit integers, measured in turns.

Tributary's members are in one process, as `tributary-bench ring` has them, and their work is that of a round: integers
are made of f32 values, packed, added, and the body of the sum is hashed. Gloo's members are a process each, which add up
integers that are there already: `rings.py RANK MEMBERS PARAMETERS FILE`. Both send over the loopback address.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

import processes
import rows

MEMBERS = (2, 4, 8)
PARAMETERS = 10_000_000
LINKS = {"without TLS": ["--plain"], "with TLS": []}


def measure(program, cycles):
    for members in MEMBERS:
        ours, theirs = {links: [] for links in LINKS}, []
        for _ in range(cycles):
            for links, options in LINKS.items():
                ours[links].append(ring_once(program, members, options))
            theirs.append(gloo_once(members))
            print(f"{members} members: {ours}, gloo {theirs}", file=sys.stderr, flush=True)
        for links, seconds in ours.items():
            name = f"ring of {members} with {PARAMETERS:,} parameters, {links}: processor time"
            yield rows.cost(name, "s", seconds, "gloo, int64", theirs)


def ring_once(program, members, options):
    size = ["--members", str(members), "--parameters", str(PARAMETERS), "--codec", "f32"]
    command = [processes.benchmarks(program), "ring", *size, *options, "--json"]
    row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    if not row["sha256_equal"]:
        raise processes.Failed(f"a ring of {members} has another sum than a direct one")
    return row["cpu_s_all"]


def gloo_once(members):
    with tempfile.TemporaryDirectory() as folder:
        store = str(pathlib.Path(folder) / "store")
        command = [sys.executable, __file__]
        started = [
            subprocess.Popen([*command, str(rank), str(members), str(PARAMETERS), store], stdout=subprocess.PIPE)
            for rank in range(members)
        ]
        told = [member.communicate()[0] for member in started]
    if any(member.returncode for member in started):
        raise processes.Failed(f"gloo failed with {members} members")
    return sum(json.loads(text)["cpu_s"] for text in told)


def gloo_member(rank, members, parameters, store):
    import torch
    import torch.distributed as group

    torch.set_num_threads(1)
    group.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=members)
    values = torch.full([parameters], rank + 1, dtype=torch.int64)
    # The first call connects the members.
    group.all_reduce(torch.zeros(members, dtype=torch.int64))
    group.barrier()
    began = time.process_time()
    group.all_reduce(values)
    cpu_s = time.process_time() - began
    expected = members * (members + 1) // 2
    if not bool((values == expected).all()):
        sys.exit("gloo has another sum")
    group.barrier()
    print(json.dumps({"cpu_s": cpu_s}))


if __name__ == "__main__":
    gloo_member(*(int(text) for text in sys.argv[1:4]), sys.argv[4])
