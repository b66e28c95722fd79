/* SPDX-License-Identifier: MIT */
/* The device of a group, its plan, and the execution of the plan. */
#pragma once

#include "batch/run.h"

/* Sets worker->device, as gconv_devices_take(). NULL: the GPU is not ready; gconv_group_take_plan() waits for it. */
gconv_status gconv_group_take_device(gconv_group *group, bool either, bool waits);
/* Takes a plan for images like group->image. Waits for the device if it is not ready. `rows`: as for gconv_plan_create().
 * `rows_may`: if a GPU has no memory, returns GCONV_NO_MEMORY even if the CPU could take the images. */
gconv_status gconv_group_take_plan(gconv_group *group, int32_t rows, bool rows_may);
void gconv_group_give_plan(gconv_group *group);
/* Fills group->common.plan with the work of the plan for one image. */
void gconv_group_describe(gconv_group *group);
/* Gives the worker images for results: empty ones, or the last results, which the plan overwrites. */
gconv_status gconv_group_prepare_results(const gconv_group *group);
/* Looks at the pixels of all items for properties that results cannot show (gconv_look). */
void gconv_group_look(gconv_group *group);
/* Executes the plan, from the pixels of the group to the worker's results. */
gconv_status gconv_group_execute(gconv_group *group);

/* ---- explain.c ---- */

/* Sets *text (for free()) to the text of gconv_plan_explain(). For a plan on a GPU, adds who codes JPEG and PNG. */
gconv_status gconv_batch_explain(const gconv_batch *batch, const gconv_plan *plan, char **text);
