# SPDX-License-Identifier: Apache-2.0
"""Stands for an inference engine at a Mooncake store: a real client, driven by JSON lines.

One request a line on stdin, one answer a line on stdout. Values follow from key and size, so that
whoever made them can say what another reads: {"op": "put", "keys": [..], "size": N} answers with
hashes (without them if "blind"), {"op": "hash", ..} says them beforehand, {"op": "get", "keys":
[..]} with the hashes of what is there, as Mooncake hands it over.
"""

import argparse
import ctypes
import hashlib
import json
import mmap
import os
import random
import sys
import time
from typing import Any

BUFFER = 64 << 20


HEAD = 64
PERIOD = 1 << 20
BLOCK = random.Random(20260415).randbytes(PERIOD)
LONG = bytearray(BLOCK)


def fill(out: memoryview, key: str, salt: int = 0) -> None:
    """The bytes of a key: a head of its own, then random bytes from a place of its own on."""
    head = hashlib.blake2b(f"{salt}/{key}".encode(), digest_size=HEAD).digest()
    at = int.from_bytes(head[:4], "little") % PERIOD
    while len(LONG) < PERIOD + len(out):
        LONG.extend(BLOCK)
    n = min(HEAD, len(out))
    out[:n] = head[:n]
    out[n:] = memoryview(LONG)[at:at + len(out) - n]


def value(key: str, size: int, salt: int = 0) -> bytes:
    """The same as bytes."""
    out = bytearray(size)
    fill(memoryview(out), key, salt)
    return bytes(out)


def digest(data: bytes | memoryview) -> str:
    """What is compared."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Engine:
    """One client of one store."""

    def __init__(self, o: argparse.Namespace) -> None:
        # The wheel is only where it is needed.
        from mooncake.store import MooncakeDistributedStore, ReplicateConfig  # noqa: PLC0415

        self.store: Any = MooncakeDistributedStore()
        rc = self.store.setup(o.host, "P2PHANDSHAKE", o.segment, 1 << 20, "tcp", "", o.master)
        if rc != 0:
            raise SystemExit(f"engine: setup says {rc}")
        self.memory = mmap.mmap(-1, BUFFER)
        self.view = memoryview(self.memory)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        rc = self.store.register_buffer(self.base, BUFFER)
        if rc != 0:
            raise SystemExit(f"engine: register_buffer says {rc}")
        self.pinned = ReplicateConfig()
        self.pinned.with_hard_pin = True
        self.plain = ReplicateConfig()

    def put(self, r: dict[str, Any]) -> dict[str, Any]:
        """Values of keys, all of one size; codes and hashes."""
        keys, size = r["keys"], r["size"]
        codes, hashes = [], []
        config = self.pinned if r.get("pin") else self.plain
        at_once = max(1, min(r.get("batch", 32), BUFFER // size))
        for i in range(0, len(keys), at_once):
            part = keys[i:i + at_once]
            places = []
            for n, key in enumerate(part):
                place = self.view[n * size:(n + 1) * size]
                fill(place, key, r.get("salt", 0))
                if not r.get("blind"):
                    hashes.append(digest(place))
                places.append(self.base + n * size)
            codes += self.store.batch_put_from(part, places, [size] * len(part), config)
        return {"codes": codes, "hashes": hashes}

    def hash(self, r: dict[str, Any]) -> dict[str, Any]:
        """Of what put() would put."""
        place = self.view[:r["size"]]
        hashes = []
        for key in r["keys"]:
            fill(place, key, r.get("salt", 0))
            hashes.append(digest(place))
        return {"hashes": hashes}

    def get(self, r: dict[str, Any]) -> dict[str, Any]:
        """Hashes of what the store hands over, null where it does not."""
        keys, size = r["keys"], r["size"]
        out: list[str | None] = []
        at_once = max(1, min(r.get("batch", 32), BUFFER // size))
        began = time.monotonic()
        for i in range(0, len(keys), at_once):
            part = keys[i:i + at_once]
            places = [self.base + n * size for n in range(len(part))]
            got = self.store.batch_get_into(part, places, [size] * len(part))
            if r.get("blind"):
                out += [str(n) if n > 0 else None for n in got]
                continue
            out += [digest(self.view[k * size:k * size + n]) if n > 0 else None
                    for k, n in enumerate(got)]
        return {"hashes": out, "seconds": time.monotonic() - began}

    def exist(self, r: dict[str, Any]) -> dict[str, Any]:
        """Which are there."""
        codes = self.store.batch_is_exist(r["keys"])
        return {"there": [n == 1 for n in codes], "code": min(codes)}

    def remove(self, r: dict[str, Any]) -> dict[str, Any]:
        """Make keys vanish."""
        return {"codes": [self.store.remove(k, True) for k in r["keys"]]}

    def serve(self) -> None:
        """Until stdin ends."""
        ops = {"put": self.put, "hash": self.hash, "get": self.get, "exist": self.exist,
               "remove": self.remove}
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            r = json.loads(line)
            print(json.dumps(ops[r["op"]](r)), flush=True)


def main() -> None:
    """Command line: --master HOST:PORT --host ADDRESS [--segment BYTES] [--slice BYTES]."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--master", required=True)
    p.add_argument("--host", required=True)
    p.add_argument("--segment", type=int, default=0)
    p.add_argument("--slice", type=int, default=0, help="of Mooncake's TCP; 0: its default")
    o = p.parse_args()
    if o.slice:
        os.environ["MC_TCP_SLICE_SIZE"] = str(o.slice)
    os.environ.setdefault("GLOG_minloglevel", "3")
    os.environ.setdefault("MC_TCP_BIND_ADDRESS", o.host)
    # What the libraries print must not get between the answers.
    real = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(real, "w")
    Engine(o).serve()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
