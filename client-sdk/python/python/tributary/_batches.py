"""Batches of PyTorch, and what is counted on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional

import numpy as np
import torch

CLASSES_COUNTED = 1_000
"""Classifiers with more classes report no counts by class."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Batches = Iterable[Any]
Step = Callable[[torch.nn.Module, Any], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
Metrics = Callable[[torch.Tensor, torch.Tensor], Mapping[str, float]]


def step_of(loss: Loss) -> Step:
    """A step on pairs of inputs and targets."""

    def step(module: torch.nn.Module, batch: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        inputs, targets = _pair(batch)
        outputs = module(inputs)
        return loss(outputs, targets), outputs, targets

    return step


def _pair(batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    # A dictionary of two entries would be unpacked into its keys.
    if isinstance(batch, (tuple, list)) and len(batch) == 2 and all(isinstance(one, torch.Tensor) for one in batch):
        return batch[0], batch[1]
    form = f"a dictionary of {sorted(map(str, batch))}" if isinstance(batch, Mapping) else f"a {type(batch).__name__}"
    raise TypeError(f"a batch is a pair of tensors, inputs and targets, not {form}; for others, give the trainer a `step`")


def count(batches: Batches, has_step: bool) -> int:
    """Number of examples. A `DataLoader` knows it, and other batches are read once."""
    sampler: Any = getattr(batches, "sampler", None)
    if isinstance(batches, torch.utils.data.DataLoader) and hasattr(sampler, "__len__"):
        if not has_step:
            first = next(iter(batches), None)
            if first is not None:
                _pair(first)
        if batches.batch_size is not None and batches.drop_last:
            return len(sampler) // batches.batch_size * batches.batch_size
        if batches.batch_size is not None:
            return len(sampler)
    return sum(_size(batch) if has_step else len(_pair(batch)[1]) for batch in batches)


def _size(batch: Any) -> int:
    """Number of examples of a batch: the length of its first tensor."""
    while not isinstance(batch, torch.Tensor):
        if not isinstance(batch, (Mapping, tuple, list)) or not batch:
            raise TypeError(f"a batch holds tensors, not a {type(batch).__name__}")
        batch = next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0]
    return len(batch)


def moved(batch: Any, device: Any) -> Any:
    """A batch whose tensors are on the device. What is no tensor stays as it is."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: moved(value, device) for name, value in batch.items()}
    if hasattr(batch, "_fields"):
        return type(batch)(*(moved(value, device) for value in batch))
    if isinstance(batch, (tuple, list)):
        return tuple(moved(value, device) for value in batch)
    return batch


class Counted:
    """What an evaluation of a classifier counts, if its outputs are scores of classes."""

    def __init__(self) -> None:
        self._right, self._targets = 0, 0
        self._pairs: Optional[torch.Tensor] = None

    def add(self, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        scores = scores_of(outputs, targets)
        if scores is None:
            return
        predicted, truth, classes = scores
        self._right, self._targets = self._right + int((predicted == truth).sum()), self._targets + truth.numel()
        if classes <= CLASSES_COUNTED:
            pairs = (truth * classes + predicted).flatten()
            counts = torch.bincount(pairs, minlength=classes * classes).reshape(classes, classes)
            self._pairs = counts if self._pairs is None else self._pairs + counts

    def accuracy(self) -> Optional[float]:
        return self._right / self._targets if self._targets else None

    def confusion(self) -> Optional[np.ndarray]:
        return None if self._pairs is None else self._pairs.cpu().numpy()


def scores_of(outputs: torch.Tensor, targets: torch.Tensor) -> Optional[tuple[torch.Tensor, torch.Tensor, int]]:
    """Predicted and true classes, and how many there are: the highest of two or more scores, or a logit above 0 where
    there is one for each target. `None` for others, such as probabilities of classes as targets."""
    of_classes = outputs.dim() > 1 and outputs.shape[1] > 1
    if of_classes and not targets.is_floating_point() and outputs.shape[0] == targets.shape[0]:
        predicted = outputs.argmax(1)
        return (predicted, targets.long(), outputs.shape[1]) if predicted.shape == targets.shape else None
    if not of_classes and outputs.numel() == targets.numel():
        return (outputs > 0).long().flatten(), (targets > 0.5).long().flatten(), 2
    return None
