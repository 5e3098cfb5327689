#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Verdict and table of `make demo`, from what the programs said (JSON files of one directory).

Exit status: 0 everything holds, 1 something does not, 9 the emulator did not keep time, so that
the run says nothing."""
import json
import os
import sys

SYMBOL = 1432        # payload of a packet at MTU 1500
WIRE = 1538          # what it takes of the line
VOID = 9
# An emulator that is late makes the line worse than asked, never better. Up to this share of packets that
# is too little to be seen in the figures.
LATE = 0.001
# Reasons for which an edge drops a packet that is not authentic: those of the session, and those
# of the worker before it finds one.
FORGED = ("rx_short", "rx_version", "rx_session", "rx_queue", "rx_generation", "rx_auth", "rx_length",
          "port_drop_no_session", "port_drop_malformed", "port_drop_checksum")


def load(directory, name):
    with open(os.path.join(directory, name + ".json"), encoding="utf-8") as f:
        return json.load(f)


def rate(bps):
    return f"{bps / 1e9:.3f} Gbit/s" if bps >= 1e9 else f"{bps / 1e6:.1f} Mbit/s"


def size(n):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= unit:
            return f"{n / unit:.2f} {name}"
    return f"{n} bytes"


def main():
    directory, gbps, forged_pps, color = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "color"
    bold, green, red, dim, off = ("\033[1m", "\033[32m", "\033[31m", "\033[2m", "\033[0m") if color else ("",) * 5
    order, verify, wan = (load(directory, n) for n in ("order", "verify", "wan"))
    a, b = load(directory, "edge_a"), load(directory, "edge_b")
    line, back = wan["ab"], wan["ba"]

    seconds = (order["finished_ms"] - order["created_ms"]) / 1000 or 0.001
    goodput = order["bytes_done"] * 8 / seconds
    lost = line["lost_random"] + line["lost_burst"] + line["lost_queue"] + line["lost_cut"]
    p = lost / max(line["offered"], 1)
    bound = gbps * 1e9 * (1 - p) * SYMBOL / WIRE
    symbols = -(-order["bytes_done"] // SYMBOL)
    arrived = b["counters"]["rx_source"] + b["counters"]["rx_repair"] + b["counters"]["rx_unneeded"] + \
        b["counters"]["rx_duplicate"]
    beyond = arrived - symbols
    forged = line["forged"] + back["forged"]
    reasons = {}
    for edge in (a, b):
        for name in FORGED:
            if edge["counters"].get(name):
                short = name.replace("rx_", "").replace("port_drop_", "")
                reasons[short] = reasons.get(short, 0) + edge["counters"][name]
    dropped = sum(reasons.values())
    link = next(iter(a["links"]), {})

    rows = (
        ("objects", f"{verify['verified']:,} of {verify['objects']:,} at site b equal the generator's SHA-256"),
        ("payload", f"{size(order['bytes_done'])} in {seconds:.1f} s, from the order to the last object verified"),
        ("goodput", f"{bold}{rate(goodput)}{off}, {100 * goodput / bound:.1f} % of what the line can carry"),
        ("", f"{dim}{rate(bound)} = {gbps:g} Gbit/s x (1 - {p:.4f}) x {SYMBOL}/{WIRE}{off}"),
        ("round trip", f"{link.get('min_rtt_us', 0) / 1000:.1f} ms least, {link.get('srtt_us', 0) / 1000:.1f} ms smoothed"),
        ("loss", f"{lost:,} of {line['offered']:,} packets a to b ({100 * p:.2f} %)"),
        ("repair", f"{a['counters']['tx_resend']:,} symbols sent again, {a['counters']['tx_repair']:,} rows sent"),
        ("by rows", f"{b['counters']['rx_decoded_blocks']:,} blocks decoded, "
                    f"{b['counters']['rx_decoded_symbols']:,} symbols rebuilt"),
        ("beyond floor", f"{size(max(beyond, 0) * SYMBOL)} arrived that were not needed "
                         f"({100 * beyond / symbols:.2f} % of {symbols:,} symbols)"),
        ("forged", f"{forged:,} injected, {dropped:,} dropped"
                   + (" (" + ", ".join(f"{k} {v:,}" for k, v in sorted(reasons.items())) + ")" if reasons else "")),
    )
    if wan["overruns"]:
        rows += (("emulator", f"late for {wan['overruns']:,} packets, at most "
                  f"{max(line['late_max_us'], back['late_max_us']) / 1000:.0f} ms"),)
    print(f"\n  {bold}Result{off}\n")
    for name, text in rows:
        print(f"    {name:<14}{text}")

    wrong = []
    if verify["verified"] != verify["objects"] or order["state"] != "done":
        wrong.append("site b does not have what site a had")
    if lost > 0 and b["counters"]["rx_decoded_blocks"] == 0:
        wrong.append("no block was decoded by rows")
    if forged_pps > 0 and (forged == 0 or dropped == 0):
        wrong.append("no forged packet was dropped")
    if wrong:
        print(f"\n  {red}{bold}FAILED{off}  {'; '.join(wrong)}")
        return 1
    if wan["overruns"] > LATE * (line["offered"] + back["offered"]):
        print(f"\n  VOID    the emulator was late for {wan['overruns']:,} packets, at most "
              f"{max(line['late_max_us'], back['late_max_us']) / 1000:.0f} ms")
        return VOID
    print(f"\n  {green}{bold}PASSED{off}  nothing lost, nothing forged got in, no byte differs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
