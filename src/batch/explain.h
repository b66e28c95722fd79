/* SPDX-License-Identifier: MIT */
/* What a run does with a plan, in words. */
#ifndef GCONV_BATCH_EXPLAIN_H
#define GCONV_BATCH_EXPLAIN_H

#include "batch/texts.h"

/* gconv_plan_explain(), and, of a plan on a GPU, what else that does for the images: *text, for free(). */
gconv_status gconv_batch_explain(const gconv_batch *batch, const gconv_plan *plan, char **text);

#endif
