/* SPDX-License-Identifier: MIT */
/* What a worker takes of that which all workers share: memory (budget.h), of which this knows how much an image needs and
 * when it may begin, and turns at the processors. */
#ifndef GCONV_BATCH_ROOM_H
#define GCONV_BATCH_ROOM_H

#include "batch/worker.h"

/* What carrying the whole image takes, roughly: input, results, and floats of both where stages stand before or behind the
 * convolution. Results are taken to be as large as the input; those of full padding are a little larger. */
uint64_t gconv_worker_whole_bytes(const gconv_worker *worker, const gconv_row_reader *reader);

/* Frees what a plan of the worker's wrote to, and the plan; *planned is as before its first use. */
void gconv_worker_drop(gconv_worker *worker, gconv_planned *planned);

/* At the end of its work: frees its images and what it holds of the memory; plans of a GPU are left to other workers
 * (plans.h), others are freed. The devices stay. */
void gconv_worker_leave(gconv_worker *worker);

/* Between two images: leaves plans that others wait for. */
void gconv_worker_yield(gconv_worker *worker);

/* Takes what the image needs of the memory that all share; `reason`: why it is not carried by rows, or NULL. A worker that
 * must wait keeps nothing meanwhile, and no plan. GCONV_TOO_LARGE if that is more than all of it. */
gconv_status gconv_worker_admit(gconv_worker *worker, uint64_t bytes, const char *reason, gconv_message *message);

/* A turn at a processor, while a worker does anything but wait for the GPU or for memory. */
void gconv_worker_take_turn(gconv_worker *worker);
void gconv_worker_give_turn(gconv_worker *worker);

/* After an image: what is kept for the next one remains taken. */
void gconv_worker_give_back(gconv_worker *worker);

#endif
