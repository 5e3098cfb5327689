/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/crypto/keys.h"
#include "dataplane/fec/rs.h"
#include "dataplane/transport/bursts.h"
#include "dataplane/transport/frame.h"
#include "dataplane/transport/mtu.h"
#include "dataplane/transport/pacer.h"
#include "dataplane/transport/packet.h"
#include "dataplane/transport/pnwindow.h"
#include "dataplane/transport/rate.h"
#include "dataplane/transport/redundancy.h"
#include "dataplane/transport/rtt.h"
#include "dataplane/transport/rx_fold.h"
#include "dataplane/transport/rx_transfer.h"
#include "dataplane/transport/scratch.h"
#include "dataplane/transport/sentlog.h"
#include "dataplane/transport/session.h"
#include "dataplane/transport/tx_transfer.h"

/*
 * Inside of a session, shared by the files of this directory only:
 *
 *   session.c   demultiplexing of datagrams, sealing, timers, events; session_create.c makes it
 *   control.c   which control frames are due; writing them; reading them
 *   sender.c    what data packet goes next: manifest, repair, new source symbols, proactive rows
 *   sender_run.c   source symbols in bursts, and rows that grow beside them
 *   tail.c      rows for what must not wait for a repair round
 *   mtu.c       which packet size the path carries (RFC 8899)
 *   feedback.c  what reports mean: acknowledgments, loss, RTT, repair by cost
 *   receiver.c  where an authentic symbol goes: place, scratch, row store; decoding
 *   rx_fold.c    digest and sums of rows of blocks that are not whole yet
 *   receiver_transfer.c, sender_transfer.c   the life of a transfer at either end
 *   report.c    what the receiver says about what it has: REPORT, HAVE, NEED
 */

enum {
	REPORTS_A_ROUND = 5, /* at least 4 a round trip are promised */
	REPORT_HISTORY = 16, /* ranges reach back so many reports, about three round trips */
	REPORT_PACKETS_MAX = 8,
	RECALL_REPORTS = 2,    /* reports that answer a RECALL */
	ROW_CACHE_BLOCKS = 64, /* also the deepest interleaving */
	ROW_CACHE_SETS = 4,    /* transfers that take turns keep their rows apart */
	CLOSING_MAX = 256,
	REFUSED_MAX = 64,
	RETIRED_IDS = 4096,     /* transfer ids remembered below the newest */
	CONTROL_RESERVE = 4096, /* packet numbers of a generation kept for control packets */
	CLOSE_BACKOFF_MAX = 6,  /* CLOSE repeats every 2^6 RTO in the end */
	LOG_REPEAT_MAX = 200,   /* object statuses repeated with each new one */
	LOG_FEW = 16,           /* so many cost nothing */
	LOG_TRIES_LARGE = 4,    /* so often in packets of any size */
	TURN_PACKETS = 32,      /* a flow's turn among those of its rank */
};

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

/* Rows made in one pass, kept until sent. */
struct row_cache {
	uint32_t transfer, block;
	uint8_t stream, first, rows;
	uint8_t growing, folded; /* rows being made; source symbols in them so far */
};

struct sender {
	struct tx_transfer *slots[SESSION_TRANSFERS_MAX];
	uint16_t order[SESSION_TRANSFERS_MAX]; /* live slots, most pressing first, then by turn */
	uint32_t live;
	uint32_t next_id;
	bool idle; /* nothing to send until something changes */
	struct sentlog log;
	const struct redundancy *redundancy; /* REDUNDANCY_LEVELS of them */
	struct rs rs;
	struct row_cache cache[ROW_CACHE_SETS * ROW_CACHE_BLOCKS];
	uint8_t *cache_bytes;  /* RS_BATCH_ROWS symbols for each of cache[] */
	uint8_t *gather_bytes; /* STRAIT_BLOCK_SYMBOLS_MAX symbols */

	/* Of the burst being filled: packets that may follow the one asked for; their bytes. */
	struct session_packet *more;
	uint32_t more_room;
	size_t more_bytes;

	struct rtt rtt;
	struct rate rate;
	uint64_t newest_seen; /* newest packet number of the last report that had a newer one */
	uint64_t rack_ns;     /* send time of the most recently sent packet known to have arrived */
	uint64_t rack_before_ns; /* the same before the report now being read */
	uint64_t late_ns;        /* how much later than younger packets some arrived, decaying */
	uint64_t late_decay_ns;
	uint64_t late_packets; /* came after all since the rate heard of their loss */
	bool late_counts;      /* what is acknowledged was said to be missing before */
	bool any_acked;
	uint64_t covered; /* packet numbers up to here were spoken of by reports without a hole */
	uint32_t holes;   /* reports that left a hole above it */
	uint64_t above_low, above_high; /* told of beyond the hole; 0: nothing */
	uint64_t recall_due_ns;         /* the hole may be asked for again */
	uint32_t recalls;               /* it was asked for so often */
	uint64_t guessed;               /* below it some count as told that never were */
	uint64_t acked_generation;
	uint64_t report_ns;      /* when the last report came */
	uint64_t newest_us_seen; /* receive time in the newest report; older ones give no sample */
	bool probing, doubted;   /* doubted: rows were sent for what no report spoke of */
	uint64_t probe_due_ns, keepalive_ns;
	uint64_t back_newest, back_packets; /* of the peer, at the report before */
	double back_lost, back_total;       /* packets of the peer, decaying */
	bool ping_due, recall_due;

	double window_lost, window_total; /* decaying counts behind the loss estimate */
	double loss;
	struct bursts bursts;

	struct session_credit limit[STRAIT_CLASS_COUNT], used[STRAIT_CLASS_COUNT];
	uint64_t delivered_bytes;
	struct {
		uint32_t id;
		uint8_t status;
		uint8_t tries;
		uint64_t due_ns;
		struct frame_open open; /* transfer 0: it was answered */
	} closing[CLOSING_MAX];
	uint32_t n_closing;
};

/* A transfer the peer opened: announced, then attached. */
struct rx_slot {
	bool used, told;
	uint32_t id;
	struct session_open open;
	struct rx_transfer *t; /* NULL until attached */
	bool open_ack_due;
	uint16_t early; /* list of scratch slots */
};

struct receiver {
	struct rx_slot slots[SESSION_TRANSFERS_MAX];
	bool any_untold; /* a slot may have an event: looked at every turn of a worker */
	struct pnwindow window;
	struct scratch early, rows;
	struct rx_folds folds;
	uint16_t stray; /* scratch slots of transfers whose OPEN did not come yet */
	struct rs rs;
	uint8_t *bounce;       /* one packet */
	uint8_t *gather_bytes; /* STRAIT_BLOCK_SYMBOLS_MAX symbols */

	uint32_t newest_id; /* highest transfer id opened */
	uint64_t retired[RETIRED_IDS / 64];
	struct {
		uint32_t id;
		uint8_t status;
		bool due;
	} refused[REFUSED_MAX];
	uint32_t n_refused;
	uint32_t close_acks[REFUSED_MAX];
	uint32_t n_close_acks;

	uint64_t newest_ns;   /* when the newest packet number came */
	uint64_t interval_ns; /* the sender wants reports so often */
	bool pending;         /* something to report came since the last report */
	bool data_pending;    /* ... and it was data */
	bool now;             /* report at once */
	bool need_all;        /* a PING asks for every incomplete block */
	uint8_t recalled;     /* so many reports are to tell the numbers from recall_from on */
	uint64_t recall_from;
	uint64_t last_report_ns;
	uint64_t history[REPORT_HISTORY]; /* newest packet number at past reports */
	uint32_t history_len;
	uint64_t history_ns;
	uint64_t report_from; /* cursor of a report that spans packets; 0 with !report_open */
	uint64_t report_floor;
	uint64_t report_must; /* above it everything must be told, below only within the room */
	uint64_t report_room; /* line bytes this report should keep to */
	uint64_t report_used; /* ... and has taken with the packets before */
	uint64_t data_bytes;  /* line bytes of data since the last report */
	bool report_open;
	uint8_t state_slot; /* whose blocks are told first */
	uint32_t report_packets;

	struct session_credit window_size[STRAIT_CLASS_COUNT], resolved[STRAIT_CLASS_COUNT];
	uint64_t credit_told[STRAIT_CLASS_COUNT];
	uint8_t credit_repeat[STRAIT_CLASS_COUNT];
};

struct session {
	struct session_config cfg;
	uint64_t counters[STRAIT_COUNTER_COUNT];
	struct key_tx tx_keys;
	struct key_rx rx_keys;
	uint64_t next_pn;
	uint64_t generation_ns; /* when the current generation was entered */
	struct pacer pacer;
	uint64_t started_ns, authentic_ns; /* 0 until the first call */
	uint64_t now_ns;

	uint64_t control_idle_ns; /* no control frame is due before; 0: look again */
	uint64_t token, challenge_due_ns;
	uint64_t response;
	bool up, dead, response_due;
	bool challenged; /* by the peer, at least once */
	bool tell_up, tell_dead, tell_path;
	struct mtu mtu;
	uint64_t mtu_idle_ns; /* no probe is due before; 0: look again */
	struct {
		double lost, total;
	} loss_before;          /* of the sender's loss window, when data was last known to pass */
	uint16_t path_before;   /* symbol the path carried before it changed last */
	uint16_t rx_path_bytes; /* T of the newest OPEN: what the way back may carry */
	uint64_t rx_probed_ns;  /* when the peer last probed its path */

	struct sender tx;
	struct receiver rx;

	struct tx_transfer *tx_events, **tx_events_tail;
	struct rx_transfer *rx_events, **rx_events_tail;
};

/* What a datagram costs the line beside its bytes: Ethernet's 38, IP, UDP. */
static inline uint32_t session_line_overhead(const struct session *s)
{
	return STRAIT_LINE_OVERHEAD_BYTES - 28 + (uint32_t)s->cfg.ip_bytes;
}

#define COUNT(s, name)        ((s)->counters[STRAIT_C_##name]++)
#define COUNT_ADD(s, name, n) ((s)->counters[STRAIT_C_##name] += (n))

/** Something changed that may make a control frame due. */
static inline void control_touch(struct session *s)
{
	s->control_idle_ns = 0;
}

/** Something changed that may give the sender work. */
static inline void sender_touch(struct session *s)
{
	s->tx.idle = false;
}

/* session.c */
/** Pace at what rate control and cap allow. */
void session_pace(struct session *s);
/** Repeat interval of control messages. */
uint64_t session_rto_ns(const struct session *s);
bool session_may_send_data(struct session *s);
/** Most bytes of frames in a control packet: what passes whatever happened to the path. */
size_t session_control_bytes(const struct session *s);
/** A report names these packet numbers: probes of the path MTU may be among them. */
void session_packets_acked(struct session *s, uint64_t low, uint64_t high);
/** Payload of a data packet goes out: what that tells about the path MTU. */
static inline void session_data_sent(struct session *s, uint32_t bytes)
{
	if (!mtu_data_sent(&s->mtu, (uint16_t)bytes, s->now_ns))
		return;
	s->loss_before.lost = s->tx.window_lost;
	s->loss_before.total = s->tx.window_total;
	s->mtu_idle_ns = 0;
}
/** Seal what lies at buf + header for this header; returns the packet's length. */
size_t session_seal(struct session *s, struct packet_header *h, uint8_t *buf, const uint8_t *src,
	size_t len);
void session_tx_event(struct session *s, struct tx_transfer *t);
void session_rx_event(struct session *s, struct rx_transfer *t);

/* control.c */
size_t control_send(struct session *s, uint8_t *buf, size_t cap);
uint64_t control_next_ns(struct session *s);
void control_open_frame(const struct session *s, const struct tx_transfer *t, struct frame_open *o);
int control_recv(struct session *s, const uint8_t *body, size_t len);

/* sender.c */
size_t sender_send(struct session *s, uint8_t *buf, size_t cap);
uint64_t sender_next_ns(struct session *s);
struct tx_transfer *sender_find(struct session *s, uint32_t id);
void sender_object_final(struct session *s, struct tx_transfer *t, uint32_t object, uint8_t status);
void sender_object_over(struct session *s, struct tx_transfer *t, uint32_t object);
void sender_close(struct session *s, struct tx_transfer *t, uint8_t status, bool tell_peer);
/** The receiver still speaks of a transfer that is closed here: tell it. */
void sender_close_again(struct session *s, uint32_t id);
void sender_want(struct session *s, struct tx_transfer *t);
/** a goes before b whatever turn it is; neither before the other: they are of one rank. */
bool sender_is_before(const struct tx_transfer *a, const struct tx_transfer *b);
bool sender_is_of_rank(const struct tx_transfer *a, const struct tx_transfer *b);
static inline int64_t sender_turn_bytes(const struct session *s)
{
	return (int64_t)TURN_PACKETS * (s->cfg.symbol_bytes + STRAIT_OVERHEAD_BYTES);
}
/** Count anew who shares a rank: a transfer began, ended, or has sent all its blocks once. */
void sender_shares(struct session *s);
/** A repair would be felt as a round trip: never over a LAN. */
bool sender_is_late(const struct session *s, const struct tx_transfer *t);
/** So what is sent of this stream now gets rows ahead of losses. */
bool sender_plans_rows(const struct session *s, const struct tx_transfer *t, uint8_t stream);
/** Queue a block for repair. */
void sender_block_repair(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block);
void sender_block_done(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block);
/** The receiver turned out to lack something of a block thought done. */
void sender_block_reopen(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block);
/** Every symbol was sent once and no repair waits. */
bool sender_is_drained(const struct tx_transfer *t);
/** Charge credit up to this position of the transfer's stream. */
void sender_charge(struct session *s, struct tx_transfer *t, uint64_t bytes, uint32_t objects);
/** Line rate as packets in one round trip. */
uint64_t sender_bdp_packets(const struct session *s);

/** A new row, or 0 when the block has no more or may have none. batch: how many are to come. */
size_t sender_row_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t batch, uint8_t flags, uint8_t *buf);

/* tail.c */
/** Rows that bring what a block needs to its target, given what is known of it now. */
uint32_t tail_rows(const struct session *s, const struct tx_transfer *t, uint8_t stream,
	uint32_t block);
/** Rows that a block is likely to be closed with, before its symbols go out, losses included. */
uint32_t tail_growing(const struct session *s, const struct tx_transfer *t, uint8_t stream,
	uint32_t block);
/** Margin for n repair symbols sent where nobody wants to wait for another round. */
uint32_t tail_margin(const struct session *s, uint32_t n);
/** Open the next window of blocks whose rows are still to come; false: there is none. */
bool tail_begin(struct session *s, struct tx_transfer *t, uint8_t stream);
/** The next row of the open window; 0: it is finished. */
size_t tail_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint8_t *buf);
/** Reports told more: blocks that are now likely to fall short get more rows. */
void tail_review(struct session *s);
/**
 * Nothing else is to be sent: a row against a loss worse than assumed but not measured yet, or
 * against losses that reports would have told of by now, if they had come.
 */
size_t tail_speculate(struct session *s, uint8_t *buf);

/* sender_run.c */
/**
 * Send source symbol esi of the block, and up to more_room of the group's next ones into the other
 * buffers of the burst. The first packet's length.
 */
size_t run_send(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t esi, uint8_t *buf);
/** Step to the group's next planned symbol. false: it has no more. */
bool group_next(struct tx_transfer *t, uint8_t stream, uint32_t *block, uint32_t *esi);
/** Symbol esi of a block with planned rows is due or was passed: its rows grow. */
void rows_fold(struct session *s, struct tx_transfer *t, uint8_t stream, uint32_t block,
	uint32_t esi);
/** The place of a block's rows, whether it holds them or others; and where they lie. */
struct row_cache *rows_cache(struct session *s, const struct tx_transfer *t, uint32_t block,
	uint8_t **bytes);

/* feedback.c */
/** A packet is lost: sentlog callback, ctx is the session. */
void feedback_lost(void *ctx, const struct sent_packet *p, bool was_lost);
void feedback_report(struct session *s, struct frame_report *r);
void feedback_have(struct session *s, struct frame_have *h);
void feedback_need(struct session *s, struct frame_need *n);
void feedback_timer(struct session *s);
uint64_t feedback_next_ns(struct session *s);
uint64_t feedback_pto_ns(const struct session *s);
/** Reports are overdue. */
bool feedback_is_overdue(struct session *s);
/** Nothing was heard for so long that the path is taken to be cut: no data goes out. */
bool feedback_is_silent(struct session *s);

/* receiver.c */
int receiver_symbol(struct session *s, const struct packet_header *h, struct key_slot *key,
	const uint8_t *packet, size_t len);
struct rx_slot *receiver_find(struct session *s, uint32_t id);
/** Close enough to the ids seen to be honest. */
bool receiver_id_is_near(const struct receiver *r, uint32_t id);
void receiver_id_seen(struct receiver *r, uint32_t id);
/** Complete or decode a block if that is possible now. */
void receiver_settle(struct session *s, struct rx_transfer *t, uint8_t stream, uint32_t block);
void receiver_rows_free(struct session *s, struct rx_block *b);
/** Try again what waits in the slot's scratch. */
void receiver_drain(struct session *s, struct rx_slot *slot);
bool receiver_is_retired(const struct session *s, uint32_t id);
void receiver_retire(struct session *s, uint32_t id);
int receiver_open(struct session *s, const struct frame_open *o);
void receiver_close(struct session *s, struct rx_slot *slot, uint8_t status);
void receiver_withdraw(struct session *s, struct rx_slot *slot, uint32_t object, uint8_t status);

/* report.c */
bool report_is_due(const struct session *s);
uint64_t report_next_ns(const struct session *s);
void report_write(struct session *s, struct frame_writer *w);
/** What the sender asked for, within what can be meant; 0: as before. */
void report_interval_set(struct session *s, uint32_t interval_us);
/** A control packet came: answer it with a report now and then, even if nothing asked for one. */
void report_control_seen(struct session *s);
