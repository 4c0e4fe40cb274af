"""From a delta to whole numbers that can be masked: clip, rotation, keep and rounding."""

import math, secrets

import numpy as np

from .roster import keystream

BLOCK = 65_536
LOSS_MAX = 64.0
LOSS_STEPS = 65_535
ROUNDINGS = 9


class Form:
    """How the updates of a plan become whole numbers."""

    def __init__(self, length, clip, levels, keep=1.0):
        self.length, self.clip, self.levels, self.keep = length, clip, levels, keep
        whole, rest = divmod(length, BLOCK)
        self.blocks = [BLOCK] * whole + ([1 << (rest - 1).bit_length()] if rest else [])
        self.coordinates = sum(self.blocks)
        self.step = clip / (levels * math.sqrt(self.coordinates))

    def quantised(self, delta, roster):
        """Whole numbers, and whether the delta was within the clip."""
        norm = float(np.linalg.norm(delta.astype(np.float64)))
        delta = delta * min(1.0, self.clip / norm) if norm else delta
        steps = kept(self.rotated(delta, roster), self.keep, roster) / self.step
        return rounded_within(steps, self.levels**2 * self.coordinates + self.coordinates // 4), norm <= self.clip

    def rotated(self, delta, roster):
        values = np.zeros(self.coordinates)
        values[places(self.length)] = delta
        signs = np.frombuffer(keystream(roster.key("rotation"), -(-self.coordinates // 8)), np.uint8)
        values *= 1.0 - 2.0 * np.unpackbits(signs, count=self.coordinates, bitorder="little")
        ends = np.cumsum(self.blocks)
        return np.concatenate([self.within_block(walsh_hadamard(part)) for part in np.split(values, ends[:-1])])

    def within_block(self, block):
        if len(self.blocks) == 1:
            return block
        norm, norm_max = np.linalg.norm(block), 2 * self.clip * math.sqrt(len(block) / self.coordinates)
        return block * (norm_max / norm) if norm > norm_max else block


def places(length):
    """Where each value goes: in more than one block, each layer is spread over all of them."""
    values = np.arange(length)
    return values if length <= BLOCK else values * stride(length) % length


def stride(length):
    """The number without a common divisor with `length` that is nearest to 0.618 `length`, the smaller of two."""
    near = 618 * length // 1000
    down = next(one for one in range(near, 0, -1) if math.gcd(one, length) == 1)
    up = next(one for one in range(near + 1, length) if math.gcd(one, length) == 1)
    return min(down, up, key=lambda one: abs(1000 * one - 618 * length))


def walsh_hadamard(values):
    """The transform of a power of two of values, divided by the root of their number: it keeps the norm."""
    size, width = len(values), 1
    while width < size:
        pairs = values.reshape(-1, 2, width)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        width *= 2
    return values / math.sqrt(size)


def kept(values, keep, roster):
    """The same random part for all members of a group."""
    if keep >= 1:
        return values
    words = np.frombuffer(keystream(roster.key("keep"), 4 * len(values)), "<u4")
    return values[words < keep * 2.0**32]


def rounded_within(values, squares_max):
    """To a neighbouring whole number each, at random, so that the mean stays. A vector that this makes too long is
    rounded again, and in the end scaled down.
    """
    for _ in range(ROUNDINGS):
        draws = np.frombuffer(secrets.token_bytes(8 * len(values)), "<u8") >> np.uint64(11)
        steps = np.floor(values + draws * 2.0**-53).astype(np.int64)
        if (steps**2).sum() <= squares_max:
            return steps
    return np.trunc(steps * math.sqrt(squares_max / (steps**2).sum())).astype(np.int64)


def slots(is_whole, examples, loss):
    """What a member tells in the masked sum beside its values."""
    has_loss = math.isfinite(loss) and loss >= 0
    told = round(min(loss, LOSS_MAX) / LOSS_MAX * LOSS_STEPS) if has_loss else 0
    return np.array([1, int(is_whole), examples, int(has_loss), told], np.uint64)
