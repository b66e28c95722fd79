/* SPDX-License-Identifier: MIT */
/*
 * What the parts of a run share. A worker carries a group of inputs from file to file:
 *
 *   pipeline.c   the run: workers, and the groups that they take
 *   group.c      which inputs go together, and in which order
 *   worker.c     the way of a group through the parts below
 *   done.c       which results are wanted, and what becomes of each
 *   way.c        what a group takes of memory, and whether it goes whole or by rows
 *   load.c       decoding
 *   prepare.c    the device and the plan (plans.h)
 *   stream.c     by rows, from file to file
 *   gpu.c        JPEG files that a GPU decodes, results that it sends in parts
 *   write.c      files of results
 *   joint.c      the one array of all results
 *   report.c     what is told of each input
 */
#ifndef GCONV_BATCH_RUN_H
#define GCONV_BATCH_RUN_H

#include "base/threads.h"
#include "batch/budget.h"
#include "batch/devices.h"
#include "batch/manifest.h"
#include "batch/plans.h"
#include "image/rows.h"
#include "operation/operation.h"

#include <pthread.h>

typedef struct gconv_joint gconv_joint;

/* Inputs that are executed together: consecutive entries of run->order. Several have one shape. */
typedef struct gconv_group {
  size_t first, count;
  gconv_image header; /* of each, without pixels; no frames: it is known when it is opened */
  int32_t frame;      /* of the one array, that is the first of this group */
} gconv_group;

/* A report that waits until those of all inputs before are told. */
typedef struct gconv_held {
  gconv_report report;
  gconv_texts errors;         /* owned, as the texts below */
  char *explanation, *remark; /* or NULL */
  bool done;
} gconv_held;

typedef struct gconv_run {
  const gconv_batch *batch;
  gconv_batch_summary *summary;
  double begin_ms;
  const gconv_operation *operation;
  gconv_operation *exact; /* the same for images that either device may take (devices.h); NULL: there are none */
  int workers, threads;   /* threads of each worker */
  size_t *order;          /* [inputs]: in which they are reported; owned, as the next */
  gconv_group *groups;
  size_t group_count;
  gconv_devices *devices;
  gconv_plans *plans;
  gconv_budget *budget;
  gconv_joint *array; /* NULL: each input has results of its own */

  pthread_mutex_t lock; /* guards what is below, and *summary */
  size_t next;          /* the group that is begun next */
  bool stopped;         /* after a failure, or without a device */
  gconv_status status;  /* why the whole run failed */
  gconv_message why;
  gconv_held *held; /* [inputs]: by their place in the order; owned */
  size_t told;      /* reports */
} gconv_run;

/* What images of a shape take, roughly, in bytes. */
typedef struct gconv_cost {
  bool known; /* false: there is no plan for such images; making one says why */
  gconv_need need;
  double in, out;     /* of one image's pixels; of all its outputs */
  double in_row;      /* of one row of the image */
  double out_row;     /* of one row of all outputs */
  double scale, halo; /* input rows that `n` rows of the result need: scale * n + halo */
  int32_t rows;       /* of the result */
  size_t outputs;
} gconv_cost;

/* One thread's share of a run. */
typedef struct gconv_worker {
  gconv_run *run;
  int index, threads;
  uint64_t held;        /* bytes of the budget */
  gconv_device *device; /* of the group at hand; NULL: it waits for a GPU, when it is decoded */
  gconv_image judged;   /* header of the last images of which the next two were found out */
  gconv_cost cost;
  bool either;          /* either device may take them */
  gconv_image input;    /* the last pixels, whose memory the next ones may take */
  gconv_image *results; /* [result_count]: the last results, likewise */
  size_t result_count;
  bool explains; /* this worker's plans are explained: it has begun the first group */
} gconv_worker;

/* An input on its way. */
typedef struct gconv_item {
  size_t place;       /* in run->order */
  char *const *paths; /* of its results */
  bool *wanted;       /* [count]: which of them are to be written; owned */
  size_t count;
  gconv_print print;           /* of the file, as it was before it was read; known only if there is a manifest */
  int32_t first_frame, frames; /* of the group's image */
  gconv_report report;
  gconv_texts errors; /* owned */
} gconv_item;

/* A group on its way through a worker. */
typedef struct gconv_task {
  const gconv_group *group;
  gconv_item *items; /* those of which something is wanted, once that is known */
  size_t count;
  gconv_image image;     /* the pixels of all items, or a header */
  gconv_plan *plan;      /* taken from the run's; NULL before */
  int32_t part;          /* frames that the plan takes at a time */
  gconv_report common;   /* what is the same for all items */
  char *explanation;     /* owned */
  char remark[768];      /* why the plan is not on the device of the run, or takes less at a time; "" */
  bool streamed;         /* results were written as they were made, and are counted */
  gconv_status stranded; /* there is no device */
  gconv_message why;     /* why it failed */
  pthread_mutex_t lock;  /* guards reports and errors of the items while results are written */
} gconv_task;

/* ---- group.c ---- */

/* Puts the inputs in order, and divides them into groups. */
gconv_status gconv_groups_make(gconv_run *run, gconv_message *message);

/* ---- worker.c ---- */

/* Carries a group all the way and reports it. Fails only where there is no device: then nothing is reported. */
gconv_status gconv_worker_process(gconv_worker *worker, size_t group, gconv_message *message);
/* Reports all items of a task, which has `status`. */
void gconv_task_finish(gconv_worker *worker, gconv_task *task, gconv_status status);
/* Calls turn(context, i, seat) for each i on the threads of the worker, which is one of them. */
gconv_status gconv_worker_run(gconv_worker *worker, size_t count, gconv_turn *turn, void *context);
/* Makes worker->results images that task->plan can write over: empty ones, or the last ones. */
gconv_status gconv_worker_prepare_results(gconv_worker *worker, const gconv_task *task);
/* At the end of its work: frees its images, and gives back what it holds of the memory. */
void gconv_worker_leave(gconv_worker *worker);

/* ---- done.c ---- */

/* Sets which results of an item are wanted; false if none is. */
bool gconv_item_choose(const gconv_run *run, gconv_item *item);
/* Whether a result cannot be taken back, once begun, if the input turns out to be damaged. */
bool gconv_item_is_sent(const gconv_item *item);
/* Counts result n by the status of its writing: as written, and noted in the manifest; as passed over; or as failed, for
 * which gconv_last_error() says why. Thread-safe. */
void gconv_item_count(const gconv_run *run, gconv_task *task, gconv_item *item, size_t n, gconv_status status);
/* Every result still wanted failed for the reason in `text`. */
void gconv_item_fail(gconv_item *item, const char *text);
/* Adds an error about `path`, whose name is put in front unless the text has it. */
void gconv_item_add_error(gconv_item *item, const char *path, const char *text);
/* Keeps the text of a failure of the library, with advice that only options can follow. */
gconv_status gconv_task_keep_text(gconv_task *task, gconv_status status);

/* ---- way.c ---- */

/* Finds out what is known of images like `header`: worker->cost and worker->either. */
void gconv_worker_judge(gconv_worker *worker, const gconv_image *header);
/* What `images` images take that are decoded and executed whole. */
double gconv_whole_bytes(const gconv_worker *worker, const gconv_image *header, double images, double reader);
/* How many images of a shape, of `alike` in the run, are executed together. By the images alone, unless --memory leaves
 * less. */
size_t gconv_choose_count(gconv_worker *worker, const gconv_image *header, size_t alike);

/* How an image goes by rows. */
typedef struct gconv_cut {
  int32_t rows;   /* for the plan; 0: any */
  size_t writers; /* results that are written at a time */
  bool whole;     /* its input is in memory as a whole nevertheless */
  double bytes;   /* that it takes; with rows 0 the plan tells */
} gconv_cut;

/* Why an item cannot go by rows, however it is made; NULL if it can. `reader`: NULL if it is in memory. */
const char *gconv_rows_obstacle(const gconv_worker *worker, const gconv_item *item, const gconv_image *header,
                                const gconv_row_reader *reader);
/* Whether an item must go by rows, as all of it is more than the memory, or had better. */
bool gconv_rows_are_wanted(const gconv_worker *worker, const gconv_image *header, double whole_bytes);
/* Chooses how. GCONV_TOO_LARGE if the memory does not suffice. */
gconv_status gconv_rows_cut(const gconv_worker *worker, const gconv_image *header, const gconv_row_reader *reader,
                            gconv_cut *cut, gconv_message *why);

/* Takes `bytes` of the memory that all share, for all that the worker keeps and makes; `reason`: why it does not go by rows,
 * or NULL. A worker that must wait keeps nothing meanwhile. GCONV_TOO_LARGE if that is more than all of it. */
gconv_status gconv_worker_admit(gconv_worker *worker, double bytes, const char *reason, gconv_message *message);
/* After a group: what is kept for the next one remains taken. */
void gconv_worker_give_back(gconv_worker *worker);
/* Frees the images that are kept. */
void gconv_worker_clear(gconv_worker *worker);
/* Makes *image, which may have pixels, one like the header: its memory serves again if it has the right size, else it is
 * freed. */
void gconv_image_reshape(gconv_image *image, const gconv_image *header);

/* ---- load.c ---- */

/* Decodes all items into task->image, one behind the other. Those that cannot be read are reported as failed and taken out.
 * `reader`: of the only item, at its first row; or NULL. */
gconv_status gconv_task_load(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader);
/* `count` frames of an image, from `first` on: its pixels, not a copy. */
gconv_image gconv_frames_of(const gconv_image *image, int32_t first, int32_t count);

/* ---- prepare.c ---- */

/* The device of this group, as far as that is known. Of images that either device may take, the CPU takes those that must go
 * by rows: whether they fail is not to depend on when the GPU is ready. */
gconv_status gconv_task_take_device(gconv_worker *worker, gconv_task *task, bool must_go_by_rows);
bool gconv_worker_is_on_cpu(const gconv_worker *worker);
bool gconv_worker_is_on_gpu(const gconv_worker *worker);
/* Takes a plan for task->image, of which the header counts; waits for the device first, if need be. `rows`: as for
 * gconv_plan_create(). With `rows_may`, GCONV_NO_MEMORY of a GPU is returned even if the CPU may take the image. */
gconv_status gconv_task_plan(gconv_worker *worker, gconv_task *task, int32_t rows, bool rows_may);
void gconv_task_give_plan(gconv_worker *worker, gconv_task *task);

/* ---- stream.c ---- */

/* Carries the only item by rows: from `reader`, or, if that is NULL, from the pixels of task->image. The plan has a row
 * step. task->streamed is set. */
gconv_status gconv_task_stream(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, size_t writers);
/* Bytes that this takes with a plan of any rows. */
double gconv_stream_bytes(const gconv_plan *plan, const gconv_image *like, size_t writers, int threads);
/* Whether filtering images like this one is better done by rows. */
bool gconv_stream_pays(const gconv_image *like);

/* ---- gpu.c ---- */

/* Bytes of a task whose results are written as they come from a GPU, where it would take `whole` otherwise; 0 if they
 * cannot, or are better had whole. */
double gconv_parts_bytes(const gconv_worker *worker, const gconv_task *task, double whole);
/* As gconv_plan_execute_parts(), into the files of the results: task->streamed is set once any is begun, and they are
 * counted. GCONV_UNSUPPORTED if they cannot come in parts. */
gconv_status gconv_task_execute_parts(gconv_worker *worker, gconv_task *task, const gconv_image *in, const void *jpeg,
                                      size_t size);
/* From the bytes of a JPEG to the results of the plan, all on the GPU. Where that cannot be, task->common.executed remains
 * false, with the reason as a remark, and the CPU decodes: its pixels are the same. */
gconv_status gconv_task_convolve_jpeg(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, double whole);

/* ---- write.c ---- */

/* Writes worker->results: the files of all items, or their part of the one array. */
gconv_status gconv_task_write(gconv_worker *worker, gconv_task *task);

/* Begins the file of result n of the only item, like output n of the plan, with the profile and resolution of `from`, on
 * `threads` threads, or on those of `shared`. NULL, and the result is counted, if it is not wanted, or cannot be begun. */
gconv_row_writer *gconv_task_open_rows(gconv_worker *worker, gconv_task *task, size_t n, const gconv_image *from,
                                       int threads, gconv_threads *shared);
/* Completes it, so that it appears, or, if the image failed, discards it. NULL is allowed. */
void gconv_task_close_rows(gconv_worker *worker, gconv_task *task, size_t n, gconv_row_writer *writer, gconv_status status);
/* Adds rows, the first of which is row `first`, of all planes of a frame. */
gconv_status gconv_rows_add(gconv_row_writer *writer, bool nhwc, int32_t frame, const gconv_image *rows, int32_t first);

/* ---- joint.c ---- */

gconv_status gconv_joint_create(const gconv_run *run, gconv_joint **array);
/* Adds rows of frame number `frame`, as gconv_rows_add(); `like` is the header of a result. Thread-safe. */
gconv_status gconv_joint_add(gconv_joint *array, const gconv_image *like, int32_t frame, const gconv_image *rows,
                             int32_t first);
/* The array appears if all is `good`. NULL is allowed. */
gconv_status gconv_joint_close(gconv_joint *array, bool good);

/* ---- report.c ---- */

/* Begins the report of an item. */
void gconv_item_begin(const gconv_run *run, size_t place, gconv_item *item);
/* Tells of an item, once all before it are told of; its texts are taken over. Thread-safe. */
void gconv_item_hand_in(gconv_run *run, gconv_item *item);
void gconv_held_free(gconv_held *held);

#endif
