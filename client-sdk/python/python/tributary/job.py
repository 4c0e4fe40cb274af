"""Job files from PyTorch modules."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Optional, Union

import numpy as np

from .arrays import to_safetensors

log = logging.getLogger("tributary")

_WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}
"""Modules around another one, with the attribute that holds it."""

SELECTION_TIMEOUT_MS = 30_000
"""How long a round of silos waits for all of them before it starts with fewer."""


@dataclass(frozen=True)
class Job:
    """A job file, and the model that its first round starts from."""

    file: dict[str, Any]
    """The keys of a job file (docs/jobs.md)."""
    initial: Optional[bytes] = None
    """Version 0 as a safetensors file; without it, the coordinator draws it from the seed."""

    def toml(self) -> str:
        """The job file as TOML."""
        tables = {key: value for key, value in self.file.items() if isinstance(value, Mapping)}
        lines = [f"{key} = {_toml(value)}" for key, value in self.file.items() if key not in tables]
        for name, table in tables.items():
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in table.items()]
        return "\n".join(lines) + "\n"

    def save(self, path: Union[str, PathLike[str]]) -> None:
        """Writes the job file, and beside it the initial model with the ending `.safetensors`."""
        path = Path(path)
        path.write_text(self.toml(), encoding="utf-8")
        if self.initial is not None:
            path.with_suffix(".safetensors").write_bytes(self.initial)


def job_from(
    module: Any,
    name: str,
    population: str,
    *,
    training: Mapping[str, Any],
    input: Optional[Sequence[int]] = None,
    layers: Literal["try", "require"] = "try",
    silos: Optional[int] = None,
    **tables: Any,
) -> Job:
    """A job that trains a PyTorch module, from the module's own weights.

    With `input`, the shape of one example, a `Sequential` of known layers becomes a list of layers: clients in every
    language train it without code. Linear layers of loralib become `low_rank` layers, and parameters with
    `requires_grad = False` are frozen: clients fetch them and send only the rest. Any other module becomes names and
    shapes, which the clients' own modules must have; parameters with `requires_grad = False` are then left out, since
    the clients' modules have them.
    A layer that is not known is warned of, and with `layers="require"` it is a `ValueError`.

    Names are those of the module inside `torch.compile` and `DataParallel`. Tied weights are in the job once. A module on
    the device `meta` has no weights: the coordinator draws them.

    The `loss` of `training` is `cross_entropy`, the default, or `mse`, or `other` for any other loss of the clients'
    trainers: it is reported and compared, without an accuracy, and the module becomes names and shapes.

    `training` and `tables` (`round`, `stop`, `update`, ..) are the tables of a job file. With `silos`, the number of
    clients that take part, a round takes them all, or two thirds of them after half a minute; keys of `round` take
    precedence. Unless `download` says otherwise, clients fetch only what a round has changed (`delta = true`).

    Raises `ValueError` for a module without parameters, or with complex ones.
    """
    module = unwrapped(module)
    # Layers are trained without the app, which alone knows its loss.
    has_own_loss = training.get("loss") == "other"
    described = None if input is None or has_own_loss else layers_of(module, layers == "require")
    left_out = _tied(module) if described is not None else _tied(module) | _frozen(module)
    state = {name: value for name, value in module.state_dict().items() if name not in left_out}
    strange = sorted(name for name, value in state.items() if value.is_complex())
    if strange:
        raise ValueError(f"{strange[0]!r} is complex: models are real numbers")
    state = {name: value for name, value in state.items() if value.is_floating_point()}
    if not state:
        raise ValueError("the module has no parameters to train")
    prefix = "" if described is None else "layers."
    if described is not None:
        model: dict[str, Any] = {"input": list(input or ()), "layers": described}
        frozen = sorted(f"layers.{name}" for name in _frozen(module))
        if frozen:
            model["frozen"] = frozen
    else:
        model = {"parameters": [{"name": name, "shape": list(value.shape)} for name, value in state.items()]}
    file = {"name": name, "population": population, "model": model, "training": dict(training), **tables}
    file.setdefault("download", {"delta": True})
    if silos is not None:
        file["round"] = {**_round_of(silos), **tables.get("round", {})}
    if any(value.is_meta for value in state.values()):
        return Job(file)
    values = {prefix + name: value.detach().cpu().float().numpy() for name, value in state.items()}
    return Job({**file, "initial_model": "upload"}, to_safetensors(values))


def unwrapped(module: Any) -> Any:
    """The module inside those that `torch.compile` and `DataParallel` put around it: names begin with its own."""
    while type(module).__name__ in _WRAPPERS:
        module = getattr(module, _WRAPPERS[type(module).__name__])
    return module


def _round_of(silos: int) -> dict[str, Any]:
    """A round of few clients that are known: it waits for none besides them."""
    minimum = -(-2 * silos // 3)
    return {
        "updates_goal": silos,
        "updates_min": minimum,
        "over_selection": 1.0,
        "selection_timeout_ms": SELECTION_TIMEOUT_MS,
    }


def _tied(module: Any) -> set[str]:
    """Names of tensors that are another name of an earlier one: one tensor, or all of its memory."""
    seen, tied = set(), set()
    for name, value in module.state_dict(keep_vars=True).items():
        memory = (value.data_ptr(), tuple(value.shape), tuple(value.stride())) if value.numel() else ()
        place = memory if memory and memory[0] != 0 else id(value)
        if place in seen:
            tied.add(name)
        seen.add(place)
    return tied


def _frozen(module: Any) -> set[str]:
    """Names of the parameters that training does not change."""
    return {name for name, parameter in module.named_parameters() if not parameter.requires_grad}


def layers_of(module: Any, required: bool = False) -> Optional[list[dict[str, Any]]]:
    """A `Sequential` as the layers of a job file; none, with a warning, if one of its layers, or a setting of it, is not
    known. If they are `required`, that is a `ValueError`."""
    layers, unknown = [], None
    if type(module).__name__ != "Sequential":
        unknown = f"a {type(module).__name__} is no Sequential"
    elif _tied(module):
        unknown = f"{sorted(_tied(module))[0]!r} is tied to another parameter"
    else:
        for index, (name, layer) in enumerate(module.named_children()):
            make = _LAYERS.get(type(layer).__name__)
            described = make(layer) if make is not None and name == str(index) else None
            if described is None:
                unknown = f"the layer {name!r}, {layer}, is not known, or has a setting that is not"
                break
            layers.append(described)
    if unknown is None:
        return layers or None
    if required:
        raise ValueError(f"no job of layers: {unknown}")
    log.warning("the job has names and shapes, so only clients with this module can join: %s", unknown)
    return None


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else [int(one) for one in value]


def _linear(layer: Any) -> Optional[dict[str, Any]]:
    plain = {"kind": "linear", "out_features": layer.out_features, "bias": layer.bias is not None}
    if not hasattr(layer, "lora_A"):
        return plain
    # loralib's. A merged weight holds the product already, and a dropout before A has no counterpart.
    dropout = getattr(getattr(layer, "lora_dropout", None), "p", 0.0)
    if layer.merged or layer.fan_in_fan_out or dropout != 0.0:
        return None
    return {**plain, "kind": "low_rank", "rank": layer.r, "alpha": float(layer.lora_alpha)}


def _convolution(layer: Any) -> Optional[dict[str, Any]]:
    if layer.groups != 1 or _pair(layer.dilation) != [1, 1] or layer.padding_mode != "zeros":
        return None
    padding = layer.padding if isinstance(layer.padding, str) else _pair(layer.padding)
    return {
        "kind": "conv2d",
        "out_channels": layer.out_channels,
        "kernel_size": _pair(layer.kernel_size),
        "stride": _pair(layer.stride),
        "padding": padding,
        "bias": layer.bias is not None,
    }


def _pool(kind: str) -> Any:
    def make(layer: Any) -> Optional[dict[str, Any]]:
        unusual = _pair(layer.padding) != [0, 0] or layer.ceil_mode or _pair(getattr(layer, "dilation", 1)) != [1, 1]
        if unusual or getattr(layer, "divisor_override", None) is not None:
            return None
        return {"kind": kind, "kernel_size": _pair(layer.kernel_size), "stride": _pair(layer.stride or layer.kernel_size)}

    return make


def _layer_norm(layer: Any) -> Optional[dict[str, Any]]:
    if len(layer.normalized_shape) != 1 or layer.weight is None or layer.bias is None:
        return None
    return {"kind": "layer_norm", "epsilon": layer.eps}


def _batch_norm(layer: Any) -> Optional[dict[str, Any]]:
    if not layer.affine or not layer.track_running_stats or layer.momentum is None:
        return None
    return {"kind": "batch_norm", "epsilon": layer.eps, "momentum": layer.momentum}


def _embedding(layer: Any) -> Optional[dict[str, Any]]:
    if layer.padding_idx is not None or layer.max_norm is not None:
        return None
    return {"kind": "embedding", "tokens": layer.num_embeddings, "size": layer.embedding_dim}


def _recurrent(kind: str) -> Any:
    return lambda layer: {"kind": kind, "hidden_size": layer.hidden_size, "return_sequences": layer.return_sequences}


_LAYERS: dict[str, Any] = {
    "Linear": _linear,
    "Conv2d": _convolution,
    "MaxPool2d": _pool("max_pool2d"),
    "AvgPool2d": _pool("avg_pool2d"),
    "ReLU": lambda layer: {"kind": "relu"},
    "GELU": lambda layer: {"kind": "gelu"} if layer.approximate == "none" else None,
    "Tanh": lambda layer: {"kind": "tanh"},
    "Sigmoid": lambda layer: {"kind": "sigmoid"},
    "Flatten": lambda layer: {"kind": "flatten"} if (layer.start_dim, layer.end_dim) == (1, -1) else None,
    "Dropout": lambda layer: {"kind": "dropout", "probability": layer.p},
    "LayerNorm": _layer_norm,
    "BatchNorm1d": _batch_norm,
    "BatchNorm2d": _batch_norm,
    "Embedding": _embedding,
    # Those that `tributary.torch.module_from` makes.
    "LowRank": _linear,
    "Lstm": _recurrent("lstm"),
    "Gru": _recurrent("gru"),
    "Tokens": _embedding,
}


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else json.dumps(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, np.generic):
        value = value.item()
    # The escapes of JSON are those of TOML's basic strings.
    return json.dumps(value) if isinstance(value, str) else repr(value)
