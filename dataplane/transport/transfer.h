/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/transport/manifest.h"
#include "dataplane/transport/session.h"

/*
 * The two ends of a transfer as their control threads see them: creation, object tables,
 * destruction. While a transfer is handed to a session only the functions of session.h may touch
 * it.
 */

/* Sender. */

struct tx_params {
	uint64_t order;
	/*
	 * Transfers of one flow, 0 is none, belong together: they share their rank's bandwidth as
	 * if they were one transfer and are sent one after another, in the order they started.
	 */
	uint64_t flow;
	uint8_t class_;
	bool lan; /* a round trip is nothing: no rows ahead of losses, these are sent again */
	uint64_t deadline_ms;
	uint16_t symbol_bytes;
	uint32_t objects;
	const struct manifest_entry *entries; /* copied into the manifest; tenant, key not kept */
	void *user;
};

/** NULL + errno: EINVAL (no objects, limits of wire.h), E2BIG (manifest too large: split the
 * order), ENOMEM. */
struct tx_transfer *tx_transfer_create(const struct tx_params *p);
void tx_transfer_destroy(struct tx_transfer *t);
void *tx_transfer_user(const struct tx_transfer *t);
uint32_t tx_transfer_objects(const struct tx_transfer *t);
uint64_t tx_transfer_bytes(const struct tx_transfer *t);

/* Receiver. */

/** NULL + errno (EINVAL, ENOMEM). */
struct rx_transfer *rx_transfer_create(const struct session_open *open, void *user);
void rx_transfer_destroy(struct rx_transfer *t);
void *rx_transfer_user(const struct rx_transfer *t);
const struct session_open *rx_transfer_open(const struct rx_transfer *t);

/** The manifest's bytes, after RX_MANIFEST. */
const uint8_t *rx_transfer_manifest(const struct rx_transfer *t, size_t *len);

/**
 * Parse the manifest into the object table, after RX_MANIFEST and before session_rx_begin().
 * 0, or -EPROTO: it lies; refuse the transfer with STRAIT_STATUS_MALFORMED.
 */
int rx_transfer_load_objects(struct rx_transfer *t);
uint32_t rx_transfer_objects(const struct rx_transfer *t);
/** The manifest entry of an object; pointers into the manifest bytes. */
int rx_transfer_entry(const struct rx_transfer *t, uint32_t object, struct manifest_entry *e);

/**
 * Give an object its memory, before session_rx_object_place(). Control thread. resume is the
 * object's SESSION_RESUME_BYTES area that lives as long as the bytes do; with resumed = true it may
 * hold have state from an earlier transfer: it is used when tenant, key, length, digest (the pool's
 * promise) and layout (checked here) are the same, else it is wiped and the object starts afresh.
 * Returns bytes already there.
 */
uint64_t rx_object_prepare(struct rx_transfer *t, uint32_t object, uint8_t *data, void *resume,
	bool resumed);
