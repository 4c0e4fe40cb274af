"""Masks as words of keystreams, and the bytes of a masked update."""

import numpy as np

from .roster import keystream

TAG = b"\x54\x4d"


def mask(key, count, bits):
    """Pseudo-random numbers of this many bits."""
    word = 2 if bits <= 16 else 4 if bits <= 32 else 8
    return np.frombuffer(keystream(key, count * word), f"<u{word}").astype(np.uint64) & lowest(bits)


def lowest(bits):
    return np.uint64((1 << bits) - 1)


def packed(values, bits):
    """Value i at bits i `bits` to (i + 1) `bits`, from the lowest bit on."""
    each = np.unpackbits(values.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    return np.packbits(each[:, :bits], bitorder="little").tobytes()


def body(roster_hash, values, slots, bits):
    return TAG + roster_hash + packed(values & lowest(bits), bits) + slots.astype("<u8").tobytes()
