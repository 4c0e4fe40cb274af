"""Shamir's shares of a secret: a polynomial over GF(2^8) for each byte, with the reduction x^8 + x^4 + x^3 + x + 1."""

import numpy as np

REDUCTION = 0x1B


def multiply(a, b):
    """The products of bytes, element by element."""
    a, b = np.broadcast_arrays(np.asarray(a, np.uint8), np.asarray(b, np.uint8))
    a, product = a.copy(), np.zeros(a.shape, np.uint8)
    for bit in range(8):
        product ^= a * (b >> bit & 1)
        a = (a << 1) ^ (a >> 7) * np.uint8(REDUCTION)
    return product


def inverse(a):
    """a^254: the group of units has 255 elements."""
    power, square = np.uint8(1), np.uint8(a)
    for _ in range(7):
        square = multiply(square, square)
        power = multiply(power, square)
    return power


def shares(coefficients, numbers):
    """The values of a polynomial at these numbers. The first coefficient is the secret, of 32 bytes like the others."""
    coefficients = [np.frombuffer(one, np.uint8) for one in coefficients]
    x = np.array(numbers, np.uint8)[:, None]
    values = np.zeros((len(numbers), len(coefficients[0])), np.uint8)
    for coefficient in reversed(coefficients):
        values = multiply(values, x) ^ coefficient
    return [row.tobytes() for row in values]


def combined(shares_by_number):
    """The secret, by Lagrange's formula at zero."""
    secret = np.zeros(len(next(iter(shares_by_number.values()))), np.uint8)
    for number, share in shares_by_number.items():
        factor = np.uint8(1)
        for other in shares_by_number.keys() - {number}:
            factor = multiply(factor, multiply(other, inverse(other ^ number)))
        secret ^= multiply(np.frombuffer(share, np.uint8), factor)
    return secret.tobytes()
