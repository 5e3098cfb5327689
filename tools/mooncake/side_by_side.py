# SPDX-License-Identifier: Apache-2.0
"""`make bench-mooncake`: Mooncake's own read across the emulated WAN beside Strait.

The same namespaces, the same stores, the same line. A client of the decode site reads from the
store of the prefill site over Mooncake's TCP, key by key and in batches; then Strait ships objects
of the same size from store to store, from the submission of the order to the last object that the
decode side's own store has. TCP is the kernel's, with the congestion control that the host uses
(it is named) and buffers as large as it may ask for. Needs root.
"""

import argparse
import sys
import time

from lab import Lab, LabError, run, until

MIB = 1 << 20


def mooncake(lab: Lab, n: int, batch: int, size: int) -> tuple[int, float]:
    """Objects read, and seconds."""
    keys = [f"own@{batch}@{i}" for i in range(n)]
    a, _ = lab.both()
    a.ask("put", keys, size=size)
    answer = lab.engines["engine-ba"].ask("get", keys, size=size, batch=batch, blind=True)
    return sum(h is not None for h in answer["hashes"]), float(answer["seconds"])


def strait(lab: Lab, n: int, size: int) -> tuple[int, float]:
    """The same of Strait, by an order."""
    keys = [f"strait@{n}@{i}" for i in range(n)]
    a, b = lab.both()
    a.ask("put", keys, size=size)
    began = time.monotonic()
    lab.ctl("order", "submit", "--from", "a", "--to", "b", "--keys-file", "-",
            stdin="".join(k + "\n" for k in keys))
    until("all are in the decode side's store",
          lambda: all(b.ask("exist", keys)["there"]), 240, 0.02)
    return n, time.monotonic() - began


def main() -> int:
    """Measure and print a table."""
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--rate-gbps", type=float, default=1.0)
    p.add_argument("--rtt-ms", type=float, default=100)
    p.add_argument("--loss", type=float, nargs="*", default=[0.01, 0.001, 0.0])
    p.add_argument("--size-kib", type=int, default=2048, help="of an object")
    p.add_argument("--serial", type=int, default=3, help="objects read key by key")
    p.add_argument("--batched", type=int, default=16, help="objects of one batch")
    p.add_argument("--many", type=int, default=256, help="objects of the larger order")
    o = p.parse_args()
    size = o.size_kib << 10
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as f:
        print(f"{o.rate_gbps:g} Gbit/s, {o.rtt_ms:g} ms; TCP: {f.read().strip()}\n")
    print("| loss | what | objects | seconds | Mbit/s |\n|---|---|---|---|---|", flush=True)
    for loss in o.loss:
        link = ["--rate-gbps", f"{o.rate_gbps:g}", "--rtt-ms", f"{o.rtt_ms:g}", "--loss",
                f"{loss:g}"]
        try:
            with Lab(o.build, "side", netns=True, wan=link, cap=f"{round(o.rate_gbps * 1000)}Mbit",
                     pool_mib=768, segment_mib=2048, lease_ms=600000) as lab:
                for ns in (lab.ns["a"], lab.ns["b"]):
                    for key in ("tcp_rmem", "tcp_wmem"):
                        run("ip", "netns", "exec", ns, "sysctl", "-q", "-w",
                            f"net.ipv4.{key}=4096 131072 {256 * MIB}")
                lab.up()
                lab.engine("a")
                lab.engine("b")
                lab.engine("b", of="a")
                # Otherwise it ships what the others only read.
                for s in "ab":
                    lab.stop(f"site-{s}")
                rows = [("Mooncake, key by key", *mooncake(lab, o.serial, 1, size)),
                        ("Mooncake, one batch", *mooncake(lab, o.batched, o.batched, size)),
                        ("Strait", *strait(lab, o.batched, size)),
                        ("Strait", *strait(lab, o.many, size))]
                late = lab.wan_figures().get("overruns", 0)
        except LabError as e:
            print(f"bench: {e}", file=sys.stderr)
            return 3
        for what, n, seconds in rows:
            print(f"| {loss:.1%} | {what} | {n} of {o.size_kib} KiB | {seconds:.2f} | "
                  f"{n * size * 8 / seconds / 1e6:.1f} |", flush=True)
        if late:
            print(f"(the emulator was late {late} times: these rows are void)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
