/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/crypto/aead.h"

#include <strait/counters.h>
#include <strait/status.h>
#include <strait/wire.h>

#include <stdbool.h>
#include <stddef.h>

/*
 * The protocol core: one session between two edges on one queue. Sans-IO.
 *
 * The owner (a DPDK worker, the simulator, a test) feeds datagrams in with session_recv(), takes
 * datagrams out with session_send(), and calls again at session_next(). Time is CLOCK_MONOTONIC in
 * ns, given by the caller. Everything here runs on the owner's thread and never allocates, blocks
 * or aborts, except the *_create and *_destroy functions, which run on the control thread before an
 * object is handed to the owner or after the owner gave it back.
 *
 * What needs memory, files or a pool is asked for by events (session_poll) and answered by calls.
 * Each event is kept until it is polled, so a full ring towards the control thread loses nothing.
 *
 *   sender                              receiver
 *   session_tx_start(t)      OPEN ->    RX_OPEN      -> session_rx_attach() or _refuse()
 *                            manifest ->
 *                                       RX_MANIFEST  -> session_rx_begin(), then for each object
 *   TX_WANT(n) -> for each object              in order session_rx_object_place() or
 *      below n session_tx_object_ready()       session_rx_object_finish(EXISTS, FULL, ..)
 *      or _gone()            data ->
 *                                       RX_OBJECT    -> publish, then _finish(COMMITTED)
 *   TX_OBJECT(status)     <- OBJECT
 *   TX_CLOSED                CLOSE ->   RX_CLOSED
 *
 * Memory contract: object bytes given to tx_object_ready() stay readable until TX_OBJECT for that
 * object or TX_CLOSED was polled; bytes given to rx_object_place() stay writable until RX_OBJECT,
 * RX_WITHDRAWN or RX_CLOSED was polled. After TX_CLOSED / RX_CLOSED the core has forgotten the
 * transfer: destroy it.
 */

enum {
	SESSION_TRANSFERS_MAX = 64, /* live transfers a direction */
	SESSION_RESUME_BYTES = 256, /* resume area an object needs: have state and layout */
	SESSION_BURST_MAX = 16,     /* packets of one session_send_burst(): a burst of the pacer */
};

struct tx_transfer; /* sender side of a transfer, see transfer.h */
struct rx_transfer; /* receiver side */
struct session;

struct session_credit {
	uint64_t bytes, objects;
};

struct session_config {
	uint32_t peer_session; /* session id the peer chose: in every header we send */
	uint32_t own_session;  /* the id we chose: in every header we accept */
	uint8_t direction;     /* enum strait_direction of what we send */
	uint8_t queue;
	uint8_t secret[STRAIT_SECRET_BYTES]; /* session secret from the TLS exporter */
	const struct aead_ops *aead;

	/*
	 * Line bits/s (datagram + 66 bytes each) never exceeded; inside it the rate follows the
	 * queueing delay (rate.h). 0: no cap, the line's rate is found.
	 */
	uint64_t cap_bps;
	uint64_t rtt_hint_ns;   /* before the first sample; 100 ms when 0 */
	double loss_prior;      /* before losses were measured; 0.01 when negative */
	uint16_t symbol_bytes;  /* most in both directions; transfers we send may have less */
	uint8_t ip_bytes;       /* IP and UDP headers of a datagram: 28, or 48 over IPv6; 0: 28 */
	uint32_t burst_packets; /* that a late caller may send at once (pacer.h); 0: PACER_BURST */

	/* Sizes in packets or symbols, rounded up to 2^n for the first two; 0: the default. */
	uint32_t log_packets;    /* outstanding packets remembered; 131072 */
	uint32_t window_packets; /* received packet numbers remembered; 131072 */
	uint32_t scratch_slots;  /* symbols that may wait for manifest or placement; 4096 */
	uint32_t row_slots;      /* repair symbols that may wait for their block; 4096 */

	/* What the peer's HELLO allows us, and what ours allowed the peer. */
	struct session_credit peer_credit[STRAIT_CLASS_COUNT];
	struct session_credit own_credit[STRAIT_CLASS_COUNT];

	uint64_t idle_timeout_ns; /* nothing authentic for so long: SESSION_DEAD; default 120 s */
	uint64_t seed;            /* challenge tokens; the only randomness of the core */
};

enum session_event_type {
	SESSION_EVENT_NONE,
	SESSION_EVENT_UP,   /* the peer answered a challenge on the data path: full rate */
	SESSION_EVENT_DEAD, /* idle timeout; every live transfer also closes with RESET */
	/*
	 * The path carries symbols of `object` bytes from now on (mtu.h), for transfers that start.
	 * When it became less, transfers with larger ones close with RESET after this event: open
	 * their orders again.
	 */
	SESSION_EVENT_PATH,
	SESSION_EVENT_RX_OPEN,
	SESSION_EVENT_RX_MANIFEST,
	SESSION_EVENT_RX_OBJECT, /* all bytes in place; status COMMITTED: digest holds, or DIGEST */
	SESSION_EVENT_RX_WITHDRAWN, /* the sender took it back; answer _finish(status) */
	SESSION_EVENT_RX_CLOSED,
	SESSION_EVENT_TX_OPENED, /* the receiver answered OPEN; status PENDING, or why it refused */
	SESSION_EVENT_TX_WANT,   /* objects [0, object) should be ready soon */
	SESSION_EVENT_TX_OBJECT, /* final status of an object */
	SESSION_EVENT_TX_CLOSED,
};

/** RX_OPEN: what the sender announced; limits of wire.h hold, credit was checked. */
struct session_open {
	uint32_t transfer;
	uint64_t order;
	uint64_t stream_bytes;
	uint32_t manifest_bytes;
	uint32_t objects;
	uint16_t symbol_bytes;
	uint8_t class_;
	uint64_t deadline_ms;
};

struct session_event {
	enum session_event_type type;
	struct tx_transfer *tx;
	struct rx_transfer *rx;
	uint32_t object;
	uint8_t status; /* enum strait_status */
	struct session_open open;
};

/** NULL + errno (EINVAL, ENOMEM, ENOTSUP). Control thread. Wipes cfg->secret from its own copy when
 * done. */
struct session *session_create(const struct session_config *cfg);
/** Control thread, after the owner let go. Live transfers are not freed: poll them out with
 * session_reset(). */
void session_destroy(struct session *s);

/**
 * One datagram's UDP payload. 0 when authentic and understood; a negative errno when dropped, with
 * one drop counter moved. Never reads outside [packet, packet + len).
 */
int session_recv(struct session *s, uint64_t now_ns, const uint8_t *packet, size_t len);

/**
 * A datagram that session_recv() is given after the next, SESSION_AHEAD packets from now: fetch the
 * memory it is opened into, where the processor would not foresee that. Nothing changes by it,
 * whatever the bytes are. The header is read, so it should be cached.
 */
void session_recv_ahead(struct session *s, const uint8_t *packet, size_t len);
enum { SESSION_AHEAD = 2 };

/** The next datagram to send now, written to buf. 0: nothing, or the pacer says later. cap >=
 * symbol + 40. */
size_t session_send(struct session *s, uint64_t now_ns, uint8_t *buf, size_t cap);

struct session_packet {
	uint8_t *buf;
	size_t len;
};

/**
 * The next datagrams to send now, up to n of them into p[].buf of cap bytes each, as by repeated
 * calls of session_send() at one moment, but cheaper. How many; p[].len of those is set.
 */
unsigned int session_send_burst(struct session *s, uint64_t now_ns, struct session_packet *p,
	unsigned int n, size_t cap);

/** When session_send() may have something to send again; <= now_ns: at once; UINT64_MAX: not by
 * itself. */
uint64_t session_next(struct session *s, uint64_t now_ns);

/** How much later than session_next() a call may come without losing rate: half of a burst. */
uint64_t session_slack_ns(const struct session *s);

/** Next event. false: none. */
bool session_poll(struct session *s, struct session_event *ev);

/** Close every live transfer with this status, without telling the peer; events follow. */
void session_reset(struct session *s, uint8_t status);

void session_set_cap(struct session *s, uint64_t now_ns, uint64_t cap_bps);

/* Sender. ------------------------------------------------------------------------------------ */

/**
 * Hand a created transfer over. 0, -ENOSPC (SESSION_TRANSFERS_MAX live: try after a TX_CLOSED),
 * -EMSGSIZE (the path does not carry its symbols: see SESSION_EVENT_PATH).
 */
int session_tx_start(struct session *s, uint64_t now_ns, struct tx_transfer *t);
/** The object's bytes are leased at data. */
void session_tx_object_ready(struct session *s, struct tx_transfer *t, uint32_t object,
	const uint8_t *data);
/** The object cannot be had (EVICTED, NOT_FOUND): the receiver is told, TX_OBJECT follows. */
void session_tx_object_gone(struct session *s, struct tx_transfer *t, uint32_t object,
	uint8_t status);
/** Give up what is not finished: objects end with status, then CLOSE. */
void session_tx_cancel(struct session *s, struct tx_transfer *t, uint8_t status);

/* Receiver. ---------------------------------------------------------------------------------- */

/** Answer to RX_OPEN: t was created with the event's session_open. 0, -ESTALE (closed meanwhile:
 * destroy t). */
int session_rx_attach(struct session *s, uint64_t now_ns, struct rx_transfer *t);
void session_rx_refuse(struct session *s, uint32_t transfer, uint8_t status);
/** Answer to RX_MANIFEST, after rx_transfer_objects() filled the object table; or refuse the
 * transfer. */
void session_rx_begin(struct session *s, uint64_t now_ns, struct rx_transfer *t);
/** Where the object's bytes go. After rx_object_prepare() of transfer.h. Objects may be placed in
 * any order. */
void session_rx_object_place(struct session *s, uint64_t now_ns, struct rx_transfer *t,
	uint32_t object);
/**
 * The object's final status. COMMITTED after RX_OBJECT and publishing; anything else at any time
 * before (EXISTS, FULL, TOO_LARGE, BUSY, ...): its symbols are then accepted and discarded.
 */
void session_rx_object_finish(struct session *s, struct rx_transfer *t, uint32_t object,
	uint8_t status);

/* Figures. ----------------------------------------------------------------------------------- */

struct session_stats {
	uint64_t counters[STRAIT_COUNTER_COUNT];
	uint64_t srtt_ns, min_rtt_ns;
	double loss; /* estimate used for redundancy */
	uint64_t cap_bps;
	uint64_t outstanding_bytes;
	uint64_t backlog_bytes;   /* stream bytes not yet known to be at the receiver */
	uint64_t delivered_bytes; /* stream bytes known to be at the receiver, all transfers */
	uint64_t path_bytes;      /* symbol the path is known or hoped to carry */
	bool up, dead;
};
void session_stats(const struct session *s, struct session_stats *out);
