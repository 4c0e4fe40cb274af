"""Lists of layers as modules of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import torch
from torch import nn


class LowRank(nn.Linear):
    """A linear layer and a product of two small matrices (LoRA): `x (W + alpha / r B A)^T + b`. Names and settings are
    those of loralib."""

    merged = fan_in_fan_out = False

    def __init__(self, in_features: int, out_features: int, r: int, lora_alpha: float, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.r, self.lora_alpha = r, lora_alpha
        self.lora_A = nn.Parameter(torch.empty(r, in_features))
        self.lora_B = nn.Parameter(torch.zeros(out_features, r))
        nn.init.uniform_(self.lora_A, -(in_features**-0.5), in_features**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + (x @ self.lora_A.T @ self.lora_B.T) * (self.lora_alpha / self.r)


class Lstm(nn.LSTM):
    """An LSTM over `[batch, time, features]` that puts out one tensor: the state after every time step, or after the
    last one."""

    def __init__(self, input_size: int, hidden_size: int, return_sequences: bool = False) -> None:
        super().__init__(input_size, hidden_size, batch_first=True)
        self.return_sequences = return_sequences

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = super().forward(x)
        return states if self.return_sequences else states[:, -1]


class Gru(nn.GRU):
    """As `Lstm`, with a gated recurrent unit."""

    def __init__(self, input_size: int, hidden_size: int, return_sequences: bool = False) -> None:
        super().__init__(input_size, hidden_size, batch_first=True)
        self.return_sequences = return_sequences

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = super().forward(x)
        return states if self.return_sequences else states[:, -1]


class Tokens(nn.Embedding):
    """An embedding that reads ids as whole numbers of any type: examples are arrays of f32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.long())


def sequential(model: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> nn.Sequential:
    """The layers of a job's `model`, whose parameters have these shapes by their names `layers.<index>.<name>`."""
    dimensions, modules = len(model["input"]), []
    for index, layer in enumerate(model["layers"]):
        of = {name: tuple(shape) for name, shape in _of_layer(shapes, index).items()}
        modules.append(_module(layer, of, dimensions))
        if layer["kind"] in ("lstm", "gru"):
            dimensions = 2 if layer.get("return_sequences") else 1
        else:
            dimensions = {"embedding": 2, "flatten": 1}.get(layer["kind"], dimensions)
    return nn.Sequential(*modules)


def _of_layer(shapes: Mapping[str, Sequence[int]], index: int) -> dict[str, Sequence[int]]:
    prefix = f"layers.{index}."
    return {name[len(prefix) :]: shape for name, shape in shapes.items() if name.startswith(prefix)}


def _pair(value: Any) -> tuple[int, int]:
    height, width = (value, value) if isinstance(value, int) else value
    return height, width


def _module(layer: Mapping[str, Any], of: Mapping[str, tuple[int, ...]], dimensions: int) -> nn.Module:
    """A layer for an input with so many dimensions; `of` are the shapes of its parameters."""
    kind, epsilon = layer["kind"], layer.get("epsilon", 1e-5)
    if kind in _WITHOUT_PARAMETERS:
        return _WITHOUT_PARAMETERS[kind](layer)
    weight = of["weight_ih_l0" if kind in ("lstm", "gru") else "weight"]
    bias = layer.get("bias", True)
    if kind == "linear":
        return nn.Linear(weight[1], weight[0], bias)
    if kind == "low_rank":
        rank, alpha = layer["rank"], layer.get("alpha")
        return LowRank(weight[1], weight[0], rank, float(rank if alpha is None else alpha), bias)
    if kind == "conv2d":
        padding = layer.get("padding", "valid")
        padding = padding if isinstance(padding, str) else _pair(padding)
        return nn.Conv2d(weight[1], weight[0], weight[2:], _pair(layer.get("stride", 1)), padding, bias=bias)
    if kind == "layer_norm":
        return nn.LayerNorm(weight[0], epsilon)
    if kind == "batch_norm":
        make = nn.BatchNorm2d if dimensions == 3 else nn.BatchNorm1d
        return make(weight[0], epsilon, layer.get("momentum", 0.1))
    if kind == "embedding":
        return Tokens(*weight)
    if kind in ("lstm", "gru"):
        make_recurrent = Lstm if kind == "lstm" else Gru
        return make_recurrent(weight[1], layer["hidden_size"], layer.get("return_sequences", False))
    raise ValueError(f"there is no layer of the kind {kind!r}")


def _stride(layer: Mapping[str, Any]) -> Optional[tuple[int, int]]:
    stride = layer.get("stride")
    return None if stride is None else _pair(stride)


_WITHOUT_PARAMETERS: dict[str, Any] = {
    "max_pool2d": lambda layer: nn.MaxPool2d(_pair(layer["kernel_size"]), _stride(layer)),
    "avg_pool2d": lambda layer: nn.AvgPool2d(_pair(layer["kernel_size"]), _stride(layer)),
    "relu": lambda layer: nn.ReLU(),
    "gelu": lambda layer: nn.GELU(),
    "tanh": lambda layer: nn.Tanh(),
    "sigmoid": lambda layer: nn.Sigmoid(),
    "flatten": lambda layer: nn.Flatten(),
    "dropout": lambda layer: nn.Dropout(layer["probability"]),
}
