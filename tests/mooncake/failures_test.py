#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What may fail between two real Mooncake stores, and that nothing wrong comes of it.

One laboratory (tools/mooncake/lab.py) for all cases, which follow each other; what one puts is
named after it. Needs neither root nor hugepages.
"""

import contextlib
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "mooncake"))

from engine import value  # noqa: E402
from lab import Engine, Lab, LabError, until  # noqa: E402

MIB = 1 << 20
CUT_S = 30.0


class World:
    """The laboratory, an engine at each site, and what was checked."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.passed, self.failed = lab, 0, 0
        self.a: Engine
        self.b: Engine

    def check(self, what: str, good: bool, seen: object = "") -> None:
        """One fact."""
        if good:
            self.passed += 1
            print(f"ok     {what}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED {what}: {seen}", flush=True)

    def engines(self) -> None:
        """Clients of both stores, new ones."""
        for name in ("engine-a", "engine-b"):
            if name in self.lab.processes:
                self.lab.kill(name)
        self.a, self.b = self.lab.engine("a"), self.lab.engine("b")

    @staticmethod
    def reached(engine: Engine, key: str) -> bool:
        """The first call after a master was restarted fails."""
        code: int = engine.ask("exist", [key])["code"]
        return bool(code >= 0)

    def put(self, keys: Sequence[str], size: int = MIB) -> list[str]:
        """At A; all of it must be taken. The hashes."""
        until("A's store can be reached", lambda: self.reached(self.a, keys[0]))
        answer = self.a.ask("put", keys, size=size)
        if any(answer["codes"]):
            raise LabError(f"put says {answer['codes']}")
        hashes: list[str] = answer["hashes"]
        return hashes

    def there(self, engine: Engine, keys: Sequence[str]) -> int:
        """How many of them a store has."""
        return sum(engine.ask("exist", keys)["there"])

    def arrive(self, what: str, keys: Sequence[str], hashes: Sequence[str], size: int = MIB,
               seconds: float = 60) -> None:
        """All of them come to B and are what was put."""
        try:
            until(what, lambda: self.there(self.b, keys) == len(keys), seconds, 0.2)
        except LabError as e:
            self.check(what, False, f"{e}: {self.there(self.b, keys)} of {len(keys)}")
            return
        want = dict(zip(keys, hashes, strict=True))
        got: dict[str, str] = {}

        def read_all() -> bool:
            # Leases expire on a busy machine; what is handed over counts.
            left = [k for k in keys if k not in got]
            for k, h in zip(left, self.b.ask("get", left, size=size)["hashes"], strict=True):
                if h is not None:
                    got[k] = h
            return len(got) == len(keys)

        until(f"{what}: all can be read", read_all)
        wrong = [k for k in keys if got[k] != want[k]]
        self.check(what, not wrong, f"another value: {wrong}")

    def order(self, keys: Sequence[str]) -> str:
        """An order of these keys from A to B; its number."""
        return str(self.lab.ctl("order", "submit", "--from", "a", "--to", "b", "--keys-file",
                                "-", stdin="".join(k + "\n" for k in keys))["order"])

    def state(self, order: str) -> str:
        """Of an order."""
        return str(self.lab.ctl("order", "show", order)["state"])

    def statuses(self, order: str, seconds: float = 60) -> list[str]:
        """Of an order's objects, when it has ended."""
        until(f"order {order} ends",
              lambda: self.state(order) not in ("queued", "running"), seconds, 0.1)
        return sorted(o["status"] for o in self.lab.ctl("order", "show", order,
                                                        "--objects")["detail"])

    @contextlib.contextmanager
    def paused(self, *names: str) -> Iterator[None]:
        """Processes that stand still."""
        pids = [self.lab.processes[n].popen.pid for n in names]
        for pid in pids:
            os.killpg(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGCONT)

    def echoes(self) -> int:
        """Objects that went from B to A."""
        return sum(o["objects"] for o in self.lab.ctl("order", "list") if o["from"] == "b")

    def under_way(self) -> int:
        """Objects that are wanted or ordered."""
        backlogs = self.lab.ctl("replication", "status")["backlogs"]
        return sum(b["objects"] + b["flying"] for b in backlogs)

    def quiet(self) -> bool:
        """Nothing is on its way."""
        return self.under_way() == 0


def names(case: str, n: int) -> list[str]:
    """Keys of a case."""
    return [f"{case}@{i}" for i in range(n)]


def objects_appear_at_the_other_store(w: World) -> None:
    """Put at A, read at B; the source lives on listings and says so."""
    keys = names("plain", 24)
    w.arrive("put at A, read at B", keys, w.put(keys))
    odd = ["with space & 100 %", "umlaut-\u00e4/\u65e5", "k" * 900, "a,b"]
    w.arrive("keys of any characters", odd, w.put(odd, 4096), 4096)
    states = [s["state"] for s in w.lab.ctl("source", "list")]
    w.check("a master without events is polled and said to be", states == ["polled"] * 2, states)


def source_evicts_during_the_read(w: World) -> None:
    """What went while the gateway read it is not shipped, although its bytes look right."""
    keys = names("evicted", 4)
    with w.paused("site-a"):  # nobody else orders it
        w.put(keys, 4 * MIB)
        before = w.lab.gateway_status("a")
        with w.paused("client-a"):
            order = w.order(keys)
            until("the gateway reads", lambda: w.lab.gateway_status("a")["reading"] > 0)
            w.a.ask("remove", keys)
        got = w.statuses(order)
    after = w.lab.gateway_status("a")
    w.check("evicted while it was read: EVICTED or NOT_FOUND, not shipped",
            not set(got) - {"EVICTED", "NOT_FOUND"} and w.there(w.b, keys) == 0, got)
    w.check("the gateway saw that the descriptor changed", after["changed"] > before["changed"],
            after)


def engine_puts_the_same_key_meanwhile(w: World) -> None:
    """The engine's own Put is not held up and wins."""
    keys = names("same", 4)
    before = w.lab.gateway_status("b")["existed"]
    with w.paused("gateway-b"):
        w.put(keys)
        w.statuses(w.order(keys))
        began = time.monotonic()
        mine = w.b.ask("put", keys, size=MIB, salt=1)
        took = time.monotonic() - began
    until("what came is given up", lambda: w.lab.gateway_status("b")["existed"] >= before + 4)
    got = w.b.ask("get", keys, size=MIB)["hashes"]
    w.check("the engine's value stays", got == mine["hashes"] and mine["codes"] == [0] * 4, got)
    w.check("its Put did not wait", took < 3, took)


def damaged_memory_is_not_put(w: World) -> None:
    """Bytes that changed in the pool after they arrived."""
    keys = names("damaged", 3)
    before = w.lab.gateway_status("b")["corrupt"]
    with w.paused("site-a"):  # it would be shipped again at once
        with w.paused("gateway-b"):
            hashes = w.put(keys)
            w.statuses(w.order(keys))
            with open(f"{w.lab.shm}/b.pool", "r+b") as f, mmap.mmap(f.fileno(), 0) as pool:
                at = pool.find(value(keys[1], MIB)[:64])
                pool[at + 5000] ^= 1
        until("the damage is counted", lambda: w.lab.gateway_status("b")["corrupt"] == before + 1)
        until("the others come", lambda: w.there(w.b, [keys[0], keys[2]]) == 2)
        w.check("damaged: not put", w.there(w.b, [keys[1]]) == 0)
    w.lab.ctl("fetch", "--to", "b", keys[1])
    w.arrive("damaged: comes whole when it is asked for", keys, hashes)


def store_client_is_killed(w: World) -> None:
    """Its memory is gone, its keys go seconds later without a word."""
    keys = names("killed", 40)
    hashes = w.put(keys, 2 * MIB)
    w.lab.kill("client-a")
    until("the keys of the dead client go", lambda: w.there(w.a, keys) == 0, 30)
    until("nothing is on its way", w.quiet, 60)
    got = [h for h in w.b.ask("get", keys, size=2 * MIB)["hashes"]]
    w.check("client killed: what came is what was put",
            all(h is None or h == want for h, want in zip(got, hashes, strict=True)), got)
    until("A's view is empty", lambda: next(
        s["objects"] for s in w.lab.ctl("source", "list") if s["site"] == "a") == 0)
    w.lab.mooncake_client("a")
    again = names("killed-again", 8)
    w.arrive("client back: new objects come", again, w.put(again))


def mooncake_master_is_restarted(w: World) -> None:
    """All keys of A are lost; B's copies must not come back to A."""
    before = w.echoes()
    w.lab.kill("mooncake-a")
    until("the source is down", lambda: next(
        s["state"] for s in w.lab.ctl("source", "list") if s["site"] == "a") != "polled")
    w.lab.mooncake_master("a")
    until("the views are live", w.lab.views_live)
    until("memory is mounted again", lambda: b'"status":"OK"' in
          w.lab.admin("a", "/get_segments_detail"))
    keys = names("reborn", 8)
    w.arrive("master restarted: new objects come", keys, w.put(keys))
    until("nothing is on its way", w.quiet)
    w.check("master restarted: nothing comes back from B", w.echoes() == before, w.echoes())


def fill(w: World, filler: list[str], size: int) -> bool:
    """Pin a few more at B; whether nothing fits any more, and nothing else could be evicted."""
    more = [f"filler@{len(filler) + i}" for i in range(24)]
    codes = w.b.ask("put", more, size=size, pin=True)["codes"]
    filler += more
    here = set(w.lab.admin("b", "/get_all_keys").decode().splitlines())
    return all(codes) and here <= set(filler)


def destination_is_full(w: World) -> None:
    """Pinned to the brim: what arrives waits, the rest is refused, and all comes in the end."""
    with w.paused("site-a", "site-b"):
        filler: list[str] = []
        until("the store is full", lambda: fill(w, filler, MIB))
        until("to the brim", lambda: fill(w, filler, MIB // 16))
        keys = names("full", w.lab.pool_mib + 16)
        hashes = w.put(keys)
        order = w.order(keys)
        got = w.statuses(order, 90)
        w.check("full: the pool takes what it can, the rest is FULL",
                set(got) == {"COMMITTED", "FULL"}, sorted(set(got)))
        until("the gateway tries again", lambda: w.lab.gateway_status("b")["put_retries"] > 0)
        w.b.ask("remove", filler)
        until("what waited is put", lambda: w.there(w.b, keys) >= got.count("COMMITTED"), 60, 0.2)
    there = w.b.ask("exist", keys)["there"]
    got_hashes = w.b.ask("get", keys, size=MIB)["hashes"]
    w.check("full: what came is what was put", all(
        got == want for got, want, yes in zip(got_hashes, hashes, there, strict=True) if yes))


def anybody_is_killed(w: World) -> None:
    """Each process in turn, in the middle."""
    starts: dict[str, Callable[[], None]] = {
        "gateway-a": lambda: w.lab.gateway("a"), "gateway-b": lambda: w.lab.gateway("b"),
        "edge-a": lambda: w.lab.edge("a"), "edge-b": lambda: w.lab.edge("b")}
    for victim, start in starts.items():
        keys = names(f"kill-{victim}", 40)
        hashes = w.put(keys)
        until("some came", lambda keys=keys: w.there(w.b, keys) > 0,  # type: ignore[misc]
              60, 0.02)
        w.lab.kill(victim)
        start()
        w.arrive(f"{victim} killed and started again: all comes", keys, hashes, seconds=90)


def wide_area_is_cut(w: World) -> None:
    """What was removed meanwhile is not shipped afterwards."""
    until("nothing is on its way", w.quiet)
    before = w.lab.wan_figures()
    # What is wanted fills the half of the pool that is for what leaves: the transport has it all,
    # and nothing of the rest, when the rest is removed.
    keep, drop = names("kept", w.lab.pool_mib // 2), names("dropped", 24)

    def staged() -> int:
        return int(w.lab.gateway_status("a")["staged"])

    with w.paused("wan"):
        end = time.monotonic() + CUT_S
        full = staged() + len(keep) - 4
        hashes = w.put(keep)
        until("what is wanted fills the pool", lambda: staged() >= full)
        w.put(drop)
        until("the rest is ordered, too", lambda: w.under_way() >= len(keep) + len(drop) - 4)
        w.a.ask("remove", drop)
        until("the cut is over", lambda: time.monotonic() >= end, CUT_S + 5)
    w.arrive("cut of 30 s: what is wanted comes", keep, hashes)
    until("nothing is on its way", w.quiet)
    came = w.there(w.b, drop)
    shipped = bytes_across(w.lab) - bytes_of(before)
    w.check("cut of 30 s: what went meanwhile is not shipped", came <= len(drop) // 4, came)
    w.check("cut of 30 s: the line carried little else",
            shipped < (len(keep) + came + 16) * MIB, shipped)  # headers are 4.5 of that
    for engine in (w.a, w.b):
        engine.ask("remove", keep)


def bytes_of(figures: dict[str, object]) -> int:
    """What the emulator carried from A to B."""
    direction = figures.get("ab")
    return int(direction["delivered_bytes"]) if isinstance(direction, dict) else 0


def bytes_across(lab: Lab) -> int:
    """The same, now."""
    return bytes_of(lab.wan_figures())


CASES: list[Callable[[World], None]] = [
    objects_appear_at_the_other_store, source_evicts_during_the_read,
    engine_puts_the_same_key_meanwhile, damaged_memory_is_not_put, anybody_is_killed,
    wide_area_is_cut, store_client_is_killed, mooncake_master_is_restarted, destination_is_full]


def main() -> int:
    """All cases, or those whose names have a word of the command line."""
    only = sys.argv[1:]
    with Lab(os.environ.get("BUILD", "build"), "mooncake",
             wan=("--rate-gbps", "0.4", "--rtt-ms", "40", "--loss", "0.005"), cap="400Mbit",
             pool_mib=96, segment_mib=256, lease_ms=5000) as lab:
        w = World(lab)
        try:
            lab.up()
            w.engines()
            for case in CASES:
                if only and not any(word in case.__name__ for word in only):
                    continue
                began = time.monotonic()
                case(w)
                print(f"       {case.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        except LabError as e:
            w.check("the laboratory", False, e)
        if w.failed:
            print(lab.tails())
            lab.keep = lab.keep or bool(os.environ.get("KEEP"))
    print(f"{w.passed} passed, {w.failed} failed")
    return 1 if w.failed else 0


if __name__ == "__main__":
    sys.exit(main())
