# SPDX-License-Identifier: Apache-2.0
"""A session of several queues: doc/wire.md section 2.2.

The edge has two workers, the peer two ports. Queues share the session's id and its secret; keys,
packet numbers, challenge, transfers, reports and credit are each queue's own."""
import random
from contextlib import ExitStack

from api.capabilities import Capability, LinkTopology, requires, requires_link_topology
from api.packet import IP, UDP, datagram, send_packets
from api.strait import DATA_PORT, Master
from api.test import fail, log, verify
from api.wire import (
    MANIFEST,
    Item,
    PeeredEdge,
    Session,
    Status,
    WirePeer,
    counted,
    frames,
    get_object,
    keys,
    packet,
    put_object,
)
from framework.context import get_ctx
from framework.test_suite import TestSuite, func_test

QUEUES = 2


@requires(Capability.TWO_LCORES)
@requires_link_topology(LinkTopology.TWO_LINKS)
class TestQueues(TestSuite):
    """Cases: each_queue_comes_up, transfers_on_each_queue, credit_is_divided, order_over_queues,
    packets_of_another_queue, port_of_another_queue, a_peer_with_one_port, reset_of_all_queues."""

    def set_up_suite(self) -> None:
        """Start a master, the edge under test with two workers, and the peer."""
        self._stack = ExitStack()
        self._master = self._stack.enter_context(Master())
        self._edge = self._stack.enter_context(PeeredEdge(
            self._master, worker={"count": QUEUES}))
        self._names = 0
        self._joined = self._stack.enter_context(ExitStack())
        self._join()

    def tear_down_suite(self) -> None:
        """End all."""
        self._stack.close()

    def _join(self, ports: int = QUEUES) -> None:
        """The peer, with so many ports, in the place of the one before."""
        self._joined.close()
        self._peer = self._joined.enter_context(
            WirePeer(self._master, self._edge, queues=ports))

    def set_up_test_case(self) -> None:
        """One session for all cases but those that open one."""
        if get_ctx().case != "each_queue_comes_up" and not self._peer.counter:
            self._session = self._peer.open()

    def _item(self, size: int = 60000) -> Item:
        self._names += 1
        return Item(b"queue-%d" % self._names, random.randbytes(size))

    def _same(self, *items: Item) -> None:
        for item in items:
            verify(get_object(self._edge, item.key) == item.data, "an object differs")

    def _answered(self, queue: Session) -> bool:
        """Does a PING on it bring a REPORT of it?"""
        before = queue.counters["Report"]
        queue.control(frames.Ping())
        return self._peer.until(lambda: queue.counters["Report"] > before, 2)

    @func_test
    def each_queue_comes_up(self) -> None:
        """Keys, numbers and challenge are each queue's own.

        Steps:
            Open a session; PING on each queue.
        Verify:
            The edge lists two ports in a row. On each queue CHALLENGE was answered both ways, under
            keys that differ, numbers begin at 0, and REPORT speaks of that queue. No drop counter
            moves.
        """
        with counted(self._edge, self._peer, "queues"):
            try:
                self._session = self._peer.open()
            except OSError as error:
                fail(str(error))
            queues = self._session.queues
            verify(len(queues) == QUEUES, f"{len(queues)} queues")
            ports = self._peer.hellos[-1].ports
            verify(ports == [DATA_PORT, DATA_PORT + 1], f"ports {ports}")
            for queue in queues:
                verify(self._answered(queue), f"queue {queue.queue}: no REPORT after PING")
                told = {f.queue for f in queue.frames if isinstance(f, frames.Report)}
                verify(told == {queue.queue}, f"queue {queue.queue}: reports of {told}")
                verify(queue.next_number < 20 and queue.counters["Challenge"] > 0
                       and queue.validated, f"queue {queue.queue} is not up")
                verify(not queue.counters["rx_auth"] + queue.counters["rx_queue"],
                       f"queue {queue.queue}: packets did not open")
        verify(queues[0].tx.key(0) != queues[1].tx.key(0), "both queues have one key")

    @func_test
    def transfers_on_each_queue(self) -> None:
        """Two transfers with the same id, under the same packet numbers.

        Steps:
            OPEN transfer 1 on both queues of a new session, send an object in each, half of each at
            a time.
        Verify:
            Both arrive; no drop counter moves.
        """
        with counted(self._edge, self._peer, "both queues"):
            self._session = self._peer.open()
            outs = [queue.transfer([self._item(200000)]) for queue in self._session.queues]
            verify({out.transfer for out in outs} == {1}, "ids differ")
            for queue, out in zip(self._session.queues, outs, strict=True):
                self._peer.start(queue, out, lambda stream, block: [0] if stream == MANIFEST
                                 else range(50))
            for queue, out in zip(self._session.queues, outs, strict=True):
                statuses = self._peer.deliver(queue, out)
                verify(statuses == {0: Status.COMMITTED}, f"queue {queue.queue}: {statuses}")
        self._same(*(out.items[0] for out in outs))

    @func_test
    def credit_is_divided(self) -> None:
        """Of two queues each has half of the limits in HELLO, and raises of its own.

        Steps:
            Note the limits of a new session; send an object on queue 1.
        Verify:
            CREDIT on queue 1 is HELLO's divided by two, rounded down, and the object; that of queue
            0 stays as it was. No drop counter moves.
        """
        with counted(self._edge, self._peer, "credit"):
            self._session = self._peer.open()
            first, second = self._session.queues
            half = tuple(n // QUEUES for n in self._peer.hellos[-1].credit[1])
            verify(first.limits[1] == half == second.limits[1], f"limits {first.limits}")
            item = self._item(40001)
            statuses = self._peer.deliver(second, second.transfer([item]))
            verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
            for queue in self._session.queues:
                verify(self._answered(queue), "no REPORT after PING")
            self._peer.until(lambda: second.limits[1][0] > half[0], 2)
            verify(second.limits[1] == (half[0] + 40001, half[1] + 1),
                   f"queue 1: {second.limits[1]} after {half}")
            verify(first.limits[1] == half, f"queue 0: {first.limits[1]} after {half}")

    @func_test
    def order_over_queues(self) -> None:
        """The edge deals an order over the queues.

        Steps:
            Order twenty objects to the peer.
        Verify:
            Transfers come on both queues, with symbols on both; the order is done, the peer has the
            same bytes and had nothing to refuse; no drop counter moves.
        """
        items = [self._item() for _ in range(20)]
        for item in items:
            put_object(self._edge, item.key, item.data)
        self._peer.be_known()
        with counted(self._edge, self._peer, "an order"):
            state = self._peer.wait_order(self._peer.order([i.key.decode() for i in items]))
            verify(state == "done", f"the order is {state}")
        got = {key: data for (_, key), data in self._peer.store.items()}
        verify(all(got.get(i.key) == i.data for i in items), "an object differs")
        came = [queue.counters["symbols"] for queue in self._peer.accepted[-1].queues]
        log(f"symbols on the queues: {came}")
        verify(len(came) == QUEUES and min(came) > 100, f"symbols on the queues: {came}")
        for queue in self._peer.accepted[-1].queues:
            wrong = [n for n in ("rx_auth", "rx_queue", "rx_generation", "rx_block", "rx_length",
                                 "rx_frame") if queue.counters[n]]
            verify(not wrong, f"queue {queue.queue}: {wrong}")

    @func_test
    def packets_of_another_queue(self) -> None:
        """The queue in the header says whose keys and numbers count.

        Steps:
            Seal packets under the keys of queue 1 with queue 0 in the header, and the other way
            round; with queues 2, 63 and 255; REPORTs that speak of the other queue; a packet of
            each queue with the same number.
        Verify:
            rx_auth, rx_queue and rx_frame count the former, rx_replay nothing of the latter, and no
            other drop counter moves; both queues go on.
        """
        first, second = self._session.queues
        ping = frames.Ping().encode()
        with counted(self._edge, self._peer, "another queue", rx_auth=2, rx_queue=3, rx_frame=2):
            first.send(first.seal(packet.CONTROL, ping, queue=1))
            second.send(second.seal(packet.CONTROL, ping, queue=0))
            for wrong in (2, 63, 255):
                first.send(first.seal(packet.CONTROL, ping, queue=wrong))
            for here, other in ((first, 1), (second, 0)):
                here.control(frames.Report(other, 0, 1, 0, 0, [(0, 0)]))
            number = max(first.next_number, second.next_number)
            first.next_number = second.next_number = number
            for queue in (first, second):
                verify(self._answered(queue), f"queue {queue.queue} does not answer")
                verify(queue.reported >= number, f"queue {queue.queue}: {queue.reported}")
        verify(keys.generation(number) == 0, "the numbers are not of generation 0")

    @func_test
    def port_of_another_queue(self) -> None:
        """What comes to the wrong worker's port goes to the right one.

        Steps:
            Send PINGs of queue 1 to the port of queue 0 and the other way round, from ports of
            nobody.
        Verify:
            They are answered, on their queue; no drop counter moves.
        """
        for queue, port in ((0, DATA_PORT + 1), (1, DATA_PORT)):
            session = self._session.queues[queue]
            before = session.counters["Report"]
            with counted(self._edge, self._peer, f"queue {queue} at port {port}"):
                for _ in range(5):
                    sealed = session.seal(packet.CONTROL, frames.Ping().encode())
                    send_packets(self._edge, [datagram(
                        self._edge, sealed, ip=IP(src=self._peer.address),
                        udp=UDP(sport=50000, dport=port))])
                    self._peer.rest(0.05)
            got = session.counters["Report"] - before
            verify(got >= 1, f"queue {queue} was not answered at port {port}")

    @func_test
    def a_peer_with_one_port(self) -> None:
        """As many queues as the side with fewer ports.

        Steps:
            Join with one port; send an object; send packets of queue 1 and of queue 2.
        Verify:
            The object arrives; drop_no_session counts the packets of queue 1, whose worker has no
            such session, and rx_queue those of queue 2; no other drop counter moves.
        """
        self._join(1)
        self._session = self._peer.open()
        try:
            verify(len(self._session.queues) == 1, "more than one queue")
            item = self._item()
            with counted(self._edge, self._peer, "one port", port_drop_no_session=10, rx_queue=10):
                statuses = self._peer.send(self._session, [item])
                verify(statuses == {0: Status.COMMITTED}, f"statuses {statuses}")
                self._peer.raw(self._session.seal(packet.CONTROL, frames.Ping().encode(),
                                                  queue=queue)
                               for queue in (1, 2) for _ in range(10))
            self._same(item)
        finally:
            self._join()

    @func_test
    def reset_of_all_queues(self) -> None:
        """SESSION_RESET is of all queues together.

        Steps:
            Send SESSION_RESET; then PING on each queue; open a new session.
        Verify:
            drop_no_session counts the packets and no other drop counter moves; each queue of the
            new one answers.
        """
        old = self._session
        for queue in old.queues:
            queue.auto = False
        with counted(self._edge, self._peer, "reset", port_drop_no_session=2 * len(old.queues)):
            self._peer.reset(old)
            self._peer.rest(0.5)
            for queue in old.queues:
                for _ in range(2):
                    queue.control(frames.Ping())
        self._session = self._peer.open()
        with counted(self._edge, self._peer, "a new session"):
            for queue in self._session.queues:
                verify(self._answered(queue), f"queue {queue.queue} does not answer")
