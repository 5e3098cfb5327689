#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes engine_events.jsonl and engine_runs.jsonl: batches of KV events as vLLM and SGLang encode them.
Needs msgspec; the results are kept in the tree, so that tests need only them."""
import json
import os
import random
import struct
from typing import Any, Optional, Union

import msgspec

Hash = Union[int, bytes]


# vllm/distributed/kv_events.py and sglang/srt/disaggregation/kv_events.py: events were arrays with the
# tag first, and are maps with the tag under "type" now.
class ArrayEvent(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    pass


class MapEvent(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    pass


def family(base, prefix, group=False):
    fields = [("block_hashes", list[Hash]), ("parent_block_hash", Optional[Hash]), ("token_ids", list[int]),
              ("block_size", int), ("lora_id", Optional[int]), ("medium", Optional[str], None),
              ("lora_name", Optional[str], None), ("extra_keys", Optional[list], None)]
    more = [("group_idx", Optional[int], None)] if group else []
    stored = msgspec.defstruct("BlockStored", fields + more, bases=(base,), tag="BlockStored", module=prefix)
    removed = msgspec.defstruct("BlockRemoved", [("block_hashes", list[Hash]),
                                                 ("medium", Optional[str], None)] + more,
                                bases=(base,), tag="BlockRemoved", module=prefix)
    cleared = msgspec.defstruct("AllBlocksCleared", [], bases=(base,), tag="AllBlocksCleared", module=prefix)
    return stored, removed, cleared


class ArrayBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


class MapBatch(msgspec.Struct, omit_defaults=True, gc=False):
    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


def expect(e):
    name = type(e).__name__
    def h(x):
        if isinstance(x, bytes):
            return x.hex()
        return float(x) if x is not None and not isinstance(x, str) and x >> 63 else x  # as JSON has it
    out = {"op": {"BlockStored": "stored", "BlockRemoved": "removed", "AllBlocksCleared": "cleared"}[name],
           "hashes": [h(x) for x in getattr(e, "block_hashes", [])]}
    for field in ("parent_block_hash", "block_size", "medium", "lora_name"):
        value = getattr(e, field, None)
        if value is not None:
            out[field] = h(value)
    return out


def run_of(engine, base, name_hash, media, batches):
    """A run of an engine, by seed: what it publishes, and what it holds after each batch."""
    group = engine == "vllm"
    stored, removed, cleared = family(base, engine, group)
    rng, holds, lines, made = random.Random(engine), set(), [], 0
    for seq in range(batches):
        events = []
        for _ in range(rng.randrange(1, 4)):
            what, here = rng.random(), sorted(holds)
            where = media[0] if what < 0.6 else media[1]
            if what > 0.97:
                events.append(cleared())
                holds.clear()
                continue
            more = {"group_idx": rng.randrange(2)} if group else {}
            if what < 0.6 or not here:
                new = [name_hash(made + i) for i in range(rng.randrange(1, 4))]
                made += len(new)
                events.append(stored(new, None, list(range(16 * len(new))), 16, None, where, **more))
                holds |= {(where, text(h), more.get("group_idx", 0)) for h in new}
                continue
            at, h, g = rng.choice(here)
            more = {"group_idx": g} if group else {}
            raw = next(name_hash(i) for i in range(made) if text(name_hash(i)) == h)
            if what < 0.8 and at == media[0]:  # from the GPU to the host's memory
                events.append(stored([raw], None, list(range(16)), 16, None, media[1], **more))
                holds.add((media[1], h, g))
            events.append(removed([raw], at, **more))
            holds.discard((at, h, g))
        payload = msgspec.msgpack.encode(ArrayBatch(1700000000.25 + seq, events, 0 if group else None))
        lines.append({"engine": engine, "frames": ["kv-events", struct.pack(">q", seq).hex(), payload.hex()],
                      "holds": [f"{m}/{g}/{h}" for m, h, g in sorted(holds)]})
    return lines


def text(h):
    return h.hex() if isinstance(h, bytes) else f"{h & (1 << 64) - 1:016x}"


def write(name, lines):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "w", encoding="ascii") as f:
        for line in lines:
            f.write(json.dumps(line) + "\n")


def main():
    big, digest = 0xFEDCBA9876543210, bytes(range(32))
    lines = []
    for form, base in (("array", ArrayEvent), ("map", MapEvent)):
        stored, removed, cleared = family(base, form)
        events = [
            stored([1, big], None, list(range(32)), 16, None),
            stored([digest], bytes(reversed(digest)), [7, 128, 65536], 3, 4, "GPU", "adapter"),
            stored([2], 1, [[1, 2], [2, 3]] if form == "map" else [1], 1, None, "CPU", None, [["salt"], None]),
            removed([1, digest]),
            removed([big], "GPU"),
            cleared(),
        ]
        for batch in (ArrayBatch, MapBatch):
            for rank in (None, 3):
                seq = len(lines)
                payload = msgspec.msgpack.encode(batch(1700000000.25, events, rank))
                lines.append({"name": f"{form} events, {batch.__name__}, rank {rank}",
                              "frames": ["", struct.pack(">q", seq).hex(), payload.hex()],
                              "timestamp_ms": 1700000000250, "rank": -1 if rank is None else rank,
                              "expect": [expect(e) for e in events]})
    write("engine_events.jsonl", lines)
    write("engine_runs.jsonl",
          run_of("vllm", MapEvent, lambda i: i.to_bytes(2, "big") * 16, ("GPU", "CPU"), 64) +
          run_of("sglang", ArrayEvent, lambda i: (i * 0x9E3779B97F4A7C15 & (1 << 64) - 1) - (1 << 63),
                 ("GPU", "CPU_PINNED"), 64))


if __name__ == "__main__":
    main()
