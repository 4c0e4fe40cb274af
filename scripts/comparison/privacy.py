"""Accuracy of Tributary's private jobs beside Flower's central noise: the same noise, clip, clients and examples.

Flower's strategy draws the clients, clips and adds noise; local training is a few lines of numpy. In the last case one
client of each round fails.
"""

import json
import logging
import random
import statistics
import subprocess
import sys

import numpy

import processes
import rows
from training import idx

CLIENTS, IMAGES, UPDATES, ROUNDS, CLIP = 1_000, 60, 100, 60, 0.5
BATCH, RATE, CLASSES = 10, 0.1, 10
NODE_BASE = 1_000_000


def measure(program, folder, seeds):
    import importlib.metadata

    flower = f"Flower {importlib.metadata.version('flwr')}"
    data = {part: examples(folder, part) for part in ("train", "t10k")}
    ours = {}
    for seed in range(1, seeds + 1):
        for row in tributary(program, folder, seed):
            epsilon = row["epsilon"] and round(row["epsilon"], 3)
            ours.setdefault((epsilon, row["noise_multiplier"]), []).append(100 * row["accuracy"])
    for (epsilon, noise), accuracies in ours.items():
        for fails in (False, True) if epsilon else (False,):
            played = [simulated(data, noise or 0.0, fails, seed) for seed in range(1, seeds + 1)]
            theirs = [100 * accuracy for accuracy, _ in played]
            versions = statistics.median(versions for _, versions in played)
            what = f"epsilon {epsilon:g}, noise of {noise:.2f} clips" if epsilon else "no noise"
            if fails:
                what += f", one client of each round fails ({versions:g} of {ROUNDS} versions)"
            print(f"{what}: {accuracies} beside {theirs}", file=sys.stderr, flush=True)
            yield rows.speed(f"accuracy, {what}", "%", accuracies, flower, theirs)


def tributary(program, folder, seed):
    command = [processes.benchmarks(program), "privacy", "--model", "logistic", "--clip", str(CLIP), "--json"]
    command += ["--mechanism", "gaussian", "--data-dir", folder, "--seed", str(seed)]
    command += ["--clients", str(CLIENTS), "--updates", str(UPDATES), "--rounds", str(ROUNDS)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


class Nodes:
    """All that the strategy asks of a grid: who is there."""

    def get_node_ids(self):
        return [NODE_BASE + client for client in range(CLIENTS)]


def examples(folder, part):
    images, labels = (idx(folder, f"{part}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
    return images.reshape(len(images), -1).astype(numpy.float32) / 255, labels


def simulated(data, noise, fails, seed):
    """Accuracy after all rounds, and how many of them made a model."""
    from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
    from flwr.supercore.task_identity import TaskIdentity

    logging.getLogger("flwr").setLevel(logging.ERROR)
    # Messages have the numbers of a run, its task and its node, which a deployment would set.
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
    random.seed(seed)
    numpy.random.seed(seed)
    inputs, labels = data["train"]
    shares = numpy.random.permutation(len(inputs)).reshape(CLIENTS, IMAGES)
    strategy = FedAvg(fraction_train=UPDATES / CLIENTS, min_train_nodes=UPDATES, min_available_nodes=CLIENTS)
    if noise:
        strategy = DifferentialPrivacyServerSideFixedClipping(strategy, noise, CLIP, UPDATES)
    model = [numpy.zeros((inputs.shape[1], CLASSES), numpy.float32), numpy.zeros(CLASSES, numpy.float32)]
    versions = 0
    for number in range(1, ROUNDS + 1):
        asked = list(strategy.configure_train(number, ArrayRecord(model), ConfigRecord(), Nodes()))
        replies = []
        for message in asked:
            if fails and not replies:
                replies.append(Message(Error(code=0, reason="lost"), reply_to=message))
                continue
            share = shares[message.metadata.dst_node_id - NODE_BASE]
            trained = train(model, inputs[share], labels[share])
            content = {"arrays": ArrayRecord(trained), "metrics": MetricRecord({"num-examples": IMAGES})}
            replies.append(Message(RecordDict(content), reply_to=message))
        arrays, _ = strategy.aggregate_train(number, replies)
        if arrays is not None:
            model = [array.astype(numpy.float32) for array in arrays.to_numpy_ndarrays()]
            versions += 1
    tests, wanted = data["t10k"]
    scores = tests @ model[0] + model[1]
    return float((scores.argmax(1) == wanted).mean()), versions


def train(model, inputs, labels):
    """An epoch of SGD on the softmax of a linear layer."""
    weights, bias = (array.copy() for array in model)
    for batch in numpy.random.permutation(len(inputs)).reshape(-1, BATCH):
        scores = inputs[batch] @ weights + bias
        chances = numpy.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        chances[numpy.arange(BATCH), labels[batch]] -= 1
        weights -= RATE / BATCH * inputs[batch].T @ chances
        bias -= RATE / BATCH * chances.sum(0)
    return [weights, bias]
