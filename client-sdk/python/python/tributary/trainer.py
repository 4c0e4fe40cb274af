"""What a trainer is asked for, and what it returns."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import prod
from typing import Any, Optional, Protocol, TypeVar, Union

import numpy as np

from . import _core
from .arrays import Arrays, pieces, unpack

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Checkpoint:
    """Where a training was suspended."""

    steps: int
    """Number of steps that were taken."""
    losses: float
    """Sum of their losses."""
    state: bytes
    """What the trainer needs besides, in a format of its own: weights, what the optimiser keeps, random states."""


@dataclass(frozen=True)
class TrainTask:
    """What to learn and how."""

    parameters: Arrays
    """The global model: read-only arrays of f32 by name. Personal parameters are the client's own."""
    model: Mapping[str, Any]
    """The network of the job file: `input` and `layers`, or `parameters`; its `inputs` where the job has them."""
    training: Mapping[str, Any]
    """The `[training]` of the job file."""
    seed: int
    """The source of all randomness. Every client of a round has another one."""
    stop: _core.Stop
    frozen: frozenset[str] = frozenset()
    """Names of parameters that must stay as they are. A result in which one of them changed is refused."""
    pull: float = 0.0
    """Weight of the distance from the global model: `pull * (w - w_global)` is added to each gradient."""
    constants: Arrays = field(default_factory=dict)
    """What is added to each gradient besides, as arrays by name; empty for nothing."""
    resume: Optional[Checkpoint] = None
    """Where an earlier session suspended this training, perhaps in an earlier release of the app; `None` to begin. The
    result must be that of a training that was not suspended. Begin if the checkpoint does not fit."""
    may_suspend: bool = False
    """Whether a later session can go on where this one is stopped."""
    tell: Callable[[int, Optional[int]], None] = field(default=lambda done, of: None, repr=False, compare=False)
    job: Optional[str] = None
    """Name of the job."""
    data: Optional[str] = None
    """The example set that the job names; `None` for the examples without a name."""

    def prepare(self, rows: Any) -> np.ndarray:
        """The network's inputs (f32) of raw rows, an array or nested lists `[rows, columns]`: numbers as they are,
        categories by their code, dates in days since 1970, NaN where a value is missing. Without `[model.inputs]` in the
        job's file they stay as they are. Raises `ValueError` with the name of the column whose value cannot be fed.
        """
        return _prepared(self.model, rows)

    @property
    def is_over(self) -> bool:
        """Whether to return now what was learned so far, with the steps that were taken: the job lets partial work count
        (`partial_work`), and its time is over. Look before every batch but the first."""
        return self.stop.is_over()

    def progress(self, steps: int, of: Optional[int] = None) -> None:
        """Tells how many steps are done, and how many there are, for the log and `on_progress`. Most calls do nothing."""
        self.tell(steps, of)

    def check(self, checkpoint: Optional[Callable[[], Checkpoint]] = None) -> None:
        """Call this before every batch: it raises `Interrupted` when the session or the round has ended. A trainer that
        can go on from `resume` passes a function that makes a checkpoint, called only then and every `checkpoint_every_s`
        of the client, when the training goes on."""
        if not self.stop.is_set():
            if checkpoint is not None and self.stop.checkpoint_is_due():
                kept = checkpoint()
                self.stop.keep(kept.steps, kept.losses, kept.state)
            return
        if checkpoint is None or not self.may_suspend:
            raise _core.Interrupted("training was interrupted")
        raise _core.Suspended(checkpoint())


@dataclass(frozen=True)
class EvaluateTask:
    """What to measure."""

    parameters: Arrays
    """The global model: read-only arrays of f32 by name."""
    model: Mapping[str, Any]
    """The `[model]` of the job file."""
    loss: str
    """The loss to report: `cross_entropy`, `mse`, or `other` for a loss of the app."""
    stop: _core.Stop
    job: Optional[str] = None
    """Name of the job."""
    data: Optional[str] = None
    """The example set that the job names; `None` for the examples without a name."""

    def check(self) -> None:
        """Call this before every batch: it raises `Interrupted` when the session or the round has ended."""
        if self.stop.is_set():
            raise _core.Interrupted("the evaluation was interrupted")

    def prepare(self, rows: Any) -> np.ndarray:
        """The network's inputs of raw rows, as `TrainTask.prepare`."""
        return _prepared(self.model, rows)


def _prepared(model: Mapping[str, Any], rows: Any) -> np.ndarray:
    table = np.ascontiguousarray(rows, np.float64)
    if table.ndim != 2:
        raise ValueError(f"rows are an array [rows, columns], not of the shape {list(table.shape)}")
    inputs = _core.prepare(json.dumps(model), table.tobytes(), table.shape[1])
    return np.frombuffer(inputs, np.float32).reshape(len(table), -1)


@dataclass(frozen=True)
class Trained:
    """The result of training."""

    parameters: Mapping[str, Any]
    """The local model: an array for each parameter of the global one, by name."""
    examples: int
    """Number of examples trained on: the weight of the update. At least 1."""
    steps: int
    """Number of optimiser steps."""
    loss: float
    """Mean loss of the steps."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Figures of your own, at most 32: names of a-z, 0-9, `_`, `.` and `-`."""


@dataclass(frozen=True)
class Evaluated:
    """The result of an evaluation."""

    examples: int
    """Number of examples measured. At least 1."""
    loss: float
    """Mean loss per example."""
    accuracy: Optional[float] = None
    """Share of examples, 0 to 1, whose class had the highest score."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Figures of your own, such as `auc` or `f1`, at most 32."""
    confusion: Optional[Any] = None
    """Counts `[classes, classes]`: for each true class a row, with how often each class had the highest score. It must
    fit examples and accuracy."""


class Trainer(Protocol):
    """Learns from the examples of one client.

    A method may raise `NoExamples`, `Diverged` or `DoesNotFit`, which the operator sees as such, the last one with its
    text. Of any other exception the operator sees the type, unless the client has `report_errors="text"`. The session
    raises it again.

    A trainer that adds `pull` and `constants` of its tasks to each gradient has an attribute
    `corrects_gradients = True`. Rounds with FedProx, SCAFFOLD or FedDyn are refused without it.
    """

    def examples(self) -> int:
        """How many examples the client has."""
        ...

    def train(self, task: TrainTask) -> Trained: ...

    def evaluate(self, task: EvaluateTask) -> Evaluated: ...


class LayerTrainer:
    """Trains the networks that job files describe as layers. It needs no machine learning library.

    `inputs` has the shape `[examples, ...]`. `labels` are whole numbers: classes from 0, one per example or one per
    position. `values` are numbers of the shape `[examples, width]`, for regression. The result does not depend on the
    number of threads.
    """

    def __init__(self, inputs: Any, labels: Any = None, *, values: Any = None, threads: int = 1) -> None:
        inputs = np.ascontiguousarray(inputs, dtype="<f4")
        classes, width = None, 1
        if labels is not None:
            labels = np.asarray(labels)
            if labels.size and (not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0):
                raise ValueError("labels are classes from 0, as whole numbers; for numbers use values")
            classes = np.ascontiguousarray(labels, dtype="<u4").tobytes()
        if values is not None:
            values = np.ascontiguousarray(values, dtype="<f4")
            width = 1 if values.ndim == 1 else int(np.prod(values.shape[1:]))
            values = values.tobytes()
        self._native = _core.LayerExamples(
            list(inputs.shape[1:]), inputs.tobytes(), classes, values, width, threads
        )


class Bridge:
    """A trainer as the native part calls it: models are lent and given back in pieces, tasks are JSON."""

    def __init__(self, trainer: Trainer, tell: Callable[[int, Optional[int]], None]) -> None:
        self._trainer, self._tell = trainer, tell

    def examples(self) -> int:
        return self._trainer.examples()

    def corrects_gradients(self) -> bool:
        return bool(getattr(self._trainer, "corrects_gradients", False))

    def train(
        self,
        model: Union[_core.LentModel, bytes],
        constants: Optional[bytes],
        checkpoint: Optional[bytes],
        task: str,
        stop: _core.Stop,
    ) -> tuple[_core.LocalModel, int, int, float, dict[str, float]]:
        told = json.loads(task)
        parameters = told["parameters"]
        asked = TrainTask(
            unpack(model, parameters),
            told["model"],
            told["training"],
            told["seed"],
            stop,
            frozenset(told["frozen"]),
            told["pull"],
            {} if constants is None else unpack(constants, parameters),
            None if checkpoint is None else Checkpoint(told["steps"], told["losses"], checkpoint),
            told["may_suspend"],
            self._tell,
            told["job"],
            told["data"],
        )
        trained = _on_thread(lambda: self._trainer.train(asked))
        figures = int(trained.examples), int(trained.steps), float(trained.loss), _numbers(trained.metrics)
        arrays = trained.parameters
        # The dictionary may be the trainer's. Of a copy, each array that only the result has is freed once it is read.
        arrays = dict(arrays) if isinstance(arrays, dict) else arrays
        del trained
        local = _core.LocalModel(sum(prod(parameter["shape"]) for parameter in parameters))
        for piece in pieces(arrays, parameters):
            local.add(piece)
        return (local, *figures)

    def evaluate(
        self, model: Union[_core.LentModel, bytes], task: str, stop: _core.Stop
    ) -> tuple[int, float, Optional[float], dict[str, float], Optional[str]]:
        told = json.loads(task)
        parameters = unpack(model, told["parameters"])
        asked = EvaluateTask(parameters, told["model"], told["loss"], stop, told["job"], told["data"])
        measured = _on_thread(lambda: self._trainer.evaluate(asked))
        accuracy = None if measured.accuracy is None else float(measured.accuracy)
        classes = None if measured.confusion is None else _counts(np.asarray(measured.confusion))
        return int(measured.examples), float(measured.loss), accuracy, _numbers(measured.metrics), classes


def _on_thread(work: Callable[[], _Result]) -> _Result:
    """What the work returns or raises on a thread that Python made. A child that is forked on a thread of the native part,
    as a `DataLoader` with workers does, exits with 1: Python's shutdown does not know that thread."""
    ended: Future[_Result] = Future()

    def call() -> None:
        try:
            ended.set_result(work())
        except BaseException as raised:
            ended.set_exception(raised)

    thread = threading.Thread(target=call, name="tributary-trainer", daemon=True)
    thread.start()
    thread.join()
    return ended.result()


def _numbers(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def _counts(confusion: np.ndarray) -> Optional[str]:
    """Counts by class as the protocol has them: a matrix up to 100 classes, two counts per class up to 1,000."""
    classes = len(confusion)
    if confusion.shape != (classes, classes):
        raise _core.DoesNotFit(f"a confusion matrix is square, and has not the shape {confusion.shape}")
    if classes > 1_000:
        return None
    if classes <= 100:
        return json.dumps({"kind": "confusion", "classes": classes, "counts": confusion.ravel().tolist()})
    examples, right = confusion.sum(1).tolist(), confusion.diagonal().tolist()
    return json.dumps({"kind": "per_class", "examples": examples, "right": right})
