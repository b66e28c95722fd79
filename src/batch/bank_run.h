/* SPDX-License-Identifier: MIT */
/* What the parts of a bank job share: banks.c runs it, bank_batches.c cuts it into batches, bank_load.c decodes them,
 * bank_write.c and bank_tensor.c write what becomes of them. */
#ifndef GCONV_BATCH_BANK_RUN_H
#define GCONV_BATCH_BANK_RUN_H

#include "batch/banks.h"

#include <pthread.h>

/* Consecutive entries of run.order: images of one shape, or one array of several frames. */
typedef struct gconv_bank_group {
  size_t first, count;
} gconv_bank_group;

/* A batch in memory. */
typedef struct gconv_bank_loaded {
  const gconv_bank_group *batch;
  gconv_image image;     /* of all that could be read */
  size_t *inputs;        /* [batch->count]: the number of each that could be read ... */
  int32_t *first_frames; /* ... and where it begins; one more ends the last */
  double *decode_ms;
  size_t count;       /* how many could be read */
  gconv_texts errors; /* of those that could not, each with its input in `failed` */
  size_t *failed;
} gconv_bank_loaded;

typedef struct gconv_bank_run {
  const gconv_bank_batch *job;
  gconv_batch_summary *summary;
  double begin_ms;
  int threads;
  gconv_device *planner; /* a CPU, for what can be told before the device is there */
  gconv_device *device;
  gconv_device_opening *opening;
  gconv_device_choice choice;
  gconv_image *headers; /* [inputs]: without frames where they cannot be read */
  size_t *order;        /* inputs, those of one shape together */
  size_t order_count;
  gconv_bank_group *batches;
  size_t batch_count;
  gconv_network *network;
  gconv_image maps;         /* that it yields */
  bool cold;                /* the network was made for this batch */
  gconv_row_writer *writer; /* of the one tensor */
  gconv_message why;        /* why the whole run failed */
} gconv_bank_run;

/* ---- bank_batches.c ---- */

/* What one image of a shape takes, told by a network for the CPU. */
typedef struct gconv_bank_cost {
  double bytes; /* of all tensors */
  double cpu_ms, gpu_ms;
} gconv_bank_cost;

bool gconv_bank_same_shape(const gconv_image *a, const gconv_image *b);

/* Reads all headers; one that cannot be read has no frames, and its failure shows when it is decoded. Standard input is not
 * looked into. */
void gconv_bank_read_headers(gconv_bank_run *r);

/* Whether what goes into one array has one shape. */
gconv_status gconv_bank_check_one_shape(const gconv_bank_run *r, gconv_message *message);

/* Puts inputs of one shape together, in their order, and cuts them into batches; adds up what they take. Those whose results
 * are there already are reported at once. One tensor has all in their order: there, only neighbours are put together. */
gconv_status gconv_bank_make_batches(gconv_bank_run *r, gconv_bank_cost *total, gconv_message *message);

/* ---- bank_load.c ---- */

/* The batch after the one at work, decoded in a thread of its own. */
typedef struct gconv_bank_loader {
  const gconv_bank_run *r;
  const gconv_bank_group *batch;
  gconv_bank_loaded result;
  gconv_status status;
  gconv_message why;
  pthread_t thread;
  bool started;
} gconv_bank_loader;

/* Copies an image's planes behind each other. */
void gconv_bank_copy_frame(const gconv_image *from, gconv_image *to, int32_t frame);

/* Begins to decode batch number `batch`; past the end, nothing. *loader stays where it is until the end. */
void gconv_bank_begin_loading(const gconv_bank_run *r, size_t batch, gconv_bank_loader *loader);
/* Waits for it. *result is to be unloaded in any case. */
gconv_status gconv_bank_end_loading(gconv_bank_loader *loader, gconv_bank_loaded *result, gconv_message *why);
void gconv_bank_unload(gconv_bank_loaded *loaded);

/* ---- bank_write.c, bank_tensor.c ---- */

/* Presents and writes all results of a batch, whose maps are there. What fails is in the reports and errors, [l->count]. */
gconv_status gconv_bank_write_batch(gconv_bank_run *r, const gconv_bank_loaded *l, gconv_report *reports,
                                    gconv_texts *errors);

/* Appends the maps to the one tensor, which is opened by the first. */
gconv_status gconv_bank_append_tensor(gconv_bank_run *r);
/* The one tensor appears if nothing failed. */
gconv_status gconv_bank_finish_tensor(gconv_bank_run *r, gconv_message *message);

/* ---- banks.c ---- */

/* The last error as a message, where there is one. */
gconv_status gconv_bank_keep_text(gconv_message *why, gconv_status status);

/* The report of an input on which nothing was done yet. */
gconv_report gconv_bank_begin_report(const gconv_bank_run *r, size_t input, const gconv_texts *errors);
/* Counts it, and tells the user of the run. */
void gconv_bank_hand_in(gconv_bank_run *r, gconv_report *report);

#endif
