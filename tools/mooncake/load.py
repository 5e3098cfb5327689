# SPDX-License-Identifier: Apache-2.0
"""From a request trace to KV objects: which, when, and what they are called."""

import hashlib
import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@dataclass(frozen=True)
class Put:
    """One object of the prefill side."""

    at: float  # seconds after the first
    key: str


def key_of(block: int) -> str:
    """As vLLM's Mooncake connector names the chunk of a rank."""
    chunk = hashlib.sha256(str(block).encode()).hexdigest()
    return f"{MODEL}@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@{chunk}"


def lines(path: str | None, replay: str) -> Iterable[str]:
    """Of a trace in Mooncake's form: a file, or a generated one."""
    if path is not None:
        with open(path, encoding="utf-8") as f:
            return f.read().splitlines()
    done = subprocess.run([replay, "trace", "--synthetic", "--requests", "20000"],
                          capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def puts(text: Iterable[str], objects: int, seconds: float, blocks: int = 8) -> list[Put]:
    """The first objects that prefill makes: each block once, in the requests' order.

    A request's first blocks are taken; the times are the trace's, scaled to span `seconds`.
    """
    out: list[Put] = []
    seen: set[int] = set()
    for line in text:
        request = json.loads(line)
        for block in request["hash_ids"][:blocks]:
            if block not in seen and len(out) < objects:
                seen.add(block)
                out.append(Put(float(request["timestamp"]), key_of(block)))
        if len(out) == objects:
            break
    if not out:
        raise ValueError("the trace names no blocks")
    first, span = out[0].at, max(out[-1].at - out[0].at, 1e-9)
    return [Put((p.at - first) / span * seconds, p.key) for p in out]
