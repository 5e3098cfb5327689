#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recomputes every test vector of the wire format from doc/wire.md alone, in plain Python.

    check.py            recompute what wire.json says and compare
    check.py --write    make wire.json anew

Nothing here shares code with the C sources: AES-GCM comes from python3-cryptography, HKDF from the
standard library's hmac, the rest is spelled out. tests/unit/vectors_test.c holds the C code against
the same file. Exit code 77 (skipped) without python3-cryptography."""
import hashlib
import hmac
import json
import os
import sys

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:
    print("needs python3-cryptography")
    sys.exit(77)

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wire.json")


# ---- primitives ---------------------------------------------------------------------------------

def be(value, size):
    return value.to_bytes(size, "big")


def expand_label(secret, label, context, size):
    """RFC 8446 section 7.1 with SHA-384; HKDF-Expand is RFC 5869 section 2.3."""
    label = b"tls13 " + label.encode()
    info = be(size, 2) + be(len(label), 1) + label + be(len(context), 1) + context
    out, t, i = b"", b"", 1
    while len(out) < size:
        t = hmac.new(secret, t + info + bytes([i]), hashlib.sha384).digest()
        out += t
        i += 1
    return out[:size]


def key_schedule(secret, direction, queue, generation):
    chain = expand_label(secret, "strait chain", bytes([direction, queue]), 48)
    for _ in range(generation):
        chain = expand_label(chain, "strait ku", b"", 48)
    return (chain, expand_label(chain, "strait key", b"", 32),
            expand_label(chain, "strait iv", b"", 12))


def make_nonce(iv, packet_number):
    return bytes(a ^ b for a, b in zip(iv, be(packet_number, 12)))


def make_header(h):
    return (bytes([1 << 4 | h["type"], h["queue"], h["flags"], h["esi"]]) + be(h["session"], 4) +
            be(h["packet_number"], 8) + be(h["transfer"], 4) + be(h["block"], 4))


def gf_multiply(a, b):
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11d
        b >>= 1
    return product


def gf_inverse(a):
    return next(x for x in range(1, 256) if gf_multiply(a, x) == 1)


INVERSE = [None] + [gf_inverse(a) for a in range(1, 256)]


def pattern_symbol(j, size):
    return bytes((17 * j + 5 * b + (j * b >> 3)) & 255 for b in range(size))


def repair_symbol(k, row, size):
    out = bytearray(size)
    for j in range(k):
        c = INVERSE[(k + row) ^ j]
        times = [gf_multiply(c, v) for v in range(256)]
        for b, v in enumerate(pattern_symbol(j, size)):
            out[b] ^= times[v]
    return bytes(out)


def ceil_div(a, b):
    return -(-a // b)


def make_partition(size, symbol_bytes):
    """RFC 5052 section 9.1 with B = 128."""
    n = ceil_div(size, symbol_bytes)
    z = ceil_div(n, 128)
    large, small = ceil_div(n, z), n // z
    return n, z, large, small, n - small * z


def block_symbols(p, block):
    """(index of the first symbol, k)"""
    _, _, large, small, n_large = p
    k = large if block < n_large else small
    return min(block, n_large) * large + max(0, block - n_large) * small, k


POLY = 0x42F0E1EBA9EA3693


def crc64(data, crc=0):
    for byte in data:
        crc ^= byte << 56
        for _ in range(8):
            crc = (crc << 1 ^ (POLY if crc >> 63 else 0)) & (1 << 64) - 1
    return crc


def poly_multiply(a, b):
    """Product modulo x^64 + POLY."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = (a << 1 ^ (POLY if a >> 63 else 0)) & (1 << 64) - 1
        b >>= 1
    return product


def crc_shift(crc, zeros):
    """crc * x^(8 * zeros), by squaring."""
    base = 1 << 8
    while zeros:
        if zeros & 1:
            crc = poly_multiply(crc, base)
        base = poly_multiply(base, base)
        zeros >>= 1
    return crc


def varint(v):
    """RFC 9000 section 16, shortest form."""
    for code, size in enumerate((1, 2, 4, 8)):
        if v < 1 << 8 * size - 2:
            return be(v | code << 8 * size - 2, size)
    raise ValueError(v)


def pattern_bytes(n, salt):
    out = b""
    while len(out) < n:
        out += hashlib.sha256(f"{salt} {len(out)}".encode()).digest()
    return out[:n]


# ---- records and frames -------------------------------------------------------------------------

def make_record(e):
    tenant, key = bytes.fromhex(e["tenant"]), bytes.fromhex(e["key"])
    return (bytes([e["flags"], len(tenant)]) + be(len(key), 2) + be(e["length"], 8) +
            bytes.fromhex(e["digest"]) + tenant + key)


def count_varint(n):
    return be(n | 1 << 14, 2)  # what Strait writes: always two bytes


def body_open(f):
    return (be(f["transfer"], 4) + be(f["order"], 8) + be(f["stream_bytes"], 8) +
            be(f["manifest_bytes"], 4) + be(f["objects"], 4) + be(f["symbol_bytes"], 2) +
            be(f["class"], 1) + b"\0" + be(f["report_interval_us"], 4) + be(f["deadline_ms"], 8))


def body_status(f):
    return be(f["transfer"], 4) + be(f["status"], 1)


def body_report(f):
    """Ranges are [low, high], from high to low."""
    out = (bytes([f["queue"], 0]) + be(f["newest"], 8) + be(f["newest_us"], 8) +
           be(f["delay_us"], 4) + be(f["base"], 8) + count_varint(len(f["ranges"])))
    for i, (low, high) in enumerate(f["ranges"]):
        below = f["ranges"][i + 1][1] if i + 1 < len(f["ranges"]) else None
        missing = f["missing_at_end"] if below is None else low - below - 1
        out += varint(high - low) + varint(missing)
    return out


def body_have(f):
    """Runs are [first block, blocks]."""
    out = be(f["transfer"], 4) + bytes([f["stream"]]) + be(f["floor"], 4)
    out += count_varint(len(f["runs"]))
    cursor = f["floor"]
    for first, n in f["runs"]:
        out += varint(first - cursor) + varint(n)
        cursor = first + n
    return out


def body_need(f):
    """Blocks are [block, missing]."""
    out = be(f["transfer"], 4) + bytes([f["stream"]]) + be(f["newest"], 8)
    out += count_varint(len(f["blocks"]))
    previous = 0
    for block, missing in f["blocks"]:
        out += varint(block - previous) + varint(missing)
        previous = block
    return out


def body_credit(f):
    return be(f["class"], 1) + be(f["bytes_limit"], 8) + be(f["objects_limit"], 8)


def object_list(objects):
    return count_varint(len(objects)) + b"".join(varint(o) + be(s, 1) for o, s in objects)


FRAMES = {
    "OPEN": (1, body_open),
    "OPEN_ACK": (2, body_status),
    "REPORT": (3, body_report),
    "HAVE": (4, body_have),
    "NEED": (5, body_need),
    "CREDIT": (6, body_credit),
    "OBJECT": (7, lambda f: be(f["transfer"], 4) + be(f["first"], 4) + object_list(f["list"])),
    "OBJECT_ACK": (8, lambda f: be(f["transfer"], 4) + be(f["next"], 4)),
    "WITHDRAW": (9, lambda f: be(f["transfer"], 4) + object_list(f["list"])),
    "CLOSE": (10, body_status),
    "CLOSE_ACK": (11, lambda f: be(f["transfer"], 4)),
    "CHALLENGE": (12, lambda f: bytes.fromhex(f["token"])),
    "RESPONSE": (13, lambda f: bytes.fromhex(f["token"])),
    "PING": (14, lambda f: be(f["report_interval_us"], 4)),
    "PADDING": (15, lambda f: bytes(f["padding_bytes"])),
    "RECALL": (16, lambda f: be(f["number"], 8)),
}


def make_frame(f):
    kind, body = FRAMES[f["frame"]]
    body = body(f)
    return bytes([kind]) + be(len(body), 2) + body


# ---- one function a section: fills in what follows from the inputs --------------------------------

def fill_expand_label(v):
    v["out"] = expand_label(bytes.fromhex(v["secret"]), v["label"], bytes.fromhex(v["context"]),
                            v["bytes"]).hex()


def fill_keys(v):
    chain, key, iv = key_schedule(bytes.fromhex(v["secret"]), v["direction"], v["queue"],
                                  v["generation"])
    v.update(chain=chain.hex(), key=key.hex(), iv=iv.hex())


def fill_nonce(v):
    v["nonce"] = make_nonce(bytes.fromhex(v["iv"]), int(v["packet_number"], 16)).hex()


def fill_header(v):
    v["bytes"] = make_header(v).hex()


def fill_packet(v):
    secret, plain = bytes.fromhex(v["secret"]), bytes.fromhex(v["plaintext"])
    header = make_header(v)
    _, key, iv = key_schedule(secret, v["direction"], v["queue"], v["packet_number"] >> 23)
    nonce = make_nonce(iv, v["packet_number"])
    v["packet"] = (header + AESGCM(key).encrypt(nonce, plain, header)).hex()


def fill_coefficient(v):
    v["value"] = INVERSE[v["esi"] ^ v["j"]]


def fill_repair(v):
    v["symbol"] = repair_symbol(v["k"], v["row"], v["symbol_bytes"]).hex()


def fill_partition(v):
    p = make_partition(v["bytes"], v["symbol_bytes"])
    v.update(zip(("symbols", "blocks", "large", "small", "n_large"), p))
    v["layout"] = []
    for block in sorted({0, max(p[4] - 1, 0), min(p[4], p[1] - 1), p[1] - 1}):
        first, k = block_symbols(p, block)
        offset = (first + k - 1) * v["symbol_bytes"]
        v["layout"].append({"block": block, "first": first, "k": k, "last_offset": offset,
                            "last_bytes": min(v["symbol_bytes"], v["bytes"] - offset)})


def fill_digest(v):
    v["digest"] = f"{crc64(bytes.fromhex(v['data'])):016x}"


def fill_digest_shift(v):
    v["result"] = f"{crc_shift(int(v['digest'], 16), v['zeros']):016x}"


def fill_varint(v):
    v["bytes"] = varint(v["value"]).hex()


def fill_manifest(v):
    v["objects"] = len(v["records"])
    v["stream_bytes"] = sum(e["length"] for e in v["records"])
    v["bytes"] = b"".join(map(make_record, v["records"])).hex()


def fill_frame(v):
    v["bytes"] = make_frame(v).hex()


def fill_nothing(_):
    pass


SECTIONS = {
    "expand_label": fill_expand_label,
    "keys": fill_keys,
    "nonce": fill_nonce,
    "header": fill_header,
    "packet": fill_packet,
    "coefficient": fill_coefficient,
    "repair": fill_repair,
    "partition": fill_partition,
    "digest": fill_digest,
    "digest_shift": fill_digest_shift,
    "varint": fill_varint,
    "manifest": fill_manifest,
    "frame": fill_frame,
    "refused_frame": fill_nothing,
}


# ---- inputs -------------------------------------------------------------------------------------

def inputs():
    secret = bytes(range(48)).hex()
    rekeyed = 5 << 23 | 77
    header = {"type": 1, "queue": 0, "flags": 0, "esi": 0, "session": 0x01020304,
              "packet_number": 0, "transfer": 1, "block": 0}
    control = {**header, "type": 3, "transfer": 0}
    frames = [
        {"frame": "OPEN", "transfer": 7, "order": 0x0102030405060708, "stream_bytes": 5000000,
         "manifest_bytes": 300, "objects": 3, "symbol_bytes": 1432, "class": 0,
         "report_interval_us": 25000, "deadline_ms": 1760000000000},
        {"frame": "OPEN_ACK", "transfer": 7, "status": 0},
        {"frame": "OPEN_ACK", "transfer": 7, "status": 11},
        {"frame": "REPORT", "queue": 0, "newest": 0, "newest_us": 1, "delay_us": 0, "base": 0,
         "ranges": [[0, 0]], "missing_at_end": 0},
        {"frame": "REPORT", "queue": 5, "newest": 70000, "newest_us": 123456789, "delay_us": 250,
         "base": 69000, "ranges": [[69000, 69000], [8999, 68998], [8879, 8978]],
         "missing_at_end": 0},
        {"frame": "REPORT", "queue": 63, "newest": (1 << 23) + 9, "newest_us": 1 << 40,
         "delay_us": 1000000, "base": (1 << 23) + 9, "ranges": [[(1 << 23) - 3, (1 << 23) + 9],
                                                               [100, 200]],
         "missing_at_end": 100},
        {"frame": "HAVE", "transfer": 7, "stream": 0, "floor": 0, "runs": []},
        {"frame": "HAVE", "transfer": 7, "stream": 1, "floor": 12, "runs": [[13, 3], [86, 20000]]},
        {"frame": "NEED", "transfer": 7, "stream": 0, "newest": 70001,
         "blocks": [[0, 1], [1, 128], [500000, 3]]},
        {"frame": "CREDIT", "class": 2, "bytes_limit": 1 << 40, "objects_limit": 99},
        {"frame": "OBJECT", "transfer": 7, "first": 2, "list": [[0, 1], [65535, 16]]},
        {"frame": "OBJECT_ACK", "transfer": 7, "next": 4},
        {"frame": "WITHDRAW", "transfer": 7, "list": [[2, 4]]},
        {"frame": "CLOSE", "transfer": 7, "status": 8},
        {"frame": "CLOSE_ACK", "transfer": 7},
        {"frame": "CHALLENGE", "token": "1122334455667788"},
        {"frame": "RESPONSE", "token": "1122334455667788"},
        {"frame": "PING", "report_interval_us": 10000},
        {"frame": "PADDING", "padding_bytes": 5},
        {"frame": "RECALL", "number": 5000000001},
    ]
    frame_bytes = b"".join(make_frame(dict(f)) for f in frames[:5]).hex()
    open_frame = make_frame(frames[0])
    records = [
        {"flags": 1, "tenant": b"acme".hex(), "key": b"k\0\xff".hex(), "length": 65538,
         "digest": "6c40df5f0b497347"},
        {"flags": 0, "tenant": "", "key": b"x".hex(), "length": 1, "digest": "0" * 16},
        {"flags": 2, "tenant": (b"t" * 64).hex(), "key": pattern_bytes(1024, "key").hex(),
         "length": 64 << 20, "digest": "0" * 16},
    ]
    return {
        "expand_label": [
            {"secret": secret, "label": "strait chain", "context": "0003", "bytes": 48},
            {"secret": secret, "label": "strait key", "context": "", "bytes": 32},
            {"secret": secret, "label": "x", "context": bytes(range(255)).hex(), "bytes": 200},
        ],
        "keys": [{"secret": secret, "direction": d, "queue": q, "generation": g}
                 for d in (0, 1) for q in (0, 3) for g in (0, 1, 2)],
        "nonce": [{"iv": "101112131415161718191a1b", "packet_number": f"{n:016x}"}
                  for n in (0, 1, 1 << 23, 0x0102030405060708, (1 << 64) - 1)],
        "header": [
            header,
            {**header, "type": 2, "queue": 3, "flags": 7, "esi": 254, "block": 0xfffffffe},
            {**control, "queue": 63, "flags": 4, "session": 0xffffffff,
             "packet_number": 0x0102030405060708},
        ],
        "packet": [
            {"what": "DATA, a whole symbol", "secret": secret, "direction": 0, **header,
             "plaintext": pattern_bytes(1432, "symbol").hex()},
            {"what": "DATA, the stream's last symbol, short", "secret": secret, "direction": 0,
             **header, "queue": 3, "flags": 3, "esi": 5, "packet_number": rekeyed, "block": 9,
             "plaintext": "aa"},
            {"what": "DATA, a repair symbol", "secret": secret, "direction": 1, **header,
             "queue": 3, "esi": 3, "packet_number": 1 << 23,
             "plaintext": repair_symbol(3, 0, 512).hex()},
            {"what": "MANIFEST", "secret": secret, "direction": 0, **header, "type": 2,
             "packet_number": 1, "plaintext": make_record(records[0]).hex()},
            {"what": "CONTROL, four kinds of frames", "secret": secret, "direction": 1, **control,
             "packet_number": 2, "plaintext": frame_bytes},
            {"what": "CONTROL, no frame", "secret": secret, "direction": 0, **control, "flags": 4,
             "packet_number": 3, "plaintext": ""},
        ],
        "coefficient": [{"esi": e, "j": j} for e, j in (
            (1, 0), (2, 0), (2, 1), (3, 2), (64, 63), (128, 0), (128, 127), (200, 99), (254, 0),
            (254, 127))],
        "repair": [{"k": k, "row": r, "symbol_bytes": n} for k, r, n in (
            (1, 0, 64), (1, 253, 64), (2, 0, 64), (2, 1, 65), (3, 0, 64), (3, 1, 64), (3, 2, 64),
            (5, 7, 100), (17, 3, 71), (128, 0, 64), (128, 126, 64))],
        "partition": [{"bytes": n, "symbol_bytes": t} for n, t in (
            (1, 1432), (1432, 1432), (1433, 1432), (128 * 1432, 1432), (128 * 1432 + 1, 1432),
            (257 * 1432, 1432), (1 << 20, 1432), (5000000, 8932), (65536 * (64 << 20), 512))],
        "digest": [{"data": d} for d in ("", "00", "ff", b"123456789".hex(),
                                         pattern_bytes(300, "digest").hex())],
        "digest_shift": [{"digest": d, "zeros": n} for d in ("6c40df5f0b497347", "0" * 15 + "1")
                         for n in (0, 1, 7, 8, 1432, 65536, 64 << 20, (1 << 40) + 3)],
        "varint": [{"value": n} for n in (0, 37, 63, 64, 15293, 16383, 16384, 494878333,
                                          (1 << 30) - 1, 1 << 30, 151288809941952652,
                                          (1 << 62) - 1)],
        "manifest": [{"records": records[:1]}, {"records": records}],
        "frame": frames,
        "refused_frame": [{"why": why, "bytes": b.hex()} for why, b in (
            ("OPEN with a body of 43 bytes", b"\1" + be(43, 2) + open_frame[3:46]),
            ("OPEN of class 3", open_frame[:33] + b"\3" + open_frame[34:]),
            ("OPEN with symbols of 511 bytes", open_frame[:31] + be(511, 2) + open_frame[33:]),
            ("OPEN without objects", open_frame[:27] + be(0, 4) + open_frame[31:]),
            ("REPORT with ranges below packet number 0", b"\3" + be(33, 2) + bytes(2) + be(9, 8) +
             bytes(12) + be(9, 8) + b"\x01\x0a\x00"),
            ("REPORT with a base above the newest packet", b"\3" + be(31, 2) + bytes(2) +
             be(9, 8) + bytes(12) + be(10, 8) + b"\x00"),
            ("REPORT with a count the body cannot hold", b"\3" + be(32, 2) + bytes(2) + be(9, 8) +
             bytes(12) + be(9, 8) + b"\x7f\xff"),
            ("HAVE with an empty gap", b"\4" + be(12, 2) + bytes(9) + b"\x01\x00\x01"),
            ("HAVE past block 2^32 - 1", b"\4" + be(12, 2) + bytes(5) + b"\xff\xff\xff\xff" +
             b"\x01\x01\x01"),
            ("HAVE of stream 2", b"\4" + be(10, 2) + bytes(4) + b"\x02" + bytes(5)),
            ("NEED with a block twice", b"\5" + be(18, 2) + bytes(13) + b"\x02\x05\x01\x00\x01"),
            ("NEED of 129 symbols", b"\5" + be(17, 2) + bytes(13) + b"\x01\x05\x40\x81"),
            ("CREDIT of class 3", b"\6" + be(17, 2) + b"\3" + bytes(16)),
            ("OBJECT 65536", b"\7" + be(14, 2) + bytes(8) + b"\x01\x80\x01\x00\x00\x01"),
            ("OBJECT with a byte after its list", b"\7" + be(10, 2) + bytes(8) + b"\x00\x00"),
            ("PING with a body of 3 bytes", b"\x0e" + be(3, 2) + bytes(3)),
            ("RECALL with a body of 7 bytes", b"\x10" + be(7, 2) + bytes(7)),
        )],
    }


# ---- main ---------------------------------------------------------------------------------------

def write():
    vectors = {"version": 1, "about": "Test vectors of doc/wire.md, made by check.py --write"}
    for section, entries in inputs().items():
        for v in entries:
            SECTIONS[section](v)
        vectors[section] = entries
    with open(FILE, "w", encoding="ascii") as f:
        json.dump(vectors, f, indent=1)
        f.write("\n")


def check():
    with open(FILE, encoding="ascii") as f:
        vectors = json.load(f)
    passed = failed = 0
    for section, fill in SECTIONS.items():
        for i, v in enumerate(vectors[section]):
            again = dict(v)
            fill(again)
            if again == v:
                passed += 1
            else:
                failed += 1
                print(f"{section}[{i}] differs: {[k for k in again if again[k] != v.get(k)]}")
    failed += check_refusals(vectors)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def check_refusals(vectors):
    """Every bit of a packet is authenticated: one flipped bit and it does not open."""
    failed = 0
    for v in vectors["packet"]:
        packet = bytes.fromhex(v["packet"])
        _, key, iv = key_schedule(bytes.fromhex(v["secret"]), v["direction"], v["queue"],
                                  v["packet_number"] >> 23)
        for at in (0, 2, 3, 17, 23, 24, len(packet) - 1):
            bad = bytearray(packet)
            bad[at] ^= 1
            try:
                AESGCM(key).decrypt(make_nonce(iv, v["packet_number"]), bytes(bad[24:]),
                                    bytes(bad[:24]))
                print(f"packet '{v['what']}' opens although byte {at} was changed")
                failed += 1
            except InvalidTag:
                pass
    return failed


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    sys.exit(check())
