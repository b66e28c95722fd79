/* SPDX-License-Identifier: MIT */
/* Memory that all workers of a run share: whoever begins an image takes as much as it will need, or waits for it. */
#ifndef GCONV_BATCH_BUDGET_H
#define GCONV_BATCH_BUDGET_H

#include "batch/texts.h"

typedef struct gconv_budget gconv_budget;

/* Of `bytes`; 0: half of what the machine has, or the control group that the process is in. NULL without memory. */
gconv_budget *gconv_budget_create(uint64_t bytes);
/* NULL is allowed. */
void gconv_budget_free(gconv_budget *budget);

/* The bytes of the whole budget, taken or not. */
uint64_t gconv_budget_bytes(const gconv_budget *budget);

/* Takes `bytes` and returns true, if so many are free and nobody waits for any; else returns false at once. */
bool gconv_budget_try(gconv_budget *budget, uint64_t bytes);
/* Takes `bytes`, and waits until they are free, in the order of the calls. More than the whole budget is given to a caller
 * once nobody else has any. Whoever waits may hold nothing that others wait for. */
void gconv_budget_wait(gconv_budget *budget, uint64_t bytes);
void gconv_budget_give_back(gconv_budget *budget, uint64_t bytes);

/* GCONV_TOO_LARGE, in words: it takes `bytes`, and --memory allows `most`. `reason`: why it cannot go by `parts` ("rows"),
 * which would take less; NULL: it does already. */
gconv_status gconv_budget_refuse(double bytes, double most, const char *parts, const char *reason, gconv_message *message);

#endif
