/* SPDX-License-Identifier: MIT */
/*
 * The records of a run. One call of gconv_batch_run() is a run. It divides its inputs into groups. The inputs of a group are
 * executed together. An item is an input of a group, with its results.
 *
 * Each block of fields names the file that writes it. All other files only read these fields. If frames are carried one by
 * one, each frame is a group of its own, and frames.c sums these groups up in the group of their input.
 */
#pragma once

#include "base/control.h"
#include "base/threads.h"
#include "batch/devices.h"
#include "batch/memory.h"
#include "batch/plans.h"
#include "image/rows.h"
#include "names/manifest.h"
#include "names/outputs.h"
#include "operation/losses.h"

/* The inputs of a group: consecutive entries of run->order. If there are several, they have one shape. */
typedef struct gconv_group_range {
  size_t first, count;
  gconv_image header; /* header of each image, without pixels; frames is 0 if the file was not read */
  int32_t frame;      /* with one array of all results: the place of the first frame in it */
  double metadata;    /* the most bytes of metadata of an image; 0 if the files were not read */
} gconv_group_range;

/* The report of an item. */
typedef struct gconv_outcome {
  gconv_report report;
  gconv_losses losses;
  gconv_look look;            /* properties of the input's pixels that results cannot show */
  gconv_texts errors;         /* owned, as the next two */
  char *explanation, *remark; /* NULL: none */
  bool done;                  /* the report is complete, and waits for the reports of earlier items */
} gconv_outcome;

typedef struct gconv_run {
  /* pipeline.c, before the workers begin. */
  const gconv_batch *batch;
  gconv_batch_summary *summary; /* item.c adds to it under the lock */
  double begin_ms;
  gconv_controlled *control; /* of the thread that called gconv_batch_run(); NULL: none */
  const gconv_operation *operation;
  gconv_operation *exact;     /* the operation with the exact family only; NULL: only one kind of device takes images */
  gconv_read_options reading; /* for all inputs */
  int workers, threads;       /* threads of each worker */
  gconv_devices *devices;
  const char *device_reason; /* why "auto" chose its device; "" if the user named one */
  gconv_plans *plans;
  bool marks;             /* results among the inputs are marked by attributes */
  gconv_manifest *record; /* without `marks`: the record of results among the inputs; NULL: none. Owned */

  /* groups.c, before the workers begin. */
  size_t *order; /* [inputs]: numbers of the inputs, in the order of work and reports; owned, as the next */
  gconv_group_range *ranges;
  size_t range_count;

  gconv_budget budget; /* memory.c */

  /* write.c. */
  pthread_mutex_t array_lock; /* guards `array` and `array_like` */
  gconv_row_writer *array;    /* the one array of all results; NULL before its first frame */
  gconv_image array_like;     /* the header of its first result */

  pthread_mutex_t lock; /* guards all below, and *summary */

  /* pipeline.c. */
  size_t next;         /* the group that is begun next */
  bool stopped;        /* no further group is begun */
  gconv_status status; /* why the whole run failed */
  gconv_message why;

  /* item.c. */
  gconv_outcome *outcomes; /* [inputs], in their order; owned */
  size_t reported;         /* number of outcomes that were handed to the caller */
} gconv_run;

/* The memory that images of one shape take, in bytes, roughly. */
typedef struct gconv_cost {
  bool known; /* false: no plan can be made for such images; trying to make one says why */
  gconv_need need;
  double in, out;     /* pixels of one image, and of all its outputs */
  double in_row;      /* one row of the image */
  double out_row;     /* one row of all outputs */
  double scale, halo; /* `n` rows of a result need scale * n + halo rows of the image */
  double stream;      /* bytes that plain filters take by rows; 0: they need the whole image */
  int32_t rows;       /* rows of a result */
  size_t outputs;
  gconv_image result; /* header of the largest output */
  char whole[200];    /* why such images cannot go by rows; "" if they can, or if nothing is known */
} gconv_cost;

/* One thread of a run, which carries one group at a time. */
typedef struct gconv_worker {
  /* pipeline.c. */
  gconv_run *run;
  int index, threads;
  gconv_device *cpu; /* its own share of the CPU */

  gconv_holding memory; /* memory.c */

  /* cost.c. */
  gconv_image judged; /* header of the images for which `cost` and `either` hold */
  gconv_cost cost;
  bool either; /* the CPU and a GPU may take these images */

  gconv_device *device; /* execute.c, worker.c: the group's device; NULL: the worker waits for a GPU after decoding */
  bool explains;        /* worker.c: the worker has the first group, or had it, so that its plans are explained */
} gconv_worker;

/* An input of a group, with its results. */
typedef struct gconv_item {
  /* item.c, when the item begins; frames.c for a frame of an input. */
  size_t place; /* in run->order */
  const gconv_input *input;
  char *const *paths;              /* [count]: of its results */
  const gconv_format_info *format; /* format of each result */
  size_t count;
  bool *wanted;        /* [count]: the result is to be written; stream.c clears it when a result is done. Owned */
  bool sent;           /* a result goes to a place (a pipe) from which it cannot be removed if the input is damaged */
  gconv_print print;   /* content of the file before it was read; known only with a manifest */
  int32_t file_frames; /* frames in each file of a result, if frames that are carried one by one share it; else 0 */

  int32_t first_frame, frames; /* load.c: its part of the group's frames; before, worker.c sets their number */
  gconv_outcome outcome;       /* all files add to it: under the lock of the group while results are written */
} gconv_item;

/* A frame of an input whose frames are carried one after the other, and the files that frames share. */
typedef struct gconv_frame {
  /* frames.c. */
  gconv_row_reader *reader;
  const gconv_batch *batch;
  size_t input;   /* number of the input in the batch */
  size_t number;  /* number of the frame, from 1 */
  size_t total;   /* frames of the input; 0: a pipe, whose frames cannot be counted */
  size_t results; /* results of a frame */
  size_t named;   /* frames whose results have names already; 0: each frame gets its names in its turn */
  bool shared;    /* all frames of a result go into one file */

  /* frame.c, and write.c, which keeps writers. */
  bool counted;               /* the shared files of a pipe were begun for two frames, as a second frame follows */
  bool refused;               /* a second frame follows, but there are names for one frame only */
  gconv_row_writer **writers; /* [results]: shared files that are open between frames */
  char **paths;               /* [results]: the paths of the current frame */
  char **made;                /* [results]: those of these paths that were not named beforehand; owned */
} gconv_frame;

/* A group in the hands of a worker. */
typedef struct gconv_group {
  /* worker.c and frames.c, when the group begins. */
  gconv_worker *worker;
  const gconv_group_range *range;
  gconv_item *items; /* items with a wanted result; load.c takes out items that cannot be read */
  size_t count;
  gconv_frame *frame; /* the only item is a frame of an input; NULL: it is a whole input */

  gconv_image image; /* load.c: the pixels of all items; before, worker.c sets their header */

  /* execute.c. */
  gconv_plan *plan;    /* taken from run->plans; NULL: none */
  int32_t part;        /* frames that the plan takes at a time */
  gconv_losses losses; /* losses of the output that lost most */
  char *explanation;   /* owned */
  bool stranded;       /* the device that it needs could not be opened: the run stops */

  gconv_report common;  /* the part of reports that all items share; all files add their times */
  char remark[768];     /* execute.c, worker.c, gpu.c: why the group is not executed as usual; "" if it is */
  bool streamed;        /* stream.c, gpu.c: results were written as they were made, and are counted */
  gconv_message why;    /* item.c: why the group failed */
  pthread_mutex_t lock; /* guards items[].outcome while results are written */
} gconv_group;

static inline bool gconv_worker_is_on_cpu(const gconv_worker *worker) {
  return worker->device == worker->cpu;
}

static inline bool gconv_worker_is_on_gpu(const gconv_worker *worker) {
  return worker->device && worker->device != worker->cpu;
}
