/* SPDX-License-Identifier: MIT */
/* Items: which of their results are wanted, what happens to each result, and the reports. */
#pragma once

#include "batch/run.h"

/* Begins the item at `place` of run->order. If none of its results is wanted, reports it, and returns false. */
bool gconv_item_begin(gconv_run *run, size_t place, gconv_item *item);
/* Sets which results are wanted, by which ones exist or are done already. Returns whether any is wanted. */
bool gconv_item_choose(const gconv_run *run, gconv_item *item);
bool gconv_item_is_wanted(const gconv_item *item);
/* Counts result n by the status of its writing. GCONV_OK: the result is written, and gets into the manifest. GCONV_EXISTS:
 * it is passed over. Any other status: it failed, and gconv_last_error() says why. Thread-safe. */
void gconv_item_count(gconv_group *group, gconv_item *item, size_t n, gconv_status status);
/* Counts all wanted results as failed for the reason in `text`. */
void gconv_item_fail(gconv_item *item, const char *text);
/* Adds an error about `path`. Puts the path before the text, unless the text names it already. */
void gconv_item_add_error(gconv_item *item, const char *path, const char *text);
/* Reports an item once all earlier items are reported. Becomes the owner of the item's texts. Thread-safe. */
void gconv_item_hand_in(gconv_run *run, gconv_item *item);

void gconv_outcome_free(gconv_outcome *outcome);
/* Keeps the text of a failure in group->why, with advice for the options of the command line. Returns `status`. */
gconv_status gconv_group_keep_text(gconv_group *group, gconv_status status);
/* Reports all items of a group, which ended with `status`. */
void gconv_group_finish(gconv_group *group, gconv_status status);
/* Adds the times of report `times`, multiplied by `share`, to `sum`. */
void gconv_report_add_times(gconv_report *sum, const gconv_report *times, double share);
/* Adds a verification of frames from `first` on. The report keeps the worst verification. */
void gconv_report_add_verification(gconv_report *sum, const gconv_verification *found, int32_t first);

/* ---- losses.c ---- */

/* Warns, once a run, of properties of the input at `path` that results cannot show. */
void gconv_warn_of_look(const gconv_batch *batch, const char *path, const gconv_look *look);
/* Warns, once a run, of responses of the image at `path` that were clamped. */
void gconv_warn_of_losses(const gconv_batch *batch, const char *path, const gconv_losses *losses);
