# SPDX-License-Identifier: Apache-2.0
"""A forwarder between two interfaces that does what rules say; runs inside the generator's
namespace. Standard library only, one thread.

Arguments are the outer and the inner interface: "inward" is from the first to the second. JSON
lines on stdin and stdout:

    {"op": "rules", "rules": [RULE, ..], "delay_ms": MS}   ->  {}
    {"op": "hits"}                         ->  {"hits": [N, ..]}
    {"op": "quit"}                         ->  {}

Whatever passes is delayed by delay_ms, in order. A RULE is api.wan.Rule with direction "inward",
"outward" or "" in the place of nodes."""
import heapq
import json
import os
import select
import socket
import sys
import time
from collections import deque
from typing import Any

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
SO_RCVBUFFORCE = 33
BUFFER = 16 << 20
DATA_PORT = 4790
UDP_AT, PAYLOAD_AT = 34, 42
KINDS = {"DATA": 1, "MANIFEST": 2, "CONTROL": 3}


class Rule:
    """One rule and how far it is."""

    def __init__(self, value: dict[str, Any]) -> None:
        """From JSON."""
        self.value = value
        self.kind = KINDS.get(value["kind"], 0)
        self.seen = 0
        self.hits = 0

    def matches(self, direction: str, frame: bytes) -> bool:
        """Is the packet one of those the rule is about?"""
        v = self.value
        if v["direction"] and v["direction"] != direction:
            return False
        strait = is_strait(frame)
        if not strait:
            return not v["kind"] and not v["flags"]
        kind, flags, esi = frame[PAYLOAD_AT] & 15, frame[PAYLOAD_AT + 2], frame[PAYLOAD_AT + 3]
        block = int.from_bytes(frame[PAYLOAD_AT + 20:PAYLOAD_AT + 24], "big")
        return ((not self.kind or kind == self.kind) and flags & v["flags"] == v["flags"]
                and v["esi_min"] <= esi <= v["esi_max"]
                and v["block_min"] <= block <= v["block_max"])

    def takes(self) -> bool:
        """Is it this packet's turn, of those that match?"""
        v = self.value
        self.seen += 1
        past = self.seen - v["skip"]
        if past <= 0 or (past % v["every"] == 0) == v["spared"] or self.hits >= v["count"]:
            return False
        self.hits += 1
        return True


def is_strait(frame: bytes) -> bool:
    """A datagram of the data path, IPv4 without options, header whole?"""
    return (len(frame) >= PAYLOAD_AT + 24 and frame[12:14] == b"\x08\x00" and frame[14] == 0x45
            and frame[23] == 17
            and int.from_bytes(frame[UDP_AT + 2:UDP_AT + 4], "big") == DATA_PORT)


def flip(frame: bytes, offset: int) -> bytes:
    """A bit of the UDP payload, with a checksum of zero (none), as what goes wrong behind it."""
    out = bytearray(frame)
    end = UDP_AT + int.from_bytes(frame[UDP_AT + 4:UDP_AT + 6], "big")
    out[PAYLOAD_AT + offset if offset >= 0 else end + offset] ^= 1
    out[UDP_AT + 6:UDP_AT + 8] = b"\0\0"
    return bytes(out)


class Forwarder:
    """Both directions, rules, and what is delayed."""

    def __init__(self, outer: str, inner: str) -> None:
        """Opens the sockets."""
        self.rules: list[Rule] = []
        self.delay = 0.0
        self._line: deque[tuple[float, socket.socket, bytes]] = deque()
        self._late: list[tuple[float, int, socket.socket, bytes]] = []
        self._order = 0
        self._out: dict[int, tuple[str, socket.socket]] = {}
        self.sockets = [self._open(outer), self._open(inner)]
        self._out[self.sockets[0].fileno()] = "inward", self.sockets[1]
        self._out[self.sockets[1].fileno()] = "outward", self.sockets[0]

    @staticmethod
    def _open(netdev: str) -> socket.socket:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        sock.bind((netdev, ETH_P_ALL))
        sock.setblocking(False)
        return sock

    @staticmethod
    def _send(sock: socket.socket, frame: bytes) -> None:
        try:
            sock.send(frame)
        except BlockingIOError:
            select.select([], [sock], [], 0.1)
            sock.send(frame)

    def _forward(self, sock: socket.socket, frame: bytes) -> None:
        if self.delay > 0 or self._line:
            self._line.append((time.monotonic() + self.delay, sock, frame))
        else:
            self._send(sock, frame)

    def _later(self, ms: float, sock: socket.socket, frame: bytes) -> None:
        self._order += 1
        due = time.monotonic() + self.delay + ms / 1e3
        heapq.heappush(self._late, (due, self._order, sock, frame))

    def _pass(self, direction: str, sock: socket.socket, frame: bytes) -> None:
        rule = next((r for r in self.rules if r.matches(direction, frame)), None)
        if rule is None or not rule.takes():
            self._forward(sock, frame)
            return
        v = rule.value
        match v["action"]:
            case "drop":
                pass
            case "duplicate":
                for _ in range(1 + v["copies"]):
                    self._forward(sock, frame)
            case "delay":
                spread = v["spread_ms"] * (rule.hits * 7919 % 1000) / 1000
                self._later(v["ms"] + spread, sock, frame)
            case "flip":
                self._forward(sock, flip(frame, v["offset"]))

    def receive(self, fd: int) -> None:
        """What waits at a socket, some of it."""
        direction, out = self._out[fd]
        sock = self.sockets[0] if direction == "inward" else self.sockets[1]
        for _ in range(32):
            try:
                frame = sock.recv(65536)
            except BlockingIOError:
                return
            self._pass(direction, out, frame)

    def wait_ms(self) -> float | None:
        """Until the next delayed packet is due; None: there is none."""
        due = self._late[0][0] if self._late else None
        if self._line and (due is None or self._line[0][0] < due):
            due = self._line[0][0]
        return None if due is None else max(0.0, (due - time.monotonic()) * 1e3)

    def send_late(self) -> None:
        """What is due."""
        while self._line and self._line[0][0] <= time.monotonic():
            _, sock, frame = self._line.popleft()
            self._send(sock, frame)
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, sock, frame = heapq.heappop(self._late)
            self._send(sock, frame)


def serve(forwarder: Forwarder, request: dict[str, Any]) -> dict[str, Any]:
    """One request's answer."""
    match request["op"]:
        case "rules":
            forwarder.rules = [Rule(value) for value in request["rules"]]
            forwarder.delay = request["delay_ms"] / 1e3
            return {}
        case "hits":
            return {"hits": [rule.hits for rule in forwarder.rules]}
    return {"error": f"unknown op {request['op']}"}


def main() -> None:
    """Forward and serve until stdin ends."""
    forwarder = Forwarder(sys.argv[1], sys.argv[2])
    poll = select.poll()
    stdin = sys.stdin.fileno()
    for fd in (stdin, *(s.fileno() for s in forwarder.sockets)):
        poll.register(fd, select.POLLIN)
    print(json.dumps({"ready": True}), flush=True)
    text = b""
    while True:
        for fd, _ in poll.poll(forwarder.wait_ms()):
            if fd != stdin:
                forwarder.receive(fd)
                continue
            chunk = os.read(stdin, 1 << 16)
            if not chunk:
                return
            text += chunk
            while b"\n" in text:
                line, text = text.split(b"\n", 1)
                try:
                    request = json.loads(line)
                    if request["op"] == "quit":
                        print("{}", flush=True)
                        return
                    answer = serve(forwarder, request)
                except (KeyError, ValueError, TypeError) as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                print(json.dumps(answer), flush=True)
        forwarder.send_late()


if __name__ == "__main__":
    main()
