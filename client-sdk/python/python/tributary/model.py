"""Exported models: predictions from raw rows, without a network."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, Optional, Union

from . import _core

Row = Union[Sequence[Any], Mapping[str, Any]]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECONDS_OF_A_DAY = 86_400.0


@dataclass(frozen=True)
class Prediction:
    """What a model says of one row."""

    outputs: list[float]
    """The network's outputs."""
    label: Optional[str] = None
    """The name of the most probable class, or its number where classes have no names; None for numbers."""
    probabilities: dict[str, float] = field(default_factory=dict)
    """Probability of each class by name; empty for numbers and for networks with several output rows."""
    numbers: list[float] = field(default_factory=list)
    """The predicted numbers in the target's unit; empty for classes."""


class Model:
    """A model that predicts: of a file that `tributary job export` wrote, or that a client downloaded. Threads may share
    it."""

    def __init__(self, file: Union[bytes, _core.Model]) -> None:
        """Raises `ValueError` if the file is damaged, or does not say what it is."""
        self._native = _core.Model(file) if isinstance(file, bytes) else file
        self.card: dict[str, Any] = json.loads(self._native.card())
        """Job, version, hashes, loss, layers and inputs."""
        inputs = self.card["model"].get("inputs") or {}
        self._columns: list[dict[str, Any]] = inputs.get("columns", [])
        self._classes: list[str] = (inputs.get("target") or {}).get("classes", [])

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of a row's values; empty if the job named none."""
        return [column["name"] for column in self._columns]

    def predict(self, rows: Iterable[Row]) -> list[Prediction]:
        """Predicts each row: its values in the order of `columns`, or a mapping by their names.

        Numbers are numbers, categories their texts (or codes), dates `date`, `datetime` or ISO texts; `None` and NaN
        are missing. Raises `ValueError` if a row does not fit, with the name of its column.
        """
        return [self._predict_row(row) for row in rows]

    def _predict_row(self, row: Row) -> Prediction:
        outputs, probabilities, place, numbers = self._native.predict(self._raw(row))
        if place is None:
            return Prediction(outputs, numbers=numbers)
        names = self._classes or [str(number) for number in range(len(probabilities))]
        by_name = dict(zip(names, probabilities)) if len(names) == len(probabilities) else {}
        return Prediction(outputs, names[place] if place < len(names) else str(place), by_name)

    def _raw(self, row: Row) -> list[float]:
        if isinstance(row, Mapping):
            missing = [name for name in self.columns if name not in row]
            if missing:
                raise ValueError(f"the row has no {missing[0]!r}; the columns are {', '.join(self.columns)}")
            row = [row[name] for name in self.columns]
        if not self._columns:
            return [float(value) for value in row]
        if len(row) != len(self._columns):
            raise ValueError(f"{len(row)} values, where the model has {len(self._columns)} columns")
        return [_number(column, value) for column, value in zip(self._columns, row)]


def _number(column: dict[str, Any], value: Any) -> float:
    if value is None:
        return math.nan
    kind, name = column.get("kind", "number"), column["name"]
    if isinstance(value, str) and kind == "category":
        if value not in column["categories"]:
            raise ValueError(f"{name}: {value!r} is none of {', '.join(column['categories'])}")
        return float(column["categories"].index(value))
    try:
        if kind == "date" and isinstance(value, (str, date)):
            return _days(value)
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {value!r} is not a {kind}") from None


def _days(value: Union[str, date]) -> float:
    moment = datetime.fromisoformat(value.rstrip("Z")) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return (moment - _EPOCH).total_seconds() / _SECONDS_OF_A_DAY


def load(file: Union[str, Path, bytes]) -> Model:
    """The model of an exported file, by its path or its bytes.

    Raises `ValueError` if the file is damaged or does not say what it is, and `OSError` if it cannot be read.
    """
    return Model(file if isinstance(file, bytes) else Path(file).read_bytes())
