/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/crypto/aead.h"

/*
 * AES-256-GCM by a DPDK crypto device: the third backend of aead.h, for hardware such as QAT.
 *
 * Text is copied into the device's own buffers, worked on in place and copied back: the pool's
 * memory needs no mapping for the device, and no driver's rules about chained buffers or separate
 * destinations matter. seal_many() has up to a burst of packets at the device at once; one packet
 * at a time pays the device's whole latency. A software device (crypto_aesni_gcm, crypto_openssl)
 * is slower than the direct backends and there for tests.
 *
 * After eal_start(). Every thread that seals or opens gets a queue pair of its own on its first
 * call; keys may be set up by another thread. A device that does not answer within a second is
 * given up: what would be sealed becomes packets the peer refuses, what would be opened is
 * refused.
 */

enum { AEAD_CRYPTODEV_LANES = 4 }; /* threads, or queue pairs if the device has fewer */

/**
 * Start the device; one that is not there and is named crypto_* is created as a virtual one. The
 * backend, or NULL with what to do in err. Once in a process, control thread.
 */
const struct aead_ops *aead_cryptodev_start(const char *device, char *err, size_t err_len);

/** Every key is gone. Safe if it was not started. */
void aead_cryptodev_stop(void);
