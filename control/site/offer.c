/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/offer.h"

size_t offer_judge(const struct store *s, struct recall *r, const struct digest128 *d, size_t n,
	bool asked, uint64_t now_s, uint8_t *verdicts)
{
	size_t declined = 0;

	for (size_t i = 0; i < n; i++) {
		if (store_has(s, d[i])) {
			verdicts[i] = OFFER_HERE;
		} else if (!asked && recall_was_evicted(r, d[i], now_s)) {
			verdicts[i] = OFFER_EVICTED;
			declined++;
		} else {
			verdicts[i] = OFFER_BRING;
			recall_bringing(r, d[i], now_s);
		}
	}
	return declined;
}
