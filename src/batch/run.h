/* SPDX-License-Identifier: MIT */
/*
 * What the parts of a run share. A worker carries a group of inputs from file to file:
 *
 *   pipeline.c   the run: devices, workers, and the groups that they take
 *   group.c      which inputs go together, and in which order
 *   worker.c     the way of a group through the parts below
 *   item.c       an input: which of its results are wanted, what becomes of them, what is told
 *   memory.c     what a group takes of memory, and whether it goes whole or by rows
 *   frames.c     an input of several images, one after the other
 *   load.c       decoding
 *   execute.c    the device and the plan (plans.h), and executing it
 *   stream.c     by rows, from file to file
 *   gpu.c        JPEG files that a GPU decodes, results that it sends in parts
 *   write.c      files of results, and the one array of all results
 *   explain.c    a plan in words
 *   losses.c     warnings of samples that were clamped
 */
#ifndef GCONV_BATCH_RUN_H
#define GCONV_BATCH_RUN_H

#include "base/threads.h"
#include "batch/devices.h"
#include "batch/plans.h"
#include "image/look.h"
#include "image/rows.h"
#include "names/manifest.h"
#include "names/outputs.h"
#include "operation/losses.h"

#include <pthread.h>

/* The memory that all workers share. */
typedef struct gconv_budget {
  uint64_t bytes;       /* for images: --memory without ... */
  uint64_t shared;      /* ... what the program and the operation take, whatever is in progress */
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  uint64_t taken;
  uint64_t parked;          /* what of that those hold who wait for more */
  uint64_t opened;          /* what open readers have, or will have once they are opened again */
  uint64_t arrived, served; /* numbers of waiters: of all that came, and of those whose turn came */
} gconv_budget;

/* Inputs that are executed together: consecutive entries of run->order. Several have one shape. */
typedef struct gconv_group {
  size_t first, count;
  gconv_image header; /* of each image, without pixels; frames is 0 if it is not known before the file is opened */
  int32_t frame;      /* in the one array of a job: the place of the group's first frame */
  double metadata;    /* bytes, of the image that has most; known of several */
} gconv_group;

/* A report that waits until those of all inputs before are told. */
typedef struct gconv_held {
  gconv_report report;
  gconv_losses losses;
  gconv_look look;
  gconv_texts errors;         /* owned, as the texts below */
  char *explanation, *remark; /* or NULL */
  bool done;
} gconv_held;

typedef struct gconv_run {
  const gconv_batch *batch;
  gconv_batch_summary *summary;
  double begin_ms;
  const gconv_operation *operation;
  gconv_operation *exact; /* kept to the exact family, for images that the CPU or a GPU may take; NULL: there are none */
  int workers, threads;   /* threads of each worker */
  size_t *order;          /* [inputs]: their numbers in the order of work and reports; owned, as the next */
  gconv_group *groups;
  size_t group_count;
  gconv_devices *devices;
  const char *device_reason; /* why "auto" is what it is; "" if the device was asked for */
  gconv_plans *plans;
  bool marks;             /* results among the inputs are marked as such ... */
  gconv_manifest *record; /* ... or, where the file system takes no marks, recorded here; NULL: none are. Owned */
  gconv_budget budget;
  pthread_mutex_t array_lock;
  gconv_row_writer *array; /* of all results, with one_array; NULL before the first frame. The lock guards it */

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
  double stream;      /* bytes that plain filters take by rows; 0: they need the whole image */
  int32_t rows;       /* of the result */
  size_t outputs;
  gconv_image result; /* header of the largest output */
} gconv_cost;

/* One thread's share of a run. */
typedef struct gconv_worker {
  gconv_run *run;
  int index, threads;
  gconv_device *cpu;    /* its own share of the CPU */
  uint64_t held;        /* bytes of the budget */
  uint64_t opened;      /* what of that an open reader has: it stays taken while the worker waits */
  uint64_t expected;    /* what a reader had that was closed, as others had too much; 0: there is none */
  gconv_device *device; /* of the group at hand; NULL: it waits for a GPU, when it is decoded */
  gconv_image judged;   /* header of the images for which the next two were found out last */
  gconv_cost cost;
  bool either;          /* either device may take them */
  gconv_image input;    /* the last pixels, whose memory the next ones may take */
  gconv_image *results; /* [result_count]: the last results, likewise */
  size_t result_count;
  bool explains; /* this worker's plans are explained: it has begun the first group */
} gconv_worker;

/* An input on its way. */
typedef struct gconv_item {
  size_t place;                    /* in run->order */
  char *const *paths;              /* of its results */
  const gconv_format_info *format; /* of each */
  bool *wanted;                    /* [count]: which of them are to be written; owned */
  bool sent;                       /* a result cannot be taken back, once begun, if the input turns out to be damaged */
  size_t count;
  gconv_print print;           /* of the file, as it was before it was read; known only if there is a manifest */
  int32_t first_frame, frames; /* of the group's image */
  int32_t file_frames;         /* in each file of a result, if it is shared by frames that are carried one by one; else 0 */
  gconv_report report;
  gconv_losses losses;
  gconv_look look;    /* what was found in its pixels */
  gconv_texts errors; /* owned */
} gconv_item;

typedef struct gconv_frames gconv_frames;

/* A group on its way through a worker. */
typedef struct gconv_task {
  const gconv_group *group;
  gconv_item *items; /* those of which something is wanted, once that is known */
  size_t count;
  gconv_image image;    /* the pixels of all items, or a header */
  gconv_plan *plan;     /* taken from the run's; NULL before */
  int32_t part;         /* frames that the plan takes at a time */
  gconv_report common;  /* what is the same for all items */
  gconv_losses losses;  /* of the output that lost most */
  char *explanation;    /* owned */
  char remark[768];     /* why the plan is not on the device of the run, or takes less at a time; "" */
  bool streamed;        /* results were written as they were made, and are counted */
  gconv_frames *frames; /* the only item is a frame of an input; NULL: it is a whole input */
  bool stranded;        /* the device that it needs could not be opened: the run stops */
  gconv_message why;    /* why it failed */
  pthread_mutex_t lock; /* guards reports and errors of the items while results are written */
} gconv_task;

/* Functions that return a status leave its text in gconv_last_error(). */

/* ---- group.c ---- */

/* Puts the inputs in order, and divides them into groups. */
gconv_status gconv_groups_make(gconv_run *run);

/* ---- worker.c ---- */

/* Carries a group all the way and reports it. Fails only where there is no device: then nothing is reported. */
gconv_status gconv_worker_process(gconv_worker *worker, size_t group);
/* From the file of the only item to its results, or from the frame of it that the reader is at. */
gconv_status gconv_worker_carry_reader(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader);

/* ---- frames.c ---- */

/* Whether the images of an input are carried one after the other. */
bool gconv_goes_by_frames(gconv_worker *worker, const gconv_row_reader *reader);
/* Carries and counts all of them. Fails only where there is no device. */
gconv_status gconv_task_carry_frames(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader);
/* Before the results of a frame appear, once it was read: if it is the first of a pipe, and others follow, it gets another
 * name, and so do the writers, which may be NULL. */
gconv_status gconv_frames_settle_names(gconv_frames *frames, gconv_row_writer **writers);
/* Whether all frames of a result share a file. `frames` may be NULL. */
bool gconv_frames_are_shared(const gconv_frames *frames);
/* For the frame at hand, of shared file n: *writer becomes the caller's, or is NULL. For the first frame, the header gets
 * the number of frames that the file will have. */
gconv_status gconv_frames_take_writer(gconv_frames *frames, size_t n, gconv_image *header, gconv_row_writer **writer);
/* Whether more frames follow the first one, whose number is not known. `frames` may be NULL. */
bool gconv_frames_go_on(const gconv_frames *frames);
/* The number of the frame at hand, from 0. With the first, the files are begun. */
int32_t gconv_frames_at(const gconv_frames *frames);
/* Takes the writer over until the next frame. */
void gconv_frames_keep_writer(gconv_frames *frames, size_t n, gconv_row_writer *writer);

/* ---- item.c ---- */

/* Begins an item: sets which of its results are wanted. If none is, reports it, and returns false. */
bool gconv_item_begin(gconv_run *run, size_t place, gconv_item *item);
/* Sets which results are wanted, by what exists or is done; false if none is. */
bool gconv_item_choose(const gconv_run *run, gconv_item *item);
/* Counts result n by the status of its writing: as written, and noted in the manifest; as passed over; or as failed, for
 * which gconv_last_error() says why. Thread-safe. */
void gconv_item_count(const gconv_run *run, gconv_task *task, gconv_item *item, size_t n, gconv_status status);
/* Every result still wanted failed for the reason in `text`. */
void gconv_item_fail(gconv_item *item, const char *text);
/* Adds an error about `path`, whose name is put in front unless the text has it. */
void gconv_item_add_error(gconv_item *item, const char *path, const char *text);
/* Tells of an item, once all before it are told of; its texts are taken over. Thread-safe. */
void gconv_item_hand_in(gconv_run *run, gconv_item *item);
void gconv_held_free(gconv_held *held);
/* Keeps the text of a failure in task->why, with advice that only options can follow. */
gconv_status gconv_task_keep_text(gconv_task *task, gconv_status status);
/* Reports all items of a task, which has `status`. */
void gconv_task_finish(gconv_run *run, gconv_task *task, gconv_status status);

/* ---- losses.c ---- */

/* Warns, once a run, of what an image lost. `path`: of the image. */
void gconv_warn_of_look(const gconv_run *run, const char *path, const gconv_look *look);
void gconv_warn_of_losses(const gconv_run *run, const char *path, const gconv_losses *losses);

/* ---- memory.c ---- */

/* A budget of `bytes`, or, if that is 0, of half of what the machine has, or the control group that the process is in. */
gconv_budget gconv_budget_begin(uint64_t bytes, const gconv_operation *operation);
/* As inputs of a job are read. */
gconv_read_options gconv_run_reading(const gconv_run *run);
/* Finds out what is known of images like `header`: worker->cost and worker->either. */
void gconv_worker_judge(gconv_worker *worker, const gconv_image *header);
/* What `images` images take that are decoded and executed whole. `item`: of one image; NULL: of a group. */
double gconv_whole_bytes(gconv_worker *worker, const gconv_item *item, const gconv_image *header, double images,
                         double reader);
/* What a reader of an image takes besides its rows, and the copies of its metadata in the results. */
double gconv_reading_bytes(const gconv_worker *worker, const gconv_row_reader *reader);
/* What a group of images takes, each with so many bytes of metadata. */
double gconv_group_bytes(gconv_worker *worker, const gconv_image *header, double images, double metadata);
/* How many images of a shape, of `alike` in the run, are executed together. By the images alone, unless --memory leaves
 * less: `metadata` are those of an image that has most. */
size_t gconv_choose_count(gconv_worker *worker, const gconv_image *header, size_t alike, double metadata);

/* How an image goes by rows. */
typedef struct gconv_cut {
  int32_t rows;   /* for the plan; 0: any */
  size_t writers; /* results that are written at a time */
  bool whole;     /* its input is in memory as a whole nevertheless */
  double bytes;   /* that it takes */
} gconv_cut;

/* Why an item cannot go by rows, however it is made; NULL if it can. `reader`: NULL if it is in memory. */
const char *gconv_rows_obstacle(const gconv_worker *worker, const gconv_item *item, const gconv_image *header,
                                const gconv_row_reader *reader);
/* Whether an item goes by rows: because it does not fit into the memory as a whole, or because that is faster. *reason says
 * why it cannot, for an error. */
bool gconv_goes_by_rows(const gconv_worker *worker, const gconv_item *item, const gconv_image *header,
                        const gconv_row_reader *reader, double whole_bytes, const char **reason);
/* Chooses how. GCONV_TOO_LARGE if the memory does not suffice. */
gconv_status gconv_rows_cut(const gconv_worker *worker, const gconv_item *item, const gconv_image *header,
                            const gconv_row_reader *reader, gconv_cut *cut);

/* Takes `bytes` of the memory that all share, for all that the worker keeps and makes; `reason`: why it does not go by rows,
 * or NULL. A worker that must wait keeps nothing meanwhile. GCONV_TOO_LARGE if that is more than all of it. */
gconv_status gconv_worker_admit(gconv_worker *worker, double bytes, const char *reason);
/* Before a file is opened, and after: takes what that may need, as far as --memory has it, then keeps what the reader has.
 * False: the file is to be closed, and opened again by both calls, the first of which waits until others have less. */
void gconv_worker_admit_opening(gconv_worker *worker, const char *path);
bool gconv_worker_settle_opening(gconv_worker *worker, const gconv_row_reader *reader, bool can_open_again);
/* After a group: what is kept for the next one remains taken. */
void gconv_worker_give_back(gconv_worker *worker);
/* At the end of its work: frees the images that it keeps, and gives all back. */
void gconv_worker_leave(gconv_worker *worker);

/* ---- load.c ---- */

/* Decodes all items into task->image, one behind the other. Those that cannot be read are reported as failed and taken out.
 * `reader`: of the only item, at its first row; or NULL. */
gconv_status gconv_task_load(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader);
/* ---- execute.c ---- */

/* The device of this group, as gconv_devices_take(); worker->device becomes NULL if it must be waited for. */
gconv_status gconv_task_take_device(gconv_worker *worker, gconv_task *task, bool either, bool waits);
static inline bool gconv_worker_is_on_cpu(const gconv_worker *worker) {
  return worker->device == worker->cpu;
}
static inline bool gconv_worker_is_on_gpu(const gconv_worker *worker) {
  return worker->device && worker->device != worker->cpu;
}
/* Takes a plan for task->image, of which the header counts; waits for the device first, if need be. `rows`: as for
 * gconv_plan_create(). With `rows_may`, GCONV_NO_MEMORY of a GPU is returned even if the CPU may take the image. */
gconv_status gconv_task_plan(gconv_worker *worker, gconv_task *task, int32_t rows, bool rows_may);
void gconv_task_give_plan(gconv_worker *worker, gconv_task *task);
/* Tells in the report what the plan does with one of the images. */
void gconv_task_describe(gconv_task *task);
/* Frees the last results. */
void gconv_worker_clear_results(gconv_worker *worker);
/* Makes worker->results images that task->plan can write over: empty ones, or the last ones. */
gconv_status gconv_worker_prepare_results(gconv_worker *worker, const gconv_task *task);
/* From the pixels to worker->results; or, with `in_parts`, to files that are written as the parts come from a GPU. */
gconv_status gconv_task_execute(gconv_worker *worker, gconv_task *task, bool in_parts);

/* ---- stream.c ---- */

/* Carries the only item by rows: from `reader`, or, if that is NULL, from the pixels of task->image. The plan has a row
 * step. task->streamed is set. */
gconv_status gconv_task_stream(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, size_t writers);
/* Bytes that this takes with such a plan of any rows, or its outline. */
double gconv_stream_bytes(const gconv_plan *plan, size_t writers, int threads);

/* ---- gpu.c ---- */

/* Whether a GPU can compress results of the format (NULL: of several): as PNG of level 1, which is the default. */
bool gconv_gpu_makes_png(const gconv_batch *batch, const gconv_format_info *format);

/* Whether a GPU may decode the inputs: not if their pixels are wanted on the host, to verify, or for stages before the
 * convolution. */
bool gconv_gpu_may_decode(const gconv_batch *batch);
/* GCONV_HOST_BEFORE, GCONV_HOST_AFTER: the work that the operation leaves to the host. */
int gconv_host_stages(const gconv_batch *batch);
/* Whether the results of an input may come from a GPU in parts: a few files, all of which are open at once, and none that
 * cannot be taken back. */
bool gconv_gpu_may_send_parts(const gconv_batch *batch, char *const *paths, size_t count);
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

/* How many results a worker may write at a time: each has an open file, and the system allows a process only so many
 * (ulimit -n). At least 1. */
size_t gconv_most_writers(const gconv_run *run);

/* Begins the files of results first .. end - 1 of the only item, like the outputs of the plan, with the profile and
 * resolution of `from`, each on `threads` threads, or on those of `shared`. A result that is not wanted, or cannot be begun,
 * which is counted, has no writer, and none has one if all go into one array. Returns the rows that a writer wants at a
 * time, at most. */
int32_t gconv_task_open_files(gconv_worker *worker, gconv_task *task, size_t first, size_t end, const gconv_image *from,
                              int threads, gconv_threads *shared, gconv_row_writer **writers);
/* Completes them, so that they appear and are counted, or, if the image failed, discards them and counts them as failed. */
void gconv_task_close_files(gconv_worker *worker, gconv_task *task, size_t first, size_t end, gconv_row_writer **writers,
                            gconv_status status);
/* Adds rows, the first of which is row `first`, of all planes: to the writer, or to the one array. */
gconv_status gconv_task_add_rows(gconv_worker *worker, const gconv_task *task, size_t n, gconv_row_writer *writer,
                                 const gconv_image *rows, int32_t first);
/* The one array, if there is one, appears if all is `good`. */
gconv_status gconv_array_close(gconv_run *run, bool good);

/* ---- explain.c ---- */

/* gconv_plan_explain(), and, of a plan on a GPU, what else that does for the images: *text, for free(). */
gconv_status gconv_batch_explain(const gconv_batch *batch, const gconv_plan *plan, char **text);

#endif
