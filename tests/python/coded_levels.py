"""Decodes coded sections of `ternary` and `qsgd`, written from docs/protocol.md alone.

Usage: python coded_levels.py
Checks the vectors that the Rust code writes (`protocol/src/update/codecs`). It needs no packages.
"""

import math
import struct

ONE = 1 << 16
M32 = (1 << 32) - 1


def i32(bits):
    return bits - (1 << 32) if bits >> 31 else bits


class Symbols:
    """The reader of symbols."""

    def __init__(self, data):
        first = len(data) if len(data) <= 8 else (len(data) - 5) % 4 + 5
        assert len(data) >= 3 and data[0] != 0
        self.state, self.words = int.from_bytes(data[:first], "big"), data[first:]

    def take(self, begin, end):
        self.state = (end - begin) * (self.state >> 16) + (self.state & 0xFFFF) - begin
        if self.state < 1 << 32 and self.words:
            self.state, self.words = self.state << 32 | int.from_bytes(self.words[:4], "big"), self.words[4:]

    def bit(self, one):
        bit = (self.state & 0xFFFF) < one
        self.take(*((0, one) if bit else (one, ONE)))
        return bit

    def symbol(self, last, below):
        ends = [0] + [below(symbol) for symbol in range(1, last + 1)] + [ONE]
        symbol = max(symbol for symbol in range(last + 1) if ends[symbol] <= (self.state & 0xFFFF))
        self.take(ends[symbol], ends[symbol + 1])
        return symbol

    def finish(self):
        assert (self.state, self.words) == (ONE, b""), "not all symbols were read as they were written"


class Adaptive:
    """The probability of a bit that is learned at once."""

    def __init__(self, one):
        self.estimate, self.count = one << 6, 0

    def one(self):
        return min(max(self.estimate >> 6, 1), ONE - 1)

    def read(self, symbols):
        bit = symbols.bit(self.one())
        goal = (1 << 22) - 1 if bit else 0
        self.estimate += (goal - self.estimate) * ((2 << 16) // (2 * self.count + 3)) >> 16
        self.count = min(self.count + 1, 255)
        return bit


LOGARITHMS = [int(math.log2(1 + i / 256) * 2**20 + 0.5) for i in range(257)]
POWERS = [M32] + [int(2.0 ** (-i / 256) * 2**32 + 0.5) for i in range(1, 257)]


def cost(one):
    zero = ONE - one
    magnitude = zero.bit_length() - 1
    fraction = (zero << (32 - magnitude)) & M32
    place, between = fraction >> 24, (fraction << 8 & M32) >> 16
    low, high = LOGARITHMS[place : place + 2]
    return (16 << 20) - ((magnitude << 20) + low + ((high - low) * between >> 16))


def some(cost):
    fraction = cost & ((1 << 20) - 1)
    high, low = POWERS[fraction >> 12 : (fraction >> 12) + 2]
    none = high - ((high - low) * (fraction & 4095) >> 12)
    return M32 - (none >> (cost >> 20))


def initial():
    chances, x = [], 2.0**-10 * 1.0905077326652577
    for _ in range(64):
        chances.append(max(8, int(ONE / (1 + x + x * x / 2 + x * x * x / 6 + x * x * x * x / 24))))
        x *= 1.189207115002721
    return chances


def log2_256ths(number):
    return (struct.unpack("<I", struct.pack("<f", number))[0] >> 15) - (127 << 8)


def rated(dither, number):
    """The logarithm of a threshold, in units of 2^-16."""
    return log2_256ths(((dither << 1 | 1) + (number << 17))) - (17 << 8) << 8


def context_of(distance):
    return min(max((distance >> 14) + 40, 0), 63)


def clamp(rating, most=32 << 16):
    return min(max(rating, -most), most)


class Dithers:
    def __init__(self, seed):
        self.keys = [0, 0]
        self.keys[0] = self.mix(seed ^ 0x9E3779B9)
        self.keys[1] = self.mix((self.keys[0] + 0x9E3779B9) & M32)
        self.next = 0

    @staticmethod
    def mix(x):
        x = (x ^ x >> 16) * 0x7FEB352D & M32
        x = (x ^ x >> 15) * 0x846CA68B & M32
        return x ^ x >> 16

    def row(self, count):
        places = range(self.next, self.next + count)
        self.next += count
        return [self.mix(((place * 0x9E3779B9 & M32 ^ self.keys[0]) + self.keys[1]) & M32) >> 16 for place in places]


def quotient(a, b):
    """Integer division towards 0."""
    return abs(a) // b * (1 if a >= 0 else -1)


class Model:
    def __init__(self, level_max):
        self.level_max = level_max
        self.first = [[one, cost(one), one << 16, 0, 0, 0] for _ in range(4) for one in initial()]
        self.further = [[Adaptive(one) for one in initial()] for _ in range(2)]
        self.negative = [Adaptive(ONE // 2) for _ in range(9)]
        self.longer = [Adaptive(ONE // 2) for _ in range(32)]
        self.left = self.batch = 64
        self.batches = 0
        self.ends, self.inputs = [], []

    def begin(self, row_values, rating):
        if len(self.ends) > 1:
            self.inputs = self.ends
        self.ends, self.rows, self.row_rating = [], 0, rating << 14
        self.columns, self.had = [0] * row_values, [False] * row_values
        if self.inputs and row_values % len(self.inputs) == 0:
            mean, each = quotient(sum(self.inputs), len(self.inputs)), row_values // len(self.inputs)
            self.columns = [
                clamp((self.inputs[at // each] - mean >> 3) * 5, 3 << 16) for at in range(row_values)
            ]

    def row(self, symbols, dithers):
        count = len(dithers)
        levels, surprises = [0] * count, [0] * count
        rating, sign, row_had = self.row_rating, 0, False
        for group, begin in enumerate(range(0, count, 16)):
            places = range(begin, min(begin + 16, count))
            contexts = []
            for at in places:
                context = context_of(rated(dithers[at], 0) - self.columns[at] - rating)
                contexts.append(context + 128 * self.had[at] + 64 * row_had)
            ones = [self.first[context][0] for context in contexts]
            costs = [0]
            for context in contexts:
                costs.append(costs[-1] + self.first[context][1])
            above, at = [], 0
            while at < len(places):
                below = lambda symbol: (some(costs[at + symbol] - costs[at]) >> 16) * (ONE - 32) // ONE + symbol
                at += symbols.symbol(len(places) - at, below)
                if at < len(places):
                    above.append(at)
                at += 1
            counts = self.batches < 64 or (group + self.rows) % 4 == 0
            for at, one, context in zip(places, ones, contexts):
                surprises[at] = -one
                self.first[context][4] += counts
            error = (len(above) << 16) - sum(ones)
            for lane in above:
                at = begin + lane
                self.first[contexts[lane]][5] += counts
                magnitude, errors = self.magnitude(symbols, dithers[at], self.columns[at] + rating)
                negative = self.negative[sign + 4096 + 512 >> 10].read(symbols)
                sign += ((4096 if negative else -4096) - sign) * 3 >> 4
                levels[at] = -magnitude if negative else magnitude
                surprises[at] += ONE + errors
                self.had[at] = True
                error += errors
            row_had |= bool(above)
            rating = clamp(rating + (error >> 2))
            if counts:
                self.left = max(0, self.left - len(places))
            if self.left == 0:
                self.learn()
        self.row_rating += rating - self.row_rating >> 4
        self.ends.append(rating)
        self.rows += 1
        sixteenths, around = 6 + 15 // self.rows, [0, *surprises, 0]
        for at in range(count):
            surprise = around[at + 1] + (around[at] + around[at + 2] >> 1)
            self.columns[at] = clamp(self.columns[at] + (surprise * sixteenths >> 4))
        return levels

    def magnitude(self, symbols, dither, rating):
        magnitude, errors = 1, 0
        while magnitude < min(self.level_max, 16):
            chance = self.further[magnitude > 1][context_of(rated(dither, magnitude) - rating)]
            expected = chance.one()
            if not chance.read(symbols):
                errors -= expected
                break
            errors += ONE - expected
            magnitude += 1
        if magnitude == 16 and self.level_max > 16:
            bits_max, bits, number = (self.level_max - 15).bit_length() - 1, 0, 1
            while bits < bits_max and self.longer[bits].read(symbols):
                bits += 1
            for _ in range(bits):
                number = number << 1 | symbols.bit(ONE // 2)
            magnitude += number - 1
        return magnitude, errors

    def learn(self):
        for chance in self.first:
            _, _, estimate, seen, values, ones = chance
            if values:
                estimate = min((estimate * (seen + 4) + (ones << 32)) // (seen + 4 + values), M32)
                one = min(max(estimate >> 16, 1), ONE - 1)
                chance[:] = [one, cost(one), estimate, min(seen + values, 1023), 0, 0]
        self.batch = min(2 * self.batch, 2048)
        self.left, self.batches = self.batch, self.batches + 1


def levels(data, parts, level_max):
    """The levels of the parts, which are pairs: values, and values of a row."""
    dithers, ratings = Dithers(int.from_bytes(data[:4], "little")), data[4 : 4 + len(parts)]
    symbols, model, decoded = Symbols(data[4 + len(parts) :]), Model(level_max), []
    for (values, row_values), rating in zip(parts, struct.unpack(f"{len(parts)}b", ratings)):
        if rating == -128:
            decoded.append([0] * values)
            continue
        model.begin(row_values, rating)
        rows = (min(row_values, values - at) for at in range(0, values, row_values))
        decoded.append([level for row in rows for level in model.row(symbols, dithers.row(row))])
    symbols.finish()
    return decoded


def bf16(data):
    return struct.unpack("<f", b"\0\0" + data)[0]


def ternary(section, parts):
    assert section[0] == 1
    scales = [bf16(section[1 + 2 * at : 3 + 2 * at]) for at in range(len(parts))]
    coded = levels(section[1 + 2 * len(parts) :], parts, 1)
    return [scale * level for scale, of_part in zip(scales, coded) for level in of_part]


def qsgd(section, parts, level_max, bucket):
    assert section[0] == 1
    count = -(-sum(values for values, _ in parts) // bucket)
    norms = [bf16(section[1 + 2 * at : 3 + 2 * at]) for at in range(count)]
    coded = [level for of_part in levels(section[1 + 2 * count :], parts, level_max) for level in of_part]
    return [norms[at // bucket] / level_max * level for at, level in enumerate(coded)]


TERNARY = "0180442c446944bb43d723f3f6f4032c374710ae4193e8af11034d89b4f1b405e50e54b46c218e3ba0ffcd12564bd31dea"
QSGD = (
    "018a4186418c41bb43d72304956eec48d184a6ab10fb61732778ab1f9430ab797c2f55e4ebe2e0e114c53c28d977dfafbf43cabcd0a08bcad643"
)


def main():
    values = [(at * 37 % 64 - 32) ** 3 * (at % 20 % 3) / 64.0 for at in range(400)]
    sent = ternary(bytes.fromhex(TERNARY), [(300, 20), (15, 15), (85, 15)])
    assert len(sent) == 400 and any(sent)
    assert all(one == 0.0 or one * value > 0.0 for one, value in zip(sent, values)), "a sign is wrong"

    values = [(at * 37 % 64 - 32) / 8.0 * (at % 3) for at in range(96)]
    sent = qsgd(bytes.fromhex(QSGD), [(96, 12)], 20, 32)
    norms = [math.sqrt(sum(value * value for value in values[at : at + 32])) for at in (0, 32, 64)]
    for at, (one, value) in enumerate(zip(sent, values)):
        assert abs(one - value) < norms[at // 32] * 1.01 / 20, f"value {at}: {one} from {value}"
    print("ok")


if __name__ == "__main__":
    main()
