# SPDX-License-Identifier: Apache-2.0
"""GF(2^8) and the Cauchy Reed-Solomon code of doc/wire.md section 7."""
from collections.abc import Mapping, Sequence

POLYNOMIAL = 0x11d
MAX_ESI = 254


def _tables() -> tuple[list[int], list[int]]:
    exp, log, value = [0] * 510, [0] * 256, 1
    for power in range(255):
        exp[power] = exp[power + 255] = value
        log[value] = power
        value <<= 1
        if value & 0x100:
            value ^= POLYNOMIAL
    return exp, log


_EXP, _LOG = _tables()


def multiply(a: int, b: int) -> int:
    """The product of two elements."""
    return _EXP[_LOG[a] + _LOG[b]] if a and b else 0


def invert(a: int) -> int:
    """1 / a; a is not 0."""
    if not a:
        raise ZeroDivisionError("0 has no inverse")
    return _EXP[255 - _LOG[a]]


# scale() by table: bytes.translate is as fast as Python gets.
_ROWS = [bytes(multiply(c, x) for x in range(256)) for c in range(256)]


def scale(factor: int, symbol: bytes) -> bytes:
    """Each byte times the factor."""
    return symbol.translate(_ROWS[factor])


def coefficient(esi: int, j: int) -> int:
    """What source symbol j contributes to repair symbol esi."""
    return invert(esi ^ j)


def combine(terms: Sequence[tuple[int, bytes]], size: int) -> bytes:
    """The sum over factor * symbol; short symbols are padded with zeros."""
    total = 0
    for factor, symbol in terms:
        total ^= int.from_bytes(scale(factor, symbol).ljust(size, b"\0"), "big")
    return total.to_bytes(size, "big")


def encode(source: Sequence[bytes], esi: int, size: int) -> bytes:
    """Repair symbol esi (k <= esi <= 254) of a block of k source symbols."""
    if not len(source) <= esi <= MAX_ESI:
        raise ValueError(f"ESI {esi} is no repair symbol of {len(source)}")
    return combine([(coefficient(esi, j), s) for j, s in enumerate(source)], size)


def _inverse(matrix: list[list[int]]) -> list[bytes]:
    """Gauss and Jordan, whole rows at a time: a peer that computes for a second is silent."""
    n = len(matrix)
    work = [bytes(row) + bytes(i) + b"\1" + bytes(n - 1 - i) for i, row in enumerate(matrix)]
    for column in range(n):
        pivot = next(r for r in range(column, n) if work[r][column])
        work[column], work[pivot] = work[pivot], work[column]
        work[column] = scale(invert(work[column][column]), work[column])
        for r in range(n):
            factor = work[r][column]
            if r != column and factor:
                work[r] = combine([(1, work[r]), (factor, work[column])], 2 * n)
    return [row[n:] for row in work]


def decode(k: int, symbols: Mapping[int, bytes], size: int) -> list[bytes]:
    """The k source symbols, padded, from any k symbols by their ESI."""
    present = {e: s.ljust(size, b"\0") for e, s in symbols.items() if e < k}
    missing = [j for j in range(k) if j not in present]
    if not missing:
        return [present[j] for j in range(k)]
    rows = sorted(e for e in symbols if e >= k)[:len(missing)]
    if len(rows) < len(missing):
        raise ValueError(f"{len(symbols)} symbols are too few for {k}")
    # What the missing ones contribute to each row.
    left = [combine([(1, symbols[e]), *((coefficient(e, j), s) for j, s in present.items())], size)
            for e in rows]
    inverse = _inverse([[coefficient(e, j) for j in missing] for e in rows])
    for j, factors in zip(missing, inverse, strict=True):
        present[j] = combine(list(zip(factors, left, strict=True)), size)
    return [present[j] for j in range(k)]
