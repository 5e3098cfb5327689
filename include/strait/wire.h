/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Strait wire format, version 1: everything two edges exchange on the data path.
 *
 * A packet is one UDP datagram: 24 bytes of clear header (all of it AAD), ciphertext, 16 bytes of
 * tag. Integers are big-endian. doc/wire.md is the specification, tests/vectors/ its test vectors;
 * this header is the only place where the constants live. Terms are those of RFC 5052.
 *
 *    0                   1                   2                   3
 *    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 *   +-------+-------+---------------+---------------+---------------+
 *   |version| type  |     queue     |     flags     |      ESI      |
 *   +-------+-------+---------------+---------------+---------------+
 *   |                        session (receiver's)                   |
 *   +---------------------------------------------------------------+
 *   |                        packet number (64 bit)                 |
 *   |                                                               |
 *   +---------------------------------------------------------------+
 *   |                           transfer                            |
 *   +---------------------------------------------------------------+
 *   |                         source block                          |
 *   +---------------------------------------------------------------+
 */

enum strait_wire_size {
	STRAIT_WIRE_VERSION = 1,
	STRAIT_HEADER_BYTES = 24,
	STRAIT_TAG_BYTES = 16,
	STRAIT_OVERHEAD_BYTES = STRAIT_HEADER_BYTES + STRAIT_TAG_BYTES,
	STRAIT_IV_BYTES = 12,
	STRAIT_KEY_BYTES = 32,
	STRAIT_SECRET_BYTES = 48, /* SHA-384 output: session and chain secrets */
	STRAIT_BOOT_ID_BYTES = 16,

	/*
	 * 1500 - IPv4 20 - UDP 8 - 24 - 16: what one packet of an IPv4 path with MTU 1500 carries.
	 */
	STRAIT_SYMBOL_BYTES_IPV4 = 1432,
	STRAIT_SYMBOL_BYTES_IPV6 = 1412, /* IPv6's header has 40 bytes */
	STRAIT_SYMBOL_BYTES_MIN = 512,
	STRAIT_SYMBOL_BYTES_MAX = 8932,

	/*
	 * Ethernet 14 + FCS 4 + preamble 8 + gap 12 + IPv4 20 + UDP 8: what a datagram costs the
	 * line.
	 */
	STRAIT_LINE_OVERHEAD_BYTES = 66,
};

/** Byte 0, low nibble. Types a receiver does not know are dropped (rx_version). */
enum strait_packet_type {
	STRAIT_PACKET_DATA = 1,     /* a symbol of the transfer's object stream */
	STRAIT_PACKET_MANIFEST = 2, /* a symbol of the transfer's manifest stream */
	STRAIT_PACKET_CONTROL = 3,  /* a sequence of frames; transfer, block and ESI are 0 */
};

/** Header flags. A receiver ignores bits it does not know; a sender sets them to 0. */
enum strait_packet_flags {
	STRAIT_FLAG_TAIL = 1 << 0,         /* report at once when this block cannot finish */
	STRAIT_FLAG_END_OF_BLOCK = 1 << 1, /* last symbol planned for this block */
	STRAIT_FLAG_REPORT = 1 << 2,       /* report now */
};

/* Byte offsets in the header. */
enum strait_header_offset {
	STRAIT_OFF_VERSION_TYPE = 0,
	STRAIT_OFF_QUEUE = 1,
	STRAIT_OFF_FLAGS = 2,
	STRAIT_OFF_ESI = 3,
	STRAIT_OFF_SESSION = 4,
	STRAIT_OFF_PACKET_NUMBER = 8,
	STRAIT_OFF_TRANSFER = 16,
	STRAIT_OFF_BLOCK = 20,
};

/*
 * FEC: systematic Reed-Solomon over GF(2^8), polynomial 0x11d. A source block has k <= 128 source
 * symbols, ESI 0..k-1; repair row r has ESI k+r and is sum over j of symbol_j / (ESI xor j).
 * k + rows <= 255, so an ESI never is 255. Blocks are cut by RFC 5052 section 9.1 with B = 128.
 */
enum strait_fec_limits {
	STRAIT_BLOCK_SYMBOLS_MAX = 128,
	STRAIT_ESI_COUNT = 255,
};

/*
 * Keys. Every (direction, queue) has a chain of secrets; generation = packet number >> 23 picks the
 * link. A sender enters generation g+1 only after a packet of generation g was acknowledged, so the
 * receiver's window g-1, g, g+1 always holds the key. See doc/wire.md for the HKDF labels.
 */
enum strait_key_limits {
	STRAIT_GENERATION_SHIFT = 23,
	STRAIT_QUEUES_MAX = 64,
};
#define STRAIT_EXPORTER_LABEL "EXPORTER-strait-data-1"

enum strait_direction {
	STRAIT_DIR_INITIATOR = 0, /* packets of the side that opened the management connection */
	STRAIT_DIR_RESPONDER = 1,
};

enum strait_class {
	STRAIT_CLASS_URGENT = 0, /* a request waits */
	STRAIT_CLASS_NORMAL = 1,
	STRAIT_CLASS_BULK = 2, /* background, minutes to hours */
	STRAIT_CLASS_COUNT
};

/* Limits a receiver enforces on what a transfer announces. */
enum strait_transfer_limits {
	STRAIT_KEY_BYTES_MAX = 1024,
	STRAIT_TENANT_BYTES_MAX = 64,
	STRAIT_TRANSFER_OBJECTS_MAX = 65536,
	STRAIT_MANIFEST_BYTES_MAX = 32 << 20,
	STRAIT_OBJECT_BYTES_MAX = 64 << 20,
};

/*
 * Control packets: frames { type 8, length 16, body }. A receiver skips types it does not know.
 * "varint" is RFC 9000 section 16; "n x" is a count varint and then so many entries. Frames marked
 * R repeat until the frame named in brackets answers them.
 *
 * OPEN        R [OPEN_ACK]    transfer 32, order 64, stream bytes 64, manifest bytes 32,
 *                             objects 32, symbol bytes 16, class 8, reserved 8,
 *                             report interval us 32, deadline ms 64
 * OPEN_ACK                    transfer 32, status 8
 * REPORT                      queue 8, reserved 8, newest packet number 64, its receive time us 64,
 *                             delay us 32, base 64 (highest packet number of the ranges),
 *                             n x { received varint - 1, missing varint } downward from base
 * HAVE                        transfer 32, stream 8, floor 32 (all blocks below are complete),
 *                             n x { gap varint, run varint } of complete blocks above the floor
 * NEED                        transfer 32, stream 8, newest packet number 64,
 *                             n x { block varint (first absolute, then difference),
 *                             missing varint }
 * CREDIT                      class 8, stream bytes 64, objects 64 (cumulative for the session)
 * OBJECT      R [OBJECT_ACK]  transfer 32, first 32 (position in the receiver's log),
 *                             n x { object varint, status 8 }
 * OBJECT_ACK                  transfer 32, next 32 (log positions below are known)
 * WITHDRAW    R [OBJECT]      transfer 32, n x { object varint, status 8 }
 * CLOSE       R [CLOSE_ACK]   transfer 32, status 8
 * CLOSE_ACK                   transfer 32
 * CHALLENGE   R [RESPONSE]    token 64
 * RESPONSE                    token 64
 * PING                        report interval us 32; asks for a report now
 * PADDING                     any bytes, ignored: what a path MTU probe is filled with
 * RECALL                      packet number 64; asks for a report that reaches back to it
 */
enum strait_frame_type {
	STRAIT_FRAME_OPEN = 1,
	STRAIT_FRAME_OPEN_ACK = 2,
	STRAIT_FRAME_REPORT = 3,
	STRAIT_FRAME_HAVE = 4,
	STRAIT_FRAME_NEED = 5,
	STRAIT_FRAME_CREDIT = 6,
	STRAIT_FRAME_OBJECT = 7,
	STRAIT_FRAME_OBJECT_ACK = 8,
	STRAIT_FRAME_WITHDRAW = 9,
	STRAIT_FRAME_CLOSE = 10,
	STRAIT_FRAME_CLOSE_ACK = 11,
	STRAIT_FRAME_CHALLENGE = 12,
	STRAIT_FRAME_RESPONSE = 13,
	STRAIT_FRAME_PING = 14,
	STRAIT_FRAME_PADDING = 15,
	STRAIT_FRAME_RECALL = 16,
};

enum strait_frame_size {
	STRAIT_FRAME_HEADER_BYTES = 3,
	STRAIT_FRAME_OPEN_BYTES = 44,
	STRAIT_FRAME_OPEN_ACK_BYTES = 5,
	STRAIT_FRAME_REPORT_FIXED_BYTES = 30,
	STRAIT_FRAME_HAVE_FIXED_BYTES = 9,
	STRAIT_FRAME_NEED_FIXED_BYTES = 13,
	STRAIT_FRAME_CREDIT_BYTES = 17,
	STRAIT_FRAME_OBJECT_FIXED_BYTES = 8,
	STRAIT_FRAME_OBJECT_ACK_BYTES = 8,
	STRAIT_FRAME_WITHDRAW_FIXED_BYTES = 4,
	STRAIT_FRAME_CLOSE_BYTES = 5,
	STRAIT_FRAME_CLOSE_ACK_BYTES = 4,
	STRAIT_FRAME_TOKEN_BYTES = 8,
	STRAIT_FRAME_PING_BYTES = 4,
	STRAIT_FRAME_RECALL_BYTES = 8,
};

/* Receive times in REPORT are below this: 142 years. */
#define STRAIT_REPORT_US_LIMIT (UINT64_C(1) << 52)

/* The two symbol streams of a transfer; the packet type selects one. */
enum strait_stream { STRAIT_STREAM_OBJECTS = 0, STRAIT_STREAM_MANIFEST = 1, STRAIT_STREAM_COUNT };

/*
 * Manifest: one record an object, in stream order:
 *   flags 8, tenant bytes 8, key bytes 16, length 64, digest 64, tenant, key
 * The lengths add up to the stream bytes of OPEN. digest is CRC-64/ECMA-182, init 0, MSB first, no
 * final xor; it counts only with STRAIT_MANIFEST_DIGEST. A record with STRAIT_MANIFEST_SKIP keeps
 * its place in the stream but is neither sent nor stored.
 */
enum strait_manifest_flags {
	STRAIT_MANIFEST_DIGEST = 1 << 0,
	STRAIT_MANIFEST_SKIP = 1 << 1,
};
enum strait_manifest_size {
	STRAIT_MANIFEST_FIXED_BYTES = 20,
	STRAIT_MANIFEST_DIGEST_AT = 12,
};
