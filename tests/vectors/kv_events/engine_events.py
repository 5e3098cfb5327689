#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes engine_events.jsonl: batches of KV events as vLLM and SGLang encode them. Needs msgspec; the
result is kept in the tree, so that tests need only that."""
import json
import os
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


def family(base, prefix):
    fields = [("block_hashes", list[Hash]), ("parent_block_hash", Optional[Hash]), ("token_ids", list[int]),
              ("block_size", int), ("lora_id", Optional[int]), ("medium", Optional[str], None),
              ("lora_name", Optional[str], None), ("extra_keys", Optional[list], None)]
    stored = msgspec.defstruct("BlockStored", fields, bases=(base,), tag="BlockStored", module=prefix)
    removed = msgspec.defstruct("BlockRemoved", [("block_hashes", list[Hash]),
                                                 ("medium", Optional[str], None)],
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
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "engine_events.jsonl")
    with open(path, "w", encoding="ascii") as f:
        for line in lines:
            f.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
