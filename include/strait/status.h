/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How an object of an order ended, or why an order was refused.
 *
 * One table for the wire (OBJECT, OPEN_ACK and CLOSE frames), the control RPC, the master's ledger
 * and the CLI. Values are on the wire and in databases: never renumber, only append.
 *
 *   X(name, value, text)
 */
#define STRAIT_STATUSES(X)                                                                         \
	X(PENDING, 0, "not finished yet")                                                          \
	X(COMMITTED, 1, "stored and verified at the destination")                                  \
	X(EXISTS, 2, "the destination already had it")                                             \
	X(FULL, 3, "no space in the destination pool")                                             \
	X(EVICTED, 4, "evicted or removed at the source before it was shipped")                    \
	X(NOT_FOUND, 5, "the source pool has no such object")                                      \
	X(DIGEST, 6, "bytes arrived but their digest is not the source's")                         \
	X(TOO_LARGE, 7, "larger than the destination accepts")                                     \
	X(CANCELED, 8, "canceled")                                                                 \
	X(DEADLINE, 9, "deadline passed")                                                          \
	X(UNREACHABLE, 10, "no session with the destination edge")                                 \
	X(REFUSED, 11, "refused by policy or by limits of the destination")                        \
	X(BUSY, 12, "another writer holds the key at the destination")                             \
	X(MALFORMED, 13, "the peer sent something that cannot be")                                 \
	X(INTERNAL, 14, "internal error, see the log of the edge")                                 \
	X(SKIPPED, 15, "finished earlier, listed to keep the layout")                              \
	X(RESET, 16, "the session was reset")

enum strait_status {
#define STRAIT_STATUS_ENUM(name, value, text) STRAIT_STATUS_##name = value,
	STRAIT_STATUSES(STRAIT_STATUS_ENUM)
#undef STRAIT_STATUS_ENUM
		STRAIT_STATUS_COUNT
};

/** Short upper-case name ("COMMITTED"), "UNKNOWN" for a value this version does not know. */
static inline const char *strait_status_name(unsigned status)
{
	switch (status) {
#define STRAIT_STATUS_NAME(name, value, text)                                                      \
	case value:                                                                                \
		return #name;
		STRAIT_STATUSES(STRAIT_STATUS_NAME)
#undef STRAIT_STATUS_NAME
	}
	return "UNKNOWN";
}

/** One-line explanation for people. */
static inline const char *strait_status_text(unsigned status)
{
	switch (status) {
#define STRAIT_STATUS_TEXT(name, value, text)                                                      \
	case value:                                                                                \
		return text;
		STRAIT_STATUSES(STRAIT_STATUS_TEXT)
#undef STRAIT_STATUS_TEXT
	}
	return "a status of a newer version";
}
