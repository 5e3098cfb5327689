# SPDX-License-Identifier: Apache-2.0
"""Makes the vectors of tests/vectors/wire.json again, and compares.

    python3 -m dts.wire.vectors --check [FILE]

Only what a vector starts from is taken from the file; what it must come to is computed here. Where
something can be done backwards (open a packet, decode a frame, a manifest, a block) that is done,
too. Each section must be there: the list of sections is here, not in the file."""
import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import digest, frames, gf256, keys, manifest, packet
from .partition import Partition

DEFAULT = Path(__file__).resolve().parents[2] / "tests/vectors/wire.json"
Vector = dict[str, Any]
Problems = Iterator[str]


def _differs(what: str, got: object, wanted: object) -> Problems:
    if got != wanted:
        yield f"{what}: computed {str(got):.160}, the file has {str(wanted):.160}"


def check_expand_label(v: Vector) -> Problems:
    """Section 4."""
    got = keys.expand_label(bytes.fromhex(v["secret"]), v["label"], bytes.fromhex(v["context"]),
                            v["bytes"])
    yield from _differs("out", got.hex(), v["out"])


def check_keys(v: Vector) -> Problems:
    """Section 4."""
    chain = keys.KeyChain(bytes.fromhex(v["secret"]), v["direction"], v["queue"])
    gen = v["generation"]
    for name, got in (("chain", chain.chain(gen)), ("key", chain.key(gen)), ("iv", chain.iv(gen))):
        yield from _differs(name, got.hex(), v[name])


def check_nonce(v: Vector) -> Problems:
    """Section 4."""
    got = keys.nonce(bytes.fromhex(v["iv"]), int(v["packet_number"], 16))
    yield from _differs("nonce", got.hex(), v["nonce"])


def _header(v: Vector) -> packet.Header:
    return packet.Header(v["type"], v["session"], v["packet_number"], v["transfer"], v["block"],
                         v["esi"], v["flags"], v["queue"])


def check_header(v: Vector) -> Problems:
    """Section 3."""
    header = _header(v)
    yield from _differs("bytes", header.encode().hex(), v["bytes"])
    yield from _differs("header", packet.decode(bytes.fromhex(v["bytes"])), header)


def check_packet(v: Vector) -> Problems:
    """Sections 3 and 4."""
    chain = keys.KeyChain(bytes.fromhex(v["secret"]), v["direction"], v["queue"])
    header = _header(v)
    plain = bytes.fromhex(v["plaintext"])
    yield from _differs("packet", chain.seal(header.encode(), header.number, plain).hex(),
                        v["packet"])
    data = bytes.fromhex(v["packet"])
    clear, sealed = data[:packet.HEADER_BYTES], data[packet.HEADER_BYTES:]
    yield from _differs("header", packet.decode(clear), header)
    yield from _differs("plaintext", chain.open(clear, header.number, sealed), plain)
    wrong = bytes((clear[0], clear[1], clear[2] ^ 0x80)) + clear[3:]
    yield from _differs("a packet with a wrong bit", chain.open(wrong, header.number, sealed), None)


def check_coefficient(v: Vector) -> Problems:
    """Section 7."""
    yield from _differs("value", gf256.coefficient(v["esi"], v["j"]), v["value"])


def source_symbols(k: int, size: int) -> list[bytes]:
    """Of the vectors `repair`, as section 7 tells."""
    return [bytes((5 * i + 17 * j + i * j // 8) & 0xff for i in range(size)) for j in range(k)]


def check_repair(v: Vector) -> Problems:
    """Section 7; also decodes as many losses as one row can heal, and more with further rows."""
    k, size, row = v["k"], v["symbol_bytes"], v["row"]
    source = source_symbols(k, size)
    yield from _differs("symbol", gf256.encode(source, k + row, size).hex(), v["symbol"])
    lost = min(k, 5, 255 - k)
    rows = {e: gf256.encode(source, e, size) for e in range(255 - lost, 255)}
    present = {j: s for j, s in enumerate(source) if j >= lost}
    yield from _differs("decoded block", gf256.decode(k, present | rows, size), source)
    present = {j: s for j, s in enumerate(source) if j != k // 2}
    present[k + row] = bytes.fromhex(v["symbol"])
    yield from _differs("block decoded by the row", gf256.decode(k, present, size), source)


def check_partition(v: Vector) -> Problems:
    """Section 6."""
    cut = Partition(v["bytes"], v["symbol_bytes"])
    for name in ("symbols", "blocks", "large", "small", "n_large"):
        yield from _differs(name, getattr(cut, name), v[name])
    for part in v["layout"]:
        block = part["block"]
        k = cut.k(block)
        start, end = cut.span(block, k - 1)
        got = {"block": block, "first": cut.first(block), "k": k, "last_offset": start,
               "last_bytes": end - start}
        yield from _differs("layout", got, part)
        yield from _differs("block of the last byte", list(cut.blocks_of(end - 1, end)), [block])


def check_digest(v: Vector) -> Problems:
    """Section 9."""
    data = bytes.fromhex(v["data"])
    yield from _differs("digest", f"{digest.digest(data):016x}", v["digest"])
    half = len(data) // 2
    joined = digest.join(digest.digest(data[:half]), digest.digest(data[half:]), len(data) - half)
    yield from _differs("digest of two pieces", f"{joined:016x}", v["digest"])


def check_digest_shift(v: Vector) -> Problems:
    """Section 9."""
    got = digest.shift(int(v["digest"], 16), v["zeros"])
    yield from _differs("result", f"{got:016x}", v["result"])


def check_varint(v: Vector) -> Problems:
    """Section 10."""
    data = bytes.fromhex(v["bytes"])
    yield from _differs("value", frames.decode_varint(data, 0), (v["value"], len(data)))
    shortest = frames.encode_varint(v["value"])
    yield from _differs("bytes", frames.encode_varint(v["value"], len(data)).hex(), v["bytes"])
    if len(shortest) > len(data):
        yield f"{len(shortest)} bytes are not the fewest"


def check_manifest(v: Vector) -> Problems:
    """Section 8."""
    records = [manifest.Record(bytes.fromhex(r["key"]), r["length"], bytes.fromhex(r["tenant"]),
                               r["flags"], int(r["digest"], 16)) for r in v["records"]]
    data = bytes.fromhex(v["bytes"])
    yield from _differs("bytes", manifest.encode(records).hex(), v["bytes"])
    yield from _differs("records", manifest.decode(data, v["objects"], v["stream_bytes"]), records)
    for wrong in (data[:-1], data + b"\0"):
        try:
            manifest.decode(wrong, v["objects"], v["stream_bytes"])
            yield "a manifest of another length was taken"
        except ValueError:
            pass


def frame_of(v: Vector) -> frames.Any:
    """The frame that the fields of a vector describe."""
    def pairs(name: str) -> list[tuple[int, int]]:
        return [(a, b) for a, b in v[name]]
    transfer = v.get("transfer", 0)
    makers: dict[str, Callable[[], frames.Any]] = {
        "OPEN": lambda: frames.Open(
            transfer, v["order"], v["stream_bytes"], v["manifest_bytes"], v["objects"],
            v["symbol_bytes"], v["class"], v["report_interval_us"], v["deadline_ms"]),
        "OPEN_ACK": lambda: frames.OpenAck(transfer, v["status"]),
        "REPORT": lambda: frames.Report(v["queue"], v["newest"], v["newest_us"], v["delay_us"],
                                        v["base"], pairs("ranges"), v["missing_at_end"]),
        "HAVE": lambda: frames.Have(transfer, v["stream"], v["floor"], pairs("runs")),
        "NEED": lambda: frames.Need(transfer, v["stream"], v["newest"], pairs("blocks")),
        "CREDIT": lambda: frames.Credit(v["class"], v["bytes_limit"], v["objects_limit"]),
        "OBJECT": lambda: frames.Object(transfer, v["first"], pairs("list")),
        "OBJECT_ACK": lambda: frames.ObjectAck(transfer, v["next"]),
        "WITHDRAW": lambda: frames.Withdraw(transfer, pairs("list")),
        "CLOSE": lambda: frames.Close(transfer, v["status"]),
        "CLOSE_ACK": lambda: frames.CloseAck(transfer),
        "CHALLENGE": lambda: frames.Challenge(bytes.fromhex(v["token"])),
        "RESPONSE": lambda: frames.Response(bytes.fromhex(v["token"])),
        "PING": lambda: frames.Ping(v["report_interval_us"]),
        "PADDING": lambda: frames.Padding(v["padding_bytes"]),
        "RECALL": lambda: frames.Recall(v["number"]),
    }
    return makers[v["frame"]]()


def check_frame(v: Vector) -> Problems:
    """Section 10; cut short anywhere, and with a byte more, a frame is malformed."""
    frame = frame_of(v)
    data = bytes.fromhex(v["bytes"])
    yield from _differs("bytes", frame.encode().hex(), v["bytes"])
    yield from _differs("frame", list(frames.decode(data)), [frame])
    bodies = [data[3:3 + n] for n in range(len(data) - 3)] + [data[3:] + b"\0"]
    if v["frame"] == "PADDING":
        bodies = []
    for wrong in [frames.raw(data[0], body) for body in bodies] + [data[:-1]]:
        try:
            list(frames.decode(wrong))
            yield f"a body of {len(wrong) - 3} bytes was taken"
        except frames.Malformed:
            pass


def check_refused_frame(v: Vector) -> Problems:
    """Section 10."""
    try:
        list(frames.decode(bytes.fromhex(v["bytes"])))
        yield f"was taken: {v['why']}"
    except frames.Malformed:
        pass


SECTIONS: dict[str, Callable[[Vector], Problems]] = {
    "expand_label": check_expand_label, "keys": check_keys, "nonce": check_nonce,
    "header": check_header, "packet": check_packet, "coefficient": check_coefficient,
    "repair": check_repair, "partition": check_partition, "digest": check_digest,
    "digest_shift": check_digest_shift, "varint": check_varint, "manifest": check_manifest,
    "frame": check_frame, "refused_frame": check_refused_frame,
}


def check_section(value: dict[str, Any], name: str) -> list[str]:
    """What is wrong with a section of the file's value."""
    vectors = value.get(name)
    if not vectors:
        return [f"{name}: no vectors"]
    out = []
    for i, vector in enumerate(vectors):
        try:
            out += [f"{name}[{i}]: {problem}" for problem in SECTIONS[name](vector)]
        except (KeyError, ValueError) as error:
            out.append(f"{name}[{i}]: {type(error).__name__}: {error}")
    return out


def load(path: Path = DEFAULT) -> dict[str, Any]:
    """The file's value."""
    value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return value


def unknown_sections(value: dict[str, Any]) -> list[str]:
    """Sections of the file that nothing here checks."""
    return sorted(set(value) - set(SECTIONS) - {"version", "about"})


def main() -> int:
    """1 if anything differs. Closing line: `N passed, M failed`."""
    parser = argparse.ArgumentParser(description="check the vectors of the wire format")
    parser.add_argument("--check", action="store_true", help="that is what it does anyway")
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT)
    value = load(parser.parse_args().file)
    passed = failed = 0
    for name in SECTIONS:
        problems = check_section(value, name)
        print("\n".join(problems) if problems else f"ok    {name}: {len(value[name])}")
        passed, failed = passed + (not problems), failed + bool(problems)
    for name in unknown_sections(value):
        print(f"{name}: unknown section")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
