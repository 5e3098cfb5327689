# SPDX-License-Identifier: Apache-2.0
"""Losses of exactly these packets, between two edges.

Whatever is lost comes again, as itself or as repair symbols (doc/wire.md section 12.2); the object
that arrives is the object that was sent. The generator drops packets by what they are: kind,
position, flags."""
from contextlib import ExitStack

from api.capabilities import LinkTopology, requires_link_topology
from api.strait import Counters, Edge, Master, moved
from api.test import log, verify
from api.transfer import SYMBOL_BYTES, move, put_objects
from api.wan import Rule, Segment
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test

TAIL, END_OF_BLOCK = 1, 2
BLOCK_SYMBOLS = 128


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestLossPatterns(TestSuite):
    """Cases: every_nth_packet, half_of_everything, a_whole_burst, first_packets,
    last_of_each_block, the_manifest, most_reports, all_source_symbols_of_blocks,
    one_packet_of_a_small_object, bits_that_flip."""

    def set_up_suite(self) -> None:
        """Start a master and both edges; the generator between them."""
        ctx = get_ctx()
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(Edge(self._master, ctx.sut.name, cap="40Mbit"))
        peer = ctx.config.test_run.peer_node
        self._peer = self._stack.enter_context(Edge(self._master, peer))
        self._segment = self._stack.enter_context(Segment(peer, []))
        move(self._master, put_objects(self._edge, 1, 20000), self._edge, self._peer)

    def tear_down_suite(self) -> None:
        """End everything."""
        self._stack.close()

    def _move(self, rules: list[Rule], count: int = 4, size: int = 250000,
              priority: str = "normal", may: frozenset[str] = frozenset()) -> Counters:
        """Move objects under the rules: they arrive, rules were applied, and drop counters stay
        still but for those in may. How counters of sender (s_) and receiver (r_) moved."""
        batch = put_objects(self._edge, count, size)
        before = self._edge.settled_counters(), self._peer.settled_counters()
        self._segment.set_rules(rules)
        move(self._master, batch, self._edge, self._peer, priority)
        hits = self._segment.hits()
        self._segment.set_rules([])
        after = self._edge.settled_counters(), self._peer.settled_counters()
        out = {"hits": sum(hits)}
        for prefix, was, now in zip(("s_", "r_"), before, after, strict=True):
            drops = moved(was, now)
            verify(set(drops) <= may, f"drops: {drops}")
            out |= {prefix + name: now[name] - was[name] for name in now}
        verify(all(hits), f"rules were applied {hits} times")
        # A symbol that repair sends before its turn counts as resent, so only the sum says it.
        needed = -(-count * size // SYMBOL_BYTES)
        out["extra"] = (out["s_tx_source"] + out["s_tx_resend"] + out["s_tx_repair"] - needed)
        log(f"{out['hits']} hit; {out['extra']} symbols more than {needed}, "
            f"{out['s_tx_repair']} of them rows; {out['r_rx_decoded_symbols']} decoded, "
            f"{out['s_tx_spurious']} spurious")
        return out

    def _drop(self, **rule: object) -> list[Rule]:
        return [Rule("drop", to=self._peer.node, **rule)]  # type: ignore[arg-type]

    @func_test
    def every_nth_packet(self) -> None:
        """Periodic loss.

        Steps:
            Move 1 MB while every 2nd, 3rd, 5th, 10th, 50th data packet is lost.
        Verify:
            The object arrives; no drops; the sender replaced what was lost, and not much more.
        """
        for n in (2, 3, 5, 10, 50):
            got = self._move(self._drop(kind="DATA", every=n))
            extra = got["extra"]
            verify(extra >= got["hits"] * 0.9, f"{got['hits']} lost and {extra} sent for them")
            verify(extra <= got["hits"] * 1.3 + 60,
                   f"{extra} symbols were sent for {got['hits']} lost ones")

    @func_test
    def half_of_everything(self) -> None:
        """Loss that spares nothing, both ways.

        Steps:
            Move 500 kB while every 2nd packet of any kind is lost in each direction.
        Verify:
            The object arrives; no drops.
        """
        self._move([Rule("drop", to=self._peer.node, every=2),
                    Rule("drop", sent_by=self._peer.node, every=2)], 2)

    @func_test
    def a_whole_burst(self) -> None:
        """More than a block in a row.

        Steps:
            Move 1 MB; after 100 data packets lose 300 in a row.
        Verify:
            The object arrives; no drops; at least 300 symbols were sent again.
        """
        got = self._move(self._drop(kind="DATA", skip=100, count=300))
        verify(300 <= got["extra"] <= 400, f"300 were lost, {got['extra']} came again")

    @func_test
    def first_packets(self) -> None:
        """OPEN, the manifest and the first data are lost.

        Steps:
            Lose the first two control, four manifest and twenty data packets of a transfer.
        Verify:
            The object arrives; no drops.
        """
        self._move(self._drop(kind="CONTROL", count=2) + self._drop(kind="MANIFEST", count=4)
                   + self._drop(kind="DATA", count=20))

    @func_test
    def last_of_each_block(self) -> None:
        """The packets nothing comes after.

        Steps:
            Lose the first 30 data packets with flag END_OF_BLOCK.
        Verify:
            The object arrives; no drops.
        """
        self._move(self._drop(kind="DATA", flags=END_OF_BLOCK, count=30), 8)

    @func_test
    def the_manifest(self) -> None:
        """Only rows of the manifest arrive.

        Steps:
            Lose all source symbols of the manifest, up to 20.
        Verify:
            The object arrives; no drops; a block was decoded from rows or the symbols came again.
        """
        got = self._move(self._drop(kind="MANIFEST", esi_max=0, count=20), 40, 20000)
        verify(got["r_rx_decoded_blocks"] + got["extra"] > 0, "how did it arrive?")

    @func_test
    def most_reports(self) -> None:
        """Nine of ten reports are lost.

        Steps:
            Move 1 MB while all but every tenth control packet of the receiver is lost.
        Verify:
            The object arrives; no drops; at most 12 % of the symbols were sent again, as reports
            repeat what earlier ones said.
        """
        lost = [Rule("drop", sent_by=self._peer.node, kind="CONTROL", every=10, spared=True)]
        got = self._move(lost)
        verify(got["extra"] <= 0.12 * 10**6 / SYMBOL_BYTES, f"{got['extra']} symbols again")

    @func_test
    def all_source_symbols_of_blocks(self) -> None:
        """Blocks of which only repair symbols arrive, and later ones of the sender's choice.

        Steps:
            Move 180 kB as an urgent order, which is sent with rows, and lose the first 60 source
            symbols of each block.
        Verify:
            The object arrives; no drops.
        """
        self._move(self._drop(kind="DATA", esi_max=59, count=60), 1, 180000, "urgent")

    @func_test
    def one_packet_of_a_small_object(self) -> None:
        """An urgent object of a few packets loses each of them in turn.

        Steps:
            Move urgent objects of 8 symbols; lose the first data packet of one, the third of the
            next, then the fifth and the seventh.
        Verify:
            Each arrives; no drops; rows sent in advance made up for it, so that hardly any needed
            another round.
        """
        blocks = 0
        for n in range(0, 8, 2):
            got = self._move(self._drop(kind="DATA", skip=n, count=1), 1, 8 * SYMBOL_BYTES,
                             "urgent")
            blocks += got["s_tx_repair_rounds"]
        verify(blocks <= 1, f"{blocks} of 4 losses needed another round in spite of rows")

    @func_test
    def bits_that_flip(self) -> None:
        """What is corrupted behind the UDP checksum is dropped and comes again.

        Steps:
            Move 1 MB; flip a bit of the ciphertext of every 10th data packet and of the tag of
            every 10th control packet.
        Verify:
            The object arrives; rx_auth counts exactly those and no other drop counter moves.
        """
        may = frozenset(("rx_auth",))
        got = self._move([Rule("flip", to=self._peer.node, kind="DATA", every=10, offset=500),
                          Rule("flip", sent_by=self._peer.node, kind="CONTROL", every=10,
                               offset=-1)], may=may)
        bad = got["s_rx_auth"] + got["r_rx_auth"]
        verify(bad == got["hits"], f"{got['hits']} packets were corrupted, rx_auth counts {bad}")
