# SPDX-License-Identifier: Apache-2.0
"""Key schedule and AEAD: doc/wire.md section 4."""
import hashlib
import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

GENERATION_SHIFT = 23
PER_GENERATION = 1 << GENERATION_SHIFT
TAG_BYTES = 16


def expand(secret: bytes, info: bytes, size: int) -> bytes:
    """HKDF-Expand of RFC 5869 with SHA-384."""
    out, block = b"", b""
    counter = 1
    while len(out) < size:
        block = hmac.digest(secret, block + info + bytes((counter,)), hashlib.sha384)
        out += block
        counter += 1
    return out[:size]


def expand_label(secret: bytes, label: str, context: bytes, size: int) -> bytes:
    """HKDF-Expand-Label of RFC 8446 section 7.1."""
    name = b"tls13 " + label.encode()
    info = (struct.pack(">HB", size, len(name)) + name + bytes((len(context),)) + context)
    return expand(secret, info, size)


def nonce(iv: bytes, number: int) -> bytes:
    """The packet's: iv xor packet number."""
    return (int.from_bytes(iv, "big") ^ number).to_bytes(len(iv), "big")


def generation(number: int) -> int:
    """Of a packet number."""
    return number >> GENERATION_SHIFT


class KeyChain:
    """Keys of one direction (0: the initiator sends) of one queue, generation by generation."""

    def __init__(self, secret: bytes, direction: int, queue: int) -> None:
        """From the session's secret."""
        self._chains = [expand_label(secret, "strait chain", bytes((direction, queue)), 48)]
        self._aeads: dict[int, tuple[AESGCM, bytes]] = {}

    def chain(self, gen: int) -> bytes:
        """chain_g."""
        while len(self._chains) <= gen:
            self._chains.append(expand_label(self._chains[-1], "strait ku", b"", 48))
        return self._chains[gen]

    def key(self, gen: int) -> bytes:
        """key_g."""
        return expand_label(self.chain(gen), "strait key", b"", 32)

    def iv(self, gen: int) -> bytes:
        """iv_g."""
        return expand_label(self.chain(gen), "strait iv", b"", 12)

    def _aead(self, gen: int) -> tuple[AESGCM, bytes]:
        if gen not in self._aeads:
            self._aeads[gen] = AESGCM(self.key(gen)), self.iv(gen)
        return self._aeads[gen]

    def seal(self, header: bytes, number: int, payload: bytes, gen: int | None = None) -> bytes:
        """A packet. `gen` is for wrong ones only."""
        aead, iv = self._aead(generation(number) if gen is None else gen)
        return header + aead.encrypt(nonce(iv, number), payload, header)

    def open(self, header: bytes, number: int, sealed: bytes) -> bytes | None:
        """The payload, or None when the tag does not hold."""
        aead, iv = self._aead(generation(number))
        try:
            return aead.decrypt(nonce(iv, number), sealed, header)
        except InvalidTag:
            return None
