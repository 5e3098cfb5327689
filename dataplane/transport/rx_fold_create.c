/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rx_fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

int rx_folds_init(struct rx_folds *f, uint32_t symbol_bytes)
{
	uint32_t stride = (symbol_bytes + LINE - 1) / LINE * LINE;

	memset(f, 0, sizeof(*f));
	f->interleaved = true; /* until it is known */
	if (!fold_is_wide())
		return 0;
	f->slots = aligned_alloc(LINE, RX_FOLDS * sizeof(*f->slots));
	f->row_bytes = aligned_alloc(LINE, (size_t)RX_FOLDS * FOLD_ROWS_MAX * stride);
	if (f->slots == NULL || f->row_bytes == NULL) {
		rx_folds_fini(f);
		return -ENOMEM;
	}
	memset(f->slots, 0, RX_FOLDS * sizeof(*f->slots));
	f->stride = stride;
	return 0;
}

void rx_folds_fini(struct rx_folds *f)
{
	free(f->slots);
	free(f->row_bytes);
	memset(f, 0, sizeof(*f));
}
