"""PyTorch modules as trainers."""

from __future__ import annotations

import io
import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import torch

from ._batches import Batches, Counted, Loss, Metrics, Step, count, moved, step_of
from ._core import Diverged, DoesNotFit, NoExamples
from ._layers import sequential
from ._modules import Reached, halves, load, own_name
from .arrays import from_safetensors
from .job import Job, unwrapped
from .trainer import Checkpoint, EvaluateTask, Evaluated, Trained, TrainTask

__all__ = ["LoopTrainer", "TorchTrainer", "load", "module_from", "optimizer_of"]

log = logging.getLogger("tributary")

ShouldStop = Callable[[], bool]


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
    """Trains a PyTorch module on the batches of a loader, such as a `DataLoader`: pairs of inputs and targets, for which
    `loss` returns the mean over a batch. For batches of another form, several inputs, or automatic mixed precision, pass
    `step` instead of `loss`: a function of the module and a batch, whose tensors are on the device, that returns the mean
    loss, the outputs and the targets.

    The parameters and buffers that the job names are loaded from the model and sent back; all others of the module stay
    on the device. Parameters with `requires_grad = False`, and those that the job has frozen, are sent back as they came.
    `optimizer` makes an optimiser from the trainable parameters; without it, the job's is used. The number of epochs or
    steps is the job's. `test` are the batches to evaluate on: without it, the client evaluates on those that it trained on,
    which flatters the model. `metrics` computes figures of your own, such as AUC or F1, from the outputs and targets of all
    batches of an evaluation, which are kept in memory until then.

    A training that is interrupted goes on in the next session. What it keeps meanwhile: trainable parameters, buffers, the
    optimiser, the place in the loader, and random states of PyTorch. Batches that were done are read again, but not
    trained on. A loader that draws its order from elsewhere, such as `random`, reads others.
    """

    corrects_gradients = True

    def __init__(
        self,
        module: torch.nn.Module,
        batches: Batches,
        loss: Optional[Loss] = None,
        *,
        step: Optional[Step] = None,
        optimizer: Optional[Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = None,
        test: Optional[Batches] = None,
        metrics: Optional[Metrics] = None,
        device: Union[torch.device, str, None] = None,
    ) -> None:
        if loss is not None and step is None:
            self.step = step_of(loss)
        elif step is not None and loss is None:
            self.step = step
        else:
            raise TypeError("a TorchTrainer has either a loss, for batches of inputs and targets, or a step")
        self.module, self.batches = module, batches
        self._plain = unwrapped(module)
        self.optimizer, self.test, self.metrics = optimizer, test, metrics
        self.device = None if device is None else torch.device(device)
        self._examples = count(batches, step is not None)
        self._generator: Optional[torch.Generator] = getattr(batches, "generator", None)
        self._has_warned = False
        self._on_cuda = self.device is not None and self.device.type == "cuda"

    def examples(self) -> int:
        return self._examples

    def train(self, task: TrainTask) -> Trained:
        if self._examples == 0:
            raise NoExamples("there are no examples")
        loaded = self._load(task.parameters)
        # The order of a loader that shuffles, and dropout, follow the seed.
        torch.manual_seed(task.seed)
        state = self._plain.state_dict()
        frozen = {own_name(name, state) for name in task.frozen}
        named = {
            name: parameter
            for name, parameter in self._plain.named_parameters()
            if parameter.requires_grad and name not in frozen
        }
        trainable = list(named.values())
        make = self.optimizer or (lambda parameters: optimizer_of(task.training["optimizer"], parameters))
        optimizer = make(trainable)
        pulled = self._of_parameters(task.parameters, named, rounded=True) if task.pull > 0 else []
        shifted = self._of_parameters(task.constants, named)
        changing = state.keys() - (dict(self._plain.named_parameters()).keys() - named.keys())
        place = self._resumed(task.resume, optimizer, changing)
        self.module.train()
        for batch in self._steps(task, place, lambda: self._checkpoint(place, optimizer, changing)):
            optimizer.zero_grad()
            loss, _, _ = self.step(self.module, batch)
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
        trained = Reached(self.module, task.parameters, loaded, task.frozen)
        return Trained(trained, self._examples, place.steps, place.losses / place.steps)

    def evaluate(self, task: EvaluateTask) -> Evaluated:
        self._load(task.parameters)
        self.module.eval()
        if self.test is None and not self._has_warned:
            self._has_warned = True
            log.warning("this client evaluates on the examples that it trains on: give the TorchTrainer a `test`")
        examples, losses, counted = 0, 0.0, Counted()
        seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        with torch.no_grad():
            for batch in self._on_device(self.batches if self.test is None else self.test):
                task.check()
                loss, outputs, targets = self.step(self.module, batch)
                losses += loss.item() * len(targets)
                examples += len(targets)
                if task.loss == "cross_entropy":
                    counted.add(outputs, targets)
                if self.metrics is not None:
                    seen.append((outputs.cpu(), targets.cpu()))
        if examples == 0:
            raise NoExamples("there are no examples")
        figures: Mapping[str, float] = {}
        if self.metrics is not None:
            figures = self.metrics(torch.cat([outputs for outputs, _ in seen]), torch.cat([one for _, one in seen]))
        return Evaluated(examples, losses / examples, counted.accuracy(), figures, counted.confusion())

    def _of_parameters(
        self, arrays: Mapping[str, np.ndarray], named: Mapping[str, torch.nn.Parameter], rounded: bool = False
    ) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        """Those of these parameters that have an array, each with it; `rounded` as the module has its values."""
        state = self._plain.state_dict()
        own = {own_name(name, state): value for name, value in arrays.items()}
        tensors = {name: torch.from_numpy(value.copy()).to(self.device) for name, value in own.items() if name in named}
        pairs = [(named[name], tensor) for name, tensor in tensors.items()]
        return [(parameter, tensor.to(parameter.dtype)) for parameter, tensor in pairs] if rounded else pairs

    def _steps(self, task: TrainTask, place: _Place, checkpoint: Callable[[], Checkpoint]) -> Batches:
        """The batches that remain, and the place after each."""
        epochs, steps = task.training.get("epochs"), task.training.get("steps")
        of = steps
        if of is None and epochs is not None and isinstance(self.batches, Sized):
            of = epochs * len(self.batches)
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
                task.progress(place.steps, of)
                if place.steps == steps:
                    return
            place.epoch, place.batch, place.random = place.epoch + 1, 0, None

    def _epoch(self, place: _Place) -> Iterator[Any]:
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
            "tensors": {name: value for name, value in self._plain.state_dict().items() if name in changing},
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
            own, tensors = self._plain.state_dict(), state["tensors"]
            if {name: own[name].shape for name in changing} != {name: value.shape for name, value in tensors.items()}:
                raise ValueError("it is of another module")
            if state["kind"] != type(optimizer).__name__ or len(state["random"]) != len(self._random()):
                raise ValueError("it is of another optimiser, loader or device")
            place = _Place(checkpoint.steps, checkpoint.losses, state["epoch"], state["batch"], state["epoch_random"])
            optimizer.load_state_dict(state["optimizer"])
        except Exception as error:
            log.warning("training begins again, as a checkpoint cannot be used: %s", error)
            return _Place()
        self._plain.load_state_dict(tensors, strict=False)
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

    def _load(self, parameters: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
        """Loads the model. Returns the tensors of less than f32 as they were loaded."""
        load(self.module, parameters)
        if self.device is not None:
            self.module.to(self.device)
        return halves(self.module, parameters)

    def _on_device(self, batches: Batches) -> Iterator[Any]:
        return (moved(batch, self.device) for batch in batches)


class LoopTrainer:
    """Trains a PyTorch module with a loop that exists already.

    `train(module, should_stop)` trains the module in place and returns its mean loss, or the loss and the number of
    optimiser steps. `evaluate(module)` returns the mean loss per example, or the loss and the accuracy from 0 to 1. The
    module has the global model when they are called. `examples` is the number of examples to train on, and
    `test_examples` of those to evaluate on, the same by default.

    A loop that asks `should_stop()` before each batch and returns when it is true ends with the session or the round; its
    work is then dropped. The job's epochs, batch size and optimiser are the loop's business. Rounds with FedProx, SCAFFOLD
    or FedDyn are refused, because nothing corrects the gradients.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        train: Callable[[torch.nn.Module, ShouldStop], Union[float, Sequence[float]]],
        evaluate: Callable[[torch.nn.Module], Union[float, Sequence[float]]],
        examples: int,
        test_examples: Optional[int] = None,
    ) -> None:
        self.module, self._train, self._evaluate = module, train, evaluate
        self._examples, self._test_examples = examples, examples if test_examples is None else test_examples

    def examples(self) -> int:
        return self._examples

    def train(self, task: TrainTask) -> Trained:
        if self._examples == 0:
            raise NoExamples("there are no examples")
        torch.manual_seed(task.seed)
        load(self.module, task.parameters)
        loaded = halves(self.module, task.parameters)
        self.module.train()
        loss, *steps = _figures(self._train(self.module, task.stop.is_set))
        task.check()
        if not np.isfinite(loss):
            raise Diverged("the loss is not finite")
        trained = Reached(self.module, task.parameters, loaded, task.frozen)
        return Trained(trained, self._examples, int(steps[0]) if steps else 1, loss)

    def evaluate(self, task: EvaluateTask) -> Evaluated:
        if self._test_examples == 0:
            raise NoExamples("there are no examples")
        load(self.module, task.parameters)
        self.module.eval()
        with torch.no_grad():
            loss, *accuracy = _figures(self._evaluate(self.module))
        return Evaluated(self._test_examples, loss, accuracy[0] if accuracy else None)


def module_from(
    job: Union[Job, Mapping[str, Any], str, PathLike[str]],
    weights: Union[Mapping[str, Any], bytes, str, PathLike[str]],
) -> torch.nn.Sequential:
    """The module of a job whose model is a list of layers, with these weights: the way back from `job_from`.

    `job` is a `Job`, the keys of a job file (also those that `Operator.job` returns), or the path of a job file in TOML
    (Python 3.11 or later) or JSON. `weights` are arrays by name, such as those of `Operator.model`, or a safetensors file
    of f32: its path or its bytes. Layer `layers.<i>` is child `<i>`, and running statistics of batch norm are its buffers.
    The module is in training mode, as new modules are: call `eval()` before a prediction. Inputs are batches:
    `[batch, ..]`, and token ids may have any type.

    Raises `ValueError` if the job has an app's own network, and `DoesNotFit` if the weights are not those of the layers.
    """
    model = _model_of(job)
    if isinstance(weights, (str, PathLike)):
        weights = Path(weights).read_bytes()
    arrays = from_safetensors(weights) if isinstance(weights, bytes) else weights
    try:
        module = sequential(model, {name: np.shape(value) for name, value in arrays.items()})
    except KeyError as missing:
        raise DoesNotFit(f"the weights are not those of the job's layers: there is no {missing}") from None
    buffers = {name for name, _ in module.named_buffers() if not name.endswith("num_batches_tracked")}
    expected = {f"layers.{name}" for name in {name for name, _ in module.named_parameters()} | buffers}
    if expected != set(arrays):
        name = min(expected ^ set(arrays))
        raise DoesNotFit(f"{name!r} is only {'in the job' if name in expected else 'among the weights'}")
    load(module, arrays)
    return module


def _model_of(job: Union[Job, Mapping[str, Any], str, PathLike[str]]) -> Mapping[str, Any]:
    """The table `model` of a job, which is a list of layers."""
    if isinstance(job, (str, PathLike)):
        text = Path(job).read_text(encoding="utf-8")
        if text.lstrip().startswith("{"):
            job = json.loads(text)
        else:
            import tomllib

            job = tomllib.loads(text)
    file: Mapping[str, Any] = job.file if isinstance(job, Job) else job  # type: ignore[assignment]
    # An operator's answer has the job file under `file`.
    model: Mapping[str, Any] = file.get("file", file).get("model", file)
    if "layers" not in model:
        raise ValueError("the job's model is a list of parameters: only the app has its network")
    return model


def _figures(returned: Any) -> list[float]:
    figures = [float(one) for one in returned] if isinstance(returned, (tuple, list)) else [float(returned)]
    if len(figures) > 2:
        raise TypeError(f"a loop returns one or two numbers, not {len(figures)}")
    return figures


def optimizer_of(settings: Mapping[str, Any], parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """The optimiser of a job file, whose settings are PyTorch's."""
    settings = dict(settings)
    kind, rate = settings.pop("kind"), settings.pop("learning_rate")
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=rate, **settings)
    betas = (settings.pop("beta1", 0.9), settings.pop("beta2", 0.999))
    adam = {"adam": torch.optim.Adam, "adam_w": torch.optim.AdamW}[kind]
    return adam(parameters, lr=rate, betas=betas, eps=settings.pop("epsilon", 1e-8), **settings)
