#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A peer with a good certificate that speaks the control protocol wrongly.

hostile_peer.py HOST:PORT TLS_DIR NAME CASE: connects as NAME, sends what CASE stands for, and prints
what the other side does within ten seconds: "error <code>: <text>" for an Error, "closed", or "silent"
(it may send PING)."""
import os
import random
import socket
import ssl
import struct
import sys
import time

MSG_ERROR, MSG_EDGE_REGISTER, MSG_ORDER_START, MSG_SESSION_HELLO, MSG_REQUEST = 1, 16, 18, 32, 48


def frame(kind, body, length=None):
    return struct.pack("!IHH", len(body) if length is None else length, kind, 0) + body


def varint(n):
    out = b""
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def register(version, site="a", edge="a1"):
    return frame(MSG_EDGE_REGISTER, number(1, version) + text(2, site) + text(3, edge) + text(4, os.urandom(16))
                 + text(5, "127.0.0.1:1") + number(6, 0))


def hello(version):
    return frame(MSG_SESSION_HELLO, number(1, version) + text(2, "a") + text(3, "a1") + text(4, os.urandom(16))
                 + number(5, 1) + number(6, 77) + varint(7 << 3 | 5) + struct.pack("<I", 0x0a420001)
                 + number(8, 4790) + number(9, 1432))


# The same in every run, and no message: neither a length within limits nor, with a field of wire type 7
# in front, a protobuf.
SENSELESS = b"\xff" + random.Random(1).randbytes(4095)

CASES = {
    "register-version": register(99),
    "register-other-site": register(1, "b", "b1"),
    "hello-version": hello(99),
    "order-start": frame(MSG_ORDER_START, number(1, 9) + number(2, 1) + text(3, "b") + text(4, "b1")
                         + text(5, "127.0.0.1:1") + number(6, 1)),
    "request": frame(MSG_REQUEST, number(1, 1)),
    "unknown-type": frame(4711, b"x"),
    "garbage": frame(MSG_EDGE_REGISTER, SENSELESS[:100]),
    "garbage-hello": frame(MSG_SESSION_HELLO, SENSELESS[:100]),
    "garbage-request": frame(MSG_REQUEST, SENSELESS[:100]),
    "oversized": frame(MSG_REQUEST, b"", length=0xffffffff),
    "cut": frame(MSG_REQUEST, b"12345", length=1000),
    "noise": SENSELESS,
}


def varint_read(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def explain(body):
    at, code, why = 0, 0, ""
    while at < len(body):
        tag, at = varint_read(body, at)
        if tag & 7 == 0:
            code, at = varint_read(body, at)
        else:
            length, at = varint_read(body, at)
            why = body[at:at + length].decode(errors="replace")
            at += length
    return f"error {code}: {why}"


def receive(s):
    data = b""
    end = time.monotonic() + 10
    while True:
        while len(data) >= 8:
            length, kind, _ = struct.unpack("!IHH", data[:8])
            if len(data) < 8 + length:
                break
            if kind == MSG_ERROR:
                return explain(data[8:8 + length])
            data = data[8 + length:]
        if time.monotonic() >= end:
            return "silent"
        s.settimeout(max(end - time.monotonic(), 0.01))
        try:
            more = s.recv(65536)
        except TimeoutError:
            return "silent"
        except OSError:
            return "closed"
        if not more:
            return "closed"
        data += more


def main():
    address, directory, name, case = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(f"{directory}/ca.pem")
    context.load_cert_chain(f"{directory}/{name}.pem", f"{directory}/{name}.key")
    with socket.create_connection((host, int(port)), timeout=5) as raw:
        with context.wrap_socket(raw) as s:
            s.sendall(CASES[case])
            if case == "cut":
                return print("cut")
            print(receive(s))


main()
