"""PyTorch modules as trainers."""

from __future__ import annotations

import io
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch

from ._core import Diverged, DoesNotFit, NoExamples
from .trainer import Checkpoint, EvaluateTask, Evaluated, Trained, TrainTask

log = logging.getLogger("tributary")

CLASSES_COUNTED = 1_000
"""Classifiers with more classes report no counts by class."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


@dataclass
class _Place:
    """How far a training is."""

    steps: int = 0
    losses: float = 0.0
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch that were taken."""
    random: Optional[list[torch.Tensor]] = None
    """Random states before this epoch."""


class TorchTrainer:
    """Trains a PyTorch module on the batches of a loader, such as a `DataLoader`: pairs of inputs and targets.

    The parameters and buffers that the job names are loaded from the model and sent back; all others of the module stay
    on the device. Parameters with `requires_grad = False`, and those that the job has frozen, are sent back as they came.
    `loss` returns the mean over a batch. `optimizer` makes an optimiser from the trainable parameters; without it, the
    job's is used. The number of epochs or steps is the job's. `test` are the batches to evaluate on, those of `batches` by
    default.

    A training that is interrupted goes on in the next session. What it keeps meanwhile: trainable parameters, buffers, the
    optimiser, the place in the loader, and random states of PyTorch. Batches that were done are read again, but not
    trained on. A loader that draws its order from elsewhere, such as `random`, reads others.
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
        self._generator: Optional[torch.Generator] = getattr(batches, "generator", None)
        self._on_cuda = device is not None and torch.device(device).type == "cuda"

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
        pulled = self._of_parameters(task.parameters, named) if task.pull > 0 else []
        shifted = self._of_parameters(task.constants, named)
        changing = state.keys() - (dict(self.module.named_parameters()).keys() - named.keys())
        place = self._resumed(task.resume, optimizer, changing)
        self.module.train()
        for inputs, targets in self._steps(task, place, lambda: self._checkpoint(place, optimizer, changing)):
            optimizer.zero_grad()
            loss = self.loss(self.module(inputs), targets)
            loss.backward()
            for parameter, global_value in pulled:
                if parameter.grad is not None:
                    parameter.grad.add_(parameter.detach() - global_value, alpha=task.pull)
            for parameter, constant in shifted:
                if parameter.grad is not None:
                    parameter.grad.add_(constant)
            optimizer.step()
            place.losses += loss.item()
        if not np.isfinite(place.losses):
            raise Diverged("the loss is not finite")
        # A forward pass moves running statistics, also those that the job has frozen.
        kept = {name: task.parameters[name] for name in task.frozen}
        values = {**self._values(task.parameters), **kept}
        return Trained(values, self._examples, place.steps, place.losses / place.steps)

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

    def _of_parameters(
        self, arrays: Mapping[str, np.ndarray], named: Mapping[str, torch.nn.Parameter]
    ) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        """Those of these parameters that have an array, each with it."""
        state = self.module.state_dict()
        own = {_own_name(name, state): value for name, value in arrays.items()}
        tensors = {name: torch.from_numpy(value.copy()).to(self.device) for name, value in own.items() if name in named}
        return [(named[name], tensor) for name, tensor in tensors.items()]

    def _steps(self, task: TrainTask, place: _Place, checkpoint: Callable[[], Checkpoint]) -> Batches:
        """The batches that remain, and the place after each."""
        epochs, steps = task.training.get("epochs"), task.training.get("steps")
        while epochs is None or place.epoch < epochs:
            batches = self._epoch(place)
            while True:
                task.check(checkpoint)
                if place.steps > 0 and task.is_over:
                    return
                batch = next(batches, None)
                if batch is None:
                    break
                yield batch
                place.steps, place.batch = place.steps + 1, place.batch + 1
                if place.steps == steps:
                    return
            place.epoch, place.batch, place.random = place.epoch + 1, 0, None

    def _epoch(self, place: _Place) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The batches of an epoch that remain. One that was suspended is begun with the random states that it was begun
        with, so that the loader has the same order."""
        now = self._random()
        if place.random is None:
            place.random = now
            return self._on_device(iter(self.batches))
        self._set_random(place.random)
        batches = iter(self.batches)
        next(itertools.islice(batches, place.batch, place.batch), None)
        self._set_random(now)
        return self._on_device(batches)

    def _checkpoint(self, place: _Place, optimizer: torch.optim.Optimizer, changing: set[str]) -> Checkpoint:
        state = {
            "tensors": {name: value for name, value in self.module.state_dict().items() if name in changing},
            "kind": type(optimizer).__name__,
            "optimizer": optimizer.state_dict(),
            "epoch": place.epoch,
            "batch": place.batch,
            "epoch_random": place.random,
            "random": self._random(),
        }
        file = io.BytesIO()
        torch.save(state, file)
        return Checkpoint(place.steps, place.losses, file.getvalue())

    def _resumed(self, checkpoint: Optional[Checkpoint], optimizer: torch.optim.Optimizer, changing: set[str]) -> _Place:
        """Where to go on: the module, the optimiser and random states are as they were there."""
        if checkpoint is None:
            return _Place()
        try:
            state = torch.load(io.BytesIO(checkpoint.state), map_location="cpu", weights_only=True)
            own, tensors = self.module.state_dict(), state["tensors"]
            if {name: own[name].shape for name in changing} != {name: value.shape for name, value in tensors.items()}:
                raise ValueError("it is of another module")
            if state["kind"] != type(optimizer).__name__ or len(state["random"]) != len(self._random()):
                raise ValueError("it is of another optimiser, loader or device")
            place = _Place(checkpoint.steps, checkpoint.losses, state["epoch"], state["batch"], state["epoch_random"])
            optimizer.load_state_dict(state["optimizer"])
        except Exception as error:
            log.warning("training begins again, as a checkpoint cannot be used: %s", error)
            return _Place()
        self.module.load_state_dict(tensors, strict=False)
        self._set_random(state["random"])
        return place

    def _random(self) -> list[torch.Tensor]:
        """What PyTorch draws random numbers from: the processor's generator, the loader's own, the GPU's."""
        states = [torch.get_rng_state()]
        if self._generator is not None:
            states.append(self._generator.get_state())
        if self._on_cuda:
            states.append(torch.cuda.get_rng_state(self.device))
        return states

    def _set_random(self, states: list[torch.Tensor]) -> None:
        states = list(states)
        torch.set_rng_state(states.pop(0))
        if self._generator is not None:
            self._generator.set_state(states.pop(0))
        if self._on_cuda:
            torch.cuda.set_rng_state(states.pop(0), self.device)

    def _on_device(self, batches: Batches) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
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
