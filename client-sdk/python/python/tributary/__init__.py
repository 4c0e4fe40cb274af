"""Federated learning: train on data that stays where it is.

A `Client` takes part in the rounds of a coordinator with a trainer: `TorchTrainer` for PyTorch modules (in
`tributary.torch`), `LayerTrainer` for networks that a job file describes, or a class of yours with the three methods of
`Trainer`. `job_from` makes a job file from a PyTorch module. `Operator` creates and watches jobs.
"""

from importlib.metadata import PackageNotFoundError, version

from ._core import (
    Diverged,
    DoesNotFit,
    Interrupted,
    NoExamples,
    Refused,
    Suspended,
    TributaryError,
    Unreachable,
    Untrusted,
)
from .client import Client, Host, Outcome, Progress
from .job import Job, job_from
from .model import Model, Prediction, load
from .operator import Operator
from .trainer import Checkpoint, EvaluateTask, Evaluated, LayerTrainer, Trained, Trainer, TrainTask

try:
    __version__ = version("tributary-fl")
except PackageNotFoundError:  # the sources, without an installed package
    __version__ = "0"

__all__ = [
    "Checkpoint",
    "Client",
    "Diverged",
    "DoesNotFit",
    "EvaluateTask",
    "Evaluated",
    "Host",
    "Interrupted",
    "Job",
    "LayerTrainer",
    "Model",
    "NoExamples",
    "Operator",
    "Outcome",
    "Prediction",
    "Progress",
    "Refused",
    "Suspended",
    "TrainTask",
    "Trained",
    "Trainer",
    "TributaryError",
    "Unreachable",
    "Untrusted",
    "job_from",
    "load",
]
