"""Figures of Tributary beside those of another program, as rows of a table."""

import dataclasses
import itertools
import statistics


@dataclasses.dataclass(frozen=True)
class Row:
    """Medians of all turns. A ratio is that of one turn; above 1 means that Tributary needs less or does more."""

    figure: str
    unit: str
    tributary: float
    other_program: str
    other: float
    ratio: float
    ratio_min: float
    ratio_max: float


def cost(figure: str, unit: str, ours: list[float], program: str, theirs: list[float]) -> Row:
    """A figure of which less is better, measured in turns."""
    return _row(figure, unit, ours, program, theirs, [their / our for our, their in zip(ours, theirs)])


def speed(figure: str, unit: str, ours: list[float], program: str, theirs: list[float]) -> Row:
    """A figure of which more is better, measured in turns."""
    return _row(figure, unit, ours, program, theirs, [our / their for our, their in zip(ours, theirs)])


def table(rows: list[Row]) -> str:
    """Markdown, with one table for each other program."""
    tables = []
    for program, of_program in itertools.groupby(rows, key=lambda row: row.other_program):
        lines = [f"| | Tributary | {program} | ratio (lowest, highest) |", "|---|---|---|---|"]
        tables.append("\n".join([*lines, *map(_line, of_program)]))
    return "\n\n".join(tables)


def _row(figure: str, unit: str, ours: list[float], program: str, theirs: list[float], ratios: list[float]) -> Row:
    middle = statistics.median
    return Row(figure, unit, middle(ours), program, middle(theirs), middle(ratios), min(ratios), max(ratios))


def _line(row: Row) -> str:
    ratio = f"{_digits(row.ratio)} ({_digits(row.ratio_min)}, {_digits(row.ratio_max)})"
    return f"| {row.figure} | {_digits(row.tributary)} {row.unit} | {_digits(row.other)} {row.unit} | {ratio} |"


def _digits(value: float) -> str:
    """Three digits, or the whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
