/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/fec/fold.h"
#include "dataplane/transport/rx_transfer.h"

/*
 * What is known of open blocks before they are whole: digest and the sums of their first repair
 * rows, made of the symbols while these are cached (fold.h).
 *
 * Blocks somebody waits for may come interleaved, up to 64 at a time: when one is complete its
 * first symbols left the near caches long ago, and reading it again, for the digest or to find what
 * is missing, costs more than all of this. Rows are summed only as far as recent blocks needed
 * them.
 * Where blocks come one after the other, nothing is summed on the way: what a block lacks is known
 * when the next one begins, and if its rows are still to come it is read then, out of the L2 cache.
 *
 * What does not fit is no error: a block without a place here, or one that lacks more symbols than
 * rows were summed, is read again, and the result is the same.
 *
 * RX_FOLDS places a session, whatever is in flight, each for one block: 192 bytes and FOLD_ROWS_MAX
 * symbols. A block's place follows from its number and is kept until the block is complete. Owned
 * by the session's worker; nothing here allocates after init.
 */

enum {
	RX_FOLDS = 128,
	RX_FOLD_REVIEW = 64, /* blocks after which the number of rows is decided again */
};

struct rx_fold {
	struct fold_digest digest;
	uint64_t in[2]; /* source symbols that were added */
	const uint8_t *src[FOLD_TOGETHER];
	uint32_t transfer, block; /* transfer 0: free */
	uint8_t column[FOLD_TOGETHER];
	uint8_t waiting, goal; /* symbols at src[]; how many are added at once */
	uint8_t rows;
	bool begun; /* the rows hold something */
};

struct rx_folds {
	struct fold tables; /* for the symbol size in use */
	struct rx_fold *slots;
	uint8_t *row_bytes;
	uint32_t stride; /* bytes a row, 0: this CPU cannot, nothing is kept */
	uint32_t used;
	uint8_t rows;                       /* of blocks that begin now */
	uint32_t lacked[FOLD_ROWS_MAX + 2]; /* blocks of late, by symbols they lacked */
	uint32_t blocks;
	/* The symbol before; of those of late, how many were of another block than theirs. */
	uint32_t last_transfer, last_block;
	uint32_t symbols, turns;
	bool interleaved;
};

/** Room for symbols of up to this size. 0, -ENOMEM. */
int rx_folds_init(struct rx_folds *f, uint32_t symbol_bytes);
void rx_folds_fini(struct rx_folds *f);

/**
 * Source symbol esi of a block of the object stream is authentic and lies, with its full length,
 * at src, in an object. Call once a symbol. gather has room for FOLD_TOGETHER symbols.
 */
void rx_fold_symbol(struct rx_folds *f, struct rx_transfer *t, uint32_t block, uint32_t esi,
	const uint8_t *src, uint8_t *gather);

/**
 * Sums of the block's first rows over the symbols that are present: sums[0 ..], up to FOLD_ROWS_MAX
 * of them. How many; 0: there are none. gather has room for a block.
 */
uint32_t rx_fold_sums(struct rx_folds *f, struct rx_transfer *t, uint32_t block, uint8_t *gather,
	const uint8_t **sums);

/**
 * The block is complete, or lost an object: its place is free again. `lacked` source symbols were
 * rebuilt. true: *digest is that of the block's bytes, all of which belong to one object.
 */
bool rx_fold_end(struct rx_folds *f, struct rx_transfer *t, uint32_t block, uint32_t lacked,
	uint64_t *digest);

/** The transfer is closed. */
void rx_folds_close(struct rx_folds *f, uint32_t transfer);
