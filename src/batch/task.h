/* SPDX-License-Identifier: MIT */
/*
 * One input on its way through a worker (worker.c). Its stages:
 *   task_plan.c     the device and the plan
 *   task_rows.c     by rows, from file to file, on a CPU
 *   task_parts.c    results that are written as they come from a GPU
 *   task_jpeg.c     a JPEG file that a GPU decodes
 *   task_results.c  which results are wanted, the files of them, and what is said of those that fail
 */
#ifndef GCONV_BATCH_TASK_H
#define GCONV_BATCH_TASK_H

#include "batch/stream.h"
#include "batch/worker.h"

typedef struct gconv_task {
  char *const *paths; /* of its results */
  bool *wanted;       /* [count]: which of them are to be written */
  size_t count;
  gconv_print print; /* of the input, as it was before it was read; known only if there is a manifest */
  gconv_image image;
  gconv_report *report;
  gconv_texts *errors;
  gconv_message why;     /* it failed, if it did before the writing */
  gconv_status stranded; /* it failed because there is no device */
  bool streamed;         /* it was carried by rows, and its results are counted */
} gconv_task;

/* ---- The device and the plan --------------------------------------------------------------------------------------- */

/* The device of this image, as far as that is known; plans of another one are given up. Where CPUs begin, one takes what can
 * only go by rows, then and later: whether it fails is not to depend on when the GPU is ready. */
void gconv_task_take_device(gconv_worker *worker, const gconv_row_reader *reader);

/* Whether the device of the worker's image is known, and is a CPU. */
bool gconv_worker_is_on_cpu(const gconv_worker *worker);

/* Makes worker->now a plan for task->image, of which the header counts; waits for the device first, if need be. */
gconv_status gconv_task_plan(gconv_worker *worker, gconv_task *task);

/* ---- By rows ------------------------------------------------------------------------------------------------------- */

/* Results that are written as they come, and whose they are. */
typedef struct gconv_carriage {
  gconv_stream stream;   /* plan and writers count; the rest if a CPU carries it */
  const gconv_image *in; /* whose profile and resolution the results get */
  gconv_worker *worker;
  gconv_task *task;
  bool begun, waits; /* from a GPU: results have come; the worker gave its turn away meanwhile */
} gconv_carriage;

/* Opens the writers of the results that are wanted. */
void gconv_carriage_open(gconv_carriage *carriage);
/* Commits the results, or, if the input failed, discards them and counts them as failed. */
void gconv_carriage_close(gconv_carriage *carriage, gconv_status status);
/* Counts a result that cannot be written, with gconv_last_error() as the reason. */
void gconv_carriage_failed(void *carriage, size_t output);

/* Whether the image shall go by rows, if its plan can. */
bool gconv_task_may_go_by_rows(const gconv_worker *worker, const gconv_task *task, const gconv_row_reader *reader);
/* Why it cannot. */
const char *gconv_task_reason_for_whole(const gconv_worker *worker, const gconv_task *task, const gconv_row_reader *reader);
/* Carries the image from file to file if its plan goes by rows, and sets task->streamed; else the plan is kept for the
 * whole. */
gconv_status gconv_task_convolve_rows(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader);

/* ---- On a GPU ------------------------------------------------------------------------------------------------------ */

/* Memory of an image whose results are written as they come from a GPU, where it would take `whole` otherwise; 0 if they
 * cannot, or are better had whole. */
uint64_t gconv_task_parts_bytes(const gconv_worker *worker, const gconv_task *task, uint64_t whole);
/* As gconv_plan_execute_parts(), into the files of the results: task->streamed is set once any is begun, and they are
 * counted. With a JPEG, the worker's turn is another's meanwhile. GCONV_UNSUPPORTED if they cannot come in parts. */
gconv_status gconv_task_execute_parts(gconv_worker *worker, gconv_task *task, const gconv_image *in, const void *jpeg,
                                      size_t size);

/* From the bytes of a JPEG to the results of the plan, all on the GPU. Where that cannot be, report->executed remains false,
 * with the reason as a remark, and the CPU decodes: its pixels are the same. */
gconv_status gconv_task_convolve_jpeg(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader);

/* ---- Results ------------------------------------------------------------------------------------------------------- */

/* Sets task->wanted; false if no result is. */
bool gconv_task_choose(gconv_task *task, const gconv_batch *batch);
/* Whether a result cannot be taken back, once begun, if the input turns out to be damaged. */
bool gconv_task_is_sent(const gconv_task *task);

/* As the batch asks for them, with the threads of this worker. */
gconv_write_options gconv_task_write_options(const gconv_worker *worker);
/* Makes the folder of result n, if folders are to be made. False, and the result is counted as failed, if that cannot be. */
bool gconv_task_make_folder(const gconv_worker *worker, gconv_task *task, size_t n);
/* Writes the results of worker->now. */
void gconv_task_write(gconv_worker *worker, gconv_task *task);
/* Counts result n by the status of its writing: as written, as passed over, or as failed, for which gconv_last_error() says
 * why. */
void gconv_task_count(const gconv_worker *worker, gconv_task *task, size_t n, gconv_status status);

/* Keeps the text of a failure of the library, with advice that only options can follow. */
gconv_status gconv_task_keep_text(gconv_task *task, gconv_status status);
/* Adds an error about `path`, whose name is put in front unless the text has it. */
void gconv_task_add_error(gconv_task *task, const char *path, const char *text);
/* Every result still wanted failed for the reason in `text`. */
void gconv_task_fail_all(gconv_task *task, const char *path, const char *text);

#endif
