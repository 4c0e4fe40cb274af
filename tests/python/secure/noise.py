"""Noise that a member adds to whole numbers: an exact discrete Gaussian (Canonne, Kamath and Steinke 2020, algorithms 1
to 3), from the system's random numbers and with fractions alone.
"""

import math
import secrets
from fractions import Fraction

import numpy as np

PARTS = 256
BIT = 1 << 16


class Noise:
    """The part of one of `members`, by the plan's `masking`."""

    def __init__(self, masking, members, coordinates):
        lost, corrupt = (math.floor(masking[share] * members + 1e-9) for share in ("dropouts", "corrupt"))
        part = 1 / math.sqrt(max(members - lost - corrupt, 1))
        bound = math.sqrt(math.floor(masking["levels"] ** 2 * coordinates + coordinates // 4))
        self.values = in_parts(masking["noise"]["values"] * bound * part)
        count = masking["noise"].get("count")
        self.count = None if count is None else in_parts(2 * count * BIT * part)

    def added(self, values):
        return values + np.array([gaussian(self.values) for _ in values], np.int64)

    def slots(self, is_whole):
        """Examples and loss stay with the member, and the bit of its clip is noised."""
        bit = 0 if self.count is None else (BIT if is_whole else -BIT) + gaussian(self.count)
        return np.array([1, bit % 2**64, 0, 0, 0], np.uint64)


def in_parts(deviation):
    return Fraction(math.ceil(deviation * PARTS), PARTS)


def gaussian(deviation):
    """Integers around zero, i with a probability in proportion to exp(-i^2 / (2 deviation^2))."""
    width, square = math.floor(deviation) + 1, deviation**2
    while True:
        drawn = laplace(width)
        if falls((abs(drawn) - square / width) ** 2 / (2 * square)):
            return drawn


def laplace(width):
    while True:
        rest = secrets.randbelow(width)
        if not falls(Fraction(rest, width)):
            continue
        whole = 0
        while falls(Fraction(1)):
            whole += 1
        magnitude, is_negative = rest + width * whole, secrets.randbelow(2) == 1
        # Zero has no second sign.
        if magnitude or not is_negative:
            return -magnitude if is_negative else magnitude


def falls(exponent):
    """True with probability exp(-exponent)."""
    while exponent > 1:
        if not falls_within_one(Fraction(1)):
            return False
        exponent -= 1
    return falls_within_one(exponent)


def falls_within_one(exponent):
    turn = 1
    while secrets.randbelow(exponent.denominator * turn) < exponent.numerator:
        turn += 1
    return turn % 2 == 1
