"""Examples per second of Tributary's layer trainer and of PyTorch, measured in turns.

Each measurement is a process of its own. Those of PyTorch are `training.py torch FOLDER MODEL BATCH THREADS`.
"""

import gzip
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import time

import processes
import rows

TRAINED, EVALUATED, LEARNING_RATE = 6_000, 10_000, 0.1
CELLS = [(model, batch, threads) for model in ("mlp", "cnn") for batch in (10, 50) for threads in (1, 2)]
NAMES = {"mlp": "2NN", "cnn": "CNN"}


def measure(program, folder, cycles, only):
    torch = f"PyTorch {importlib.metadata.version('torch').partition('+')[0]}"
    for model, batch, threads in CELLS:
        what = f"{NAMES[model]}, batches of {batch}, threads {threads}"
        if only not in what:
            continue
        ours, theirs = [], []
        for _ in range(cycles):
            cell = ["--model", model, "--batch", str(batch), "--threads", str(threads)]
            ours.append(last_line([processes.benchmarks(program), "train", *cell, "--data-dir", folder, "--json"]))
            theirs.append(last_line([sys.executable, __file__, "torch", folder, model, str(batch), str(threads)]))
            last = lambda name: (ours[-1][name], theirs[-1][name])
            print("{}: {:.0f} examples/s beside {:.0f}, accuracy {:.3f} beside {:.3f}".format(
                " ".join(cell), *last("samples_per_s"), *last("accuracy")), file=sys.stderr, flush=True)
        figures = lambda name: ([each[name] for each in ours], torch, [each[name] for each in theirs])
        yield rows.speed(f"{what}: training", "examples/s", *figures("samples_per_s"))
        yield rows.cost(f"{what}: training, processor time per 1,000", "s", *figures("cpu_s_per_1000_samples"))
        yield rows.speed(f"{what}: evaluation", "examples/s", *figures("evaluated_per_s"))
        yield rows.cost(f"{what}: evaluation, processor time per 1,000", "s", *figures("cpu_s_per_1000_evaluated"))
        yield rows.cost(f"{what}: peak memory", "MB", *figures("peak_rss_mb"))


def last_line(command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def idx(folder, name):
    import numpy
    for path in (pathlib.Path(folder) / name, pathlib.Path(folder) / f"{name}.gz"):
        if path.exists():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
            return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * len(shape)).reshape(shape)
    raise SystemExit(f"{folder} has no {name}")


def torch_once(folder, model, batch, threads):
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    torch.manual_seed(1)

    def examples(part, count):
        images, labels = idx(folder, f"{part}-images-idx3-ubyte")[:count], idx(folder, f"{part}-labels-idx1-ubyte")[:count]
        images = torch.from_numpy(images.copy()).float().div_(255)
        images = images.reshape(count, -1) if model == "mlp" else images.unsqueeze(1)
        return images, torch.from_numpy(labels.copy()).long()

    (train_x, train_y), (test_x, test_y) = examples("train", TRAINED), examples("t10k", EVALUATED)
    net = {
        "mlp": lambda: nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)),
        "cnn": lambda: nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10)),
    }[model]()
    loss_of, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)

    clock, cpu, total = time.perf_counter(), time.process_time(), 0.0
    order = torch.randperm(TRAINED)
    for start in range(0, TRAINED, batch):
        chosen = order[start:start + batch]
        optimizer.zero_grad()
        loss = loss_of(net(train_x[chosen]), train_y[chosen])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(chosen)
    train_s, train_cpu = time.perf_counter() - clock, time.process_time() - cpu

    clock, cpu, right = time.perf_counter(), time.process_time(), 0
    with torch.inference_mode():
        for start in range(0, EVALUATED, max(batch, 100)):
            part = slice(start, start + max(batch, 100))
            right += int((net(test_x[part]).argmax(1) == test_y[part]).sum())
    evaluate_s, evaluate_cpu = time.perf_counter() - clock, time.process_time() - cpu
    peak = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps({
        "samples_per_s": TRAINED / train_s, "evaluated_per_s": EVALUATED / evaluate_s,
        "cpu_s_per_1000_samples": 1e3 * train_cpu / TRAINED, "cpu_s_per_1000_evaluated": 1e3 * evaluate_cpu / EVALUATED,
        "peak_rss_mb": int(peak.split()[1]) * 1024 / 1e6, "loss": total / TRAINED, "accuracy": right / EVALUATED,
    }))


if __name__ == "__main__":
    torch_once(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
