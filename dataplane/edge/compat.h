/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_telemetry.h>
#include <rte_version.h>

#include <stdint.h>

/*
 * Differences between DPDK 22.11 and 24.11, and nothing else. The only place that may ask for
 * RTE_VERSION: code elsewhere uses the names below, and reads the same on every release.
 *
 * What needs no shim, because the form chosen builds on all of them: struct alignment (the
 * attribute behind the closing brace), RTE_MBUF_F_ names, sessions and offloads of ethdev.
 */

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "DPDK 22.11 or later is required"
#endif

/*
 * rte_tel_data_add_dict_int() takes an int before 23.03 and truncates counters; u64 was renamed
 * then.
 */
static inline int compat_tel_add_u64(struct rte_tel_data *d, const char *name, uint64_t value)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_add_dict_uint(d, name, value);
#else
	return rte_tel_data_add_dict_u64(d, name, value);
#endif
}
