/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Sizes, rates and durations as people write them. Pure functions, any thread.
 *
 *   bytes     "4096", "64K", "512M", "1.5G", "1T", also KiB .. TiB; powers of 1024
 *   rate      "500M", "1.5G", "10Gbit", "1Gbit/s", "1Gbps"; powers of 1000, bits per second
 *   duration  "0", "250ns", "10us", "1.5ms", "60s", "5m", "2h", "1d"; a unit is required
 *
 * Letters may be of either case but for the m of a duration. Parsers return 0, -EINVAL or -ERANGE
 * with a sentence in err that quotes the input and shows a right form; *out is then unchanged.
 */

int units_parse_bytes(const char *s, uint64_t *out_bytes, char *err, size_t err_len);
int units_parse_rate(const char *s, uint64_t *out_bps, char *err, size_t err_len);
int units_parse_duration(const char *s, uint64_t *out_ns, char *err, size_t err_len);

enum { UNITS_TEXT_MAX = 32 };

/*
 * Text for people, three significant digits: "1.50 GiB", "500 Mbit/s", "1.20 ms". They return buf.
 */
char *units_format_bytes(uint64_t bytes, char buf[static UNITS_TEXT_MAX]);
char *units_format_rate(uint64_t bps, char buf[static UNITS_TEXT_MAX]);
char *units_format_duration(uint64_t ns, char buf[static UNITS_TEXT_MAX]);
