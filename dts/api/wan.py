# SPDX-License-Identifier: Apache-2.0
"""Something bad on the wire to a node: the generator stands between two edges.

    with Wan("peer", "--rate-gbps", "0.1", "--rtt-ms", "20", "--loss", "0.02") as wan: ...
    with Segment("peer", [Rule("drop", to="peer", kind="DATA", every=7)]) as segment: ...

Both take the node's port out of the bridge and put themselves in its place, as a bump in the wire:
edges notice nothing but what is done to their packets. Wan is strait-wan, the emulator, with a rate
and statistics of its own; Segment does exactly what its rules say to exactly the packets they name,
and is slower (some 50 Mbit/s). The generator's captures go on meanwhile: they show packets as the
edges sent them."""
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from api.strait import _Program, poll_until
from framework.context import get_ctx
from framework.exception import ApplianceError, CommandError
from framework.settings import DTS_DIR
from framework.testbed_model.json_worker import JsonWorker
from framework.testbed_model.node import BRIDGE
from framework.testbed_model.port import prepare_netdev

WORKER = "framework.testbed_model.traffic_generator.segment_worker"
INNER, OUTER = "bump0", "bump1"


class _Bump:
    """A veth pair beside the bridge: whoever forwards between INNER and the node's port is on the
    wire between that node and all others."""

    def __init__(self, node: str) -> None:
        ctx = get_ctx()
        self.session = ctx.tg_node.session
        self.port = ctx.wire(node)[1].netdev

    def __enter__(self) -> "_Bump":
        mtu = str(get_ctx().config.test_run.mtu)
        self.session.ip("link", "add", "name", INNER, "type", "veth", "peer", "name", OUTER)
        for dev in (INNER, OUTER):
            prepare_netdev(self.session, dev, int(mtu))
            self.session.ip("link", "set", dev, "up")
        self.session.ip("link", "set", self.port, "nomaster")
        self.session.ip("link", "set", self.port, "promisc", "on")
        self.session.ip("link", "set", OUTER, "master", BRIDGE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.session.ip("link", "set", self.port, "promisc", "off")
        self.session.ip("link", "set", self.port, "master", BRIDGE)
        self.session.ip("link", "del", INNER)


class Wan(_Program):
    """strait-wan on the wire to a node. Direction ab is towards the node."""

    def __init__(self, node: str, *options: str) -> None:
        """Options are strait-wan's; the seed is the case's unless given."""
        super().__init__(f"wan-{node}", get_ctx().tg_node.session)
        self._bump = _Bump(node)
        self._options = options
        self.stats: dict[str, Any] = {}

    def __enter__(self) -> "Wan":
        """Into the wire, ready when the block begins."""
        self._bump.__enter__()
        try:
            self._start(self._binary("strait-wan"), "--port-a", f"net_af_packet0,iface={INNER}",
                        "--port-b", f"net_af_packet1,iface={self._bump.port}", "--json",
                        "--stats-ms", "0", "--mem", "64", *self._options)
            self._await_ready()
        except BaseException:
            self.stop()
            self._bump.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Out of the wire; statistics are in stats then."""
        try:
            self._leave(kind is not None)
            for line in (self._dir / "out").read_text("utf-8").splitlines():
                if line.startswith("{"):
                    self.stats = json.loads(line)
            if kind is None and not self.stats:
                raise ApplianceError(f"{self.name} left no statistics")
        finally:
            self.stop()
            self._bump.__exit__(kind, error, trace)


@dataclass
class Rule:
    """What to do to which packets. The first rule that matches a packet decides; without one it
    passes. Of what matches, `skip` pass first, then each `every`-th is taken, or with `spared` all
    others, `count` at most.

    Actions: drop; duplicate (`copies` more); delay (`ms`, and each later one up to `spread_ms`
    more, so that they overtake each other); flip (a bit of the UDP payload at `offset`, from its
    end when negative)."""

    action: str
    to: str = ""  # node it is on its way to, or from (not both): "" for any
    sent_by: str = ""
    kind: str = ""  # DATA, MANIFEST, CONTROL; "": also what is not Strait's
    flags: int = 0  # all of these set
    esi_min: int = 0
    esi_max: int = 255
    block_min: int = 0
    block_max: int = 0xffffffff
    skip: int = 0
    every: int = 1
    spared: bool = False
    count: int = 1 << 30
    copies: int = 1
    ms: float = 0
    spread_ms: float = 0
    offset: int = 0


class Segment:
    """A forwarder that does what rules say, on the wire to a node."""

    def __init__(self, node: str, rules: list[Rule], delay_ms: float = 5) -> None:
        """Rules may be changed later, by set_rules(). Each packet takes delay_ms, beside which
        what the forwarder itself takes is little."""
        self._delay_ms = delay_ms
        self._node = node
        self._bump = _Bump(node)
        self._rules = rules
        self._worker: JsonWorker | None = None

    def _wire_rules(self, rules: list[Rule]) -> list[dict[str, Any]]:
        out = []
        for rule in rules:
            value = asdict(rule)
            to, sent_by = value.pop("to"), value.pop("sent_by")
            towards = {True: "inward", False: "outward"}
            value["direction"] = (towards[to == self._node] if to
                                  else towards[sent_by != self._node] if sent_by else "")
            out.append(value)
        return out

    def __enter__(self) -> "Segment":
        """Into the wire."""
        self._bump.__enter__()
        try:
            self._worker = JsonWorker(
                self._bump.session, get_ctx().suite_dir / "segment_worker.err", sys.executable,
                "-B", "-m", WORKER, INNER, self._bump.port, cwd=DTS_DIR)
            self.set_rules(self._rules)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Out of the wire."""
        try:
            if self._worker is not None:
                self._worker.stop()
        finally:
            self._bump.__exit__(kind, error, trace)

    def _ask(self, **request: Any) -> dict[str, Any]:
        if self._worker is None:
            raise CommandError("the segment is not in the wire")
        return self._worker.ask(**request)

    def set_rules(self, rules: list[Rule]) -> None:
        """From now on; counts begin anew."""
        self._ask(op="rules", rules=self._wire_rules(rules), delay_ms=self._delay_ms)

    def hits(self) -> list[int]:
        """How many packets each rule was applied to."""
        return list(self._ask(op="hits")["hits"])

    def wait_hits(self, index: int, least: int, seconds: float = 10) -> int:
        """Until a rule was applied so often, or time is up."""
        poll_until(seconds, lambda: self.hits()[index] >= least)
        return self.hits()[index]


def wire_idle(seconds: float = 5) -> bool:
    """Until nothing is on the wire but what an idle session says."""
    tg = get_ctx().tg

    def quiet() -> bool:
        tg.flush()
        subprocess.run(("sleep", "0.2"), check=False)
        return len(tg.take()) < 5
    return poll_until(seconds, quiet)
