"""Examples per second of Tributary's layer trainer and of PyTorch, measured in turns.

Usage: training.py PROGRAM MNIST_FOLDER CYCLES. Each measurement is a process of its own. The last line is JSON.
"""

import gzip
import json
import pathlib
import statistics
import subprocess
import sys
import time

TRAINED, EVALUATED, LEARNING_RATE = 6_000, 10_000, 0.1
CELLS = [(model, batch, threads) for model in ("mlp", "cnn") for batch in (10, 50) for threads in (1, 2)]


def main(program, folder, cycles):
    rows = []
    for model, batch, threads in CELLS:
        ours, theirs = [], []
        for _ in range(cycles):
            cell = ["--model", model, "--batch", str(batch), "--threads", str(threads)]
            ours.append(last_line([program, "bench", "train", *cell, "--data-dir", folder, "--json"]))
            theirs.append(last_line([sys.executable, __file__, "torch", folder, model, str(batch), str(threads)]))
        ratios = lambda name: [a[name] / b[name] for a, b in zip(ours, theirs)]
        middle = lambda figures, name: statistics.median(figure[name] for figure in figures)
        trained, evaluated = ratios("samples_per_s"), ratios("evaluated_per_s")
        row = {
            "model": model, "batch": batch, "threads": threads,
            "samples_per_s": middle(ours, "samples_per_s"), "torch_samples_per_s": middle(theirs, "samples_per_s"),
            "ratio": statistics.median(trained), "ratio_min": min(trained), "ratio_max": max(trained),
            "evaluated_ratio": statistics.median(evaluated),
            "peak_rss_mb": middle(ours, "peak_rss_mb"), "torch_peak_rss_mb": middle(theirs, "peak_rss_mb"),
            "accuracy": middle(ours, "accuracy"), "torch_accuracy": middle(theirs, "accuracy"),
        }
        rows.append(row)
        print(f"{model} batch {batch:2} threads {threads}: {row['samples_per_s']:6.0f} examples/s, PyTorch "
              f"{row['torch_samples_per_s']:6.0f}: {row['ratio']:.2f}x ({row['ratio_min']:.2f} to {row['ratio_max']:.2f}), "
              f"evaluation {row['evaluated_ratio']:.2f}x, {row['peak_rss_mb']:.0f} MB beside {row['torch_peak_rss_mb']:.0f}; "
              f"accuracy {row['accuracy']:.3f} beside {row['torch_accuracy']:.3f}", flush=True)
    print(json.dumps(rows))


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
    if sys.argv[1] == "torch":
        torch_once(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
