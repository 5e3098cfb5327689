# SPDX-License-Identifier: Apache-2.0
"""The worker of the scapy traffic generator; runs inside the generator's namespace.

Speaks JSON lines on stdin and stdout, packets in base64:

    {"op": "send", "port": P, "packets": [B64, ..], "gap_us": N}  ->  {"sent": N}
    {"op": "flush", "keep": BYTES}                                ->  {"discarded": N}
    {"op": "take"}                          ->  {"packets": [[PORT, TIME, SIZE, B64], ..]}
    {"op": "missed"}                                              ->  {"missed": N}
    {"op": "quit"}                                                ->  {}

or {"error": TEXT}. `take` answers with what came in since the last flush or take, in the order of
arrival, times being the kernel's. Arguments are PORT=INTERFACE. The sockets are open before
`{"ready": ..}` is said."""
import base64
import json
import select
import socket
import struct
import sys
import threading
import time
from typing import Any

import scapy.layers.l2  # noqa: F401 - tells L2Socket what Ethernet is
from scapy.arch.linux import L2Socket

# For a second of 200 Mbit/s while nobody reads; it takes root, which we are.
RECEIVE_BUFFER = 64 << 20
SO_RCVBUFFORCE = 33
SOL_PACKET = 263
PACKET_STATISTICS = 6


class Sniffer(threading.Thread):
    """Keeps whatever arrives at any port; the kernel says what we sent ourselves, and that is
    left out."""

    def __init__(self, sockets: dict[str, Any]) -> None:
        """Starts at start()."""
        super().__init__(daemon=True)
        self._ports = {s.ins.fileno(): (port, s) for port, s in sockets.items()}
        self._lock = threading.Lock()
        self._packets: list[tuple[str, float, int, bytes]] = []
        self._missed = 0
        self._keep = 65536
        for _, sock in self._ports.values():
            sock.ins.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)

    def run(self) -> None:
        """Until the process ends."""
        poll = select.poll()
        for fd in self._ports:
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                port, sock = self._ports[fd]
                _, data, stamp = sock.recv_raw(65536)
                if data is not None:
                    packet = (port, float(stamp or time.time()), len(data), data[:self._keep])
                    with self._lock:
                        self._packets.append(packet)

    def take(self) -> list[tuple[str, float, int, bytes]]:
        """What came since the last call."""
        with self._lock:
            packets, self._packets = self._packets, []
        return packets

    def flush(self, keep: int) -> int:
        """Forget; how many packets that were."""
        self._keep = keep
        return len(self.take())

    def missed(self) -> int:
        """What the kernel had no room for, in total."""
        for _, sock in self._ports.values():
            # Reading resets it.
            stats = sock.ins.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
            self._missed += struct.unpack("II", stats)[1]
        return self._missed


def send(sock: Any, packets: list[str], gap_us: int) -> int:
    """Raw frames, as they are."""
    for packet in packets:
        sock.outs.send(base64.b64decode(packet))
        if gap_us:
            time.sleep(gap_us / 1e6)
    return len(packets)


def serve(request: dict[str, Any], sockets: dict[str, Any], sniffer: Sniffer) -> dict[str, Any]:
    """One request's answer."""
    match request["op"]:
        case "send":
            sock = sockets[request["port"]]
            return {"sent": send(sock, request["packets"], request.get("gap_us", 0))}
        case "flush":
            return {"discarded": sniffer.flush(request.get("keep", 65536))}
        case "take":
            return {"packets": [[port, stamp, size, base64.b64encode(data).decode()]
                                for port, stamp, size, data in sniffer.take()]}
        case "missed":
            return {"missed": sniffer.missed()}
    return {"error": f"unknown op {request['op']}"}


def main() -> None:
    """Serve until stdin ends."""
    ports = dict(arg.split("=", 1) for arg in sys.argv[1:])
    sockets = {port: L2Socket(iface=netdev, promisc=True) for port, netdev in ports.items()}
    sniffer = Sniffer(sockets)
    sniffer.start()
    print(json.dumps({"ready": list(ports)}), flush=True)
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            request = json.loads(line)
            if request["op"] == "quit":
                print("{}", flush=True)
                return
            answer = serve(request, sockets, sniffer)
        except (OSError, KeyError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
