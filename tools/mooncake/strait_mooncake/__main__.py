# SPDX-License-Identifier: Apache-2.0
"""strait-mooncake: gateway between a Mooncake store and the pool of a Strait edge."""

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from strait_mooncake import gateway, pool
from strait_mooncake.store import Store


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    p = argparse.ArgumentParser(prog="strait-mooncake", description=__doc__)
    p.add_argument("--socket", required=True, metavar="PATH",
                   help="where the edge connects: pools[].gateway of its configuration")
    p.add_argument("--status", action="store_true",
                   help="print the counters of the gateway at that socket as JSON, and end")
    p.add_argument("--pool", metavar="PATH", help="the pool's file, which the edge creates")
    p.add_argument("--master", metavar="HOST:PORT", help="Mooncake master, RPC port")
    p.add_argument("--metadata", default="P2PHANDSHAKE", help="metadata server (%(default)s)")
    p.add_argument("--host", default="127.0.0.1",
                   help="address at which the store's clients reach this one (%(default)s)")
    p.add_argument("--protocol", default="tcp", help="of the transfer engine (%(default)s)")
    p.add_argument("--device", default="", help="RDMA devices")
    p.add_argument("--tenant", default="default", help="of the pool, and in the store")
    p.add_argument("--replicas", type=int, default=1, help="of what is put (%(default)s)")
    p.add_argument("--soft-pin", type=float, default=0, metavar="SECONDS",
                   help="pin what is put for that long; 0: not")
    p.add_argument("--segment", type=int, default=0, metavar="MIB",
                   help="memory to add to the store; what is put goes there first, without a "
                   "socket between. It leaves the store with this process (%(default)s)")
    p.add_argument("--checksum", action="store_true",
                   help="take and verify the store's own checksums (slow in the client)")
    p.add_argument("--batch", type=int, default=32, help="objects of one call (%(default)s)")
    p.add_argument("--lib", default="libstrait.so.0", help="libstrait (%(default)s)")
    p.add_argument("--verbose", action="store_true", help="log more")
    o = p.parse_args(argv)
    if not o.status and (o.pool is None or o.master is None):
        p.error("--pool and --master are needed")
    return o


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM."""
    o = parse(argv)
    if o.status:
        print(gateway.status(o.socket))
        return 0
    logging.basicConfig(level=logging.DEBUG if o.verbose else logging.INFO,
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if o.checksum:
        os.environ["MOONCAKE_STORE_CHECKSUM"] = "1"
    os.environ.setdefault("GLOG_minloglevel", "2")
    # Its ports open the pool's memory to all who reach them.
    os.environ.setdefault("MC_TCP_BIND_ADDRESS", o.host)
    # 64 KiB, its default, is a third as fast.
    os.environ.setdefault("MC_TCP_SLICE_SIZE", str(1 << 20))
    stop = threading.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: stop.set())
    store = Store({"host": o.host, "metadata": o.metadata, "buffer": 1 << 20,
                   "segment": o.segment << 20, "protocol": o.protocol, "device": o.device,
                   "master": o.master, "tenant": o.tenant, "replicas": o.replicas,
                   "soft_pin_ms": int(o.soft_pin * 1000)}, stop)
    try:
        g = gateway.Gateway(pool.load(o.lib), o.socket, o.pool, o.tenant, store, o.batch,
                            256 << 20, stop)
        g.run()
    except OSError as e:
        print(f"strait-mooncake: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
