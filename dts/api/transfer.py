# SPDX-License-Identifier: Apache-2.0
"""Objects of the testbed's edges: put into a pool, ordered, awaited, compared at the other end.

    batch = put_objects(edge, count=20, size=200_000)
    result = move(master, batch, edge, peer)

An order that is not done in time, or an object that differs, fails the case."""
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from api.strait import Edge, Master, poll_until
from api.test import log_debug, verify
from framework.context import get_ctx
from framework.exception import ApplianceError

# Bytes a frame takes on the line beside its UDP payload: Ethernet with preamble, checksum and gap,
# IP, UDP. doc/wire.md section 12.5 counts so.
LINE_OVERHEAD = 66
SYMBOL_BYTES = 1432

_batches = 0


@dataclass
class Batch:
    """Objects of one manifest; digests are in the file, so that any pool can be compared."""

    manifest: Path
    count: int
    size: int

    @property
    def total(self) -> int:
        """Bytes of all of them."""
        return self.count * self.size

    def keys(self) -> str:
        """One a line."""
        lines = self.manifest.read_text("utf-8").splitlines()
        return "".join(line.split(" ", 2)[2] + "\n" for line in lines)


@dataclass
class Moved:
    """What became of an order."""

    order: int
    seconds: float
    batch: Batch

    @property
    def goodput_bps(self) -> float:
        """Bits of objects a second, from the order to the master's word that it is done."""
        return self.batch.total * 8 / self.seconds


def _replay(*argv: str) -> subprocess.CompletedProcess[str]:
    program = str(get_ctx().settings.build_dir / "bin/strait-replay")
    return subprocess.run((program, *argv), check=False, capture_output=True, text=True, timeout=60)


def put_objects(edge: Edge, count: int, size: int) -> Batch:
    """New objects, of random bytes, into the edge's pool."""
    global _batches  # noqa: PLW0603
    _batches += 1
    ctx = get_ctx()
    manifest = ctx.suite_dir / f"manifest-{_batches}"
    done = _replay("put", "--pool", str(edge.pool), "--manifest", str(manifest), "--model",
                   f"model-{ctx.suite}-{_batches}", "--objects", str(count),
                   "--bytes-per-block", str(size), "--allow-evict")
    if done.returncode != 0:
        raise ApplianceError(f"strait-replay put: {done.stderr.strip()}")
    lines = len(manifest.read_text("utf-8").splitlines())
    if lines != count:
        raise ApplianceError(f"strait-replay put {lines} objects of {count}")
    return Batch(manifest, count, size)


def submit(master: Master, batch: Batch, source: Edge, destination: Edge,
           priority: str = "normal") -> int:
    """Order the batch; the order's number."""
    answer = master.ctl("order", "submit", "--from", source.site, "--to", destination.site,
                        "--class", priority, "--keys-file", "-", stdin=batch.keys())
    return int(answer["order"])


def order_state(master: Master, order: int) -> str:
    """The order's state, as the master says."""
    return str(master.ctl("order", "show", str(order))["state"])


def wait_done(master: Master, order: int, seconds: float = 30) -> None:
    """Fail unless the order is done in time."""
    state = ""

    def final() -> bool:
        nonlocal state
        state = order_state(master, order)
        return state in ("done", "failed", "canceled")
    poll_until(seconds, final)
    verify(state == "done", f"order {order} is {state} after at most {seconds:.0f} s")


def verify_objects(batch: Batch, destination: Edge) -> None:
    """Fail unless the pool has each object, byte by byte."""
    done = _replay("verify", "--pool", str(destination.pool), "--manifest", str(batch.manifest))
    verify(done.returncode == 0,
           f"objects differ at {destination.name}: {done.stdout}{done.stderr}")


def move(master: Master, batch: Batch, source: Edge, destination: Edge,
         priority: str = "normal", seconds: float = 30) -> Moved:
    """Order, await, compare."""
    start = time.monotonic()
    order = submit(master, batch, source, destination, priority)
    wait_done(master, order, seconds)
    took = time.monotonic() - start
    verify_objects(batch, destination)
    log_debug(f"order {order}: {batch.total} bytes in {took:.2f} s")
    return Moved(order, took, batch)


def parse_rate(text: str) -> float:
    """Bits a second of "50Mbit" or "1Gbit"."""
    match = re.fullmatch(r"(\d+)([MG])bit", text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * {"M": 1e6, "G": 1e9}[match[2]]
