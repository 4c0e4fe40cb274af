"""Clients of the Python package, for the tests: prints one JSON object per session.

Usage: package.py KIND SERVER TOKEN TABLE STATE_DIR [LOOKS]
       package.py predict SERVER TOKEN TABLE STATE_DIR JOB
       package.py sets SERVER TOKEN STATE_DIR TYPING_TABLE PHOTOS_TABLE
       package.py memory SERVER TOKEN STATE_DIR
       with KIND: layers, numpy, plain, operator, raises, raises_text, away, torch, torch_batches, torch_digits

A table has a line of names, then one example a line; the last column is its class. `operator` takes an operator's token,
a file with the CA, and the name of a job. With LOOKS a host stops the session when the trainer has looked so often
whether to stop, or never for -1, and the seed of the training is 7. `predict` prints a line for each row. `sets` is an app with two models:
it ends once it has contributed to both jobs. `memory` prints the bytes a parameter that a session needs beside the
arrays of its trainer.
"""

import csv
import dataclasses
import io
import json
import sys

import numpy as np

import tributary


class ByHand:
    """The network of the job (linear, relu, linear) in numpy: SGD over all examples, on cross-entropy."""

    corrects_gradients = True

    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs, labels

    def examples(self):
        return len(self.labels)

    def train(self, task):
        model = {name: value.astype(np.float64) for name, value in task.parameters.items()}
        rate, losses, done = task.training["optimizer"]["learning_rate"], 0.0, 0
        if task.resume is not None:
            model, losses, done = dict(np.load(io.BytesIO(task.resume.state))), task.resume.losses, task.resume.steps
        for step in range(done, task.training["steps"]):
            task.check(lambda: tributary.Checkpoint(step, losses, as_npz(model)))
            hidden, chances, loss = self.forward(model)
            scores = (chances - np.eye(chances.shape[1])[self.labels]) / len(self.labels)
            inner = scores @ model["layers.2.weight"] * (hidden > 0)
            for name, change in [
                ("layers.2.weight", scores.T @ hidden),
                ("layers.2.bias", scores.sum(0)),
                ("layers.0.weight", inner.T @ self.inputs),
                ("layers.0.bias", inner.sum(0)),
            ]:
                pulled = change + task.pull * (model[name] - task.parameters[name])
                model[name] = model[name] - rate * (pulled + task.constants.get(name, 0.0))
            losses += loss
        figures = {"hidden": float((hidden > 0).mean())}
        return tributary.Trained(model, len(self.labels), task.training["steps"], losses / task.training["steps"], figures)

    def evaluate(self, task):
        _, chances, loss = self.forward(task.parameters)
        classes = chances.shape[1]
        pairs = self.labels * classes + chances.argmax(1)
        confusion = np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
        accuracy = float(confusion.trace() / len(self.labels))
        return tributary.Evaluated(len(self.labels), loss, accuracy, {"margin": 0.5}, confusion)

    def forward(self, model):
        hidden = np.maximum(self.inputs @ model["layers.0.weight"].T + model["layers.0.bias"], 0)
        scores = hidden @ model["layers.2.weight"].T + model["layers.2.bias"]
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        return hidden, chances, float(-np.log(chances[np.arange(len(self.labels)), self.labels]).mean())


def as_npz(arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


class Plain(ByHand):
    corrects_gradients = False


class Raises(ByHand):
    def train(self, task):
        raise OSError("the disk of the silo is gone")


class Away(tributary.Host):
    def may_continue(self):
        return False

    def state(self):
        return {"battery_percent": 7, "charging": False}


class PickedUp(tributary.Host):
    """A trainer, and a host that stops the session when it has looked so often whether to stop."""

    def __init__(self, trainer, looks):
        self.trainer, self.left, self.stops, self.looks = trainer, looks, False, 0
        self.examples, self.evaluate = trainer.examples, trainer.evaluate

    def may_continue(self):
        return not self.stops

    def train(self, task):
        self.stop, self.is_over = task.stop, task.stop.is_over
        return self.trainer.train(dataclasses.replace(task, seed=7, stop=self))

    def is_set(self):
        self.stops, self.left, self.looks = self.left == 0, self.left - 1, self.looks + 1
        while self.stops and not self.stop.is_set():
            pass
        return self.stop.is_set()

    def checkpoint_is_due(self):
        return False


def torch_batches(inputs, labels):
    """A loader that shuffles, and a module with dropout and, not known to the job, normalisation."""
    from collections import OrderedDict

    import torch
    from tributary.torch import TorchTrainer

    torch.manual_seed(3)
    layers = {"0": torch.nn.Linear(4, 8), "1": torch.nn.Dropout(), "2": torch.nn.ReLU(), "3": torch.nn.Linear(8, 3)}
    module = torch.nn.Sequential(OrderedDict(layers, norm=torch.nn.BatchNorm1d(3)))
    examples = torch.utils.data.TensorDataset(torch.tensor(inputs), torch.tensor(labels))
    loader = torch.utils.data.DataLoader(examples, batch_size=8, shuffle=True)
    return TorchTrainer(module, loader, torch.nn.functional.cross_entropy)


def torch_trainer(inputs, labels):
    import torch

    return torch_whole(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)), inputs, labels)


def torch_digits(inputs, labels):
    import torch

    return torch_whole(torch.nn.Sequential(torch.nn.Linear(64, 10)), inputs, labels)


def torch_whole(module, inputs, labels):
    """All examples in each step."""
    import torch
    from tributary.torch import TorchTrainer

    whole = [(torch.tensor(inputs), torch.tensor(labels))]
    return TorchTrainer(module, whole, torch.nn.functional.cross_entropy)


def operate(server, token, ca_file, job):
    operator = tributary.Operator(server, token, ca=ca_file)
    rounds = [[one["number"], one["phase"], one["reported"]] for one in operator.watch(job)]
    model = {name: list(value.shape) for name, value in operator.model(job).items()}
    try:
        operator.job("job_" + "0" * 32)
    except tributary.Refused as error:
        print(json.dumps({"rounds": rounds, "model": model, "refused": error.kind}))


def predict(server, token, file, directory, job):
    """Predicts the rows of a table, whose empty fields are missing, with the model of a job in the client's folder, or
    with `@` and a channel with a released one."""
    client = tributary.Client(server, token, state_dir=directory)
    model = client.released(job[1:]) if job.startswith("@") else client.model(job)
    with open(file, newline="") as table:
        for row in csv.DictReader(table):
            kinds = {column["name"]: column.get("kind", "number") for column in model.card["model"]["inputs"]["columns"]}
            values = {name: text if kinds[name] == "category" else float(text or "nan") for name, text in row.items()}
            (prediction,) = model.predict([values])
            print(json.dumps({"class": prediction.label, "outputs": prediction.outputs}))


class OfSet(tributary.Trainer):
    """Softmax regression in numpy for jobs that name this set, and for no others."""

    def __init__(self, name, inputs, labels):
        self.name, self.inputs, self.labels = name, inputs, labels

    def examples(self):
        return len(self.labels)

    def train(self, task):
        assert (task.job, task.data) == ("gallery", self.name), (task.job, task.data)
        weights, bias = (task.parameters[f"layers.0.{name}"].astype(np.float64) for name in ("weight", "bias"))
        steps, losses = task.training["steps"], 0.0
        for _ in range(steps):
            task.check()
            scores = self.inputs @ weights.T + bias
            chances = np.exp(scores - scores.max(1, keepdims=True))
            chances /= chances.sum(1, keepdims=True)
            losses -= float(np.log(chances[np.arange(len(self.labels)), self.labels]).mean())
            change = (chances - np.eye(chances.shape[1])[self.labels]) / len(self.labels)
            rate = task.training["optimizer"]["learning_rate"]
            weights, bias = weights - rate * change.T @ self.inputs, bias - rate * change.sum(0)
        return tributary.Trained({"layers.0.weight": weights, "layers.0.bias": bias}, len(self.labels), steps, losses / steps)

    def evaluate(self, task):
        raise tributary.NoExamples("it evaluates nothing")


def two_models(server, token, directory, *files):
    (typing, photos) = [read(file) for file in files]
    trainers = {"typing": tributary.LayerTrainer(*typing), "photos": OfSet("photos", *photos)}
    client = tributary.Client(server, token, state_dir=directory, attributes={"kind": "sets"})
    done = 0
    while done < len(trainers):
        outcome = client.run_once(trainers)
        done += outcome.kind == "contributed"
    print(json.dumps({"kind": outcome.kind, "models": [client.model(job) is not None for job in ("keyboard", "gallery")]}))


def answers(server, token, directory):
    def rows(columns):
        assert columns == ["age", "pet"], columns
        return [[np.float32(31.5), "cat"], (None, "dog"), [40, None], [float("nan"), "cat"], [52, "cat"], [20, "dog"]]

    client = tributary.Client(server, token, state_dir=directory, table=rows)
    print(json.dumps({"kind": client.run_once({}).kind}))


def refuses(server, token, directory):
    def rows(columns):
        raise KeyError("patient_17")

    client = tributary.Client(server, token, state_dir=directory, table=rows)
    try:
        client.run_once({})
    except RuntimeError as error:
        print(json.dumps({"kind": "raised", "text": str(error)}))


class Fills(tributary.Trainer):
    """Fills arrays of its own, which it has before the session and after it, as a module has its parameters."""

    def __init__(self, shapes):
        self.own = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
        self.random = np.random.default_rng(7)

    def examples(self):
        return 10

    def train(self, task):
        for name, array in self.own.items():
            self.random.standard_normal(dtype=np.float32, out=array)
            array += task.parameters[name]
        return tributary.Trained(self.own, 10, 1, 0.5)

    def evaluate(self, task):
        raise tributary.NoExamples("it evaluates nothing")


def memory(server, token, directory):
    trainer = Fills({"w": (7, 1_000_000), "v": (2_000_000,)})
    client = tributary.Client(server, token, state_dir=directory)
    client.enrol()
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before, outcome = resident("VmRSS"), client.run_once(trainer)
    while outcome.kind == "nothing_to_do":
        # The coordinator is still at work on the round before.
        outcome = client.run_once(trainer)
    each = (resident("VmHWM") - before) / sum(array.size for array in trainer.own.values())
    print(json.dumps({"kind": outcome.kind, "round": outcome.round, "bytes_per_parameter": each}))


def resident(figure):
    """A figure of this process in bytes."""
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith(figure)]
    return int(line.split()[1]) * 1024


def read(file):
    table = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.float32)
    return table[:, :-1], table[:, -1].astype(np.int64)


def main():
    if sys.argv[1] == "sets":
        return two_models(*sys.argv[2:])
    if sys.argv[1] in ("answers", "refuses", "memory"):
        return globals()[sys.argv[1]](*sys.argv[2:])
    kind, server, token, file, directory, *looks = sys.argv[1:]
    if kind == "operator":
        return operate(server, token, file, directory)
    if kind == "predict":
        return predict(server, token, file, directory, *looks)
    inputs, labels = read(file)
    trainers = {
        "layers": tributary.LayerTrainer,
        "numpy": ByHand,
        "plain": Plain,
        "raises": Raises,
        "raises_text": Raises,
        "away": ByHand,
        "torch": torch_trainer,
        "torch_batches": torch_batches,
        "torch_digits": torch_digits,
    }
    report_errors = "text" if kind == "raises_text" else "type"
    attributes = {"kind": kind}
    # Nobody draws a trainer that cannot follow the plan: it need not wait for that.
    wait_s = 0.0 if kind == "plain" else 30.0
    client = tributary.Client(
        server, token, state_dir=directory, attributes=attributes, report_errors=report_errors, wait_s=wait_s
    )
    trainer, host = trainers[kind](inputs, labels), Away() if kind == "away" else None
    if looks:
        trainer = host = PickedUp(trainer, int(looks[0]))
    try:
        outcome = client.run_once(trainer, host)
        looked = {"looks": host.looks} if looks else {}
        waited = {"waits_for": outcome.waits_for} if outcome.waits_for else {}
        told = {"kind": outcome.kind, "round": outcome.round, "client": client.enrol(), **looked, **waited}
        print(json.dumps(told))
    except (OSError, tributary.DoesNotFit) as error:
        print(json.dumps({"kind": "raised", "text": str(error), "client": client.enrol()}))


if __name__ == "__main__":
    main()
