# SPDX-License-Identifier: Apache-2.0
"""Sockets of another network namespace.

A socket belongs to the namespace of the process that made it, not of the one that uses it. So a
helper inside the namespace makes sockets, binds or connects them and passes them out; the peer
stays in the process of the suite, which can call it like any object.

Run as a program (inside the namespace, with one end of a socket pair as its standard input) it is
the helper: JSON in, a file descriptor out."""
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

# asm-generic/socket.h and linux/in.h; Python does not have them.
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2


class SocketSource:
    """The helper, seen from outside; a process that ends with its standard input."""

    def __init__(self, netns: str, log: Path) -> None:
        """Start it."""
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with open(log, "ab") as err:
            self._process = subprocess.Popen(
                ("ip", "netns", "exec", netns, sys.executable, "-B", __file__),
                stdin=theirs.fileno(), stdout=err, stderr=err, start_new_session=True)
        theirs.close()

    def _ask(self, **request: Any) -> socket.socket:
        self._ours.settimeout(20)
        self._ours.send(json.dumps(request).encode())
        answer, fds, _, _ = socket.recv_fds(self._ours, 4096, 1)
        if not fds:
            raise OSError(f"no socket: {answer.decode()}")
        return socket.socket(fileno=fds[0])

    def udp(self, address: str, port: int) -> socket.socket:
        """Bound, with large buffers, DF set."""
        return self._ask(op="udp", address=address, port=port)

    def listen(self, address: str, port: int) -> socket.socket:
        """A listening TCP socket."""
        return self._ask(op="listen", address=address, port=port)

    def connect(self, address: str, port: int) -> socket.socket:
        """A connected TCP socket."""
        return self._ask(op="connect", address=address, port=port)

    def close(self) -> None:
        """End the helper, by pid."""
        self._ours.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _make(request: dict[str, Any]) -> socket.socket:
    where = request["address"], request["port"]
    if request["op"] == "udp":
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        sock.bind(where)
        return sock
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if request["op"] == "listen":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(8)
    else:
        sock.settimeout(10)
        sock.connect(where)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def main() -> None:
    """Serve until the other end is closed."""
    pipe = socket.socket(fileno=0)
    while True:
        request = pipe.recv(4096)
        if not request:
            return
        try:
            with _make(json.loads(request)) as sock:
                socket.send_fds(pipe, [b"ok"], [sock.fileno()])
        except OSError as error:
            pipe.send(f"{type(error).__name__}: {error}".encode())


if __name__ == "__main__":
    main()
