"""PyTorch modules as trainers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional

import numpy as np
import torch

from ._core import Diverged, DoesNotFit, NoExamples
from .trainer import EvaluateTask, Evaluated, Trained, TrainTask

CLASSES_COUNTED = 1_000
"""Classifiers with more classes report no counts by class."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


class TorchTrainer:
    """Trains a PyTorch module on the batches of a loader, such as a `DataLoader`: pairs of inputs and targets.

    The parameters and buffers that the job names are loaded from the model and sent back; all others of the module stay
    on the device. Parameters with `requires_grad = False`, and those that the job has frozen, are sent back as they came.
    `loss` returns the mean over a batch. `optimizer` makes an optimiser from the trainable parameters; without it, the
    job's is used. The number of epochs or steps is the job's. `test` are the batches to evaluate on, those of `batches` by
    default.
    """

    corrects_gradients = True

    def __init__(
        self,
        module: torch.nn.Module,
        batches: Batches,
        loss: Loss,
        *,
        optimizer: Optional[Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = None,
        test: Optional[Batches] = None,
        device: Optional[torch.device] = None,
    ) -> None:
        self.module, self.batches, self.loss = module, batches, loss
        self.optimizer, self.test, self.device = optimizer, batches if test is None else test, device
        self._examples = sum(len(targets) for _, targets in batches)

    def examples(self) -> int:
        return self._examples

    def train(self, task: TrainTask) -> Trained:
        if self._examples == 0:
            raise NoExamples("there are no examples")
        self._load(task.parameters)
        # The order of a loader that shuffles, and dropout, follow the seed.
        torch.manual_seed(task.seed)
        state = self.module.state_dict()
        frozen = {_own_name(name, state) for name in task.frozen}
        named = {
            name: parameter
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name not in frozen
        }
        trainable = list(named.values())
        make = self.optimizer or (lambda parameters: optimizer_of(task.training["optimizer"], parameters))
        optimizer = make(trainable)
        start = [parameter.detach().clone() for parameter in trainable] if task.pull > 0 else []
        constants = {
            _own_name(name, state): torch.from_numpy(value.copy()).to(self.device)
            for name, value in task.constants.items()
        }
        shifted = [(named[name], constant) for name, constant in constants.items() if name in named]
        self.module.train()
        losses, steps = 0.0, 0
        for inputs, targets in self._steps(task):
            optimizer.zero_grad()
            loss = self.loss(self.module(inputs), targets)
            loss.backward()
            for parameter, global_value in zip(trainable, start):
                if parameter.grad is not None:
                    parameter.grad.add_(parameter.detach() - global_value, alpha=task.pull)
            for parameter, constant in shifted:
                if parameter.grad is not None:
                    parameter.grad.add_(constant)
            optimizer.step()
            losses, steps = losses + loss.item(), steps + 1
        if not np.isfinite(losses):
            raise Diverged("the loss is not finite")
        # A forward pass moves running statistics, also those that the job has frozen.
        kept = {name: task.parameters[name] for name in task.frozen}
        return Trained({**self._values(task.parameters), **kept}, self._examples, steps, losses / steps)

    def evaluate(self, task: EvaluateTask) -> Evaluated:
        self._load(task.parameters)
        self.module.eval()
        examples, losses, right, targets_total, confusion = 0, 0.0, 0, 0, None
        with torch.no_grad():
            for inputs, targets in self._on_device(self.test):
                task.check()
                outputs = self.module(inputs)
                losses += self.loss(outputs, targets).item() * len(targets)
                examples += len(targets)
                if task.loss == "cross_entropy":
                    predicted, classes = outputs.argmax(1), outputs.shape[1]
                    right, targets_total = right + int((predicted == targets).sum()), targets_total + targets.numel()
                    if classes <= CLASSES_COUNTED:
                        pairs = (targets * classes + predicted).flatten()
                        counts = torch.bincount(pairs, minlength=classes * classes).reshape(classes, classes)
                        confusion = counts if confusion is None else confusion + counts
        if examples == 0:
            raise NoExamples("there are no examples")
        accuracy = right / targets_total if targets_total else None
        counts = None if confusion is None else confusion.cpu().numpy()
        return Evaluated(examples, losses / examples, accuracy, confusion=counts)

    def _steps(self, task: TrainTask) -> Batches:
        epochs, steps = task.training.get("epochs"), task.training.get("steps")
        done = 0
        while True:
            for batch in self._on_device(self.batches):
                task.check()
                if done > 0 and task.is_over:
                    return
                yield batch
                done += 1
                if steps is not None and done == steps:
                    return
            if epochs is not None:
                epochs -= 1
                if epochs == 0:
                    return

    def _on_device(self, batches: Batches) -> Batches:
        for inputs, targets in batches:
            yield inputs.to(self.device), targets.to(self.device)

    def _load(self, parameters: Mapping[str, np.ndarray]) -> None:
        state, given = self.module.state_dict(), {}
        for name, value in parameters.items():
            own = _own_name(name, state)
            if tuple(state[own].shape) != value.shape:
                raise DoesNotFit(f"{own!r} has the shape {tuple(state[own].shape)}, the job's has {value.shape}")
            # The module's tensors are written to, and the task's arrays are read-only.
            given[own] = torch.from_numpy(value.copy())
        self.module.load_state_dict(given, strict=False)
        if self.device is not None:
            self.module.to(self.device)

    def _values(self, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        state = self.module.state_dict()
        return {name: state[_own_name(name, state)].detach().cpu().float().numpy() for name in parameters}


def _own_name(name: str, state: Mapping[str, torch.Tensor]) -> str:
    """The name in the module. A `Sequential` calls `0.weight` what a list of layers calls `layers.0.weight`."""
    for own in (name, name.removeprefix("layers.")):
        if own in state:
            return own
    raise DoesNotFit(f"the module has no parameter {name!r}")


def optimizer_of(settings: Mapping[str, Any], parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """The optimiser of a job file, whose settings are PyTorch's."""
    settings = dict(settings)
    kind, rate = settings.pop("kind"), settings.pop("learning_rate")
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=rate, **settings)
    betas = (settings.pop("beta1", 0.9), settings.pop("beta2", 0.999))
    adam = {"adam": torch.optim.Adam, "adam_w": torch.optim.AdamW}[kind]
    return adam(parameters, lr=rate, betas=betas, eps=settings.pop("epsilon", 1e-8), **settings)
