"""Modules of PyTorch, and models as arrays by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ._core import DoesNotFit
from .job import unwrapped

_HALVES = (torch.bfloat16, torch.float16)


def own_name(name: str, state: Mapping[str, Any]) -> str:
    """The name in the module. A `Sequential` calls `0.weight` what a list of layers calls `layers.0.weight`."""
    for own in (name, name[len("layers.") :] if name.startswith("layers.") else name):
        if own in state:
            return own
    raise DoesNotFit(f"the module has no parameter {name!r}")


def load(module: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    """Loads weights by name, such as those of `Operator.model`, into a module. Names are those of its `state_dict()`, or
    those of a list of layers. What has no weights stays as it is.

    Raises `DoesNotFit` that names the weights without a place in the module, or with another shape.
    """
    module = unwrapped(module)
    state, given = module.state_dict(), {}
    for name, value in weights.items():
        own = own_name(name, state)
        if tuple(state[own].shape) != np.shape(value):
            raise DoesNotFit(f"{own!r} has the shape {tuple(state[own].shape)}, the job's has {np.shape(value)}")
        # The module's tensors are written to, and these arrays may be read-only.
        given[own] = torch.from_numpy(np.array(value, dtype=np.float32))
    module.load_state_dict(given, strict=False)


def halves(module: torch.nn.Module, names: Any) -> dict[str, torch.Tensor]:
    """Copies of those of these tensors that hold less than f32, by their names in the job."""
    state = unwrapped(module).state_dict()
    tensors = {name: state[own_name(name, state)] for name in names}
    return {name: tensor.detach().clone() for name, tensor in tensors.items() if tensor.dtype in _HALVES}


class Reached(Mapping[str, np.ndarray]):
    """The model that is sent back after training from these parameters. An array is made when it is asked for: of a
    module on a GPU, or of half precision, there is never a second whole copy.

    Where the module holds less than f32, an array is the global one and what training has changed since it was
    `loaded`: the error of rounding the global model is no part of it. The `frozen` are sent back as they came: a
    forward pass moves running statistics, also those that the job has frozen.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        parameters: Mapping[str, np.ndarray],
        loaded: Mapping[str, torch.Tensor],
        frozen: Collection[str],
    ) -> None:
        self._state, self._parameters = unwrapped(module).state_dict(), parameters
        self._loaded, self._frozen = loaded, frozen

    def __getitem__(self, name: str) -> np.ndarray:
        value = self._parameters[name]
        if name in self._frozen:
            return value
        local = self._state[own_name(name, self._state)].detach().float()
        if name in self._loaded:
            return value + (local - self._loaded[name].float()).cpu().numpy()
        return local.cpu().numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)
