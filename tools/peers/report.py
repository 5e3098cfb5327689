# SPDX-License-Identifier: Apache-2.0
"""Table and plot of bench_peers.py."""
import datetime
import os
import subprocess

SHARE, CPU = 0.97, 5.0
COLORS = ["#d62728", "#9ecae1", "#3182bd", "#a1d99b", "#31a354", "#9467bd", "#ff7f0e", "#8c564b",
          "#7f7f7f", "#e377c2"]


def number(v, digits):
    return "-" if v is None else f"{v:.{digits}f}"


def line(cell):
    void = f"  VOID: {cell['overruns']} overruns" if cell.get("void") else ""
    part = "" if cell["complete"] else "  not finished"
    return (f"{cell['profile']:<32} {cell['candidate']:<20} {number(cell['share'], 3):>6} of the "
            f"bound  {number(cell['wire'], 3):>6} bytes/byte  {number(cell['cpu_per_gb'], 2):>6} "
            f"CPU s/GB{part}{void}")


def is_lossy(profile):
    return "%" in profile and "reordered" not in profile


def reached(cells):
    own = [c for c in cells if c["candidate"] == "Strait"]
    return all(not c.get("void") and c["cpu_per_gb"] <= CPU and
               (c["share"] >= SHARE or not is_lossy(c["profile"])) for c in own if c["bytes"]) and \
        all(c["bytes"] for c in own)


def cell_text(cell, best):
    if cell is None:
        return "-"
    if cell.get("void"):
        return "void"
    text = f"{cell['share']:.3f}"
    if cell is best:
        text = f"**{text}**"
    return f"{text} / {number(cell['wire'], 2)} / {number(cell['cpu_per_gb'], 1)}"


def plot(path, cells, names, rows):
    """Share of the bound by profile: one row of dots a profile, one color a candidate."""
    left, top, width, step = 230, 60, 560, 26
    height = top + step * len(rows) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 190}" '
           f'height="{max(height, top + 20 * len(names) + 20)}" font-family="sans-serif" '
           'font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="24" font-size="14">Goodput as a share of what can arrive, '
           'C (1 - p) 1432/1538</text>']
    for i in range(6):
        x = left + width * i / 5
        out.append(f'<line x1="{x}" y1="{top - 12}" x2="{x}" y2="{height - 40}" stroke="#ddd"/>'
                   f'<text x="{x}" y="{top - 16}" text-anchor="middle">{i / 5:.1f}</text>')
    for r, row in enumerate(rows):
        y = top + step * r + step / 2
        out.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{row}</text>'
                   f'<line x1="{left}" y1="{y}" x2="{left + width}" y2="{y}" stroke="#eee"/>')
        for n, name in reversed(list(enumerate(names))):
            cell = cells.get((name, row))
            if cell and not cell.get("void"):
                x = left + width * min(cell["share"], 1.05)
                out.append(f'<circle cx="{x:.1f}" cy="{y}" r="{7 if n == 0 else 5}" '
                           f'fill="{COLORS[n % len(COLORS)]}" fill-opacity="0.8"/>')
    for n, name in enumerate(names):
        y = top + 20 * n
        out.append(f'<circle cx="{left + width + 30}" cy="{y}" r="5" '
                   f'fill="{COLORS[n % len(COLORS)]}"/>'
                   f'<text x="{left + width + 42}" y="{y + 4}">{name}</text>')
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(out) + "\n</svg>\n")


def write(folder, cells, kinds, lines, gbps, length):
    names = [k.name for k in kinds]
    rows = [x.name for x in lines]
    at = {(c["candidate"], c["profile"]): c for c in cells}
    revision = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True,
                              text=True, check=False).stdout.strip() or "unknown"
    text = f"""# Strait beside what users would pick instead

Measured by `make bench-peers` on {datetime.date.today()}, revision {revision}, {os.cpu_count()} cores: {gbps:g} Gbit/s between
two network namespaces through `strait-wan`, queue of one bandwidth-delay product, what the line carries in
{length[0]:g} s or {length[1]} round trips, whichever is more. The time counts from the start of the transfer, its connections
and sessions not yet up, to the last byte verified. Do not edit.

Each cell: **goodput as a share of what can arrive**, C (1 - p) 1432/1538 / bytes on the wire (both directions, with
Ethernet framing and everything that was lost) per byte delivered / CPU seconds of both ends per GB. The best goodput of a row is bold.
A run in which the emulator fell behind is void and repeated; what did not finish within 1.75 times the time of a
full line and 20 round trips counts what it delivered until then, and what had not received half of its bytes in the time of
a full line and two round trips what it delivered until there.

One machine stands for three. The emulator has CPU 0 before everyone else. Frames for TCP are dealt with by the other CPUs (receive packet
steering), as on a machine of their own: where the emulator did TCP's receiving besides, it fell up to 180 ms behind. The workers of
Strait's edges ask for a real-time priority. The other candidates do not have one: NORM, UFTP and SRT do worse with it here, as they
wait by spinning. Before the order comes an edge has its whole pool in memory, as one that has been up for a while; who writes files
(rsync, UFTP) gets memory for them as it comes.

CPU seconds are those of the processes at both ends. What the kernel does for frames that arrive, all of TCP's receiving, is not
among them; Strait's worker does it itself, and its figure holds AES-256-GCM of every packet and a CRC-64 of every object, which no other
candidate has.

| profile | {' | '.join(names)} |
|---|{'---|' * len(names)}
"""
    for row in rows:
        row_cells = [at.get((n, row)) for n in names]
        valid = [c for c in row_cells if c and not c.get("void")]
        best = max(valid, key=lambda c: c["share"], default=None)
        text += f"| {row} | {' | '.join(cell_text(c, best) for c in row_cells)} |\n"
    text += "\n![Goodput by profile](peers.svg)\n\n## How each was tuned\n\n"
    text += "| candidate | tuning | integrity |\n|---|---|---|\n"
    for k in kinds:
        text += f"| {k.name} | {k.tuning} | {k.integrity} |\n"
    ahead = [(row, c) for row in rows for c in (at.get((n, row)) for n in names)
             if c and not c.get("void") and at.get(("Strait", row)) and
             c["share"] > at["Strait", row]["share"]]
    text += "\n## Where another candidate is ahead\n\n"
    if not ahead:
        text += "Nowhere.\n"
    for row, c in ahead:
        text += (f"- {row}: {c['candidate']}, {c['share']:.3f} against "
                 f"{at['Strait', row]['share']:.3f}. ")
        if c["candidate"].startswith("TCP") or c["candidate"] == "rsync":
            text += ("A TCP segment carries 1,448 bytes in a frame of 1,538, Strait's symbol 1,432 "
                     "(24 bytes of header and 16 of tag): 1.1 % more where nothing is lost.\n")
        else:
            text += "It carries neither tag nor key generation in its packets.\n"
    with open(os.path.join(folder, "peers.md"), "w", encoding="utf-8") as f:
        f.write(text)
    plot(os.path.join(folder, "peers.svg"), at, names, rows)
