"""Models as bytes and as arrays by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any, Union

import numpy as np

from ._core import DoesNotFit, LentModel

Arrays = dict[str, np.ndarray]

PIECE_VALUES = 1 << 16
"""Values of a piece of a model on its way to the native part: few enough for the processor's cache."""


def unpack(model: Union[LentModel, bytes], parameters: Iterable[Mapping[str, Any]]) -> Arrays:
    """Read-only arrays of f32 by name, in the model's order. They share its memory."""
    values = np.frombuffer(model, dtype="<f4") if isinstance(model, bytes) else np.asarray(model)
    arrays, first = {}, 0
    for parameter in parameters:
        last = first + prod(parameter["shape"])
        arrays[parameter["name"]] = values[first:last].reshape(parameter["shape"])
        first = last
    return arrays


def pieces(arrays: Mapping[str, Any], parameters: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """The bytes of arrays by name, piece by piece. Names must be those of the model, and shapes too. Arrays are taken
    out of a dictionary, so that those which nobody else has are freed as soon as they are read."""
    parameters = list(parameters)
    strangers = set(arrays) - {parameter["name"] for parameter in parameters}
    if strangers:
        raise DoesNotFit(f"the model has no parameter {sorted(strangers)[0]!r}")
    for parameter in parameters:
        name, shape = parameter["name"], tuple(parameter["shape"])
        if name not in arrays:
            raise DoesNotFit(f"the trainer returned no parameter {name!r}")
        array = _real(name, arrays.pop(name) if isinstance(arrays, dict) else arrays[name])
        if array.shape != shape:
            raise DoesNotFit(f"the parameter {name!r} has the shape {array.shape}, not {shape}")
        # Flat without a copy where the array lies in memory row by row.
        flat = array.reshape(-1)
        for first in range(0, flat.size, PIECE_VALUES):
            yield flat[first : first + PIECE_VALUES].astype("<f4", copy=False).tobytes()


def _real(name: str, values: Any) -> np.ndarray:
    """The values as an array. numpy would drop an imaginary part with a warning."""
    array = np.asarray(values)
    if np.iscomplexobj(array):
        raise TypeError(f"the parameter {name!r} is {array.dtype}: parameters are real numbers")
    return array


def to_safetensors(arrays: Mapping[str, Any]) -> bytes:
    """A safetensors file of f32 tensors in the order of the mapping."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, end = [], 0
    for name, array in arrays.items():
        part = _real(name, array).astype("<f4", copy=False).tobytes()
        header[name] = {"dtype": "F32", "shape": list(np.shape(array)), "data_offsets": [end, end + len(part)]}
        parts.append(part)
        end += len(part)
    return _file(header, parts)


def from_safetensors(file: bytes) -> Arrays:
    """The f32 tensors of a safetensors file."""
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + size])
    header.pop("__metadata__", None)
    data, arrays = memoryview(file)[8 + size :], {}
    for name, tensor in header.items():
        if tensor["dtype"] != "F32":
            raise ValueError(f"{name!r} is {tensor['dtype']}, not F32")
        first, last = tensor["data_offsets"]
        arrays[name] = np.frombuffer(data[first:last], dtype="<f4").reshape(tensor["shape"])
    return arrays


def with_card(file: bytes, card: Mapping[str, Any]) -> bytes:
    """A safetensors file that also says what its model is."""
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + size])
    metadata = {**header.pop("__metadata__", {}), "tributary": json.dumps(card, separators=(",", ":"))}
    return _file({"__metadata__": metadata, **header}, [memoryview(file)[8 + size :]])


def _file(header: Mapping[str, Any], parts: Iterable[Any]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])
