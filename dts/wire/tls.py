# SPDX-License-Identifier: Apache-2.0
"""The management connection: messages over TLS 1.3 with certificates on both sides.

pyOpenSSL, because the ssl module of the standard library has no exporter (RFC 8446 section 7.5).
OpenSSL works on memory, the socket never blocks: a single thread serves all connections."""
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from OpenSSL import SSL

from . import control

_HEAD = struct.Struct(">IHH")


@dataclass
class Identity:
    """PEM files."""

    ca: Path
    cert: Path
    key: Path

    def context(self) -> SSL.Context:
        """TLS 1.3 with mutual authentication."""
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.use_certificate_chain_file(str(self.cert))
        context.use_privatekey_file(str(self.key))
        context.load_verify_locations(str(self.ca))
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
                           lambda _connection, _cert, _error, _depth, ok: bool(ok))
        return context


class Channel:
    """One connection. pump() moves bytes; messages() are what came since."""

    def __init__(self, sock: socket.socket, identity: Identity, server: bool) -> None:
        """The socket is connected, and the channel's from now on."""
        sock.setblocking(False)
        self.sock = sock
        self.server = server
        self.closed = False
        self.why = ""
        self.up = False
        self._buffer = b""
        self._out = b""
        self._tls = SSL.Connection(identity.context(), None)
        if server:
            self._tls.set_accept_state()
        else:
            self._tls.set_connect_state()
        self._move()

    def send(self, kind: int, message: bytes) -> None:
        """A message; only when up."""
        self.send_raw(_HEAD.pack(len(message), kind, 0) + message)

    def send_raw(self, data: bytes) -> None:
        """Any bytes at all."""
        if not self.closed:
            self._tls.sendall(data)
            self._move()

    def export(self, context: bytes) -> bytes:
        """The session's secret."""
        secret: bytes = self._tls.export_keying_material(
            control.EXPORTER_LABEL, control.SECRET_BYTES, context)
        return secret

    def pump(self) -> list[tuple[int, bytes]]:
        """Move what can be moved; complete messages that came."""
        self._move()
        return self._messages()

    def _move(self) -> None:
        if self.closed:
            return
        try:
            self._receive()
            self._handshake()
            self._flush()
        except (OSError, SSL.Error) as error:
            self.close(f"{type(error).__name__}: {error}")

    def _receive(self) -> None:
        while True:
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                return
            if not data:
                self.close("the other side closed the connection")
                return
            self._tls.bio_write(data)
            self._handshake()
            if not self.up:
                continue
            try:
                while True:
                    self._buffer += self._tls.recv(1 << 16)
            except SSL.WantReadError:
                pass
            except SSL.ZeroReturnError:
                self.close("the other side closed TLS")
                return

    def _handshake(self) -> None:
        if not self.up and not self.closed:
            try:
                self._tls.do_handshake()
                self.up = True
            except SSL.WantReadError:
                pass
            finally:
                self._flush()

    def _flush(self) -> None:
        try:
            while True:
                self._out += self._tls.bio_read(1 << 16)
        except SSL.WantReadError:
            pass
        while self._out and not self.closed:
            try:
                sent = self.sock.send(self._out)
            except BlockingIOError:
                return
            self._out = self._out[sent:]

    def _messages(self) -> list[tuple[int, bytes]]:
        out = []
        while len(self._buffer) >= _HEAD.size:
            size, kind, _ = _HEAD.unpack_from(self._buffer)
            if len(self._buffer) < _HEAD.size + size:
                break
            out.append((kind, self._buffer[_HEAD.size:_HEAD.size + size]))
            self._buffer = self._buffer[_HEAD.size + size:]
        return out

    def close(self, why: str = "") -> None:
        """Cut the connection; safe to call twice."""
        if not self.closed:
            self.closed, self.why = True, why
            self.sock.close()
