# SPDX-License-Identifier: Apache-2.0
"""ARP: what is answered, what is refused, and where datagrams go.

RFC 826, as an appliance should read it: an answer for its own address and no other, nothing learned
but about next hops that somebody here asked for, and no more answers a second than it can spare.
Over IPv6 neighbor discovery takes its place: suite ipv6."""
import time

from api.capabilities import LinkTopology, requires_link_topology
from api.packet import (
    ARP,
    IP,
    TG_IP,
    UDP,
    CapturedPacket,
    Ether,
    Packet,
    arp_request,
    capture,
    send_and_capture,
    send_packets,
    verify_dropped,
)
from api.peered import Peered
from api.strait import REPORT_INTERVAL, moved, poll_until, without_drops
from api.test import log_debug, verify
from api.wire import counted, frames
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test

NOBODY = "10.66.0.50"
OTHER_MAC = "02:00:00:00:00:77"
PER_PERIOD = 64  # answers in 10 ms
BROADCAST = "ff:ff:ff:ff:ff:ff"


@requires_link_topology(LinkTopology.TWO_LINKS)
class TestArp(Peered, TestSuite):
    """Cases: every_form_of_a_question, malformed, own_address_claimed, answers_nobody_asked_for,
    answers_are_limited, peer_moves, nobody_answers."""

    def _arp(self, op: int, **fields: object) -> Packet:
        packet = arp_request(self._edge)
        packet[ARP].op = op
        for name, value in fields.items():
            setattr(packet[ARP], name, value)
        return packet

    @func_test
    def every_form_of_a_question(self) -> None:
        """Probes and questions to the edge alone are questions too.

        Steps:
            Ask for the edge's address by broadcast, to its MAC alone, with padding behind, and as
            somebody who has no address yet (RFC 5227).
        Verify:
            Each is answered with the edge's MAC to who asked; arp_replies moved by as much, no
            drop counter did.
        """
        alone = arp_request(self._edge)
        alone.dst = self._edge.mac
        asked = [arp_request(self._edge), alone, bytes(arp_request(self._edge)) + b"\xee" * 100,
                 self._arp(1, psrc="0.0.0.0")]
        with without_drops(self._edge, port_arp_replies=len(asked)):
            answers = send_and_capture(self._edge, asked, len(asked))
        verify(len(answers) == len(asked), f"{len(answers)} answers to {len(asked)} questions")
        for answer in answers:
            ether = Ether(answer.data)
            verify((ether.dst, ether[ARP].op, ether[ARP].hwsrc, ether[ARP].psrc) == (
                self._edge.tg_port.mac, 2, self._edge.mac, self._edge.ip), ether.summary())
            verify(len(answer.data) <= 60, f"{len(answer.data)} bytes came back")

    @func_test
    def malformed(self) -> None:
        """What is no ARP for IPv4 over Ethernet, or cannot be.

        Steps:
            Ask with other hardware and protocol types, address lengths and operations; cut short
            at every byte; with a group's MAC as one's own.
        Verify:
            No answer; drop_protocol counts the former, drop_malformed the latter two, and no other
            drop counter moves.
        """
        others = [self._arp(1, hwtype=n) for n in (0, 2, 6, 65535)]
        others += [self._arp(1, ptype=n) for n in (0, 0x0806, 0x86dd, 65535)]
        others += [self._arp(op) for op in (0, 3, 4, 8, 9, 65535)]
        for at, values in ((18, (0, 5, 7, 255)), (19, (0, 3, 5, 16, 255))):
            for value in values:
                frame = bytearray(bytes(arp_request(self._edge)))
                frame[at] = value
                others.append(bytes(frame))
        verify_dropped(self._edge, others, "port_drop_protocol", "other ARP")
        whole = bytes(arp_request(self._edge))[:42]
        cut = [whole[:n] for n in range(14, 42)]
        groups = [self._arp(op, hwsrc=mac) for op in (1, 2) for mac in (BROADCAST,
                                                                       "01:00:5e:00:00:01")]
        verify_dropped(self._edge, [*cut, *groups], "port_drop_malformed", "malformed ARP")

    @func_test
    def own_address_claimed(self) -> None:
        """Somebody else says that it has the edge's address.

        Steps:
            Send requests and replies whose sender has the edge's address, for it and for others.
        Verify:
            No answer, drop_not_for_us counts each and no other drop counter moves; a question is
            answered as before.
        """
        claims = [self._arp(op, psrc=self._edge.ip, pdst=target, hwsrc=OTHER_MAC)
                  for op in (1, 2) for target in (self._edge.ip, TG_IP, "0.0.0.0")]
        verify_dropped(self._edge, claims, "port_drop_not_for_us", "claim")
        with without_drops(self._edge, port_arp_replies=1):
            answers = send_and_capture(self._edge, [arp_request(self._edge)], 1)
        verify(len(answers) == 1 and Ether(answers[0].data)[ARP].hwsrc == self._edge.mac,
               "no answer afterwards")

    @func_test
    def answers_nobody_asked_for(self) -> None:
        """They fill no memory and are no reason to speak.

        Steps:
            Send replies for 250 addresses that nobody asked for.
        Verify:
            Nothing comes back and no drop counter moves.
        """
        told = [self._arp(2, psrc=f"10.66.0.{n}", pdst=self._edge.ip)
                for n in range(4, 254)]
        before = self._edge.settled_counters(silent=True)
        answers = send_and_capture(self._edge, told, 1, 0.3)
        after = self._edge.wait_counter("port_rx_packets", before["port_rx_packets"] + len(told))
        verify(after["port_rx_packets"] - before["port_rx_packets"] == len(told), "some got lost")
        verify(not moved(before, after), f"drops: {moved(before, after)}")
        verify(not answers, f"{len(answers)} answers")

    @func_test
    def answers_are_limited(self) -> None:
        """Answering costs the attacked, so there is a limit.

        Steps:
            Send 4000 questions as fast as the generator can; half a second later one more.
        Verify:
            Some are answered, at most 64 in 10 ms, and drop_limited counts each of the others, no
            other drop counter moves but the device's own; never more bytes out than in. The last
            one is answered.
        """
        question = bytes(arp_request(self._edge)).ljust(60, b"\0")
        before = self._edge.settled_counters(silent=True)
        get_ctx().tg.flush()
        send_packets(self._edge, [question] * 4000)
        after = self._edge.settled_counters(silent=True)
        time.sleep(2 * REPORT_INTERVAL)
        received = after["port_rx_packets"] - before["port_rx_packets"]
        answered = after["port_arp_replies"] - before["port_arp_replies"]
        got = moved(before, after)
        got.pop("device_rx_missed", 0)
        log_debug(f"{received} received, {answered} answered, {got}")
        verify(PER_PERIOD <= answered < received, f"{answered} of {received} were answered")
        verify(got == {"port_drop_limited": received - answered}, f"drops: {got}")
        seen = [p for p in capture(self._edge) if ARP in Ether(p.data)]
        verify(len(seen) == answered, f"{len(seen)} answers seen, {answered} counted")
        verify(sum(len(p.data) for p in seen) <= 60 * received, "more bytes out than in")
        span = max(p.time for p in seen) - min(p.time for p in seen)
        verify(answered <= PER_PERIOD * (span / 0.01 + 2), f"{answered} answers in {span:.3f} s")
        with without_drops(self._edge, port_arp_replies=1):
            answers = send_and_capture(self._edge, [question], 1)
        verify(len(answers) == 1, "no answer afterwards")

    def _datagrams(self) -> list[CapturedPacket]:
        return [p for p in capture(self._edge) if UDP in Ether(p.data)]

    @func_test
    def peer_moves(self) -> None:
        """A next hop may have another MAC tomorrow (RFC 826).

        Steps:
            Open a session; let the peer's address be announced with another MAC, have the edge
            send (PING); announce the right one again, and the same.
        Verify:
            Datagrams go to the MAC that was announced last; no drop counter moves, the session
            goes on.
        """
        tg = get_ctx().tg
        session = self._peer.open()
        own = self._peer.port.mac
        with counted(self._edge, self._peer, "another MAC"):
            for mac in (OTHER_MAC, own):
                send_packets(self._edge, [self._arp(
                    1, psrc=self._peer.address, pdst=self._peer.address, hwsrc=mac)])
                self._peer.rest(0.1)
                tg.flush()
                reports = session.counters["Report"]
                for _ in range(5):
                    session.control(frames.Ping())
                    self._peer.rest(0.05)
                went = {Ether(p.data).dst for p in self._datagrams()}
                verify(went == {mac}, f"datagrams went to {went}, announced was {mac}")
                verify((session.counters["Report"] > reports) == (mac == own),
                       f"{session.counters['Report'] - reports} reports with MAC {mac}")

    @func_test
    def nobody_answers(self) -> None:
        """A HELLO with the address of nobody.

        Steps:
            Say HELLO with an address of the edge's prefix that nobody has. After a second and a
            half answer the edge's question in its place.
        Verify:
            The edge asks by broadcast, more and more seldom, for that address alone; no datagram
            leaves: drop_unresolved counts them and no other drop counter moves. With the answer
            they leave for the MAC in it.
        """
        tg = get_ctx().tg
        before = self._edge.settled_counters()
        tg.flush()
        self._peer.counter += 1
        self._peer.say_hello(self._peer.call(), address=NOBODY)
        self._peer.rest(1.5)
        seen = [Ether(p.data) for p in tg.take() if p.port == self._edge.tg_port.name]
        mine = [e for e in seen if e.src == self._edge.mac]
        asked = [e for e in mine if ARP in e and e[ARP].op == 1 and e[ARP].pdst == NOBODY]
        verify(2 <= len(asked) <= 6, f"{len(asked)} questions in 1.5 s")
        verify({e.dst for e in asked} == {BROADCAST}, f"they went to {({e.dst for e in asked})}")
        verify(not [e for e in mine if IP in e], "datagrams left for nobody")
        after = self._edge.counters()
        got = moved(before, after)
        verify(set(got) == {"port_drop_unresolved"}, f"drops: {got}")
        tg.flush()
        send_packets(self._edge, [self._arp(2, psrc=NOBODY, pdst=self._edge.ip,
                                            hwsrc=OTHER_MAC)])
        there: list[CapturedPacket] = []

        def left() -> bool:
            there.extend(self._datagrams())
            return len(there) > 0
        verify(poll_until(3, left), "no datagram left after the answer")
        went = {(Ether(p.data).dst, Ether(p.data)[IP].dst) for p in there}
        verify(went == {(OTHER_MAC, NOBODY)}, f"they went to {went}")
