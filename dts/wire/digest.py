# SPDX-License-Identifier: Apache-2.0
"""CRC-64/ECMA-182 and how digests of pieces make the digest of the whole: doc/wire.md section 9."""
import sys
from array import array

POLYNOMIAL = 0x42F0E1EBA9EA3693
_MASK = (1 << 64) - 1


def _table() -> list[int]:
    out = []
    for byte in range(256):
        value = byte << 56
        for _ in range(8):
            value = (value << 1 ^ (POLYNOMIAL if value >> 63 else 0)) & _MASK
        out.append(value)
    return out


_TABLE = _table()
# The same for two bytes at once.
_WIDE = [(_TABLE[n >> 8] << 8 & _MASK) ^ _TABLE[_TABLE[n >> 8] >> 56 ^ n & 0xff]
         for n in range(65536)]


def digest(data: bytes, start: int = 0) -> int:
    """The digest of data; with `start`, of what that is the digest of and data behind it."""
    value = start
    table = _WIDE
    words = array("H", data[:len(data) & ~1])
    if sys.byteorder == "little":
        words.byteswap()
    for word in words:
        value = (value << 16 & _MASK) ^ table[value >> 48 ^ word]
    if len(data) & 1:
        value = (value << 8 & _MASK) ^ _TABLE[value >> 56 ^ data[-1]]
    return value


def _multiply(a: int, b: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = (a << 1 ^ (POLYNOMIAL if a >> 63 else 0)) & _MASK
        b >>= 1
    return product


def shift(value: int, size: int) -> int:
    """value * x^(8 size) mod P: the digest with that many zero bytes behind."""
    power, factor = 8 * size, 2
    while power:
        if power & 1:
            value = _multiply(value, factor)
        factor = _multiply(factor, factor)
        power >>= 1
    return value


def join(first: int, second: int, second_size: int) -> int:
    """The digest of two pieces from the digests of each."""
    return shift(first, second_size) ^ second
