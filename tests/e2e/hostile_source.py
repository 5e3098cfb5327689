#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# Sources of KV events that mean harm, for tests: each has a publisher that speaks ZeroMQ's protocol
# (ZMTP 3.0, NULL) by itself, so that it can say what no library says, and an admin port or a replay
# socket.
#
#   hostile_source.py KIND..     prints "KIND EVENTS OTHER" (two ports) of each, then "ready"
#
# Kinds of publisher:
#   claims    msgpack that claims four billion values, texts longer than the message, bad types
#   deep      arrays in arrays, a hundred thousand deep
#   large     frames of 100 MB
#   garbage   random payloads as fast as they are taken
#   flood     valid messages of 15 MB as fast as they are taken
#   endless   one message whose parts never end
#   specks    the same of parts without a byte
#   parts     messages of one, two and five parts, sequence numbers of any length
#   silent    takes the connection and says nothing
# Kinds of admin port (the publisher is honest and has nothing to say):
#   list      a listing that does not end, of ever new keys
#   lines     a listing that does not end, of empty lines
#   drip      a listing of which ten bytes come a second
#   json      answers that are no JSON, or another one
#   chunks    wrong chunks, a body shorter than it says
#   headers   a header that does not end
#   status    a status that does not end
#   hang      takes requests and never answers
# Kinds of replay socket of an engine:
#   replay    answers with batches for ever, never the end
#   back      the same batch for ever
#   leave     answers with many batches and closes before they can be read
import os
import socket
import struct
import sys
import threading
import time

GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL" + bytes(16) + b"\0" + bytes(31)
MORE, LONG, COMMAND = 1, 2, 4
PAUSE = 0.005  # all of them share one core with those they attack


def frame(body, flags=0):
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | LONG]) + struct.pack(">Q", len(body)) + body


def message(seq, payload):
    return frame(b"", MORE) + frame(struct.pack(">Q", seq), MORE) + frame(payload)


def listen():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    s.listen(64)
    return s


def serve(sock, fn):
    def one(c):
        try:
            fn(c)
        except OSError:
            pass
        finally:
            c.close()

    def loop():
        while True:
            c, _ = sock.accept()
            threading.Thread(target=one, args=(c,), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()


def handshake(c, kind):
    ready = b"\5READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    c.sendall(GREETING + frame(ready, COMMAND))
    need = 64
    while need > 0:
        got = c.recv(need)
        if not got:
            raise OSError
        need -= len(got)
    time.sleep(0.05)


def drain(c):
    """Read what comes, so that pings and subscriptions do not fill the socket."""

    def loop():
        try:
            while c.recv(65536):
                pass
        except OSError:
            pass

    threading.Thread(target=loop, daemon=True).start()


def batch(events=b"\x90"):
    return b"\x92\1" + events


def publisher(kind):
    def run(c):
        handshake(c, b"PUB")
        drain(c)
        seq = 0
        if kind == "silent":
            time.sleep(3600)
        if kind in ("endless", "specks"):
            part = frame(bytes(1 << 20), MORE) if kind == "endless" else frame(b"", MORE) * 65536
            while True:
                c.sendall(part)
        if kind == "flood":
            # one event with a text of 15 MB
            body = b"\x92\1\x91\x81\xa1x\xdb" + struct.pack(">I", 15 << 20) + bytes(15 << 20)
            while True:
                seq += 1
                c.sendall(message(seq, body))
                time.sleep(PAUSE)
        if kind == "garbage":
            some = [os.urandom(n) for n in (1, 7, 40, 300, 5000)]
            while True:
                out = b""
                for i in range(200):
                    out += message(seq + i, some[i % len(some)])
                seq += 200
                c.sendall(out)
                time.sleep(PAUSE)
        if kind == "large":
            c.sendall(frame(b"", MORE) + frame(bytes(8), MORE) + bytes([LONG]) + struct.pack(">Q", 100 << 20))
            for _ in range(100):
                c.sendall(bytes(1 << 20))
            return
        wrong = {
            "claims": [
                b"\xdd\xff\xff\xff\xff",
                b"\xdf\xff\xff\xff\xff",
                batch(b"\xdd\xff\xff\xff\xff"),
                batch(b"\x91\xdf\x7f\xff\xff\xff"),
                batch(b"\x91\xdb\xff\xff\xff\xff"),
                batch(b"\xc1"),
                b"\xc6\x7f\xff\xff\xff" + bytes(100),
                batch(b"\xdd\0\x10\0\0" + b"\x90" * (1 << 20)),
            ],
            "deep": [b"\x91" * 100000 + b"\x90", b"\x81\1" * 50000 + b"\x80"],
            "parts": [None],
        }.get(kind, [])
        while wrong:
            for w in wrong:
                seq += 1
                if w is not None:
                    c.sendall(message(seq, w))
                    continue
                c.sendall(frame(b"alone") + frame(b"", MORE) + frame(b"two"))
                c.sendall(b"".join(frame(b"x" * n, MORE) for n in (0, 8, 300, 0)) + frame(b""))
                c.sendall(frame(b"topic" * 50, MORE) + frame(bytes(9), MORE) + frame(batch()))
                c.sendall(frame(b"", MORE) + frame(b"", MORE) + frame(batch()))
            time.sleep(0.02)
        time.sleep(3600)

    return run


def admin(kind):
    good_status = b'{"enabled":true,"published_batches":0,"dropped_events":0}'

    def reply(c, body):
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def run(c):
        while True:
            head = b""
            while b"\r\n\r\n" not in head:
                got = c.recv(4096)
                if not got:
                    return
                head += got
            path = head.split(b" ")[1].decode()
            listing = path == "/get_all_keys"
            if kind == "hang":
                time.sleep(3600)
            elif kind == "headers":
                c.sendall(b"HTTP/1.1 200 OK\r\n")
                while True:
                    c.sendall(b"X-A: " + b"a" * 60000 + b"\r\n")
            elif kind == "json":
                reply(c, [b"{", b"[]", b'{"enabled":"yes"}', b'{"enabled":true,"published_batches":-5}',
                          b"[" * 100000, b"\xff\xfe\0"][int(time.time() * 10) % 6])
            elif kind == "chunks":
                c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff0\r\nab")
                return
            elif kind == "status" and path == "/kv_events/status":
                c.sendall(b"HTTP/1.1 200 OK\r\n\r\n{")
                while True:
                    c.sendall(b" " * 65536)
            elif kind in ("list", "lines", "drip") and listing:
                c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                n = 0
                while kind == "list":
                    c.sendall(b"".join(b"endless-%d-%s\n" % (n + i, b"x" * 100) for i in range(500)))
                    n += 500
                while kind == "lines":
                    c.sendall(b"\n" * 65536)
                while True:
                    c.sendall(b"k%d\n" % (n % 10))
                    n += 1
                    time.sleep(0.3)
            elif path == "/kv_events/status":
                reply(c, good_status)
            elif path == "/get_segments_detail":
                reply(c, b'{"segments":[]}')
            else:
                reply(c, b"")

    return run


def router(kind):
    def run(c):
        handshake(c, b"ROUTER")
        time.sleep(0.5)
        drain(c)
        seq = 0
        if kind == "leave":
            c.sendall(b"".join(message(i, batch()) for i in range(20000)))
            c.shutdown(socket.SHUT_WR)
            time.sleep(1)
            return
        while True:
            out = b""
            for _ in range(100):
                out += message(seq, batch())
                seq += kind == "replay"
            c.sendall(out)
            time.sleep(PAUSE)

    return run


ADMINS = ("list", "lines", "drip", "json", "chunks", "headers", "status", "hang")


def main():
    for kind in sys.argv[1:]:
        events, other = listen(), listen()
        engine = kind in ("replay", "back", "leave")
        serve(events, publisher("honest" if kind in ADMINS or engine else kind))
        serve(other, router(kind) if engine else admin(kind))
        print(kind, events.getsockname()[1], other.getsockname()[1], flush=True)
    print("ready", flush=True)
    threading.Event().wait()


main()
