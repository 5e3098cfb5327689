# SPDX-License-Identifier: Apache-2.0
"""The worker of the scapy traffic generator; runs inside the generator's namespace.

Speaks JSON lines on stdin and stdout, packets in base64:

    {"op": "send", "port": P, "packets": [B64, ..], "gap_us": N}  ->  {"sent": N}
    {"op": "flush"}                                               ->  {"discarded": N}
    {"op": "take"}                          ->  {"packets": [{"port": P, "time": T, "data": B64}]}
    {"op": "quit"}                                                ->  {}

or {"error": TEXT}. `take` answers with what came in since the last flush or take, in the order of
arrival. Arguments are PORT=INTERFACE. The sockets are open before `{"ready": ..}` is said."""
import base64
import json
import select
import sys
import threading
import time
from typing import Any

import scapy.layers.l2  # noqa: F401 - tells L2Socket what Ethernet is
from scapy.arch.linux import L2Socket


class Sniffer(threading.Thread):
    """Keeps whatever arrives at any port; the kernel says what we sent ourselves, and that is
    left out."""

    def __init__(self, sockets: dict[str, Any]) -> None:
        """Starts at start()."""
        super().__init__(daemon=True)
        self._ports = {s.ins.fileno(): (port, s) for port, s in sockets.items()}
        self._lock = threading.Lock()
        self._packets: list[tuple[str, float, bytes]] = []

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
                    with self._lock:
                        self._packets.append((port, float(stamp or time.time()), data))

    def take(self) -> list[tuple[str, float, bytes]]:
        """What came since the last call."""
        with self._lock:
            packets, self._packets = self._packets, []
        return packets


def send(sock: Any, packets: list[str], gap_us: int) -> int:
    """Raw frames, as they are."""
    for packet in packets:
        sock.outs.send(base64.b64decode(packet))
        if gap_us:
            time.sleep(gap_us / 1e6)
    return len(packets)


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
            if request["op"] == "send":
                sock = sockets[request["port"]]
                answer = {"sent": send(sock, request["packets"], request.get("gap_us", 0))}
            elif request["op"] == "flush":
                answer = {"discarded": len(sniffer.take())}
            elif request["op"] == "take":
                answer = {"packets": [
                    {"port": port, "time": stamp, "data": base64.b64encode(data).decode()}
                    for port, stamp, data in sniffer.take()]}
            elif request["op"] == "quit":
                print("{}", flush=True)
                return
            else:
                answer = {"error": f"unknown op {request['op']}"}
        except (OSError, KeyError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
