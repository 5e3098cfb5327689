# SPDX-License-Identifier: Apache-2.0
"""One wrong bit, anywhere: doc/wire.md sections 3 to 5.

Packets that the peer sealed and never sent otherwise, so that only the tag stands between each of
them and the edge's state. Each bit of the header is flipped, in every kind of packet, then bits of
ciphertext and tag; and packets are sealed under keys and nonces that look like the right ones."""
import random
from collections import Counter

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from api.capabilities import LinkTopology, requires_link_topology
from api.peered import Peered
from api.test import verify
from api.wire import (
    MANIFEST,
    OBJECTS,
    Item,
    Status,
    counted,
    frames,
    get_object,
    keys,
    packet,
)
from framework.test_suite import TestSuite, func_test

SESSION_BITS, NUMBER_BITS = range(32, 64), range(64, 128)


def flip(data: bytes, bit: int) -> bytes:
    """One bit of a packet, counted from its first."""
    out = bytearray(data)
    out[bit // 8] ^= 0x80 >> bit % 8
    return bytes(out)


def header_counter(data: bytes, bit: int) -> str:
    """Which counter a packet with this bit of its header flipped moves."""
    wrong = packet.decode(flip(data, bit))
    if wrong.version != packet.VERSION or wrong.kind not in (1, 2, 3):
        return "rx_version"
    if bit in SESSION_BITS:
        return "port_drop_no_session"
    if wrong.queue != 0:
        return "rx_queue"
    if bit in NUMBER_BITS and keys.generation(wrong.number) > 1:
        return "rx_generation"
    return "rx_auth"


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestForgedBitflips(Peered, TestSuite):
    """Cases: header_bits, payload_bits, tag_bits, truncated_and_extended, wrong_keys,
    wrong_nonce, unauthenticated_header."""

    def set_up_suite(self) -> None:
        """Start a master, the edge under test and the peer; open a session."""
        super().set_up_suite()
        self._session = self._peer.open()

    def set_up_test_case(self) -> None:
        """Open a transfer that waits for its data, and seal a packet of each kind."""
        self._names += 1
        item = Item(b"flip-%d" % self._names, random.randbytes(20000))
        self._out = self._session.transfer([item])
        self._session.control(self._out.open_frame())
        self._session.send_symbol(self._out, MANIFEST, 0, 0)
        self._peer.until(lambda: self._out.open_status is not None, 3)
        # The CONTROL packet would end the transfer.
        self._sealed = [
            self._session.symbol(self._out, OBJECTS, 0, 3),
            self._session.symbol(self._out, OBJECTS, 0, self._out.cut[OBJECTS].k(0) + 5),
            self._session.symbol(self._out, MANIFEST, 0, 0),
            self._session.seal(packet.CONTROL, frames.Close(self._out.transfer, 8).encode()),
        ]

    def _arrives(self) -> None:
        """Nothing of it counted: the transfer is open, and its object arrives."""
        statuses = self._peer.deliver(self._session, self._out)
        verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
        item = self._out.items[0]
        verify(get_object(self._edge, item.key) == item.data, "the object differs")

    @func_test
    def header_bits(self) -> None:
        """Each bit of the header, in each kind of packet.

        Steps:
            Flip each of the 192 bits of the header of DATA (source and repair), MANIFEST and
            CONTROL packets.
        Verify:
            Version and type: rx_version. Session: drop_no_session. Queue: rx_queue. Packet number
            of a generation that is not held: rx_generation. Everything else: rx_auth. No other
            drop counter moves, and the object arrives.
        """
        wanted: Counter[str] = Counter()
        wrong = []
        for sealed in self._sealed:
            for bit in range(packet.HEADER_BYTES * 8):
                wanted[header_counter(sealed, bit)] += 1
                wrong.append(flip(sealed, bit))
        with counted(self._edge, self._peer, "header bit", **wanted):
            self._peer.raw(wrong)
        self._arrives()

    @func_test
    def payload_bits(self) -> None:
        """Bits of the ciphertext.

        Steps:
            Flip each bit of the CONTROL packet's ciphertext and 200 random ones of each other
            packet's.
        Verify:
            rx_auth counts each and no other drop counter moves; the object arrives.
        """
        wrong = []
        for sealed in self._sealed:
            bits = range(packet.HEADER_BYTES * 8, (len(sealed) - keys.TAG_BYTES) * 8)
            wrong += [flip(sealed, bit) for bit in random.sample(bits, min(200, len(bits)))]
        with counted(self._edge, self._peer, "payload bit", rx_auth=len(wrong)):
            self._peer.raw(wrong)
        self._arrives()

    @func_test
    def tag_bits(self) -> None:
        """Each bit of the tag.

        Steps:
            Flip each of the 128 bits of the tag of each packet.
        Verify:
            rx_auth counts each and no other drop counter moves; the object arrives.
        """
        wrong = [flip(sealed, len(sealed) * 8 - 1 - bit)
                 for sealed in self._sealed for bit in range(128)]
        with counted(self._edge, self._peer, "tag bit", rx_auth=len(wrong)):
            self._peer.raw(wrong)
        self._arrives()

    @func_test
    def truncated_and_extended(self) -> None:
        """A packet that lost or gained bytes at its end.

        Steps:
            Cut each packet at every byte from header and tag on, at most 150 of them; append 1,
            16 and 17 bytes.
        Verify:
            rx_auth counts each and no other drop counter moves; the object arrives.
        """
        wrong = []
        least = packet.HEADER_BYTES + keys.TAG_BYTES
        for sealed in self._sealed:
            sizes = range(least, len(sealed))
            wrong += [sealed[:n] for n in random.sample(sizes, min(150, len(sizes)))]
            wrong += [sealed + bytes(n) for n in (1, 16, 17)
                      if len(sealed) + n <= self._session.symbol_bytes + least]
        with counted(self._edge, self._peer, "length", rx_auth=len(wrong)):
            self._peer.raw(wrong)
        self._arrives()

    def _sealed_by(self, chain: keys.KeyChain, gen: int | None = None) -> list[bytes]:
        out = []
        for sealed in self._sealed:
            header = sealed[:packet.HEADER_BYTES]
            number = packet.decode(sealed).number
            plain = self._session.tx.open(header, number, sealed[packet.HEADER_BYTES:])
            verify(plain is not None, "the packet does not open")
            out.append(chain.seal(header, number, plain or b"", gen))
        return out

    @func_test
    def wrong_keys(self) -> None:
        """Keys of the session, but not those of this packet.

        Steps:
            Seal each packet under the keys of the next and of a later generation, of the other
            direction, and of a chain of another secret.
        Verify:
            rx_auth counts each and no other drop counter moves; the object arrives.
        """
        wrong = self._sealed_by(self._session.tx, 1) + self._sealed_by(self._session.tx, 5)
        wrong += self._sealed_by(self._session.rx)
        wrong += self._sealed_by(keys.KeyChain(random.randbytes(48), 0, 0))
        with counted(self._edge, self._peer, "key", rx_auth=len(wrong)):
            self._peer.raw(wrong)
        self._arrives()

    @func_test
    def wrong_nonce(self) -> None:
        """The right key with a nonce that is not the packet number's.

        Steps:
            Seal each packet with the IV alone, with the number from the left, and with the next
            number.
        Verify:
            rx_auth counts each and no other drop counter moves; the object arrives.
        """
        aead, iv = AESGCM(self._session.tx.key(0)), self._session.tx.iv(0)
        wrong = []
        for sealed in self._sealed:
            header = sealed[:packet.HEADER_BYTES]
            number = packet.decode(sealed).number
            left = bytes(a ^ b for a, b in zip(iv, number.to_bytes(8, "big").ljust(12, b"\0"),
                                               strict=True))
            wrong += [header + aead.encrypt(nonce, b"\x0e\0\x04\0\0\0\0", header)
                      for nonce in (iv, left, keys.nonce(iv, number + 1))]
        with counted(self._edge, self._peer, "nonce", rx_auth=len(wrong)):
            self._peer.raw(wrong)
        self._arrives()

    @func_test
    def unauthenticated_header(self) -> None:
        """The tag must cover all 24 bytes of the header, nothing less and nothing more.

        Steps:
            Seal packets whose additional data is the header without its last 1, 4, 8 and 23
            bytes, without its first 4, nothing, and the header with 8 more bytes.
        Verify:
            rx_auth counts each and no other drop counter moves; the object arrives.
        """
        aead, iv = AESGCM(self._session.tx.key(0)), self._session.tx.iv(0)
        wrong = []
        for sealed in self._sealed:
            header = sealed[:packet.HEADER_BYTES]
            nonce = keys.nonce(iv, packet.decode(sealed).number)
            covers = (header[:-1], header[:-4], header[:-8], header[:1], header[4:], b"",
                      header + bytes(8))
            wrong += [header + aead.encrypt(nonce, b"\x0e\0\x04\0\0\0\0", cover)
                      for cover in covers]
        with counted(self._edge, self._peer, "additional data", rx_auth=len(wrong)):
            self._peer.raw(wrong)
        self._arrives()
