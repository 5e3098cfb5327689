/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * How far from the beginning of its prefix a block is, by its hash: Mooncake's events do not tell,
 * engines' do (parent hashes), so both are joined by the last 64 bits of the hash in the key. What
 * has no parent is at 1. A table of fixed size: a hash that finds its four places taken takes the
 * place of the deepest one, as beginnings are worth most. A wrong place costs order, nothing else.
 * Pure, one thread.
 */

struct key_chain;

/** slots: blocks to remember, 16 bytes each. NULL + errno. */
struct key_chain *key_chain_create(size_t slots);
/** NULL is ignored. */
void key_chain_destroy(struct key_chain *c);
/** An engine has the block. has_parent: parent is one. Returns its place, 0: not known. */
uint32_t key_chain_add(struct key_chain *c, uint64_t hash, int has_parent, uint64_t parent);
/** 0: not known. */
uint32_t key_chain_place(const struct key_chain *c, uint64_t hash);
